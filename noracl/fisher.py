"""Diagonal of the Fisher information, in closed form and without autograd (section 3, Eq. 1 and 5)."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from noracl.checks import choice, whole
from noracl.network import Backprop, Network, layers

ESTIMATORS = ("per_sample", "batch", "batch_total", "batch_scaled")
LABELS = ("true", "sampled")
ORDERS = ("stored", "shuffled")


@dataclass(frozen=True)
class FisherSettings:
    """How F is estimated: the paper says only that it comes from the first few (5) mini-batches.

    ``per_sample`` is the mean over samples of the squared gradient; ``batch`` the mean over mini-batches of
    the squared gradient of the batch's mean loss, which is what much published code computes; ``batch_total``
    is its sum over mini-batches instead, and ``batch_scaled`` its mean times the size of a mini-batch. The
    mini-batches are the first in ``stored`` order, or of a loader that is ``shuffled`` each time.
    """

    estimator: str = "per_sample"
    labels: str = "true"
    batches: int = 5
    order: str = "stored"

    def __post_init__(self) -> None:
        choice("estimator", self.estimator, ESTIMATORS)
        choice("labels", self.labels, LABELS)
        whole("batches", self.batches, 1)
        choice("order", self.order, ORDERS)


def diagonal(
    network: Network,
    batches: Iterable[tuple[Tensor, Tensor]],
    settings: FisherSettings,
    generator: torch.Generator,
) -> Tensor:
    """Diagonal Fisher as a flat vector, from (inputs, one-hot labels) mini-batches.

    The gradient of one sample's loss for a weight matrix is the outer product δ aᵀ, so the sum over samples
    of its square is one product, (D∘D)(A∘A)ᵀ. ``generator`` draws the labels when they are ``sampled``.
    """
    total = torch.zeros_like(network.theta)
    matrices = layers(total, network.sizes)
    samples = number = 0
    backprop: Backprop | None = None
    for x, targets in batches:
        if backprop is None or backprop.rows != len(x):
            backprop = Backprop(network, len(x))
        logits = backprop.forward(x)
        if settings.labels == "sampled":
            drawn = torch.multinomial(logits.t().softmax(1).cpu(), 1, generator=generator)
            targets = torch.zeros_like(logits).t().scatter_(1, drawn.to(logits.device), 1.0)
        backprop.backward(targets)
        for (deltas, inputs), matrix in zip(backprop.pairs(), matrices, strict=True):
            if settings.estimator == "per_sample":
                matrix.addmm_(deltas * deltas, inputs * inputs)
            else:
                scale = len(x) if settings.estimator == "batch_scaled" else 1
                matrix.add_((deltas @ inputs).div_(len(x)).square_(), alpha=scale)
        samples += len(x)
        number += 1
    if not number:
        raise ValueError("batches must hold at least one mini-batch")
    if settings.estimator == "batch_total":
        return total
    return total.div_(samples if settings.estimator == "per_sample" else number)
