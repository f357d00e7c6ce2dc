"""The L-hidden-layer ReLU MLP without biases (section 3): forward, explicit backward, widening.

All weights lie in one flat vector ``theta``; ``weights[l]`` is a (neurons × fan-in) view into it, so
that whatever concerns every parameter (penalty, clipping, update, Fisher, anchor) is one operation on
one vector, and whatever concerns a layer is a matrix product. Data are samples × inputs; activations
are neurons × samples, as H_l in the paper, which also keeps the products fast at odd widths.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from noracl.checks import choice, whole

INITIALISERS: dict[str, Callable[[int, int, torch.Generator], Tensor]] = {
    "glorot": lambda i, o, g: torch.randn(o, i, generator=g) * math.sqrt(2 / (i + o)),
    "he": lambda i, o, g: torch.randn(o, i, generator=g) * math.sqrt(2 / i),
    "lecun": lambda i, o, g: torch.randn(o, i, generator=g) * math.sqrt(1 / i),
    "torch": lambda i, o, g: (torch.rand(o, i, generator=g) * 2 - 1) / math.sqrt(i),
}


def layers(flat: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """One (neurons × fan-in) view per weight matrix of a flat parameter vector."""
    shapes = [(o, i) for i, o in itertools.pairwise(sizes)]
    parts = torch.split(flat, [o * i for o, i in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def embed(flat: Tensor, old: Sequence[int], new: Sequence[int]) -> Tensor:
    """The flat vector of a narrow network as that of a wider one, zeros in the new places (appendix A.1.1)."""
    grown = torch.zeros(count(new), dtype=flat.dtype, device=flat.device)
    for source, target in zip(layers(flat, old), layers(grown, new), strict=True):
        target[: source.shape[0], : source.shape[1]] = source
    return grown


def reorder_inputs(flat: Tensor, sizes: Sequence[int], index: Tensor) -> Tensor:
    """The flat vector with the columns of its first matrix taken in the order ``index``.

    W x[p] = W[:, argsort(p)] x: a task with permuted inputs trains on the unpermuted data.
    """
    first = layers(flat, sizes)[0]
    return torch.cat([first[:, index].flatten(), flat[first.numel() :]])


def count(sizes: Sequence[int]) -> int:
    """Number of parameters."""
    return sum(i * o for i, o in itertools.pairwise(sizes))


class Network:
    """Weights of a bias-free ReLU MLP with layer sizes (inputs, hidden 1, …, hidden L, classes)."""

    def __init__(self, sizes: Sequence[int], theta: Tensor) -> None:
        if len(sizes) < 3:
            raise ValueError(f"sizes must name inputs, at least one hidden layer and classes, got {tuple(sizes)}")
        for size in sizes:
            whole("sizes", size, 1)
        self.sizes = tuple(sizes)
        self.theta = theta
        self.weights = layers(theta, self.sizes)

    @classmethod
    def initialise(cls, sizes: Sequence[int], scheme: str, generator: torch.Generator) -> "Network":
        """A fresh network; ``scheme`` is glorot, he, lecun (normal) or torch (uniform, as nn.Linear)."""
        choice("init", scheme, INITIALISERS)
        shapes = itertools.pairwise(sizes)
        return cls(sizes, torch.cat([INITIALISERS[scheme](i, o, generator).flatten() for i, o in shapes]))

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons in each hidden layer, M_l."""
        return self.sizes[1:-1]

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.theta.numel()

    def activations(self, x: Tensor) -> list[Tensor]:
        """Hidden activations H_1 … H_L (neurons × samples), then the logits, of samples × inputs ``x``."""
        outputs = []
        below = x.t()
        for weight in self.weights[:-1]:
            below = (weight @ below).relu_()
            outputs.append(below)
        return [*outputs, self.weights[-1] @ below]

    def predict(self, x: Tensor) -> Tensor:
        """The most likely class of each sample."""
        return self.activations(x)[-1].argmax(0)

    def widen(self, layer: int, fan_in: Tensor) -> "Network":
        """A copy with neurons of incoming weights ``fan_in`` (neurons × fan-in) in hidden layer ``layer``, from 0.

        Their fan-out is zero: the function stays as it is.
        """
        whole("layer", layer, 0)
        if layer >= len(self.widths):
            raise ValueError(f"layer must be below {len(self.widths)}, the number of hidden layers, got {layer}")
        if fan_in.ndim != 2 or fan_in.shape[1] != self.sizes[layer]:
            raise ValueError(f"fan_in must have {self.sizes[layer]} columns, got shape {tuple(fan_in.shape)}")
        sizes = list(self.sizes)
        sizes[layer + 1] += fan_in.shape[0]
        grown = Network(sizes, embed(self.theta, self.sizes, sizes))
        grown.weights[layer][self.sizes[layer + 1] :] = fan_in
        return grown


class Backprop:
    """Forward and backward for batches of one fixed size, in buffers and views made once (no autograd)."""

    def __init__(self, network: Network, rows: int) -> None:
        like = network.theta
        self.rows = rows
        self.weights = network.weights
        self.outputs = [like.new_empty(size, rows) for size in network.sizes[1:]]
        self.deltas = [like.new_empty(size, rows) for size in network.sizes[1:]]
        self.transposed = [output.t() for output in self.outputs[:-1]]
        self.below = list(zip(self.weights, self.outputs, strict=True))[:-1]
        self.above = [  # from the top down: Wᵀ and δ above, δ and activation here
            (self.weights[i + 1].t(), self.deltas[i + 1], self.deltas[i], self.outputs[i])
            for i in range(len(self.deltas) - 2, -1, -1)
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Fill ``outputs`` (activations, then logits) for a batch of samples × inputs; returns the logits."""
        self.x = x
        below = x.t()
        for weight, output in self.below:
            below = torch.mm(weight, below, out=output).relu_()
        return torch.mm(self.weights[-1], below, out=self.outputs[-1])

    def backward(self, targets: Tensor, scale: float = 1.0) -> None:
        """Fill ``deltas`` with ``scale`` × the gradient of each sample's cross-entropy before each layer's ReLU.

        ``targets`` are one-hot labels, samples × classes.
        """
        top = torch.softmax(self.outputs[-1], 0, out=self.deltas[-1]).sub_(targets.t())
        if scale != 1.0:
            top.mul_(scale)
        for weight, above, here, output in self.above:
            torch.mm(weight, above, out=here)
            torch.ops.aten.threshold_backward.grad_input(here, output, 0, grad_input=here)

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """(deltas, samples × inputs) of each weight matrix: their product is its gradient."""
        return list(zip(self.deltas, [self.x, *self.transposed], strict=True))

    def gradient(self, x: Tensor, targets: Tensor, out: Sequence[Tensor]) -> None:
        """Write the gradient of the mean cross-entropy over the batch into ``out``, a matrix per layer."""
        self.forward(x)
        self.backward(targets, 1 / self.rows)
        for (deltas, inputs), matrix in zip(self.pairs(), out, strict=True):
            torch.mm(deltas, inputs, out=matrix)
