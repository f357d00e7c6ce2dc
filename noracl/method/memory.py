"""Whether a network can fit into memory, asked before anything is allocated."""

import os
from collections.abc import Sequence

import torch

from noracl.method.checks import require
from noracl.method.network import count

VECTORS = 9  #: floats per parameter: θ, the first θ, its gradient, F, F̃ here and in online EWC, θ*, λF̃, θ − θ*


def physical() -> int:
    """Bytes of memory that this machine has; 1 TB where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 10**12


def require_memory(sizes: Sequence[int], samples: int, device: torch.device) -> None:
    """Raise ValueError unless a network of these sizes and a task of this many samples may fit; a GPU knows itself."""
    weights, targets = 4 * VECTORS * count(sizes), (8 + 4) * samples * sizes[-1]  # one-hot as int64, then as float32
    network = f"{sizes[0]} inputs, hidden {tuple(sizes[1:-1])} and classes {sizes[-1]}"
    needs = f"{weights / 1e9:.0f} GB for its weights and {targets / 1e9:.0f} GB for the labels of {samples} samples"
    has = f"this machine has {physical() / 1e9:.0f} GB: choose fewer classes or a smaller hidden"
    fits = device.type != "cpu" or weights + targets <= physical()
    require(fits, f"a network of {network} needs {needs}, and {has}")
