"""Argument checks whose messages name the argument, its range and what was given."""

import math
from collections.abc import Iterable
from typing import Any


def require(ok: bool, message: str) -> None:
    """Raise ValueError with the message unless ``ok``."""
    if not ok:
        raise ValueError(message)


def number(name: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> None:
    """Require a finite number in [low, high], or in (low, high] when ``open_low``."""
    left, right = "(" if open_low else "[", "∞)" if high == math.inf else f"{high:g}]"
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    ok = ok and (low < value if open_low else low <= value) and value <= high
    require(ok, f"{name} must be a number in {left}{low:g}, {right}, got {value!r}")


def whole(name: str, value: Any, low: int) -> None:
    """Require an integer of at least ``low``."""
    ok = isinstance(value, int) and not isinstance(value, bool) and value >= low
    require(ok, f"{name} must be a whole number of at least {low}, got {value!r}")


def choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Require one of ``allowed``."""
    options = tuple(allowed)
    require(value in options, f"{name} must be one of {', '.join(options)}, got {value!r}")
