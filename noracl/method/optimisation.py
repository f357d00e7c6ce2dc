"""Plain SGD with clipped gradients (section 3, appendix A.1.3): the hot loop."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from noracl.method.backprop import Backprop
from noracl.method.checks import choice, number, settle, whole
from noracl.method.network import Batch, Network, layers
from noracl.method.regularisers import Regulariser

CLIPPING = ("norm", "value")
ALIGNMENT = 64  # bytes: torch's buffers begin at multiples of it, and BLAS may sum in another order elsewhere


class NonFiniteLoss(ArithmeticError):
    """Training diverged."""


@dataclass(frozen=True)
class OptimisationSettings:
    """Learning rate and epochs of task 1 and of later tasks; what is clipped is the gradient, penalty included."""

    batch_size: int = 256  #: samples per mini-batch
    rate_first: float = 0.1  #: learning rate of task 1
    rate_later: float = 0.005  #: learning rate of later tasks
    epochs_first: int = 10  #: epochs of task 1
    epochs_later: int = 30  #: epochs of later tasks
    clip: float | None = 5.0  #: largest norm of the gradient; None: any
    clip_by: str = "norm"  #: "value": each entry of the gradient is cut at ±clip instead

    def __post_init__(self) -> None:
        settle(self, whole, ("batch_size", "epochs_first", "epochs_later"), 1)
        rates = ("rate_first", "rate_later")
        settle(self, number, rates if self.clip is None else (*rates, "clip"), 0, open_low=True)
        choice("clip_by", self.clip_by, CLIPPING)


class Batches:
    """Mini-batches of a task's rows as the network sees them, in buffers made once."""

    def __init__(self, x: Tensor, y: Tensor, classes: int, scale: float, shift: float, batch_size: int) -> None:
        self.x, self.batch_size, self.scale, self.shift = x, batch_size, scale, torch.tensor(shift)
        self.affine = (scale, shift) != (1.0, 0.0)
        self.targets = torch.nn.functional.one_hot(y, classes).float()
        rows = min(batch_size, len(x))
        self.stored, self.labels = x.new_empty(rows, x.shape[1]), self.targets.new_empty(rows, classes)
        self.inputs = self.stored.float()  # the same buffer if nothing is to be converted
        self.views: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def load(self, index: Tensor) -> Batch:
        """Inputs and one-hot labels of the rows ``index``; valid until the next call."""
        rows = len(index)
        if rows not in self.views:
            self.views[rows] = self.stored[:rows], self.inputs[:rows], self.labels[:rows]
        stored, inputs, labels = self.views[rows]
        torch.index_select(self.x, 0, index, out=stored)
        if self.inputs is not self.stored:
            inputs.copy_(stored)
        if self.affine:
            torch.add(self.shift, inputs, alpha=self.scale, out=inputs)
        torch.index_select(self.targets, 0, index, out=labels)
        return inputs, labels

    def first(self, batches: int) -> Iterator[Batch]:
        """The first mini-batches in the stored order of the rows."""
        index = torch.arange(min(len(self.x), batches * self.batch_size), device=self.x.device)
        return (self.load(part) for part in torch.split(index, self.batch_size))


class SGD:
    """One network's steps, made in place; a network that has grown needs a new one."""

    on_step: Callable[[int], None] | None = None  #: is told the number of each step
    error: Exception | None = None  #: what ended its steps

    def __init__(
        self, network: Network, regulariser: Regulariser, rate: float, clip: float | None, clip_by: str = "norm"
    ) -> None:
        self.network, self.regulariser, self.rate = network, regulariser, rate
        self.clip, self.by_norm = math.inf if clip is None else clip, clip_by == "norm"

    def step(self, gradient: Tensor, number: int) -> None:
        """θ ← θ − η·clip(∇L), L being Eq. 2 on one mini-batch, from the gradient of its first part."""
        theta = self.network.theta
        self.regulariser.penalise(theta, gradient)
        norm = math.sqrt(gradient.dot(gradient).item())
        if not math.isfinite(norm):
            raise NonFiniteLoss(f"step {number}")
        shrink = self.clip / norm if self.by_norm and norm > self.clip else 1.0
        if not self.by_norm:
            gradient.clamp_(-self.clip, self.clip)
        theta.add_(gradient, alpha=-self.rate * shrink)
        if self.on_step is not None:
            self.on_step(number)


Own = tuple[SGD, Tensor, list[Tensor]]  #: one network's steps, its gradient, and that as one matrix per layer


class Lockstep:
    """Networks that take each step on the same mini-batch; each gets the bytes that it gets alone."""

    def __init__(self, members: Sequence[SGD]) -> None:
        self.members, self.passes = members, dict[int, list[tuple[Backprop, list[Own]]]]()
        flat = members[0].network.theta.new_empty(max(one.network.parameters for one in members))
        gradients = [flat[: one.network.parameters] for one in members]  # one after the other, so in the same place
        matrices = [layers(own, one.network.sizes) for own, one in zip(gradients, members, strict=True)]
        self.own = list(zip(members, gradients, matrices, strict=True))

    def _passes(self, rows: int) -> list[tuple[Backprop, list[Own]]]:
        """All networks together, or each alone if their parts of the buffers would lie otherwise than alone."""
        together = rows * self.own[0][1].element_size() % ALIGNMENT == 0
        parts = [self.own] if together else [[own] for own in self.own]
        return [(Backprop([sgd.network for sgd, _, _ in part], rows), part) for part in parts]

    @torch.inference_mode()
    def epoch(self, batches: Batches, order: Tensor) -> None:
        """One pass over the rows in the given order; a network whose step fails takes no more, and keeps the error."""
        for step, index in enumerate(torch.split(order, batches.batch_size), start=1):
            x, targets = batches.load(index)
            if (rows := len(x)) not in self.passes:
                self.passes[rows] = self._passes(rows)
            for backprop, part in self.passes[rows]:
                backprop.run(x, targets)
                for member, (sgd, gradient, matrices) in enumerate(part):
                    if sgd.error is None:
                        backprop.gradient(member, matrices)
                        try:
                            sgd.step(gradient, step)
                        except Exception as error:
                            sgd.error = error
                            if all(one.error for one in self.members):
                                return
