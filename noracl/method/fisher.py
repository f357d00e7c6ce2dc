"""Diagonal of the Fisher information, in closed form and without autograd (section 3, Eq. 1 and 5)."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from noracl.method.checks import choice, require, settle, whole
from noracl.method.network import Backprop, Batch, Network, layers

ESTIMATORS = ("per_sample", "batch")


@dataclass(frozen=True)
class FisherSettings:
    """How F is estimated: the paper says only that it comes from the first few (5) mini-batches."""

    estimator: str = "per_sample"  #: squares each sample's gradient; "batch": each batch's, as much published code does
    labels: str = "true"  #: or "sampled" from the network's own distribution
    batches: int = 5

    def __post_init__(self) -> None:
        choice("estimator", self.estimator, ESTIMATORS)
        choice("labels", self.labels, ("true", "sampled"))
        settle(self, whole, ("batches",), 1)


def diagonal(network: Network, batches: Iterable[Batch], settings: FisherSettings, generator: Generator) -> Tensor:
    """Diagonal Fisher as a flat vector; ``generator`` draws the labels when they are sampled."""
    per_sample = settings.estimator == "per_sample"
    total, terms = torch.zeros_like(network.theta), 0
    for x, targets in batches:
        backprop = Backprop(network, len(x))
        logits = backprop.forward(x)
        if settings.labels == "sampled":
            drawn = torch.multinomial(logits.t().softmax(1).cpu(), 1, generator=generator)
            targets = torch.zeros_like(logits).t().scatter_(1, drawn.to(logits.device), 1.0)
        backprop.backward(targets)
        for (deltas, inputs), matrix in zip(backprop.pairs(), layers(total, network.sizes), strict=True):
            if per_sample:
                matrix.addmm_(deltas * deltas, inputs * inputs)  # gradients are δaᵀ: their squares sum to (D∘D)(A∘A)ᵀ
            else:
                matrix.add_((deltas @ inputs).div_(len(x)).square_())
        terms += len(x) if per_sample else 1
    require(terms > 0, "batches must hold at least one mini-batch")
    return total.div_(terms)
