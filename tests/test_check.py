"""Each way in which a reported number may be wrong makes the check fail, with words: break a copy and look."""

import json

import pytest

from pipeline import check
from pipeline.params import load

#: Rows of a result without which its table is another.
BEHIND = {"theory": "lifetime", "transfer": "growth"}


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


@pytest.mark.parametrize("table", ["theory", "transfer"])
def test_a_summary_that_is_not_what_the_results_give(broken, table):
    path = broken / f"reports/tables/{table}.md"
    edit(path, "Computed on", "Guessed on")
    assert any("Guessed on" in line for line in check.tables_are_generated(load()))
    path.unlink()
    wanted = f"reports/tables/{table}.md is missing: run `dvc repro summaries@{table}`"
    assert check.tables_are_generated(load()) == [wanted]


@pytest.mark.parametrize("table", ["theory", "transfer"])
def test_results_that_were_edited_after_the_summary_was_made(broken, table):
    path = broken / f"reports/results/{table}.csv"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith(BEHIND[table])))
    assert any(f"reports/tables/{table}.csv" in line for line in check.tables_are_generated(load()))


def test_a_study_that_ran_something_else_than_designed(broken):
    path = broken / "reports/results/reconstruction-screen-split_mnist.csv"
    edit(path, "outputs: two,split_mnist,NORACL", "outputs: six,split_mnist,NORACL")
    problems = check.study_is_as_designed(load())
    assert any("lacks 1 runs, such as outputs: two split_mnist NORACL 2 0" in problem for problem in problems)
    assert any("has, unasked, 1 runs, such as outputs: six split_mnist" in problem for problem in problems)


def test_a_study_whose_table_is_not_what_its_results_give(broken):
    path = broken / "reports/tables/reconstruction.md"
    edit(path, "configurations were run", "configurations were thought of")
    assert any("thought of" in line for line in check.tables_are_generated(load()))
    path.unlink()
    wanted = "reports/tables/reconstruction.md is missing: run `dvc repro reconstruction`"
    assert check.tables_are_generated(load()) == [wanted]


def test_a_missing_table(broken):
    (broken / "reports/tables/main.md").unlink()
    assert check.tables_are_generated(load()) == ["reports/tables/main.md is missing: run `dvc repro tables`"]


def test_a_verdict_that_is_not_what_the_results_give(broken):
    path = broken / "reports/claims.csv"
    row = next(line for line in path.read_text().splitlines() if ",undecided," in line)
    edit(path, row, row.replace(",undecided,", ",holds,"))
    problems = check.claims_are_generated(load())
    assert any(line.startswith("-") and ",holds," in line for line in problems)
    assert any(line == f"+{row}" for line in problems)
    path.unlink()
    assert check.claims_are_generated(load()) == ["reports/claims.csv is missing: run `dvc repro claims`"]


def test_a_page_that_is_not_what_its_parts_give(broken):
    path = broken / "reports/index.html"
    edit(path, "which claims hold?", "all claims hold!")
    differs = "reports/index.html differs from what its parts give: run `dvc repro report`"
    assert check.page_is_generated(load()) == [differs]
    path.unlink()
    assert check.page_is_generated(load()) == ["reports/index.html is missing: run `dvc repro report`"]
    (broken / "reports/claims.csv").unlink()
    assert check.page_is_generated(load()) == ["reports/claims.csv is missing: run `dvc repro report`"]


def test_results_that_were_edited_after_the_table_was_made(broken):
    set_cell(broken / "reports/results/split_mnist-static.csv", 2, "params", lambda value: str(int(value) + 1))
    assert check.tables_are_generated(load())
    assert "reports/results/split_mnist-static.csv (modified)" in "\n".join(check.results_are_fresh(load()))


def test_a_readme_table_that_is_not_the_generated_one(broken):
    edit(broken / "README.md", "| 2L NORACL |", "| 3L NORACL |")
    problems = check.readme_is_generated(load())
    assert any(line.startswith("-| 3L NORACL |") for line in problems)


def test_a_readme_table_that_was_never_generated(broken):
    (broken / "reports/tables/timing.md").unlink()
    assert check.readme_is_generated(load()) == ["reports/tables/timing.md is missing: run `python -m pipeline.tables`"]


def test_parameters_that_were_changed_without_running(broken, clone):
    edit(broken / "params.yaml", "gamma: 0.9", "gamma: 0.7")
    problems = "\n".join(check.results_are_fresh(load()))
    assert "train@permuted_mnist-noracl: changed deps: params.yaml" in problems
    assert "run `dvc repro`" in problems
    assert "static" not in problems


def test_numerics_that_were_changed_without_running(broken):
    edit(broken / "noracl/signals.py", "max(1,", "max(2,")
    problems = "\n".join(check.results_are_fresh(load()))
    assert "train@split_mnist-static: changed deps: noracl/signals.py (modified)" in problems


def test_a_golden_run_that_gives_another_value(broken):
    set_cell(broken / "reports/results/split_mnist-noracl.csv", 2, "plastic", lambda value: "1.000")
    problems = check.golden_runs_repeat(load())
    assert any("golden run split_mnist 2L NORACL seed 0" in line for line in problems)
    assert any(line.startswith("-") and line.endswith(",1.000") for line in problems)


def test_on_another_machine_the_golden_run_may_differ_within_the_tolerance(broken):
    for path in (broken / "reports/results").glob("*.provenance.json"):
        path.write_text(json.dumps([{"cpu": "another"}]))
    path = broken / "reports/results/split_mnist-noracl.csv"
    set_cell(path, 1, "accuracy", lambda value: f"{float(value) + 0.04:.6f}")
    assert check.golden_runs_repeat(load()) == []
    set_cell(path, 1, "accuracy", lambda value: f"{float(value) + 0.02:.6f}")
    assert "task 1: accuracy" in "\n".join(check.golden_runs_repeat(load()))


def test_a_number_of_the_paper_with_two_values(broken):
    edit(broken / "reports/paper/sensitivity.csv", "49200,3200,79.4", "49200,3200,79.5")
    (problem,) = check.paper_agrees_with_itself(load())
    assert "acc of NORACL on permuted_mnist is 79.4 in main.csv but 79.5 in sensitivity.csv" in problem


def test_the_command_fails_and_says_so(clone, tmp_path):
    copy = clone.copy(tmp_path / "copy")
    edit(copy.folder / "reports/tables/main.csv", "2L NORACL", "2L NORACLE")
    output = copy.run("python", "-m", "pipeline.check", ok=False)
    assert "check tables_are_generated: FAILED" in output
    assert "the reported numbers are not what the code computes" in output
