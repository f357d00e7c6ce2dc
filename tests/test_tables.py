import math
from pathlib import Path

import pandas as pd
import pytest

from pipeline.config import load
from pipeline.evidence import results
from pipeline.evidence.verdicts import counts, verdict
from pipeline.experiments.beyond import BOUNDS
from pipeline.experiments.suites import suites
from pipeline.report import costs_table, readme
from pipeline.report.labels import on_features, provenance_line
from pipeline.report.tables import CONTRADICTED, RELEASED, compare, results_of, to_markdown
from pipeline.sections import Beyond, BeyondStress, Fashion, Reading

NAN = math.nan
PARAMS = load()
LIMITS = PARAMS.tolerances
MACHINE = {"cpu": "c", "instructions": "i", "torch": "t", "python": "p"}
NO_PAPER = pd.DataFrame(columns=["row", "benchmark", "params", "params_sd", "acc", "acc_sd"])


@pytest.mark.parametrize(
    ("ours", "sd", "paper", "paper_sd", "tolerance", "expected"),
    [
        (79.0, 0.0, 80.0, 0.0, 1.0, "match"),
        (78.9, 0.0, 80.0, 0.0, 1.0, "lower"),
        (81.1, 0.0, 80.0, 0.0, 1.0, "higher"),
        (77.5, 2.0, 80.0, 2.0, 1.0, "match"),  # 2·sqrt(4/5 + 4/5) = 2.53
        (77.4, 2.0, 80.0, 2.0, 1.0, "lower"),
        (77.4, NAN, 80.0, NAN, 1.0, "lower"),
        (NAN, NAN, 80.0, 1.0, 1.0, "n/a"),
        (80.0, 1.0, NAN, NAN, 1.0, "n/a"),
    ],
)
def test_verdict_by_hand(ours, sd, paper, paper_sd, tolerance, expected):
    assert verdict(ours, sd, 5, paper, paper_sd, tolerance) == expected


def test_more_seeds_make_the_verdict_stricter():
    assert verdict(77.5, 3.0, 5, 80.0, 0.0, 1.0) == "match"
    assert verdict(77.5, 3.0, 50, 80.0, 0.0, 1.0) == "lower"


def made_up(accuracies, params):
    rows = []
    for seed, (value, p) in enumerate(zip(accuracies, params, strict=True)):
        for task in (2, 1):
            row = {"row": "2L NORACL", "benchmark": "b", "seed": seed, "task": task}
            rows.append({**row, "accuracy": value - 0.1 * (2 - task), "params": p, "plastic": p / 2})
    return pd.DataFrame(rows).assign(suite="main/b-noracl", layers=2)


def test_a_cell_is_mean_and_deviation_over_seeds_after_the_last_task():
    numbers = {"benchmark": "b", "params": 1000, "params_sd": NAN, "acc": 80.0, "acc_sd": 1.0}
    paper = pd.DataFrame([{"row": row, **numbers} for row in ("2L large", "2L NORACL")])
    chosen = pd.DataFrame({"row": ["2L NORACL"], "benchmark": ["b"]})
    (row,) = compare(made_up([0.79, 0.81, 0.83], [900, 1000, 1100]), paper, chosen, LIMITS).to_dict("records")
    assert (row["seeds"], row["acc_mean"], row["acc_sd"]) == (3, 81.0, 2.0)
    assert (row["params_mean"], row["params_sd"], row["paper_params"]) == (1000, 100, 1000)
    assert (row["verdict"], row["params_verdict"], row["selected_on"]) == ("match", "match", "yes")
    assert pd.isna(row["paper_params_sd"])
    assert isinstance(row["seeds"], int), "also where the paper has cells that we have not"
    table = compare(made_up([0.5], [2000]), paper, chosen.iloc[:0], LIMITS)
    (row,) = table.to_dict("records")
    assert (row["verdict"], row["params_verdict"], row["selected_on"]) == ("lower", "higher", "no")
    assert counts(table) == {
        "all": {"match": 0, "cells": 1},
        "selected_on": {"match": 0, "cells": 0},
        "held_out": {"match": 0, "cells": 1},
    }
    text = to_markdown(table, [MACHINE], PARAMS, {})
    assert "| 2L NORACL | 2.0k ▲ (1.0k) | 50.0 ▼ (80.0 ± 1.0) |" in text
    assert "Computed on c (i), torch t, Python p." in text
    assert "the paper's in brackets" in text


