"""Null-space initialisation (appendix A.6.2)."""

import torch
from torch import Tensor

from noracl.method.initialisers import normal, register


class NullSpaceExhausted(RuntimeError):
    """The layer's incoming weights leave fewer free directions than there are new neurons."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(f"null-space initialisation needs {needed} free directions, {available} are left")
        self.needed, self.available = needed, available

    def __reduce__(self) -> tuple[type, tuple[int, int]]:
        return type(self), (self.needed, self.available)


@register("null-space", scale="scale")
def null_space(weight: Tensor, neurons: int, scale: float, generator: torch.Generator) -> Tensor:
    """s_init × random orthonormal columns, orthogonal to all existing incoming weights (the rows of ``weight``)."""
    left, singular, _ = torch.linalg.svd(weight.t().double().cpu(), full_matrices=False)
    span = left[:, singular > singular.max() * max(weight.shape) * torch.finfo(weight.dtype).eps]
    rows, rank = span.shape
    if neurons > rows - rank:
        raise NullSpaceExhausted(neurons, rows - rank)
    drawn = normal(rows, neurons, generator).double()
    for _ in range(2):  # the second time removes what rounding left in the span
        drawn = torch.linalg.qr(drawn - span @ (span.t() @ drawn)).Q
    return scale * drawn
