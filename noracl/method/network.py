"""The L-hidden-layer ReLU MLP without biases (section 3): forward, explicit backward, widening.

All weights lie in one flat vector ``theta``, and ``weights[l]`` is a (neurons × fan-in) view into it: what concerns
every parameter (penalty, clipping, update, Fisher, anchor) is one operation on one vector. Data are samples × inputs;
activations are neurons × samples, as H_l in the paper, which also keeps the products fast at odd widths.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from noracl.method.checks import choice, require, whole, wholes
from noracl.method.inputs import as_matrix

Batch = tuple[Tensor, Tensor]  #: inputs (samples × inputs) and one-hot labels (samples × classes)

_normal, _uniform = (partial(draw, dtype=torch.float32) for draw in (torch.randn, torch.rand))

#: How the first weights are drawn, by name: (fan-in, fan-out, generator) → fan-out × fan-in. "torch" is nn.Linear's.
WEIGHTS: dict[str, Callable[[int, int, torch.Generator], Tensor]] = {
    "glorot": lambda i, o, g: _normal(o, i, generator=g) * math.sqrt(2 / (i + o)),
    "he": lambda i, o, g: _normal(o, i, generator=g) * math.sqrt(2 / i),
    "lecun": lambda i, o, g: _normal(o, i, generator=g) * math.sqrt(1 / i),
    "torch": lambda i, o, g: (_uniform(o, i, generator=g) * 2 - 1) / math.sqrt(i),
}


def layers(flat: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """One (neurons × fan-in) view per weight matrix of a flat parameter vector."""
    shapes = [(o, i) for i, o in itertools.pairwise(sizes)]
    parts = torch.split(flat, [o * i for o, i in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def embed(flat: Tensor, old: Sequence[int], new: Sequence[int]) -> Tensor:
    """Weights, Fisher or anchor of a narrow network for a wider one, with zeros in the new places (appendix A.1.1)."""
    grown = flat.new_zeros(count(new))
    for source, target in zip(layers(flat, old), layers(grown, new), strict=True):
        target[: source.shape[0], : source.shape[1]] = source
    return grown


def reorder_inputs(flat: Tensor, sizes: Sequence[int], index: Tensor) -> Tensor:
    """The flat vector with the columns of its first matrix in the order ``index``: W x[p] = W[:, argsort(p)] x."""
    first, *rest = layers(flat, sizes)
    return torch.cat([first[:, index].flatten(), *(matrix.flatten() for matrix in rest)])


def count(sizes: Sequence[int]) -> int:
    """Number of parameters."""
    return sum(i * o for i, o in itertools.pairwise(sizes))


class Scaling(torch.nn.Module):
    """x·scale + shift, in single precision; both are buffers, so that they are saved and moved with the module."""

    def __init__(self, scale: float, shift: float) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.float32))
        self.register_buffer("shift", torch.tensor(shift, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Scale a batch."""
        return x.float() * self.scale + self.shift  # type: ignore[operator]


class Network:
    """Weights of a bias-free ReLU MLP with layer sizes (inputs, hidden 1, …, hidden L, classes)."""

    def __init__(self, sizes: Sequence[int], theta: Tensor) -> None:
        self.sizes = wholes("sizes", sizes, 1)
        require(len(self.sizes) > 2, f"sizes must name inputs, at least one hidden layer and classes, got {self.sizes}")
        fits, shape = theta.shape == (count(self.sizes),), tuple(theta.shape)
        require(fits, f"theta must hold the {count(self.sizes)} weights of sizes {self.sizes}, got shape {shape}")
        self.theta, self.weights = theta, layers(theta, self.sizes)

    @classmethod
    def initialise(cls, sizes: Sequence[int], scheme: str, generator: torch.Generator) -> "Network":
        """A fresh network; ``scheme`` is one of ``WEIGHTS``."""
        choice("init", scheme, WEIGHTS)
        return cls(sizes, torch.cat([WEIGHTS[scheme](i, o, generator).flatten() for i, o in itertools.pairwise(sizes)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Network, (self.sizes, self.theta)  # so that a copy's weights are views of its own theta

    def __repr__(self) -> str:
        return f"Network({'-'.join(map(str, self.sizes))}, {self.parameters} parameters, on {self.theta.device})"

    def to_module(self, scale: float = 1.0, shift: float = 0.0) -> torch.nn.Sequential:
        """A copy in torch's own modules, which scales its inputs to x·scale + shift if that changes them."""
        parts: list[torch.nn.Module] = [] if (scale, shift) == (1.0, 0.0) else [Scaling(scale, shift)]
        for weight in self.weights:
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
            linear.weight = torch.nn.Parameter(weight.detach().clone())
            parts += [linear, torch.nn.ReLU()]
        return torch.nn.Sequential(*parts[:-1])

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
        outputs = [x.t()]
        for weight in self.weights[:-1]:
            outputs.append((weight @ outputs[-1]).relu_())
        return [*outputs[1:], self.weights[-1] @ outputs[-1]]

    def predict(self, x: Tensor) -> Tensor:
        """The most likely class of each sample; inputs as for a ``Task``, but scaled as the stream scales them."""
        rows = x if isinstance(x, Tensor) and x.dtype == self.theta.dtype else as_matrix("x", x).to(self.theta)
        columns, shape = self.sizes[0], tuple(rows.shape)
        require(shape[1:] == (columns,), f"x must be a matrix of {columns} columns, got shape {shape}")
        return self.activations(rows)[-1].argmax(0)

    def widen(self, layer: int, fan_in: Tensor) -> "Network":
        """A copy with new neurons of these incoming weights in hidden layer ``layer`` (from 0); their fan-out is 0."""
        whole("layer", layer, 0)
        hidden, sizes, shape = len(self.widths), list(self.sizes), tuple(fan_in.shape)
        require(layer < hidden, f"layer must be below {hidden}, the number of hidden layers, got {layer}")
        require(shape[1:] == (sizes[layer],), f"fan_in must have {sizes[layer]} columns, got shape {shape}")
        sizes[layer + 1] += fan_in.shape[0]
        grown = Network(sizes, embed(self.theta, self.sizes, sizes))
        grown.weights[layer][self.sizes[layer + 1] :] = fan_in
        return grown
