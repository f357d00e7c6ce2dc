"""Argument checks whose messages name the argument, its range and what was given."""

import math
from collections.abc import Iterable
from typing import Any


def number(name: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> None:
    """Require a finite number in [low, high], or in (low, high] when ``open_low``."""
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or not (low < value if open_low else low <= value) or value > high:
        left = "(" if open_low else "["
        right = "∞)" if high == math.inf else f"{high:g}]"
        raise ValueError(f"{name} must be a number in {left}{low:g}, {right}, got {value!r}")


def whole(name: str, value: Any, low: int) -> None:
    """Require an integer of at least ``low``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}")


def choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Require one of ``allowed``."""
    options = tuple(allowed)
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}")
