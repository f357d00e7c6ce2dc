"""QR initialisation, the paper's (section 3.2)."""

import torch
from torch import Tensor

from noracl.method.initialisers import normal, register


@register("qr", scale="scale")
def qr(weight: Tensor, neurons: int, scale: float, generator: torch.Generator) -> Tensor:
    """s_init × the first columns of the Q of a random square matrix; beyond its size, of a further, independent one."""
    # Column j of Q depends on the first j columns only, so the rest of the square matrix need not be drawn.
    rows = weight.shape[1]
    drawn = [normal(rows, min(rows, neurons - start), generator) for start in range(0, neurons, rows)]
    return scale * torch.cat([torch.linalg.qr(block).Q for block in drawn], dim=1)
