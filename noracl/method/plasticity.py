"""Plasticity of a network at any time: of appendix A.4, from the curvature λF̃ of each parameter, and of activations.

A learner has ``learner.curvature``, and ``learner.network.activations(x)[:-1]`` are the activations of its hidden
layers, of inputs scaled as the network sees them.
"""

import torch
from torch import Tensor

from noracl.method.checks import number, require
from noracl.method.network import Network, layers


def effective_learning_rate(curvature: Tensor, rate: float = 1.0) -> Tensor:
    """η_eff = η / (1 + λF̃), per parameter."""
    return rate / (1 + curvature)


def locked_fraction(curvature: Tensor, threshold: float = 0.1) -> float:
    """Share of a layer's parameters whose effective learning rate is below ``threshold`` × η."""
    number("threshold", threshold, 0, 1)
    return float((effective_learning_rate(curvature) < threshold).double().mean())


def locked_by_layer(network: Network, curvature: Tensor, threshold: float = 0.1) -> tuple[float, ...]:
    """The locked fraction of each hidden layer, as ``History.locked`` has it."""
    shape, must = tuple(curvature.shape), f"curvature must hold one number for each of {network.parameters} parameters"
    require(shape == (network.parameters,), f"{must}, got shape {shape}")
    return tuple(locked_fraction(matrix, threshold) for matrix in layers(curvature, network.sizes)[:-1])


def plastic_parameters(curvature: Tensor) -> float:
    """N_plastic^eff = Σ 1 / (1 + λF̃), the effective number of fully plastic parameters."""
    return float(effective_learning_rate(curvature.double()).sum())


def dormant_fraction(activations: Tensor, threshold: float = 0.0) -> float:
    """Share of a layer's neurons that are τ-dormant (Sokar et al. 2023, definition 3.1), τ being ``threshold``.

    A neuron is, if its mean absolute activation is at most τ times the layer's mean of them; ``activations`` is H,
    neurons × samples. All neurons of a silent layer are dormant.
    """
    number("threshold", threshold, 0)
    active = _matrix(activations).abs().mean(1)
    return float((active <= threshold * active.mean()).double().mean())


def effective_rank(activations: Tensor) -> float:
    """exp of the entropy of H's singular values over their sum (Roy and Vetterli 2007); 0 for a silent layer."""
    singular = torch.linalg.svdvals(_matrix(activations))
    share = singular / singular.sum()
    return float(torch.special.entr(share).sum().exp()) if singular.sum() > 0 else 0.0


def _matrix(activations: Tensor) -> Tensor:
    shape = tuple(activations.shape)
    usable = len(shape) == 2 and activations.numel() > 0
    require(usable, f"activations must be a non-empty neurons × samples matrix, got shape {shape}")
    return activations.double()
