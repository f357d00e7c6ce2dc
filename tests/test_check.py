"""Each way in which a reported number may be wrong makes the check fail, with words: break a copy and look."""

import json
import shutil
import subprocess
import sys

import pytest

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
    rows = [line.split(",") for line in path.read_text().splitlines()]
    at = rows[0].index(column)
    rows[row][at] = change(rows[row][at])
    path.write_text("".join(",".join(cells) + "\n" for cells in rows))


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_nothing_is_wrong_with_an_untouched_copy(broken):
    for one in check.CHECKS:
        assert one(load()) == []


def test_a_table_that_is_not_what_the_results_give(broken):
    path = broken / "reports/tables/main.csv"
    row = path.read_text().splitlines()[1]
    edit(path, row, row.replace(",1,", ",9,", 1))
    problems = check.tables_are_generated(load())
    assert any(line.startswith("-") and ",9," in line for line in problems)
    assert any(line == f"+{row}" for line in problems)


@pytest.mark.parametrize("table", ["theory", "hours", "cost", "contradictions", "readings"])
def test_a_table_of_another_shape_that_is_not_what_the_results_give(broken, table):
    path = broken / f"reports/tables/{table}.md"
    path.write_text(f"{path.read_text()}Guessed.\n")
    assert check.tables_are_generated(load())[-1] == "-Guessed."
    path.unlink()
    assert check.tables_are_generated(load()) == [f"reports/tables/{table}.md is missing: run `dvc repro tables`"]


@pytest.mark.parametrize(("table", "rows"), [("theory", "lifetime")])
def test_results_that_were_edited_after_their_table_was_made(broken, table, rows):
    path = broken / f"reports/results/{table}/{table}.csv"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith(rows)))
    assert any(f"reports/tables/{table}.csv" in line for line in check.tables_are_generated(load()))


def test_a_missing_table(broken):
    (broken / "reports/tables/main.md").unlink()
    assert check.tables_are_generated(load()) == ["reports/tables/main.md is missing: run `dvc repro tables`"]
    assert check.readme_is_generated(load()) == ["reports/tables/main.md is missing: run `dvc repro tables`"]


def test_a_verdict_that_is_not_what_the_results_give(broken):
    path = broken / "reports/claims.csv"
    row = next(line for line in path.read_text().splitlines() if ",undecided," in line)
    edit(path, row, row.replace(",undecided,", ",holds,"))
    problems = check.claims_are_generated(load())
    assert any(line.startswith("-") and ",holds," in line for line in problems)
    assert any(line == f"+{row}" for line in problems)
    path.unlink()
    assert check.claims_are_generated(load()) == ["reports/claims.csv is missing: run `dvc repro claims`"]


def test_a_verdict_under_a_reading_that_is_not_what_the_results_give(broken):
    path = broken / "reports/tables/readings.csv"
    row = next(line for line in path.read_text().splitlines() if ",boost," in line and ",undecided," in line)
    edit(path, row, row.replace(",undecided,", ",holds,"))
    assert f"+{row}" in check.tables_are_generated(load())


def test_a_reading_that_is_not_computed_is_told_of(broken, monkeypatch, capsys):
    shutil.rmtree(broken / "reports/results/readings")
    assert check.results_are_complete(load()) == []
    assert "reading@boost" not in "\n".join(check.results_are_fresh(load()))
    monkeypatch.setattr(check, "CHECKS", [check.results_are_complete])
    check.main([])
    assert "reading boost: not computed yet: `dvc repro reading@boost` computes it" in capsys.readouterr().out


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
    assert f"static@split_mnist: changed outs: {folder} (modified)" in "\n".join(check.results_are_fresh(load()))


def test_a_readme_table_that_is_not_the_generated_one(broken):
    edit(broken / "README.md", "| 2L NORACL |", "| 3L NORACL |")
    problems = check.readme_is_generated(load())
    assert any(line.startswith("-| 3L NORACL |") for line in problems)


