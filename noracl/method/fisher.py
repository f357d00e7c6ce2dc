"""Diagonal of the Fisher information, in closed form and without autograd (section 3, Eq. 1 and 5)."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from noracl.method.backprop import Backprop
from noracl.method.checks import choice, require, settle, whole
from noracl.method.network import Batch, Network, layers

ESTIMATORS = ("per_sample", "batch")
LABELS = ("true", "sampled", "exact")


@dataclass(frozen=True)
class FisherSettings:
    """How F is estimated: the paper says only that it comes from the first few (5) mini-batches.

    docs/fisher.md compares the estimators with those of other libraries.
    """

    estimator: str = "per_sample"  #: squares each sample's gradient; "batch": each batch's, as much published code does
    labels: str = "true"  #: "sampled" from the network's own distribution, or its "exact" expectation over all labels
    batches: int = 5  #: how many mini-batches, from the first on

    def __post_init__(self) -> None:
        choice("estimator", self.estimator, ESTIMATORS)
        choice("labels", self.labels, LABELS)
        apart = (self.estimator, self.labels) != ("batch", "exact")  # that expectation is F over the size of a batch
        require(apart, "labels must be true or sampled with estimator batch, got 'exact': choose estimator per_sample")
        settle(self, whole, ("batches",), 1)


def diagonal(network: Network, batches: Iterable[Batch], settings: FisherSettings, generator: Generator) -> Tensor:
    """Diagonal Fisher as a flat vector; ``generator`` draws the labels when they are sampled."""
    per_sample = settings.estimator == "per_sample"
    total, terms = torch.zeros_like(network.theta), 0
    for x, targets in batches:
        backprop = Backprop([network], len(x))
        logits, (own,) = backprop.forward(x)[0], backprop.passes
        if settings.labels == "sampled":
            drawn = torch.multinomial(logits.t().softmax(1).cpu(), 1, generator=generator)
            targets = torch.zeros_like(logits).t().scatter_(1, drawn.to(logits.device), 1.0)
        if settings.labels == "exact":
            squares = expected_squares(backprop, logits)
        else:
            backprop.backward(targets)
            squares = [deltas * deltas for deltas in own.deltas]
        matrices = layers(total, network.sizes)
        for (deltas, inputs), squared, matrix in zip(own.pairs(x), squares, matrices, strict=True):
            if per_sample:
                matrix.addmm_(squared, inputs * inputs)  # gradients are δaᵀ: their squares sum to (D∘D)(A∘A)ᵀ
            else:
                matrix.add_((deltas @ inputs).div_(len(x)).square_())
        terms += len(x) if per_sample else 1
    require(terms > 0, "batches must hold at least one mini-batch")
    return total.div_(terms)


def expected_squares(backprop: Backprop, logits: Tensor) -> list[Tensor]:
    """Σ p(c)·D∘D over the classes c, D being the deltas if all samples had label c: one backward pass per class."""
    (own,) = backprop.passes
    squares = [torch.zeros_like(deltas) for deltas in own.deltas]
    for label, probability in zip(torch.eye(len(logits)).to(logits), logits.softmax(0), strict=True):
        backprop.backward(label.expand(backprop.rows, -1))
        for squared, deltas in zip(squares, own.deltas, strict=True):
            squared.addcmul_(deltas * deltas, probability)
    return squares
