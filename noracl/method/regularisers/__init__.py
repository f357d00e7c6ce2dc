"""Regularisers protect learnt weights (section 3). One file each: a ``Consolidation`` built from ``EWCSettings``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from noracl.method.checks import choice, number, settle
from noracl.method.network import Batch, Network
from noracl.method.registry import Registry, load_folder

STARTS = ("first", "zero")


class Consolidation(Protocol):
    """Adds to the gradient during a task and takes stock after it; the learner asks a regulariser for nothing else.

    The learner copies it with ``copy.deepcopy`` before each task, so that a task that fails leaves no trace in it.
    """

    @property
    def curvature(self) -> Tensor | None:
        """Strength × importance of each parameter, λF̃; None before the first task has ended."""

    def penalise(self, theta: Tensor, gradient: Tensor) -> None:
        """Add the penalty's gradient to the loss's, in place; called at every step."""

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[Batch]) -> None:
        """Take in a finished task: its network, its diagonal Fisher, and the mini-batches behind that."""

    def transform(self, change: Callable[[Tensor], Tensor]) -> None:
        """Pass every vector that is kept per parameter through ``change`` (growth, another input order)."""


@dataclass(frozen=True)
class EWCSettings:
    """``strength`` is λ, ``decay`` is α; the moving average F̃ starts at its ``first`` value or at ``zero``."""

    strength: float = 500.0
    decay: float = 0.9
    start: str = "first"

    def __post_init__(self) -> None:
        settle(self, number, ("strength",), 0)
        settle(self, number, ("decay",), 0, 1)
        choice("start", self.start, STARTS)

    def average(self, previous: Tensor | None, value: Tensor, start: str | None = None) -> Tensor:
        """One step of the exponential moving average α·previous + (1 − α)·value (Eq. 1, and τ in section 3.1)."""
        if previous is None and (start or self.start) == "first":
            return value.clone()
        return self.decay * (torch.zeros_like(value) if previous is None else previous) + (1 - self.decay) * value


REGULARISERS = Registry[Callable[[EWCSettings], Consolidation]]("regulariser")
register = REGULARISERS.register  #: decorates a class, which ``Settings(regulariser=name)`` then chooses

load_folder(__name__, __path__)
