"""Zero initialisation (appendix A.6.2)."""

import torch
from torch import Tensor

from noracl.method.initialisers import register


@register("zero")
def zero(weight: Tensor, neurons: int, scale: float, generator: torch.Generator) -> Tensor:
    """All weights are 0, so the new neurons never respond."""
    return torch.zeros(weight.shape[1], neurons)
