"""95 % intervals over seeds (Student's t), and the one rule by which an interval decides a claim."""

import math
from dataclasses import dataclass

import pandas as pd

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
LEVEL = 0.95
EXACT = "all"  # the seed of a number that belongs to no seed


def student_within(t: float, freedom: int) -> float:
    """P(|T| ≤ t) of Student's t with whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(1 + odd, freedom, 2):  # cos θ + ⅔cos³θ + … or 1 + ½cos²θ + …
        total += term
        term *= k / (k + 1) * math.cos(angle) ** 2
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


def student_quantile(freedom: int, level: float = LEVEL) -> float:
    """The t for which P(|T| ≤ t) is ``level``, by bisection."""
    low, high = 0.0, 1.0
    while student_within(high, freedom) < level:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if student_within(middle, freedom) < level else (low, middle)
    return high


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % interval; bounds are NaN where one seed gives none."""

    mean: float
    low: float
    high: float
    seeds: int


def interval(values: "pd.Series[float]") -> Interval:
    """Mean ± t·s/√n over seeds; ``values`` are indexed by seed.

    A number that belongs to no seed (``EXACT``: a formula's value, or a mean that is all there is) is its own interval.
    """
    mean, n = float(values.mean()), len(values)
    if list(values.index) == [EXACT]:
        return Interval(mean, mean, mean, 0)
    half = student_quantile(n - 1) * float(values.std()) / math.sqrt(n) if n > 1 else math.nan
    return Interval(mean, mean - half, mean + half, n)


@dataclass(frozen=True)
class Range:
    """Where a claim puts a number; ``strict`` leaves out the bounds themselves."""

    low: float
    high: float
    strict: bool = False

    def verdict(self, found: Interval) -> str:
        """``HOLDS`` if the interval lies in the range, ``FAILS`` if it lies outside, else ``UNDECIDED``."""
        if found.low in self and found.high in self:
            return HOLDS
        apart = found.high < self.low or found.low > self.high
        touch = self.strict and (found.high == self.low or found.low == self.high)
        return FAILS if apart or touch else UNDECIDED

    def __contains__(self, number: float) -> bool:
        return self.low < number < self.high if self.strict else self.low <= number <= self.high

    def words(self) -> str:
        """The range in signs."""
        if math.isinf(self.high):
            return f"{'>' if self.strict else '≥'} {signed(self.low)}"
        if math.isinf(self.low):
            return f"{'<' if self.strict else '≤'} {signed(self.high)}"
        return f"{signed(self.low)} to {signed(self.high)}"


def signed(number: float) -> str:
    """At most three digits behind the point, with a real minus."""
    return f"{number:.3g}".replace("-", "−")


def of_parts(verdicts: list[str]) -> str:
    """A claim holds if all its parts hold, and does not if one of them does not."""
    if FAILS in verdicts:
        return FAILS
    return HOLDS if set(verdicts) == {HOLDS} else UNDECIDED
