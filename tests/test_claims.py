"""The claims: read from a list, decided by results, never left out."""

import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.config import load
from pipeline.evidence import claims, results
from pipeline.evidence.claims import Part, evaluate, load_claims, overall
from pipeline.evidence.results import paper_numbers, results_by_cell
from pipeline.experiments import transfer
from pipeline.experiments.suites import suites
from pipeline.experiments.train import result_columns
from pipeline.paths import RESULTS as RESULTS_FOLDER

PARAMS, PAPER, RESULTS = load(), paper_numbers(), results_by_cell()
OURS, RIVAL = ("main", "permuted_mnist", "2L NORACL"), ("main", "permuted_mnist", "2L large")


def runs(*accuracies, task=10, suite="main/permuted_mnist-noracl"):
    rows = [{"seed": str(s), "task": task, "accuracy": a, "params": 100.0} for s, a in enumerate(accuracies)]
    return pd.DataFrame(rows).assign(suite=suite)


def claim(tmp_path, **part):
    """A list with one claim of one part."""
    part = {
        **{"what": "w", "statistic": "accuracy_gap", "cells": ["2L NORACL", "2L large"], "why": "because"},
        **{"under": "main/permuted_mnist"},
        **part,
    }
    entry = {"id": "one", "statement": "s", "where": "here", "quote": "q", "parts": {"one-part": part}}
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump([entry]), encoding="utf-8")
    return load_claims(path)


def test_a_statement_says_on_which_side_its_number_is_a_bound():
    """A claim that holds at half of "about 5.6 %" is about a bound, and its sentence says so."""
    bounds = ("at least", "at most", "within", "or more")
    rough = [one for one in load_claims() if "about" in one.statement]
    assert rough
    for one in rough:
        assert any(word in one.statement for word in bounds), one.statement
    (overhead,) = (one.statement for one in load_claims() if one.id == "overhead")
    assert "at most" in overhead


def test_a_statement_on_the_theory_names_its_setting():
    """Plasticity that does not decline on random patterns is not plasticity that does not decline on a stress test."""
    setting = ("random pattern", "association", "Theorem 1", "orollary 1")
    tables = {one.statement: {key[0] for part in one.parts.values() for key in part.keys} for one in load_claims()}
    theory = [statement for statement, used in tables.items() if used == {"theory"}]
    assert len(theory) > 5
    for statement in theory:
        assert any(word in statement for word in setting), statement


def row(found):
    (only,) = found.to_dict("records")
    return only


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ((84, 85, 86), "holds"),
        ((74, 75, 76), "does not hold"),
        ((79, 80.5, 82), "undecided"),
    ],
)
def test_an_interval_over_seeds_decides(tmp_path, accuracies, expected):
    rival = runs(80, 80, 80, suite="main/permuted_mnist-static")
    found = row(evaluate(claim(tmp_path, above=0), {OURS: runs(*accuracies), RIVAL: rival}, PARAMS))
    assert (found["verdict"], found["seeds"], found["reason"]) == (expected, 3, "")
    assert found["value"] == pytest.approx(sum(accuracies) / 3 - 80)
    half = 4.302653 * pd.Series(accuracies).std() / math.sqrt(3)
    assert found["high"] == pytest.approx(found["value"] + half, abs=1e-5)
    assert found["threshold"] == "> 0 points: because"
    assert found["command"] == "dvc repro noracl@permuted_mnist static@permuted_mnist claims"
    assert found["selected_on"] == "yes", "both cells helped to choose the configuration"


def test_what_is_not_computed_is_listed_as_undecided(tmp_path):
    found = row(evaluate(claim(tmp_path, above=0), {OURS: runs(90, 90)}, PARAMS))
    assert found["verdict"] == "undecided"
    assert found["reason"] == "not computed: no results of main/permuted_mnist: 2L large"
    assert math.isnan(found["value"])


def test_one_seed_decides_nothing(tmp_path):
    found = row(evaluate(claim(tmp_path, above=0), {OURS: runs(90), RIVAL: runs(80)}, PARAMS))
    assert (found["value"], found["verdict"], found["reason"]) == (10, "undecided", "one seed gives no interval")


def test_a_method_that_could_not_go_on_decides_nothing(tmp_path):
    found = row(evaluate(claim(tmp_path, above=0), {OURS: runs(90, 91, math.nan), RIVAL: runs(80, 80, 80)}, PARAMS))
    reason = "the statistic is not defined in 1 of 3 seeds"
    assert (found["verdict"], found["seeds"], found["reason"]) == ("undecided", 3, reason)
    assert math.isnan(found["value"])


