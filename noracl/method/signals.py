"""The two signals of section 3.1 as pure functions of tensors."""

import math

import numpy as np
import torch
from torch import Tensor

from noracl.method.checks import number


def effective_dimension(activations: Tensor, epsilon: float) -> float:
    """φ of one layer (Eq. 3): singular values of H/√n above ε, per neuron; ``activations`` is H, neurons × samples."""
    number("epsilon", epsilon, 0)
    if activations.ndim != 2 or not activations.numel():
        raise ValueError(f"activations must be a non-empty neurons × samples matrix, got {tuple(activations.shape)}")
    neurons, samples = activations.shape
    singular = torch.linalg.svdvals(activations.t() / math.sqrt(samples))
    return int((singular > epsilon).sum()) / neurons


def percentile(fisher: Tensor, p: float) -> float:
    """Percentile(F_l, p) with linear interpolation (Eq. 5, left side)."""
    number("percentile", p, 0, 100)
    return float(np.percentile(fisher.detach().cpu().numpy(), p))


def new_neurons(width: int, phi: float, reference: float, gamma: float) -> int:
    """k = ⌊M(φ − γφ⁰)⌋, at least 1 (Eq. 4)."""
    # M·φ is a count of singular values: the guard keeps ⌊3.0000⌋ from becoming 2 by rounding.
    return max(1, math.floor(width * (phi - gamma * reference) + 1e-9))
