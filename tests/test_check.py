"""Each way in which a reported number may be wrong makes the check fail, with words: break a copy and look."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from pipeline import check
from pipeline.config import load

SPLIT = "reports/results/main/split_mnist-noracl/runs.csv"


@pytest.fixture
def broken(clone, tmp_path, monkeypatch):
    """A copy to break; the checks run inside it."""
    copy = clone.copy(tmp_path / "copy")
    monkeypatch.chdir(copy.folder)
    return copy.folder


def set_cell(path, row, column, change):
    """Change one value of a CSV, rows counted from the header."""
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    at = rows[0].index(column)
    rows[row][at] = change(rows[row][at])
    path.write_text("".join(",".join(cells) + "\n" for cells in rows), encoding="utf-8")


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_nothing_is_wrong_with_an_untouched_copy(broken):
    for one in (*check.ON_INPUTS, *check.ON_RESULTS, *check.ON_GOLDEN_RUNS):
        assert one(load()) == []


def test_a_table_that_is_not_what_the_results_give(broken):
    path = broken / "reports/tables/main.csv"
    row = path.read_text(encoding="utf-8").splitlines()[1]
    edit(path, row, row.replace(",1,", ",9,", 1))
    problems = check.tables_are_generated(load())
    assert any(line.startswith("-") and ",9," in line for line in problems)
    assert any(line == f"+{row}" for line in problems)


@pytest.mark.parametrize("table", ["theory", "hours", "cost", "contradictions", "readings"])
def test_a_table_of_another_shape_that_is_not_what_the_results_give(broken, table):
    path = broken / f"reports/tables/{table}.md"
    path.write_text(f"{path.read_text(encoding='utf-8')}Guessed.\n", encoding="utf-8")
    assert check.tables_are_generated(load())[-1] == "-Guessed."
    path.unlink()
    assert check.tables_are_generated(load()) == [f"reports/tables/{table}.md is missing: run `dvc repro tables`"]


@pytest.mark.parametrize(("table", "rows"), [("theory", "lifetime")])
def test_results_that_were_edited_after_their_table_was_made(broken, table, rows):
    path = broken / f"reports/results/{table}/{table}.csv"
    path.write_text(
        "".join(line for line in path.read_text(encoding="utf-8").splitlines(True) if not line.startswith(rows)),
        encoding="utf-8",
    )
    assert any(f"reports/tables/{table}.csv" in line for line in check.tables_are_generated(load()))


def test_a_missing_table(broken):
    (broken / "reports/tables/main.md").unlink()
    assert check.tables_are_generated(load()) == ["reports/tables/main.md is missing: run `dvc repro tables`"]
    assert check.readme_is_generated(load()) == ["reports/tables/main.md is missing: run `dvc repro tables`"]


def test_a_verdict_that_is_not_what_the_results_give(broken):
    path = broken / "reports/claims.csv"
    row = next(line for line in path.read_text(encoding="utf-8").splitlines() if ",undecided," in line)
    edit(path, row, row.replace(",undecided,", ",holds,"))
    problems = check.claims_are_generated(load())
    assert any(line.startswith("-") and ",holds," in line for line in problems)
    assert any(line == f"+{row}" for line in problems)
    path.unlink()
    assert check.claims_are_generated(load()) == ["reports/claims.csv is missing: run `dvc repro claims`"]


def test_a_verdict_under_a_reading_that_is_not_what_the_results_give(broken):
    path = broken / "reports/tables/readings.csv"
    row = next(
        line for line in path.read_text(encoding="utf-8").splitlines() if ",boost," in line and ",undecided," in line
    )
    edit(path, row, row.replace(",undecided,", ",holds,"))
    assert f"+{row}" in check.tables_are_generated(load())


def test_a_reading_that_is_not_computed_is_told_of(broken, monkeypatch, capsys):
    shutil.rmtree(broken / "reports/results/readings")
    assert check.results_are_complete(load()) == []
    assert "reading@boost" not in "\n".join(check.results_are_fresh(load()))
    for name in ("ON_INPUTS", "ON_RESULTS"):
        monkeypatch.setattr(check, name, [check.results_are_complete])
    check.main(["--quick"])
    assert "readings/boost: not computed yet: `dvc repro reading@boost` computes it" in capsys.readouterr().out


def test_a_page_that_is_not_what_its_parts_give(broken):
    path = broken / "reports/index.html"
    edit(path, "which claims hold?", "all claims hold!")
    differs = "reports/index.html differs from what its parts give: run `dvc repro page`"
    assert check.page_is_generated(load()) == [differs]
    path.unlink()
    assert check.page_is_generated(load()) == ["reports/index.html is missing: run `dvc repro page`"]
    (broken / "reports/claims.csv").unlink()
    assert check.page_is_generated(load()) == ["reports/claims.csv is missing: run `dvc repro page`"]


def test_results_that_were_edited_after_the_table_was_made(broken):
    folder = "reports/results/main/split_mnist-static"
    set_cell(broken / folder / "runs.csv", 2, "params", lambda value: str(int(value) + 1))
    assert check.tables_are_generated(load())
    assert f"{folder} (modified): stale: static@split_mnist: run `dvc repro`" in check.results_are_fresh(load())


def test_a_readme_table_that_is_not_the_generated_one(broken):
    edit(broken / "README.md", "| 2L NORACL |", "| 3L NORACL |")
    problems = check.readme_is_generated(load())
    assert any(line.startswith("-| 3L NORACL |") for line in problems)


def test_parameters_that_were_changed_without_running(broken):
    edit(broken / "params.yaml", "gamma: 0.9", "gamma: 0.7")
    canaries, parameters, theory = check.results_are_fresh(load())
    assert parameters.startswith("params.yaml: noracl (modified): stale: noracl@cifar10_128, noracl@permuted_mnist, ")
    assert parameters.endswith(" more: run `dvc repro`"), "one line for all stages"
    assert canaries == "params.yaml (modified): stale: canaries: run `dvc repro`"
    assert theory == "params.yaml: noracl.gamma (modified): stale: theory: run `dvc repro`"
    assert "static" not in parameters


def test_canaries_that_nobody_computed(broken):
    edit(broken / "reports/canaries/theory.json", '"labels": [\n', '"labels": [\n   "one more",\n')
    (broken / "reports/canaries/main/split_mnist-static.json").unlink()
    assert check.canaries_agree(load()) == [
        "reports/canaries: the code gives other numbers for theory: run `dvc repro`",
        "reports/canaries has no file for main/split_mnist-static: run `dvc repro canaries`",
    ]


def test_a_golden_run_that_gives_another_value(broken):
    set_cell(broken / SPLIT, 2, "plastic", lambda value: "1.000")
    (problem,) = check.golden_runs_repeat(load())
    assert problem.startswith("golden run split_mnist 2L NORACL seed 0: task 2: plastic ")
    assert problem.endswith(", committed 1.000")


def test_on_another_machine_the_golden_run_may_differ_within_the_tolerance(broken):
    elsewhere(broken)
    path = broken / SPLIT
    set_cell(path, 1, "accuracy", lambda value: f"{float(value) + 0.04:.6f}")
    assert check.golden_runs_repeat(load()) == []
    set_cell(path, 1, "accuracy", lambda value: f"{float(value) + 0.02:.6f}")
    assert "task 1: accuracy" in "\n".join(check.golden_runs_repeat(load()))


def test_a_number_of_the_paper_with_two_values(broken):
    edit(broken / "reports/paper/sensitivity.csv", "49200,3200,79.4", "49200,3200,79.5")
    (problem,) = check.paper_agrees_with_itself(load())
    assert "acc of NORACL on permuted_mnist is 79.4 in main.csv but 79.5 in sensitivity.csv" in problem


def drop(path, *words):
    """Remove the lines of a CSV that hold all these words."""
    path.write_text(
        "".join(
            line for line in path.read_text(encoding="utf-8").splitlines(True) if not all(w in line for w in words)
        ),
        encoding="utf-8",
    )


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda path: drop(path, ",small,"),
            "runs.csv lacks 1 runs that params.yaml asks for, first split_mnist small 2 0",
        ),
        (
            lambda path: path.write_text(
                path.read_text(encoding="utf-8")
                + path.read_text(encoding="utf-8").splitlines()[-1].replace(",0,", ",7,", 1),
                encoding="utf-8",
            ),
            "runs.csv holds 1 runs that params.yaml does not ask for, first split_mnist small 2 7",
        ),
        (lambda path: drop(path, ",small,2,0,2,"), "runs.csv holds 1 runs that cannot be"),
        (lambda path: set_cell(path, 1, "task", lambda value: "2"), "runs.csv holds 1 runs that cannot be"),
        (lambda path: set_cell(path, 1, "accuracy", lambda value: "2.5"), "runs.csv holds 1 runs that cannot be"),
        (lambda path: set_cell(path, 1, "params", lambda value: "8"), "runs.csv holds 1 runs that cannot be"),
        (lambda path: path.unlink(), " holds provenance.json, not runs.csv, provenance.json"),
    ],
)
def test_results_that_are_not_the_runs_that_were_asked_for(broken, change, line):
    suite = "reports/results/main/split_mnist-static"
    change(broken / suite / "runs.csv")
    (problem,) = check.results_are_complete(load())
    assert problem.startswith(f"{suite}/{line}")
    assert problem.endswith(": run `dvc repro static@split_mnist`")


def test_results_of_suites_that_are_gone_and_of_other_seeds(broken):
    (broken / "reports/results/main/split_mnist-static").rename(broken / "reports/results/main/old-static")
    drop(broken / "reports/results/main/split_mnist-noracl/signals.csv", "split_mnist")
    edit(broken / "params.yaml", "\nseeds:\n- 0", "\nseeds:\n- 0\n- 1")
    problems = "\n".join(check.results_are_complete(load()))
    assert "reports/results/main/old-static: params.yaml asks for no such suite: delete it" in problems
    assert "reports/results/main/split_mnist-static/ holds nothing" in problems
    assert "ablations/split_mnist/runs.csv lacks 3 runs" in problems
    assert "theory/theory.csv holds seeds 0, not those of params.yaml: run `dvc repro theory`" in problems
    assert "transfer/transfer.csv holds seeds 0, not those of params.yaml: run `dvc repro transfer`" in problems


def test_a_benchmark_without_results_is_one_message_and_nothing_dies_of_it(broken, capsys):
    params = yaml.safe_load((broken / "params.yaml").read_text(encoding="utf-8"))
    params["benchmarks"]["odd_pairs"] = {**params["benchmarks"]["split_mnist"], "title": "Odd pairs"}
    (broken / "params.yaml").write_text(
        yaml.safe_dump(json.loads(json.dumps(params))), encoding="utf-8"
    )  # without anchors
    line = "params.yaml: benchmarks.odd_pairs has no results yet: run `dvc repro static@odd_pairs noracl@odd_pairs`"
    assert check.results_are_complete(load()) == [line]
    with pytest.raises(SystemExit, match="are not what the code computes"):
        check.main(["--quick"])
    said = capsys.readouterr()
    assert line in said.err
    assert "check tables_are_generated: left out, because results are not complete" in said.out
    assert "golden" not in said.out


def test_metrics_and_curves_that_are_not_what_the_results_give(broken):
    name = "main/split_mnist-noracl"
    path, plot = broken / f"reports/metrics/{name}.json", broken / f"reports/plots/{name}.csv"
    path.write_text(path.read_text(encoding="utf-8").replace('"params": ', '"params": 9', 1), encoding="utf-8")
    assert any(line.startswith("-") and '"params": 9' in line for line in check.metrics_are_generated(load()))
    path.unlink()
    plot.rename(plot.with_name("old.csv"))
    assert check.metrics_are_generated(load()) == [
        f"reports/metrics/{name}.json is missing: run `dvc repro noracl@split_mnist`",
        f"reports/plots/{name}.csv is missing: run `dvc repro noracl@split_mnist`",
        "reports/plots/main/old.csv: there are no such results: delete it",
    ]


def test_a_long_diff_is_cut(broken, capsys):
    path = broken / "reports/claims.csv"
    path.write_text(path.read_text(encoding="utf-8").replace(",undecided,", ",holds,"), encoding="utf-8")
    with pytest.raises(SystemExit):
        check.main(["--quick"])
    said = capsys.readouterr().err.splitlines()
    (first,) = [number for number, line in enumerate(said) if "reports/claims.csv (committed)" in line]
    assert re.fullmatch(r" +… and \d+ more lines", said[first + check.SHOWN])


def elsewhere(folder):
    """Let the results come from another kind of machine."""
    for path in (folder / "reports/results").rglob("provenance.json"):
        path.write_text(json.dumps([{"cpu": "another"}]), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "names"),
    [
        ("pipeline/data/streams.py", "255 * manifest.deviation", "256 * manifest.deviation", "prs"),
        ("pipeline/data/pixels.py", "[:keep]]", "[:keep].flip(0)]", "prs"),
        ("noracl/method/fisher.py", "total.div_(terms)", "total.div_(terms + 1)", "prs"),
        ("params.yaml", "strength: 2000.0", "strength: 2040.0", "r"),
    ],
)
def test_a_small_change_is_noticed_on_another_kind_of_machine(broken, file, old, new, names):
    elsewhere(broken)
    edit(broken / file, old, new)
    code = "from pipeline import check, config; print(*check.golden_runs_begin_alike(config.load()), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    wrong = {"p": "permuted_mnist", "r": "rotated_mnist", "s": "split_mnist"}
    on = ", ".join(wrong[name] for name in names)
    assert done.stdout == f"reports/golden.json: golden runs begin with other numbers on {on}: run `dvc repro`\n"


def test_golden_beginnings_that_nobody_computed(broken):
    path = broken / "reports/golden.json"
    numbers = json.loads(path.read_text(encoding="utf-8"))
    numbers["split_mnist"]["numbers"][0] *= 1.001
    path.write_text(json.dumps(numbers), encoding="utf-8")
    (problem,) = check.golden_runs_begin_alike(load())
    assert "golden runs begin with other numbers on split_mnist: run" in problem
    path.unlink()
    assert check.golden_runs_begin_alike(load()) == ["reports/golden.json is missing: run `dvc repro golden`"]


def test_numerics_that_were_changed_without_running_make_the_command_fail(clone, tmp_path):
    copy = clone.copy(tmp_path / "copy")
    edit(copy.folder / "noracl/method/signals.py", "max(1,", "max(2,")
    output = copy.run("python", "-m", "pipeline", "check", ok=False)
    assert "check canaries_agree: FAILED" in output
    (line,) = [line for line in output.splitlines() if "the code gives other numbers" in line]
    told = "reports/canaries: the code gives other numbers for "
    assert line.strip().startswith(f"{told}cifar10_128/cifar10_128-noracl, main/permuted_mnist-noracl, ")
    assert "static" not in output, "no signal is looked at"
    assert "check tables_are_generated: ok" in output
    assert "check results_are_fresh: FAILED" in output
    assert "noracl (modified): stale: canaries: run `dvc repro`" in output
    assert "the reported numbers are not what the code computes" in output
