"""95 % intervals over seeds (Student's t), and the one rule by which an interval decides a claim."""

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
    """A mean over seeds with its 95 % interval; bounds are NaN where one seed gives none."""

    mean: float
    low: float
    high: float
    seeds: int


def interval(values: "pd.Series[float]") -> Interval:
    """Mean ± t·s/√n over seeds; ``values`` are indexed by seed."""
    mean, n = float(values.mean()), len(values)
    if list(values.index) == [EXACT]:  # a formula's value, or a mean that is all there is
        return Interval(mean, mean, mean, 0)
    half = half_width(float(values.sem()), n - 1) if n > 1 else math.nan
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

    def __contains__(self, value: float) -> bool:
        return self.low < value < self.high if self.strict else self.low <= value <= self.high

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