def test_a_number_is_rounded_once_and_a_deviation_has_its_unit():
    table = compare(made_up([0.778502, 0.778502], [42_720, 40_920]), NO_PAPER, NO_PAPER, LIMITS)
    assert "| 2L NORACL | 41.8k ± 1.3k | 77.9 ± 0.0 |" in to_markdown(table, [MACHINE], PARAMS, {})


def test_benchmarks_of_any_length_keep_their_order_where_the_paper_has_none():
    long, short = made_up([0.8], [1000]), made_up([0.7], [1000]).query("task == 1")
    runs = pd.concat([long, short.assign(benchmark="a")], ignore_index=True)
    assert compare(runs, NO_PAPER, NO_PAPER, LIMITS)["benchmark"].tolist() == ["b", "a"]


def beside(released, contradicted, accuracies=(0.5,), **paper):
    """Table and text of one cell whose parameters match the paper's and whose accuracy does not."""
    numbers = {"row": "2L NORACL", "benchmark": "b", "params": 2000, "params_sd": NAN, "acc": 80.0, "acc_sd": 1.0}
    theirs = pd.DataFrame([numbers | paper])
    table = compare(
        made_up(accuracies, [2000] * len(accuracies)), theirs, NO_PAPER, LIMITS, pd.DataFrame(released), contradicted
    )
    return table, to_markdown(table, [MACHINE], PARAMS, {})


def released_cell(**values):
    return {
        "row": "2L NORACL",
        "benchmark": "b",
        "params": 1900,
        "params_sd": 456,
        "acc": 81.25,
        "acc_sd": 1.62,
    } | values


def test_a_released_number_stands_third_and_decides_nothing():
    table, text = beside([released_cell(source="second-hand")], None)
    assert "| 2L NORACL | 2.0k ✓ (2.0k; released 1.9k ± 0.5k) | 50.0 ▼ (80.0 ± 1.0; released 81.2 ± 1.6) |" in text
    assert RELEASED["second-hand"] in text
    assert RELEASED["official"] not in text
    (row,) = table.to_dict("records")
    assert (row["released_params"], row["released_acc"], row["verdict"]) == (1900, 81.25, "lower")
    _, text = beside([released_cell(source="official", params=NAN, params_sd=NAN)], None)
    assert "| 2.0k ✓ (2.0k) | 50.0 ▼ (80.0 ± 1.0; released 81.2 ± 1.6) |" in text
    assert RELEASED["official"] in text
    _, text = beside([released_cell(source="official", benchmark="c")], None)
    assert "released" not in text, "of another cell"


def test_a_dagger_marks_misses_where_the_paper_contradicts_itself():
    none = [released_cell(benchmark="c", source="official")]
    table, text = beside(none, {("2L NORACL", "b"): {"params", "acc"}})
    assert list(table["contradicted"]) == ["acc params"]
    assert "| 2L NORACL | 2.0k ✓ (2.0k) | 50.0 ▼† (80.0 ± 1.0) |" in text, "no mark on a match"
    assert CONTRADICTED in text
    for contradicted in ({("2L NORACL", "b"): {"params"}}, {("2L NORACL", "c"): {"acc"}}):
        _, text = beside(none, contradicted)
        assert "†" not in text, "of another quantity, or of another cell"


def test_where_the_paper_has_no_numbers_nothing_is_said_of_it():
    sizes = made_up([0.5], [2000]).assign(benchmark="size_64")
    table = compare(sizes, NO_PAPER, NO_PAPER, LIMITS)
    text = to_markdown(table, [MACHINE], PARAMS, {})
    assert text.startswith("|  | 64×64 pixels: params | 64×64 pixels: accuracy % |")
    assert "| 2L NORACL | 2.0k | 50.0 |" in text
    assert text.endswith("\n\nOne seed. Computed on c (i), torch t, Python p.\n")


def test_machines_are_named_once_and_weights_only_where_networks_see_features():
    machines = [MACHINE, MACHINE | {"ResNet18 weights": "w"}, MACHINE | {"cpu": "d", "ResNet18 weights": "w"}]
    named = "Computed on c (i), torch t, Python p; d (i), torch t, Python p."
    assert provenance_line(machines) == f"{named} Features by ResNet18 weights w."
    assert provenance_line(machines, features=False) == provenance_line([MACHINE, MACHINE | {"cpu": "d"}]) == named
    assert [name for name in PARAMS.benchmarks if on_features(name, PARAMS)] == ["split_cifar10", "cifar10_128"]
    assert on_features("size_64", PARAMS)
    assert not on_features("fashion_split_mnist", PARAMS)
    for name, seen in (("main", False), ("cifar10", True), ("bounds", True)):
        assert ("ResNet18 weights" in Path(f"reports/tables/{name}.md").read_text(encoding="utf-8")) == seen


