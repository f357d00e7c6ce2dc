"""The table of random pattern association, from results made by hand and from the committed ones."""

import math

import pandas as pd
import pytest

from pipeline.evidence import results
from pipeline.report import theory_table
from pipeline.report.theory_table import EXPERIMENTS, measured, table, to_markdown


def rows(experiment, quantity, values, method="ewc", width=8, x=1.0):
    """Results as in theory.csv; ``values`` are by seed."""
    names = ["experiment", "method", "width", "seed", "x", "quantity", "value"]
    return pd.DataFrame([(experiment, method, width, s, x, quantity, v) for s, v in values.items()], columns=names)


def part(frame):
    return measured(frame.rename(columns={"quantity": "part"}))


def test_a_quantity_is_a_mean_over_seeds_with_its_interval():
    found = part(rows("break", "snr", {"0": 1.0, "1": 2.0, "2": 3.0, "all": 9.0}))
    assert (found.mean, found.seeds) == (2.0, 3)
    assert found.high - 2.0 == pytest.approx(4.302653 / math.sqrt(3))


def test_a_quantity_that_some_seeds_never_reach_is_that_of_all_of_them_together():
    found = part(rows("break", "snr", {"0": 1.0, "1": math.nan, "all": 1.5}))
    assert found.mean == 1.5
    assert math.isnan(found.low)


def test_a_fit_has_its_own_interval():
    parts = [
        rows("share exponent", name, {"all": v}) for name, v in (("exponent", -1.0), ("low", -1.1), ("high", -0.9))
    ]
    lines = table(pd.concat(parts))
    assert lines[["quantity", "ours", "low", "high"]].values.tolist() == [["exponent", -1.0, -1.1, -0.9]]


def test_of_the_theorem_it_has_the_smallest_epsilon_and_of_growth_the_slope():
    parts = [rows("theorem", "old", {"0": e}, "noracl", x=e) for e in (1.0, 1e-3, 1e-6)]
    parts += [rows("growth", name, {"all": 5.0}, "whole") for name in ("width", "share", "slope")]
    parts += [rows("age", "snr", {"all": 1.0})]
    lines = table(pd.concat(parts))
    assert lines[["experiment", "quantity", "x"]].values.tolist() == [
        ["theorem", "old", 1e-6],
        ["growth", "slope", 1.0],
    ]


def test_it_says_what_the_committed_results_say():
    found = results.other("theory")
    lines = table(found.astype({"seed": str})).set_index(["experiment", "method", "x", "quantity", "width"])
    gate = found[(found["experiment"] == "gate") & (found["method"] == "averaged") & (found["x"] == 100)]
    for width, shares in gate.groupby("width")["value"]:
        assert lines.loc[("gate", "averaged", 100.0, "opens", width), "ours"] == pytest.approx(shares.mean())
    assert set(lines.index.get_level_values("experiment")) == set(EXPERIMENTS)
    text = to_markdown(lines.reset_index(), "A note.")
    assert text.endswith("\n\nA note.\n")
    for words in EXPERIMENTS.values():
        assert text.count(f"| {words} |") == 1, "told once, above all of its rows"
    assert "-" not in text.replace("---", "").replace("signal-to-noise", ""), "real minus signs"


def test_it_judges_nothing():
    """The claims do, by one rule."""
    content = "".join(theory_table.build(None).values())
    for word in ("holds", "does not hold", "undecided", "✓", "✗"):
        assert word not in content.replace("and whether it holds", "")
