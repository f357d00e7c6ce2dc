"""Random initialisation (appendix A.6.2)."""

import torch
from torch import Tensor

from noracl.method.initialisers import normal, register


@register("random", scale="random_scale")
def random(weight: Tensor, neurons: int, scale: float, generator: torch.Generator) -> Tensor:
    """N(0, random_scale²)."""
    return scale * normal(weight.shape[1], neurons, generator)
