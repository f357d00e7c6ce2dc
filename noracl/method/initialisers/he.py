"""He's initialisation (appendix A.6.2)."""

import math

import torch
from torch import Tensor

from noracl.method.initialisers import normal, register


@register("he")
def he(weight: Tensor, neurons: int, scale: float, generator: torch.Generator) -> Tensor:
    """N(0, 2 / fan-in)."""
    return math.sqrt(2 / weight.shape[1]) * normal(weight.shape[1], neurons, generator)
