"""Xavier Glorot's initialisation (appendix A.6.2)."""

import math

import torch
from torch import Tensor

from noracl.method.initialisers import normal, register


@register("xavier")
def xavier(weight: Tensor, neurons: int, scale: float, generator: torch.Generator) -> Tensor:
    """N(0, 2 / (fan-in + fan-out)), the fan-out being the width after growth."""
    return math.sqrt(2 / (sum(weight.shape) + neurons)) * normal(weight.shape[1], neurons, generator)
