"""Ratios of seconds that noise cannot decide: both sides in turns, the median over rounds, and a 95 % interval of it.

The interval comes from the sign test, so it holds whatever the noise looks like. Seconds are the processor's, so that
other work on the machine counts little.
"""

import itertools
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time

from pipeline.evidence.intervals import FAILS, HOLDS, UNDECIDED, Interval, Range

MARKS = {HOLDS: "ok", FAILS: "MISS", UNDECIDED: "?"}
Seconds = Callable[[], float]  #: does something once and tells how long it took
Pair = tuple[float, float]  #: seconds of the two sides of a ratio in one round


def at_most(limit: float) -> Range:
    """A ratio that must not be larger."""
    return Range(-math.inf, limit)


def at_least(limit: float) -> Range:
    """A ratio that must not be smaller."""
    return Range(limit, math.inf)


@dataclass(frozen=True)
class Found:
    """A median over rounds and its 95 % interval."""

    median: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Line:
    """What is compared, where the ratio is to be if that is said, what was found if it was measured, and more of it."""

    what: str
    limit: Range | None
    found: Found | None
    detail: str

    @property
    def mark(self) -> str:
        """Whether the limit is kept; a dash if nothing was measured, nothing if there is no limit."""
        if self.found is None:
            return "–"
        return "" if self.limit is None else MARKS[verdict(self.limit, self.found)]

    def __str__(self) -> str:
        limit = "" if self.limit is None else f" ≥ {self.limit.low:g}"
        if self.limit is not None and math.isinf(self.limit.low):
            limit = f" ≤ {self.limit.high:g}"
        if (found := self.found) is None:
            return f"{self.mark:4} {self.what}:{limit or ' no limit'}; {self.detail}"
        ratio = f"{found.median:.3f} [{found.low:.3f}, {found.high:.3f}]{limit}"
        rounds = f"{found.rounds} round{'s' * (found.rounds > 1)}"
        undecided = "; undecided, more rounds needed" if self.mark == "?" else ""
        return f"{self.mark:4} {self.what}: {ratio}; {rounds}, {self.detail}{undecided}"


def verdict(limit: Range, found: Found) -> str:
    """By the rule that also decides claims."""
    return limit.verdict(Interval(found.median, found.low, found.high, found.rounds))


def of_median(ratios: Sequence[float], looks: int = 1) -> Found:
    """The median and its interval, so wide that the intervals of this many looks hold together with 95 %."""
    rounds, ordered, outside, tail = len(ratios), sorted(ratios), 0, 0
    while 2 * (tail + math.comb(rounds, outside)) <= 0.05 / looks * 2**rounds:
        tail += math.comb(rounds, outside)
        outside += 1
    low, high = (ordered[outside - 1], ordered[-outside]) if outside else (-math.inf, math.inf)
    return Found(statistics.median(ratios), low, high, rounds)


def compare(
    what: str, limit: Range | None, rounds: Iterator[Pair], looks: Sequence[int], detail: Callable[[float, float], str]
) -> Line:
    """Measure until the limit is found kept after one of these numbers of rounds; only after the last it can be missed.

    Without a limit the first number of rounds is enough. ``detail`` is told the median seconds of both sides.
    """
    looks = looks if limit is not None else looks[:1]
    print(f"measuring {what}: at most {looks[-1]} rounds …", file=sys.stderr, flush=True)
    pairs: list[Pair] = []
    for look in looks:
        pairs += itertools.islice(rounds, look - len(pairs))
        found = of_median([one / other for one, other in pairs], len(looks))
        if limit is not None and verdict(limit, found) == HOLDS:
            break
    return Line(what, limit, found, detail(*map(statistics.median, zip(*pairs, strict=True))))


def timed(task: Callable[[], object]) -> Seconds:
    """The processor's seconds of a task."""

    def run() -> float:
        start = process_time()
        task()
        return process_time() - start

    return run


def in_turns(one: Seconds, other: Seconds) -> Iterator[Pair]:
    """Rounds of both, after one to warm up; which goes first changes from round to round."""
    one(), other()
    while True:
        yield one(), other()
        second = other()
        yield one(), second
