"""Callbacks: functions of one's own that see a learner at work. What is not given costs nothing."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from noracl.method.checks import require, shown
from noracl.method.history import GrowthEvent


@dataclass(frozen=True)
class Callbacks:
    """Each is called with the learner, right after what it is named after; numbers count from 1, steps in an epoch."""

    step: Callable[[Any, int], None] | None = None  #: after each step, with its number in the epoch
    epoch: Callable[[Any, int], None] | None = None  #: before the growth rule looks
    task: Callable[[Any, int], None] | None = None  #: after each task, with its number
    growth: Callable[[Any, GrowthEvent], None] | None = None  #: after each growth event

    def __post_init__(self) -> None:
        for one in fields(self):
            given = getattr(self, one.name)
            require(given is None or callable(given), f"{one.name} must be a function, got {shown(given)}")
