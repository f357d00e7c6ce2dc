"""Independent random streams from one seed."""

import hashlib

import torch

from noracl.method.checks import whole


def generator(seed: int, *purpose: object) -> torch.Generator:
    """A generator for one purpose: what one part of a run draws never shifts what another part draws."""
    digest = hashlib.sha256(repr((whole("seed", seed, None), *purpose)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
