"""Plain SGD with clipping by the global norm (section 3, appendix A.1.3): the hot loop."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from noracl.checks import number, whole
from noracl.consolidation import Consolidation
from noracl.network import Backprop, Network, layers


class NonFiniteLoss(ArithmeticError):
    """Training diverged."""


@dataclass(frozen=True)
class OptimisationSettings:
    """Learning rate and epochs of task 1 and of later tasks; clipping by the global norm.

    ``clip_penalty`` says whether the whole gradient is clipped, or only the loss's before the penalty's is added.
    """

    batch_size: int = 256
    rate_first: float = 0.1
    rate_later: float = 0.005
    epochs_first: int = 10
    epochs_later: int = 30
    clip: float | None = 5.0
    clip_penalty: bool = True

    def __post_init__(self) -> None:
        whole("batch_size", self.batch_size, 1)
        number("rate_first", self.rate_first, 0, open_low=True)
        number("rate_later", self.rate_later, 0, open_low=True)
        whole("epochs_first", self.epochs_first, 1)
        whole("epochs_later", self.epochs_later, 1)
        if self.clip is not None:
            number("clip", self.clip, 0, open_low=True)


class Batches:
    """Mini-batches of a task's rows as the network sees them, in buffers made once."""

    def __init__(self, x: Tensor, y: Tensor, classes: int, scale: float, shift: float, batch_size: int) -> None:
        self.x, self.batch_size = x, batch_size
        self.targets = torch.nn.functional.one_hot(y, classes).float()
        rows = min(batch_size, len(x))
        self.inputs = torch.empty(rows, x.shape[1], device=x.device)
        self.convert = x.dtype != self.inputs.dtype
        self.stored = x.new_empty(rows, x.shape[1]) if self.convert else self.inputs
        self.labels = torch.empty(rows, classes, device=x.device)
        self.views: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self.affine = (scale, shift) != (1.0, 0.0)
        self.scale, self.shift = scale, torch.tensor(shift)

    def __len__(self) -> int:
        return len(self.x)

    def load(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and one-hot labels of the rows ``index``; valid until the next call."""
        rows = len(index)
        if rows not in self.views:
            self.views[rows] = self.stored[:rows], self.inputs[:rows], self.labels[:rows]
        stored, inputs, labels = self.views[rows]
        torch.index_select(self.x, 0, index, out=stored)
        if self.convert:
            inputs.copy_(stored)
        if self.affine:
            torch.add(self.shift, inputs, alpha=self.scale, out=inputs)
        torch.index_select(self.targets, 0, index, out=labels)
        return inputs, labels

    def first(self, batches: int, order: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The first mini-batches in the given order of the rows, by default the stored one."""
        if order is None:
            order = torch.arange(len(self))
        index = order[: batches * self.batch_size].to(self.x.device)
        return (self.load(part) for part in torch.split(index, self.batch_size))


class SGD:
    """Updates a network in place; make a new one when the network has grown."""

    def __init__(
        self,
        network: Network,
        consolidation: Consolidation,
        rate: float,
        clip: float | None,
        clip_penalty: bool = True,
    ) -> None:
        self.network, self.consolidation, self.rate = network, consolidation, rate
        self.clip, self.clip_penalty = clip, clip_penalty
        self.gradient = torch.empty_like(network.theta)
        self.matrices = layers(self.gradient, network.sizes)
        self.passes: dict[int, Backprop] = {}

    @torch.inference_mode()
    def epoch(self, batches: Batches, order: Tensor) -> None:
        """One pass over the rows in the given order."""
        for number_, index in enumerate(torch.split(order, batches.batch_size), start=1):
            if not self._step(*batches.load(index)):
                raise NonFiniteLoss(f"step {number_}")

    def _step(self, x: Tensor, targets: Tensor) -> bool:
        """θ ← θ − η·clip(∇L), L being Eq. 2 on one mini-batch; False if ∇L is not finite."""
        rows, theta, gradient = len(x), self.network.theta, self.gradient
        if rows not in self.passes:
            self.passes[rows] = Backprop(self.network, rows)
        self.passes[rows].gradient(x, targets, self.matrices)
        if self.clip_penalty:
            self.consolidation.penalise(theta, gradient)
        norm = math.sqrt(gradient.dot(gradient).item())
        shrink = 1.0 if self.clip is None or norm <= self.clip else self.clip / norm
        if not self.clip_penalty:
            gradient.mul_(shrink)
            self.consolidation.penalise(theta, gradient)
            shrink = 1.0
        theta.add_(gradient, alpha=-self.rate * shrink)
        return math.isfinite(norm)