def test_a_seed_that_a_method_lacks_is_missed(tmp_path):
    """The rival has it; or our suite has it, but nothing that the part is about."""
    reason = "the statistic is not defined in 1 of 3 seeds"
    found = row(evaluate(claim(tmp_path, above=0), {OURS: runs(90, 91), RIVAL: runs(80, 80, 80)}, PARAMS))
    assert (found["verdict"], found["seeds"], found["reason"]) == ("undecided", 3, reason)
    elsewhere = {("main", "permuted_mnist", "1L NORACL"): runs(70, 70, 70)}
    found = row(evaluate(claim(tmp_path, above=0), {OURS: runs(90, 91), RIVAL: runs(80, 80)} | elsewhere, PARAMS))
    assert (found["verdict"], found["seeds"], found["reason"]) == ("undecided", 3, reason)


@pytest.mark.parametrize(
    ("breaks", "verdict", "reason"),
    [
        ([math.nan, math.nan, math.nan], "holds", ""),  # recall never breaks
        ([2.0, math.nan, math.nan], "undecided", "the statistic is infinite in 2 of 3 seeds"),
        ([2.0, 2.1, 2.2], "holds", ""),
    ],
)
def test_an_infinite_number_counts(tmp_path, breaks, verdict, reason):
    rows = [{"seed": str(seed), "width": 8, "x": 1.0, "quantity": "snr", "value": v} for seed, v in enumerate(breaks)]
    cells = {("theory", "break", "ewc"): pd.DataFrame(rows).assign(suite="theory")}
    part = {"statistic": "retention_break_snr", "under": "theory/break", "cells": ["ewc"], "at_least": 1}
    found = row(evaluate(claim(tmp_path, **part), cells, PARAMS))
    assert (found["verdict"], found["seeds"], found["reason"]) == (verdict, 3, reason)


def test_the_rule_about_seeds_is_told_below_the_claims():
    assert "not defined in a seed, or infinite in some seeds but not in all, decides nothing" in claims.LEGEND
    assert claims.LEGEND in Path("reports/claims.md").read_text(encoding="utf-8")


def test_the_stream_may_be_cut(tmp_path):
    ours = pd.concat([runs(70, 71, task=20), runs(90, 91, task=5)])
    rival = pd.concat([runs(80, 80, task=20), runs(80, 80, task=5)])
    assert row(evaluate(claim(tmp_path, above=0), {OURS: ours, RIVAL: rival}, PARAMS))["value"] == -9.5
    assert row(evaluate(claim(tmp_path, above=0, task=10), {OURS: ours, RIVAL: rival}, PARAMS))["value"] == 10.5


def test_the_papers_own_number_is_put_to_the_same_test(tmp_path):
    found = row(evaluate(claim(tmp_path, at_least=6.2), {}, PARAMS))  # 79.4 − 73.3
    assert (found["paper_value"], found["paper_in_range"]) == (6.1, "no")
    assert row(evaluate(claim(tmp_path, at_least=6.1), {}, PARAMS))["paper_in_range"] == "yes"
    unknown = claim(tmp_path, statistic="bottom_heaviness", cells=["2L NORACL"], above=0)
    assert row(evaluate(unknown, {}, PARAMS))["paper_in_range"] == ""


@pytest.mark.parametrize(
    ("part", "low", "high"),
    [
        ({"at_least": 0, "allow": "error"}, -math.hypot(0.7, 1.8), math.inf),  # 79.4 ± 0.7 and 73.3 ± 1.8
        ({"at_least": 6, "allow": "points"}, 5.0, math.inf),
        ({"at_most": 1.5, "allow": "points"}, -math.inf, 2.5),
        ({"about": -1, "allow": "share"}, -1.1, -0.9),
        ({"at_most": 5.6, "allow": "share"}, -math.inf, 6.16),
        ({"at_least": -1.5, "at_most": 1.5}, -1.5, 1.5),
        ({"above": 2}, 2, math.inf),
    ],
)
def test_ranges_are_widened_as_the_words_allow(part, low, high):
    one = Part(what="w", statistic="accuracy_gap", cells=["/".join(OURS), "/".join(RIVAL)], why="y", **part)
    found = one.range(PAPER, PARAMS.tolerances)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.strict == ("above" in part)


def test_the_error_is_that_of_the_best_rival_of_the_paper():
    cells = [f"main/split_mnist/1L {row}" for row in ("NORACL", "small", "medium", "large")]
    part = Part(what="w", statistic="accuracy_gap", cells=cells, why="y", at_least=0, allow="error")
    assert part.range(PAPER, PARAMS.tolerances).low == -math.hypot(1.8, 0.9)  # medium, 72.8 ± 0.9


