"""Plasticity metrics of appendix A.4, from the curvature λF̃ of each parameter."""

from torch import Tensor

from noracl.method.checks import number


def effective_learning_rate(curvature: Tensor, rate: float = 1.0) -> Tensor:
    """η_eff = η / (1 + λF̃), per parameter."""
    return rate / (1 + curvature)


def locked_fraction(curvature: Tensor, threshold: float = 0.1) -> float:
    """Share of a layer's parameters whose effective learning rate is below ``threshold`` × η."""
    number("threshold", threshold, 0, 1)
    return float((effective_learning_rate(curvature) < threshold).double().mean())


def plastic_parameters(curvature: Tensor) -> float:
    """N_plastic^eff = Σ 1 / (1 + λF̃), the effective number of fully plastic parameters."""
    return float(effective_learning_rate(curvature.double()).sum())
