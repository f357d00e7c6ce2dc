"""Online EWC, the consolidation backbone (section 3, Eq. 1 and 2).

A regulariser is whatever offers the methods of ``Consolidation``: the learner and the growth rule ask for
nothing else, so Synaptic Intelligence or Memory Aware Synapses can stand here as well.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from noracl.checks import choice, number
from noracl.network import Network

STARTS = ("first", "zero")


class Consolidation(Protocol):
    """Protects what was learnt: adds to the gradient during a task, takes stock after it."""

    @property
    def curvature(self) -> Tensor | None:
        """Strength × importance of each parameter, λF̃; None before the first task has ended."""

    def penalise(self, theta: Tensor, gradient: Tensor) -> None:
        """Add the penalty's gradient to the loss's, in place; called at every step."""

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Take in a finished task, its diagonal Fisher, and the (inputs, one-hot) batches this came from."""

    def transform(self, change: Callable[[Tensor], Tensor]) -> None:
        """Pass every vector that is kept per parameter through ``change`` (growth, another input order)."""


@dataclass(frozen=True)
class EWCSettings:
    """``strength`` is λ, ``decay`` is α; the moving average F̃ starts at its ``first`` value or at ``zero``."""

    strength: float = 500.0
    decay: float = 0.9
    start: str = "first"

    def __post_init__(self) -> None:
        number("strength", self.strength, 0)
        number("decay", self.decay, 0, 1)
        choice("start", self.start, STARTS)

    def average(self, previous: Tensor | None, value: Tensor, start: str | None = None) -> Tensor:
        """One step of the exponential moving average α·previous + (1 − α)·value (Eq. 1, and τ in section 3.1)."""
        if previous is None:
            if (start or self.start) == "first":
                return value.clone()
            previous = torch.zeros_like(value)
        return self.decay * previous + (1 - self.decay) * value


class OnlineEWC:
    """Quadratic penalty λ/2 Σ F̃ᵢ(θᵢ − θᵢ*)², anchored at the end of the previous task."""

    def __init__(self, settings: EWCSettings) -> None:
        self.settings = settings
        self.fisher: Tensor | None = None
        self.anchor: Tensor | None = None
        self._curvature: Tensor | None = None

    @property
    def curvature(self) -> Tensor | None:
        """λF̃."""
        return self._curvature

    def penalise(self, theta: Tensor, gradient: Tensor) -> None:
        """gradient += λF̃∘(θ − θ*) (Eq. 2); nothing during task 1."""
        if self.anchor is None or self._curvature is None:
            return
        torch.sub(theta, self.anchor, out=self._distance)
        gradient.addcmul_(self._curvature, self._distance)

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[tuple[Tensor, Tensor]] = ()) -> None:
        """F̃ ← αF̃ + (1 − α)F (Eq. 1), θ* ← θ."""
        self.fisher = self.settings.average(self.fisher, fisher)
        self.anchor = network.theta.clone()
        self._refresh()

    def transform(self, change: Callable[[Tensor], Tensor]) -> None:
        """Carry F̃ and θ* over to another shape or order of the parameters."""
        if self.fisher is None or self.anchor is None:
            return
        self.fisher, self.anchor = change(self.fisher), change(self.anchor)
        self._refresh()

    def _refresh(self) -> None:
        assert self.fisher is not None
        self._curvature = self.settings.strength * self.fisher
        self._distance = torch.empty_like(self.fisher)
