"""Argument checks whose messages name the argument, its range and what was given; they return plain Python numbers."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from numbers import Integral, Real
from typing import Any


def require(ok: bool, message: str) -> None:
    """Raise ValueError with the message unless ``ok``."""
    if not ok:
        raise ValueError(message)


def shown(value: Any) -> str:
    """What was given, short enough for a message."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an object that cannot be shown is no reason to hide the message
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def plain(value: Any) -> Any:
    """Numbers of numpy and torch, also in arrays without a shape, as Python's int or float; all else as it is."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item") and not getattr(value, "is_meta", False):
        value = value.item()
    if isinstance(value, Real) and not isinstance(value, int | float):
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def number(name: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> float:
    """Require a finite number in [low, high], or in (low, high] when ``open_low``."""
    left = "(-∞" if low == -math.inf else f"{'(' if open_low else '['}{low:g}"
    right = "∞)" if high == math.inf else f"{high:g}]"
    found = plain(value)
    ok = isinstance(found, int | float) and not isinstance(found, bool) and abs(found) <= sys.float_info.max
    ok = ok and (low < found if open_low else low <= found) and found <= high
    require(ok, f"{name} must be a number in {left}, {right}, got {shown(value)}")
    return found  # type: ignore[no-any-return]


def whole(name: str, value: Any, low: int | None) -> int:
    """Require an integer of at least ``low`` that fits into 64 bits; any integer if ``low`` is None."""
    found = plain(value)
    ok = isinstance(found, int) and not isinstance(found, bool) and (low is None or low <= found)
    at_least = "" if low is None else f" of at least {low}"
    require(ok, f"{name} must be a whole number{at_least}, got {shown(value)}")
    require(low is None or found < 2**63, f"{name} must be below 2^63, got {shown(value)}")
    return found  # type: ignore[no-any-return]


def wholes(name: str, values: Any, low: int) -> tuple[int, ...]:
    """Require integers of at least ``low``, in an order; a single one may stand for a list of one."""
    require(not isinstance(values, Set | Mapping), f"{name} must be a list of whole numbers, got {shown(values)}")
    many = getattr(values, "ndim", 1) > 0 and isinstance(values, Iterable)
    return tuple(whole(name, value, low) for value in (values if many else [values]))


def choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Require one of ``allowed``."""
    options = tuple(allowed)
    ok = isinstance(value, str) and value in options
    require(ok, f"{name} must be one of {', '.join(options)}, got {shown(value)}")


def instance(name: str, value: Any, kind: type) -> None:
    """Require an object of a class."""
    require(isinstance(value, kind), f"{name} must be of type {kind.__name__}, got {shown(value)}")


def settle(settings: Any, check: Callable[..., Any], names: Iterable[str], *bounds: Any, **options: Any) -> None:
    """Check fields of a frozen dataclass and keep what the check returns."""
    for name in names:
        object.__setattr__(settings, name, check(name, getattr(settings, name), *bounds, **options))