def test_several_benchmarks_give_cells_in_pairs():
    part = Part(what="w", statistic="mean_accuracy_gap", under=["t/a", "t/b"], cells=["x", "y"], why="y", above=0)
    assert part.keys == [("t", "a", "x"), ("t", "a", "y"), ("t", "b", "x"), ("t", "b", "y")]


def test_a_list_that_names_no_known_statistic_or_key_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"guess is no statistic; there are .*accuracy_gap"):
        claim(tmp_path, statistic="guess")
    with pytest.raises(ValueError, match="at_leats"):
        claim(tmp_path, at_leats=0)


def test_the_list_is_sound():
    """Unique names, a range each, and cells that have results."""
    listed = load_claims()
    parts = [(name, part) for one in listed for name, part in one.parts.items()]
    assert len({one.id for one in listed}) == len(listed)
    assert len({name for name, _ in parts}) == len(parts)
    for name, part in parts:
        found = part.range(PAPER, PARAMS.tolerances)
        assert math.isfinite(found.low) or math.isfinite(found.high), name
        assert set(part.keys) <= set(RESULTS), name


@pytest.fixture(scope="module")
def table():
    return evaluate(load_claims(), RESULTS, PARAMS)


def test_the_committed_results_decide_every_part(table):
    assert len(table) == sum(len(one.parts) for one in load_claims())
    assert set(table["reason"]) == {""}
    assert table[["value", "low", "high"]].notna().all(axis=None)
    assert set(overall(table)) <= {"holds", "does not hold", "undecided"}


def suite(folder, method, rank):
    """Results of five seeds as a training stage writes them; a higher rank falls faster."""
    table = []
    for seed in range(5):
        for task in range(1, 101):
            accuracy = 0.9 - 0.001 * task * rank - 0.0001 * seed
            table.append(["permuted_mnist", method, 2, seed, task, accuracy, 0.9, 0.9])
            table[-1] += [1000 + seed + rank, 10 + rank, 10, task, 0.1 * rank, 0.2, 100.0 + rank]
    pd.DataFrame(table, columns=result_columns(2)).to_csv(folder / "runs.csv", index=False)


def test_results_as_the_stages_write_them_are_understood(tmp_path, monkeypatch):
    shutil.copytree(RESULTS_FOLDER, tmp_path, dirs_exist_ok=True)
    for rank, name in enumerate(["NORACL", "32×32", "64×64", "75×32"]):
        suite(tmp_path / "stress" / name.lower().replace("×", "x"), name, rank)
    found = []
    for seed in range(5):
        found += [["final", seed, j, None, j, "accuracy", 0.8] for j in range(1, 6)]
        found += [["silenced", seed, t, None, j, "change", -0.1 - 0.01 * seed] for t in (2, 3) for j in range(1, 6)]
        found += [["update", seed, 2, 3, x, name, x + seed] for name in ("moved", "stepped") for x in range(9)]
    pd.DataFrame(found, columns=transfer.COLUMNS).to_csv(tmp_path / "transfer/transfer.csv", index=False)
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    table = evaluate(load_claims(), results_by_cell(), PARAMS).set_index("id")
    assert set(table["reason"]) == {""}
    assert table.loc["stress-overtakes", "value"] == pytest.approx(100 * 0.001 * 10 * 3)
    assert table.loc["stress-50", "value"] == pytest.approx(100 * 0.001 * 50)
    assert table.loc["locked-1", "value"] == pytest.approx(-10)
    assert table.loc["transfer-own", "verdict"] == "does not hold", "as bad on all tasks"


def test_commands_name_the_stages_that_compute_the_cells(table):
    stages = {suite.stage for suite in suites(PARAMS).values()} | {"cost", "theory", "transfer"}
    assert {stage.partition("@")[0] for stage in stages} <= set(
        yaml.safe_load(Path("dvc.yaml").read_text(encoding="utf-8"))["stages"]
    )
    commands = table.set_index("id")["command"]
    assert commands["stress-overtakes"] == "dvc repro stress_noracl stress_static@75x32 claims"
    assert commands["transfer-own"] == "dvc repro transfer claims"
    for command in commands:
        *named, last = command.removeprefix("dvc repro ").split()
        assert named
        assert set(named) <= stages
        assert last == "claims"


def test_the_short_table_counts_parts(tmp_path):
    found = evaluate(claim(tmp_path, above=0), {OURS: runs(90, 91), RIVAL: runs(80, 80)}, PARAMS)
    both = pd.concat([found, found.assign(verdict="undecided")])
    assert "| ? undecided | s | here | 1 ✓, 1 ? |" in claims.to_markdown(both)
