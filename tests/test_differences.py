"""What reports/DIFFERENCES.md says in words is what the results say."""

import re
from pathlib import Path

import pandas as pd

from pipeline.config import load
from pipeline.evidence import results
from pipeline.evidence.claims import load_claims
from pipeline.evidence.statistics.runs import final, grown

PARAMS, CELLS, PAPER = load(), results.results_by_cell(), results.paper_numbers()
TEXT = Path("reports/DIFFERENCES.md").read_text()


def mean(column, *key):
    return float(final(CELLS[key], column).mean())


def verdicts():
    return pd.read_csv("reports/claims.csv").set_index("id")["verdict"]


def test_it_names_parts_that_there_are():
    named = set(re.findall(r"`([a-z]+(?:-[a-z0-9]+)+)`", TEXT)) - {"like-this"}
    assert len(named) > 15
    assert named <= {part for claim in load_claims() for part in claim.parts}


def test_binary_split():
    for depth in ("1L", "2L"):
        widths = [mean("accuracy", "main", "split_mnist", f"{depth} {row}") for row in ("small", "medium", "large")]
        assert widths == sorted(widths, reverse=True)
        paper = [PAPER.loc[("main", "split_mnist", f"{depth} {row}"), "acc"] for row in ("small", "medium", "large")]
        assert all(ours > theirs for ours, theirs in zip(widths, paper, strict=True))
        noracl = ("main", "split_mnist", f"{depth} NORACL")
        assert mean("params", *noracl) < PAPER.loc[noracl, "params"]
    assert PARAMS.benchmarks["split_mnist"].outputs == 10
    two = CELLS["main", "split_mnist", "2L NORACL"]
    assert (grown(two, 1) > 0).all()
    assert (grown(two, 2) == 0).all()
    assert set(verdicts()[["split-alike-1l", "split-alike-2l", "geometry-split", "geometry-shift"]]) == {
        "does not hold"
    }
    assert set(verdicts()[["fewer-split-1l", "fewer-split-2l", "no-overgrowth-1l", "no-overgrowth-2l"]]) == {"holds"}


def test_the_spread_over_seeds():
    key = ("main", "permuted_mnist", "2L NORACL")
    runs = pd.concat([final(CELLS[key], column) for column in ("params", "accuracy")], axis=1)
    assert runs["params"].std() > 2 * PAPER.loc[key, "params_sd"]
    assert runs["accuracy"].std() > 2 * PAPER.loc[key, "acc_sd"]
    assert runs.idxmin().nunique() == 1, "the seed with the fewest neurons is the least accurate"
    assert verdicts()["fewer-permuted-2l"] == verdicts()["gain-permuted"] == "undecided"


def test_the_effective_dimension_never_says_no():
    for benchmark in ("permuted_mnist", "rotated_mnist"):
        signals = results.signals(f"main/{benchmark}-noracl")
        assert set(signals["layer"]) == {1, 2}
        assert (signals["phi"] > PARAMS.noracl["gamma"] * signals["reference"]).all()
        columns = ["seed", "task", "accuracy", "params", "width_1", "width_2"]
        full, alone = (CELLS["ablations", benchmark, row][columns] for row in ("full", "trigger fsat"))
        pd.testing.assert_frame_equal(full.reset_index(drop=True), alone.reset_index(drop=True), check_exact=True)
    assert verdicts()["fsat-only-accuracy"] == "does not hold"


def test_the_stress_test():
    noracl, static = (CELLS["stress", "permuted_mnist", method] for method in ("NORACL", "75×32"))

    def gap(column, task):
        return float(noracl[noracl["task"] == task][column].mean() - static[static["task"] == task][column].mean())

    assert gap("accuracy", 10) > 0
    assert gap("accuracy", 50) > 0
    assert abs(gap("accuracy", 100)) < 2
    assert gap("plastic", 10) > 0 > gap("plastic", 50)
    assert gap("locked_1", 100) > 0
    after = noracl[noracl["task"] >= 20].groupby("seed")[["width_1", "width_2"]].nunique()
    assert (after == 1).all().all(), "no seed grows after twenty tasks"
    table = pd.read_csv("reports/tables/stress50.csv").set_index("row").loc["NORACL"]
    assert (table["verdict"], table["params_verdict"]) == ("match", "match")
    assert set(verdicts()[["stress-overtakes", "stress-50", "plasticity-overtakes"]]) == {"undecided"}
    assert set(verdicts()[["plasticity-50", "locked-1"]]) == {"does not hold"}
    assert verdicts()["stress-100"] != "holds"


def test_heuristics():
    full, fixed, scheduled = (
        ("ablations", "permuted_mnist", row) for row in ("full", "trigger fixed", "trigger scheduled")
    )
    for rule in (fixed, scheduled):
        assert mean("accuracy", *rule) > mean("accuracy", *full)
        assert mean("params", *rule) > mean("params", *full)
    assert PAPER.loc[fixed, "acc"] < PAPER.loc[("main", "permuted_mnist", "2L medium"), "acc"]
    keys = [
        [("ablations", benchmark, row) for row in ("trigger ed", "full")] for benchmark in PARAMS.ablations.benchmarks
    ]
    assert all(mean("accuracy", *ed) > mean("accuracy", *joint) for ed, joint in keys)
    assert sum(PAPER.loc[ed, "acc"] < PAPER.loc[joint, "acc"] for ed, joint in keys) == 2
    assert verdicts()["ed-only-params"] == "holds"


def test_initialisation():
    full = ("ablations", "permuted_mnist", "full")
    for init in ("zero", "random"):
        key = ("ablations", "permuted_mnist", f"init {init}")
        assert mean("params", *key) < mean("params", *full)
        assert PAPER.loc[key, "params"] < PAPER.loc[full, "params"]
    null = mean("accuracy", "ablations", "permuted_mnist", "init null-space")
    assert abs(null - mean("accuracy", *full)) < PARAMS.tolerances.accuracy_points
    assert CELLS["ablations", "split_mnist", "init null-space"]["accuracy"].notna().all()


def test_split_cifar10():
    table = pd.read_csv("reports/tables/cifar10.csv").set_index("row")
    static = table.drop("NORACL")
    assert (table["acc_mean"] < table["paper_acc"]).all()
    assert static.loc[["512×512", "1024×1024"], "acc_mean"].max() < static.loc["128×128", "acc_mean"]
    assert table.loc["NORACL", "params_mean"] > 1.5 * table.loc["NORACL", "paper_params"]
    assert table.loc["NORACL", "acc_mean"] < static["acc_mean"].max()
    assert "holds" not in set(verdicts()[["cifar-control", "cifar-512", "cifar-1024"]])
    sizes = pd.read_csv("reports/tables/cifar10_sizes.csv").set_index(["row", "benchmark"])["params_mean"]["NORACL"]
    assert sizes.idxmax() == PARAMS.benchmarks["split_cifar10"].data.replace("cifar10", "size")
    assert sizes.min() == table.loc["128×128", "params_mean"], "not at all"


def test_theory():
    found = verdicts()
    assert set(found[["theorem-1-old", "corollary-1-new"]]) == {"holds"}
    missed = ["recall-ewc", "recall-gd", "width-slope", "gate-default", "balance-share"]
    assert set(found[missed]) == {"does not hold"}