def test_parameters_that_were_changed_without_running(broken):
    edit(broken / "params.yaml", "gamma: 0.9", "gamma: 0.7")
    problems = "\n".join(check.results_are_fresh(load()))
    assert "noracl@permuted_mnist: changed deps: params.yaml" in problems
    assert "run `dvc repro`" in problems
    assert "static" not in problems


def test_canaries_that_nobody_computed(broken):
    edit(broken / "reports/canaries/theory.json", '"labels": [\n', '"labels": [\n   "one more",\n')
    (broken / "reports/canaries/main/split_mnist-static.json").unlink()
    assert check.canaries_agree(load()) == [
        f"reports/canaries/{suite}.json: the code gives other numbers: run `dvc repro`"
        for suite in ("main/split_mnist-static", "theory")
    ]


def test_a_golden_run_that_gives_another_value(broken):
    set_cell(broken / SPLIT, 2, "plastic", lambda value: "1.000")
    problems = check.golden_runs_repeat(load())
    assert any("golden run split_mnist 2L NORACL seed 0" in line for line in problems)
    assert any(line.startswith("-") and line.endswith(",1.000") for line in problems)


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
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not all(w in line for w in words)))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda path: drop(path, ",small,"),
            "runs.csv lacks 1 runs that params.yaml asks for, first split_mnist small 2 0",
        ),
        (
            lambda path: path.write_text(path.read_text() + path.read_text().splitlines()[-1].replace(",0,", ",7,", 1)),
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


def elsewhere(folder):
    """Let the results come from another kind of machine."""
    for path in (folder / "reports/results").rglob("provenance.json"):
        path.write_text(json.dumps([{"cpu": "another"}]))


@pytest.mark.parametrize(
    ("file", "old", "new", "names"),
    [
        ("pipeline/data/streams.py", "255 * manifest.deviation", "256 * manifest.deviation", "prs"),
        ("pipeline/data/mnist.py", "[:keep]]", "[:keep].flip(0)]", "prs"),
        ("noracl/method/fisher.py", "total.div_(terms)", "total.div_(terms + 1)", "prs"),
        ("params.yaml", "strength: 2000.0", "strength: 2040.0", "r"),
    ],
)
def test_a_small_change_is_noticed_on_another_kind_of_machine(broken, file, old, new, names):
    elsewhere(broken)
    edit(broken / file, old, new)
    code = "from pipeline import check, config; print(*check.golden_runs_begin_alike(config.load()), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wrong = {"p": "permuted_mnist", "r": "rotated_mnist", "s": "split_mnist"}
    assert done.stdout.splitlines() == [
        f"reports/golden.json: the golden run on {wrong[name]} begins with other numbers: run `dvc repro`"
        for name in names
    ]


def test_golden_beginnings_that_nobody_computed(broken):
    path = broken / "reports/golden.json"
    numbers = json.loads(path.read_text())
    numbers["split_mnist"]["numbers"][0] *= 1.001
    path.write_text(json.dumps(numbers))
    (problem,) = check.golden_runs_begin_alike(load())
    assert "the golden run on split_mnist begins with other numbers" in problem
    path.unlink()
    assert check.golden_runs_begin_alike(load()) == ["reports/golden.json is missing: run `dvc repro golden`"]


def test_numerics_that_were_changed_without_running_make_the_command_fail(clone, tmp_path):
    copy = clone.copy(tmp_path / "copy")
    edit(copy.folder / "noracl/method/signals.py", "max(1,", "max(2,")
    output = copy.run("python", "-m", "pipeline", "check", ok=False)
    assert "check canaries_agree: FAILED" in output
    assert "reports/canaries/main/split_mnist-noracl.json: the code gives other numbers: run `dvc repro`" in output
    assert "static" not in output, "no signal is looked at"
    assert "check tables_are_generated: ok" in output
    assert "check results_are_fresh: FAILED" in output
    assert "canaries: changed deps: noracl (modified): run `dvc repro`" in output
    assert "the reported numbers are not what the code computes" in output
