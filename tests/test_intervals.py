import math

import pandas as pd
import pytest

from pipeline.evidence.intervals import FAILS, HOLDS, UNDECIDED, Interval, Range, interval, of_parts
from pipeline.evidence.results import EXACT
from pipeline.experiments.power_laws import half_width

INF = math.inf


@pytest.mark.parametrize(  # from printed tables
    ("freedom", "expected"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423), (120, 1.9799)],
)
def test_quantiles_of_student(freedom, expected):
    assert half_width(1.0, freedom) == pytest.approx(expected, abs=5e-5)
    assert half_width(3.0, freedom) == pytest.approx(3 * half_width(1.0, freedom))


def test_interval_by_hand():
    found = interval(pd.Series([1.0, 2.0, 3.0], index=["0", "1", "2"]))
    assert (found.mean, found.seeds) == (2.0, 3)
    assert found.high - 2 == pytest.approx(4.3027 / math.sqrt(3), abs=1e-4)  # s = 1
    assert 2 - found.low == pytest.approx(4.3027 / math.sqrt(3), abs=1e-4)
    two = interval(pd.Series([0.0, 2.0], index=["0", "1"]))
    assert two.high == pytest.approx(1 + 12.7062, abs=1e-4)  # s/√n = 1


def test_one_seed_has_no_interval_and_a_number_of_no_seed_is_its_own():
    one = interval(pd.Series([3.0], index=["0"]))
    assert (one.mean, one.seeds) == (3.0, 1)
    assert math.isnan(one.low)
    assert interval(pd.Series([3.0], index=[EXACT])) == Interval(3.0, 3.0, 3.0, 0)


@pytest.mark.parametrize(
    ("values", "expected", "reason"),
    [
        ([INF, INF, INF], Interval(INF, INF, INF, 3), ""),
        ([-INF, -INF], Interval(-INF, -INF, -INF, 2), ""),
        ([1.0, INF, INF], None, "the statistic is infinite in 2 of 3 seeds"),
        ([INF, -INF], None, "the statistic is infinite in 2 of 2 seeds"),
        ([1.0, 2.0, math.nan], None, "the statistic is not defined in 1 of 3 seeds"),
        ([INF, INF, math.nan], None, "the statistic is not defined in 1 of 3 seeds"),
        ([INF], Interval(INF, math.nan, math.nan, 1), "one seed gives no interval"),
        ([], None, "there are no seeds"),
    ],
)
def test_every_seed_counts(values, expected, reason):
    found = interval(pd.Series(values, index=map(str, range(len(values))), dtype=float))
    assert (found.seeds, found.reason) == (len(values), reason)
    assert str((found.mean, found.low, found.high)) == str(
        (expected.mean, expected.low, expected.high) if expected else (math.nan,) * 3
    )
    if expected is None:
        assert Range(0, INF).verdict(found) == Range(-INF, 0, strict=True).verdict(found) == UNDECIDED


def test_the_range_decides_a_number_that_is_infinite_in_every_seed():
    never = Interval(INF, INF, INF, 5)
    for strict in (False, True):
        assert Range(1, INF, strict).verdict(never) == HOLDS
        assert Range(-INF, 1, strict).verdict(never) == FAILS
        assert Range(-1, 1, strict).verdict(never) == FAILS


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.0, 2.0, HOLDS),
        (0.0, 2.0, HOLDS),
        (-1.0, 1.0, UNDECIDED),
        (-2.0, -1.0, FAILS),
        (-2.0, 0.0, UNDECIDED),
        (math.nan, math.nan, UNDECIDED),
    ],
)
def test_the_rule_for_at_least_and_by_mirror_for_at_most(low, high, expected):
    assert Range(0, INF).verdict(Interval(0, low, high, 5)) == expected
    assert Range(-INF, 0).verdict(Interval(0, -high, -low, 5)) == expected


def test_the_rule_between_two_bounds():
    claimed = Range(-1, 1)
    assert claimed.verdict(Interval(0, -1, 1, 5)) == HOLDS
    assert claimed.verdict(Interval(0, -1.1, 1, 5)) == UNDECIDED
    assert claimed.verdict(Interval(0, -9, 9, 5)) == UNDECIDED
    assert claimed.verdict(Interval(0, 1.1, 9, 5)) == FAILS
    assert claimed.verdict(Interval(0, -9, -1.1, 5)) == FAILS


def test_more_than_nothing_is_not_nothing():
    nothing = Interval(0, 0, 0, 5)
    assert Range(0, INF).verdict(nothing) == HOLDS
    assert Range(0, INF, strict=True).verdict(nothing) == FAILS
    assert Range(-INF, 0, strict=True).verdict(nothing) == FAILS
    assert Range(0, INF, strict=True).verdict(Interval(1, 0, 2, 5)) == UNDECIDED
    assert Range(0, INF, strict=True).verdict(Interval(1, 0.1, 2, 5)) == HOLDS


def test_ranges_in_signs():
    assert Range(-1.9313, INF).words() == "≥ −1.93"
    assert Range(-INF, 2, strict=True).words() == "< 2"
    assert Range(-1.1, -0.9).words() == "−1.1 to −0.9"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, UNDECIDED], UNDECIDED),
        ([HOLDS, UNDECIDED, FAILS], FAILS),
        ([UNDECIDED], UNDECIDED),
    ],
)
def test_a_claim_is_as_good_as_its_worst_part(parts, expected):
    assert of_parts(parts) == expected