def test_readme_blocks_are_replaced_and_the_rest_is_kept(tmp_path, monkeypatch):
    text = "before\n<!-- table main -->\n| old |\n<!-- end -->\nafter\n<!-- table other -->\n<!-- end -->\n"
    monkeypatch.chdir(tmp_path)
    Path("reports/tables").mkdir(parents=True)
    Path("reports/tables/main.md").write_text("| new |\n", encoding="utf-8")
    Path("README.md").write_text(text, encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=r"other\.md"):
        readme.refresh()
    assert Path("README.md").read_text(encoding="utf-8") == text
    Path("reports/tables/other.md").write_text("| else |\n", encoding="utf-8")
    for _ in range(2):
        readme.refresh()
        assert Path("README.md").read_text(encoding="utf-8") == (
            "before\n<!-- table main -->\n| new |\n<!-- end -->\nafter\n<!-- table other -->\n| else |\n<!-- end -->\n"
        )


def test_table_1_is_complete():
    """All 24 cells and the bounds below them, seeds 0 to 4, in the agreed format."""
    table = pd.read_csv("reports/tables/main.csv")
    expected = (
        "row benchmark seeds params_mean params_sd acc_mean acc_sd paper_params paper_params_sd paper_acc paper_acc_sd "
        "verdict params_verdict selected_on contradicted released_params released_params_sd released_acc "
        "released_acc_sd released_source"
    )
    assert list(table) == expected.split()
    assert set(table.seeds) == {5}
    bounds = table["row"].str.removeprefix("2L ").isin(BOUNDS)
    assert bounds.sum() == 9
    assert table.loc[bounds, ["verdict", "paper_acc"]].isna().all().all(), "the paper has no bounds"
    assert len(ours := table[~bounds]) == 24
    assert not ours[["acc_mean", "acc_sd", "params_mean", "paper_params", "paper_acc"]].isna().any().any()
    fixed = table[~table["row"].str.contains("NORACL")].set_index(["row", "benchmark"])["params_mean"]
    assert fixed["1L medium", "permuted_mnist"] == 25408
    assert fixed["2L large", "split_mnist"] == 54400
    main = results.runs("main")
    assert set(main.seed) == {0, 1, 2, 3, 4}
    assert main[["accuracy", "accuracy_first", "accuracy_newest", "locked_1"]].max().max() <= 1.0


def test_table_2_is_complete():
    """Six heads and the bounds, five seeds, parameter counts of a head without biases on 512 features."""
    table = pd.read_csv("reports/tables/cifar10.csv").set_index("row")
    heads = {"128×128": (128, 128), "256×256": (256, 256), "512×512": (512, 512), "1024×1024": (1024, 1024)}
    heads["172×134"] = (172, 134)
    assert set(table.index) == {*heads, "NORACL", *BOUNDS}
    assert set(table["seeds"]) == {5}
    for name, (first, second) in heads.items():
        assert table.loc[name, "params_mean"] == 512 * first + first * second + second * 2
    assert not table.drop(BOUNDS)[["acc_mean", "acc_sd", "paper_acc", "verdict"]].isna().any().any()
    assert "ResNet18 weights" in Path("reports/tables/cifar10.md").read_text(encoding="utf-8")


def test_the_image_size_follows_from_the_static_heads():
    """128 pixels: the size whose mean over the compared heads is nearest to the paper's, as the notes say."""
    sizes = pd.read_csv("reports/tables/cifar10_sizes.csv")
    paper = pd.read_csv("reports/paper/cifar10.csv").set_index("row")["acc"]
    heads = list(PARAMS.image_sizes.heads)
    means = sizes[sizes["row"].isin(heads)].groupby("benchmark")["acc_mean"].mean()
    assert set(means.index) == {f"size_{size}" for size in PARAMS.image_sizes.images}
    nearest = (means - paper[heads].mean()).abs().idxmin()
    assert nearest.replace("size", "cifar10") == PARAMS.benchmarks["cifar10_128"].data


