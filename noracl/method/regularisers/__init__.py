"""Regularisers protect learnt weights (section 3). One file each: a ``Regulariser`` built from ``EWCSettings``.

Growth is "agnostic to the specific regularization used" (section 3), so the learner asks a regulariser for nothing but
what is in the class below. The growth rule's own Fisher information is the learner's, whatever protects the weights.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from noracl.method.checks import choice, number, require, settle, shown
from noracl.method.network import Batch, Network
from noracl.method.registry import Registry, load_folder

STARTS = ("first", "zero")


@dataclass(frozen=True)
class EWCSettings:
    """Strength and memory of a regulariser."""

    strength: float = 500.0  #: λ, how strongly weights are protected
    decay: float = 0.9  #: α, the weight of earlier tasks in the moving average
    start: str = "first"  #: F̃ starts at its "first" value or at "zero"
    half: bool = True  #: whether the penalty of online EWC has the factor ½ of Eq. 2

    def __post_init__(self) -> None:
        settle(self, number, ("strength",), 0)
        settle(self, number, ("decay",), 0, 1)
        choice("start", self.start, STARTS)
        require(isinstance(self.half, bool), f"half must be True or False, got {shown(self.half)}")

    def average(self, previous: Tensor | None, value: Tensor, start: str | None = None) -> Tensor:
        """One step of the exponential moving average α·previous + (1 − α)·value (Eq. 1, and τ in section 3.1)."""
        if previous is None and (start or self.start) == "first":
            return value.clone()
        return self.decay * (torch.zeros_like(value) if previous is None else previous) + (1 - self.decay) * value


class Regulariser:
    """Adds to the gradient during a task, and takes stock after it. Subclass it and override what you need.

    Keep whatever you know of each parameter in ``vectors``, one number per parameter each: growth, another order of
    the inputs, saving, loading and undoing a task then work without your help.
    """

    curvature: Tensor | None = None  #: second derivative of the penalty, such as λF̃; None if there is no penalty yet

    def __init__(self, settings: EWCSettings) -> None:
        self.settings = settings
        self.vectors: dict[str, Tensor] = {}

    def penalise(self, theta: Tensor, gradient: Tensor) -> None:
        """Add the penalty's gradient to the loss's, in place; called once per step, before the step."""

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[Batch]) -> None:
        """Take in a finished task: its network, its diagonal Fisher, and the mini-batches behind that."""

    def derive(self) -> None:
        """Make anew what you derive from ``vectors``; called whenever they were changed from outside."""

    def transform(self, change: Callable[[Tensor], Tensor]) -> None:
        """Pass every vector through ``change``: growth pads with zeros, permuted inputs reorder, devices move."""
        self.keep(**{name: change(vector) for name, vector in self.vectors.items()})

    def keep(self, **vectors: Tensor) -> None:
        """Replace some vectors, and what is derived from them."""
        self.vectors |= vectors
        if self.vectors:
            self.derive()


class Quadratic(Regulariser):
    """A penalty ½ Σ κᵢ(θᵢ − θᵢ*)². Override ``consolidate``, and keep there the vectors ``importance`` and ``anchor``.

    A weight that is born later has importance 0, so it is free until the next task has ended.
    """

    scale = 1.0  #: κ is scale × strength × importance: 1 if the published penalty has a ½, 2 if it has none
    anchor: Tensor  #: θ*

    def penalise(self, theta: Tensor, gradient: Tensor) -> None:
        """gradient += κ∘(θ − θ*); nothing during task 1."""
        if self.curvature is not None:
            gradient.addcmul_(self.curvature, torch.sub(theta, self.anchor, out=self._distance))

    def derive(self) -> None:
        """κ, and room for θ − θ*."""
        self.anchor = self.vectors["anchor"]
        self._distance = torch.empty_like(self.anchor)
        if "importance" in self.vectors:
            self.curvature = self.scale * self.settings.strength * self.vectors["importance"]


Maker = Callable[[EWCSettings], Regulariser]
REGULARISERS = Registry[Maker]("regulariser")
register = REGULARISERS.register  #: decorates a class, which ``Settings(regulariser=name)`` then chooses

load_folder(__name__, __path__)
