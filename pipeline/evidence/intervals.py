"""95 % intervals over seeds (Student's t), and the one rule by which an interval decides a claim.

Every seed counts. A number that is infinite in all seeds ("never breaks") is its own interval; one that is infinite in
some seeds but not in all, or not defined in a seed, has no interval and decides nothing.
"""

import math
from dataclasses import dataclass

import pandas as pd

from pipeline.evidence.results import EXACT
from pipeline.experiments.power_laws import half_width
from pipeline.markdown import number

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
MARKS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?"}


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % interval; bounds are NaN where there is none, and ``reason`` says why."""

    mean: float
    low: float
    high: float
    seeds: int
    reason: str = ""


def interval(values: "pd.Series[float]") -> Interval:
    """Mean ± t·s/√n over seeds; ``values`` are indexed by seed, NaN where a number is not defined."""
    n, undefined, infinite = len(values), int(values.isna().sum()), int((values.abs() == math.inf).sum())
    if not n:
        return _none(n, "there are no seeds")
    if undefined:
        return _none(n, f"the statistic is not defined in {undefined} of {n} seeds")
    if infinite and values.nunique() > 1:
        return _none(n, f"the statistic is infinite in {infinite} of {n} seeds")
    mean = float(values.mean())
    if list(values.index) == [EXACT]:  # a formula's value, or a mean that is all there is
        return Interval(mean, mean, mean, 0)
    if n == 1:
        return Interval(mean, math.nan, math.nan, n, "one seed gives no interval")
    half = 0.0 if infinite else half_width(float(values.sem()), n - 1)
    return Interval(mean, mean - half, mean + half, n)


def _none(seeds: int, reason: str) -> Interval:
    """Neither mean nor interval."""
    return Interval(math.nan, math.nan, math.nan, seeds, reason)


@dataclass(frozen=True)
class Range:
    """Where a claim puts a number; ``strict`` leaves out the bounds themselves, if they are finite."""

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

    def __contains__(self, value: float) -> bool:
        at_a_bound = math.isfinite(value) and value in (self.low, self.high)
        return self.low <= value <= self.high and not (self.strict and at_a_bound)

    def words(self) -> str:
        """The range in signs."""
        above, below = ("> ", "< ") if self.strict else ("≥ ", "≤ ")
        if math.isinf(self.high):
            return above + number(self.low)
        return below + number(self.high) if math.isinf(self.low) else f"{number(self.low)} to {number(self.high)}"


def of_parts(verdicts: list[str]) -> str:
    """A claim holds if all its parts hold, and does not if one of them does not."""
    if FAILS in verdicts:
        return FAILS
    return HOLDS if set(verdicts) == {HOLDS} else UNDECIDED