def test_a_cell_with_an_infeasible_run_has_no_mean():
    frame = made_up([0.8, 0.9], [10, 20])
    infeasible = frame[:1].assign(seed=2, task=0, accuracy=NAN, params=NAN, plastic=NAN)
    table = compare(pd.concat([frame, infeasible]), NO_PAPER, NO_PAPER, LIMITS)
    (row,) = table.to_dict("records")
    assert (row["seeds"], row["infeasible"], row["verdict"]) == (2, 1, "n/a")
    assert pd.isna(row["acc_mean"])
    assert "N/A, infeasible in 1 of 3 seeds" in to_markdown(table, [], PARAMS, {})


def test_the_stress_tables_are_complete():
    """Five seeds each; the short table is the beginning of the long results."""
    stress = results.runs("stress")
    short = {"32×32", "75×32", "NORACL"}
    for tasks, methods in ((50, short), (100, {*short, "64×64"})):
        table = pd.read_csv(f"reports/tables/stress{tasks}.csv").set_index("row")
        assert set(table.index) == methods
        assert set(table["seeds"]) == {5}
        for method in methods:
            last = stress[(stress["method"] == method) & (stress["task"] == tasks)]
            assert table.loc[method, "acc_mean"] == pytest.approx(100 * last["accuracy"].mean(), abs=0.006)
            assert table.loc[method, "plastic_mean"] == pytest.approx(last["plastic"].mean(), abs=0.5)
        assert not [column for column in table if "75x32" in column], "who overtakes whom is for the claims to say"
    assert table.loc["75×32", "params_mean"] == 784 * 75 + 75 * 32 + 32 * 10
    assert stress.groupby(["method", "seed"])["task"].max().eq(100).all()


def test_the_short_stream_is_the_beginning_of_the_long_one(monkeypatch):
    cells = [(suite, task) for suite in ("stress/64x64", "stress/noracl") for task in (1, 50, 51, 100)]
    frame = pd.DataFrame(cells, columns=["suite", "task"])
    monkeypatch.setattr(results, "runs", lambda *tables: frame if tables == ("stress",) else None)
    assert results_of("stress50", PARAMS).values.tolist() == [["stress/noracl", 1], ["stress/noracl", 50]]
    assert len(results_of("stress100", PARAMS)) == 8


def test_hours_count_a_shared_run_once(tmp_path, monkeypatch):
    """The full model of the ablations and the default of the sensitivity study are runs of Table 1."""
    asked = PARAMS.model_copy(update={"readings": {}, "beyond": Beyond(), "beyond_stress": BeyondStress()})
    for suite in suites(asked).values():
        names = [(run.benchmark, run.method, run.layers, run.seed) for run in suite.runs()]
        frame = pd.DataFrame(names, columns=["benchmark", "method", "layers", "seed"]).assign(total=9000.0)
        frame["cpu"] = 3600.0 if suite.table == "stress" else 7200.0
        (tmp_path / suite.table).mkdir(exist_ok=True)
        frame.to_csv(tmp_path / f"{suite.name}.csv", index=False)
    monkeypatch.setattr(costs_table, "TIMING", tmp_path)
    rows = [line.strip("| ").split(" | ") for line in costs_table.hours_markdown(asked).splitlines()]
    assert {row[0]: int(row[1]) for row in rows[2:9]} == {
        **{"main": 120, "cifar10": 30, "cifar10_128": 30, "cifar10_sizes": 8},
        **{"stress tests": 20, "ablations": 150, "sensitivity": 45},
    }
    assert rows[6] == ["stress tests", "20", "20.00 h", "10.00 h", "1.25 h"]
    assert rows[9] == ["all", "403", "**786.00 h**", "**393.00 h**", "**50.12 h**"]
    assert rows[-1][0].endswith("Hours are those of the processor.")
    monkeypatch.setattr(results, "RESULTS", tmp_path / "nowhere")
    boost = Reading(why="The paper may mean this.", changes={"noracl.boost": 3.0})
    fashion = Beyond(fashion=Fashion(benchmarks=("split_mnist",)))
    text = costs_table.hours_markdown(asked.model_copy(update={"readings": {"boost": boost}, "beyond": fashion}))
    assert "| readings |" not in text
    assert "Not computed yet, and not counted: readings/boost, beyond/fashion." in text
