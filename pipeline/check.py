"""Stage check: the reported numbers are what the code computes. Exits with a readable diff when they are not."""

import csv
import difflib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pipeline import claims, report, study, study_table, tables, theory_table, transfer_table, verdicts
from pipeline.executor import RunFailed, run_all
from pipeline.files import write_json
from pipeline.params import Params, load_or_exit
from pipeline.paths import CHECK, PAGE, PAPER, README, RESULTS
from pipeline.runs import Run
from pipeline.suites import table1
from pipeline.train import result_rows

#: The stages that make tables.
TABLES_BY_STAGE = {
    "tables": tables.build,
    "reconstruction": study_table.build,
    "summaries@theory": theory_table.build,
    "summaries@transfer": transfer_table.build,
}


def diff(name: str, expected: str, found: str) -> list[str]:
    """A unified diff, empty when the texts are the same."""
    lines = difflib.unified_diff(
        found.splitlines(), expected.splitlines(), f"{name} (committed)", f"{name} (from the results)", lineterm="", n=0
    )
    return list(lines)


def tables_are_generated(params: Params) -> list[str]:
    """Every committed table is what the committed results give."""
    return [problem for stage, build in TABLES_BY_STAGE.items() for problem in differences(build(params), stage)]


def study_is_as_designed(params: Params) -> list[str]:
    """The reconstruction study ran what its design and its rule ask for, and nothing else."""
    return study.unexpected(params)


def claims_are_generated(params: Params) -> list[str]:
    """Every committed verdict on a claim is what the committed results give."""
    return differences(claims.build(params), "claims")


def differences(files: dict[Path, str], stage: str) -> list[str]:
    """What is missing, and what is not as it should be."""
    problems = []
    for path, content in files.items():
        if not path.exists():
            problems.append(f"{path} is missing: run `dvc repro {stage}`")
            continue
        problems += diff(str(path), content, path.read_text())
    return problems


def page_is_generated(params: Params) -> list[str]:
    """The committed page is what its parts give; a diff of a page helps nobody."""
    try:
        expected = report.build(params)
    except FileNotFoundError as error:
        return [f"{error.filename} is missing: run `dvc repro report`"]
    if not PAGE.exists():
        return [f"{PAGE} is missing: run `dvc repro report`"]
    return [] if PAGE.read_text() == expected else [f"{PAGE} differs from what its parts give: run `dvc repro report`"]


def readme_is_generated(params: Params) -> list[str]:
    """The README's tables are the generated ones."""
    text = README.read_text()
    try:
        return diff("README.md", tables.readme_with_tables(text), text)
    except FileNotFoundError as error:
        return [f"{error.filename} is missing: run `python -m pipeline.tables`"]


def results_are_fresh(params: Params) -> list[str]:
    """No stage is stale: nobody changed parameters or numerics, or edited a result, without running the stage.

    Data that is not downloaded is not stale. Inside a DVC stage, DVC itself sees to this.
    """
    if "DVC_STAGE" in os.environ:
        return []
    done = subprocess.run([sys.executable, "-m", "dvc", "status", "--json"], capture_output=True, text=True)
    if done.returncode:
        return [f"dvc status failed: {done.stderr.strip()}"]
    problems = []
    for stage, changes in json.loads(done.stdout or "{}").items():
        if stage == "check":
            continue  # judged by this very command
        for change in changes:
            if isinstance(change, str):
                problems.append(f"{stage}: {change}: run `dvc repro`")
                continue
            for kind, paths in change.items():
                for path, state in paths.items():
                    if not (state in ("deleted", "not in cache") and path.startswith("data/")):
                        problems.append(f"{stage}: {kind}: {path} ({state}): run `dvc repro`")
    return problems


def paper_agrees_with_itself(params: Params) -> list[str]:
    """A number of the paper that stands in several files has one value."""
    columns = ["params", "params_sd", "acc", "acc_sd"]
    problems = []
    first: dict[tuple[str, str], tuple[str, float]] = {}
    for table, row in tables.SAME_IN_THE_PAPER:
        cells = pd.read_csv(PAPER / f"{table}.csv")
        for cell in cells[cells["row"] == row].itertuples():
            for column in columns:
                value = getattr(cell, column)
                where, known = first.setdefault((cell.benchmark, column), (table, value))
                if pd.isna(known):
                    first[cell.benchmark, column] = (table, value)
                elif not pd.isna(value) and value != known:
                    problems.append(
                        f"reports/paper: {column} of NORACL on {cell.benchmark} is {known} in {where}.csv "
                        f"but {value} in {table}.csv"
                    )
    return problems


def golden_runs(params: Params) -> list[Run]:
    """One run per benchmark: NORACL at the largest depth with the first seed."""
    depth, seed = max(params.depths), params.seeds[0]
    runs = [run for benchmark in params.benchmarks for run in table1(params, benchmark, "noracl")]
    return [run for run in runs if len(run.settings.hidden) == depth and run.seed == seed]


def golden_runs_repeat(params: Params) -> list[str]:
    """A golden run per benchmark, computed from scratch, gives the committed result.

    The same digits on the same kind of machine, within tolerances.golden_… elsewhere.
    """
    problems: list[str] = []
    runs = golden_runs(params)
    try:
        records = run_all(runs, params.compute, "golden runs", fresh=True)
    except (RunFailed, FileNotFoundError) as error:
        return [str(error)]
    for run, record in zip(runs, records, strict=True):
        with (RESULTS / f"{run.suite}.csv").open(newline="") as file:
            committed = [
                row
                for row in csv.DictReader(file)
                if (row["layers"], row["seed"]) == (str(len(run.settings.hidden)), str(run.seed))
            ]
        fresh = [
            {name: str(value) for name, value in row.items()}
            for row in result_rows(run, record, max(params.depths), run.suite)
        ]
        known = json.loads((RESULTS / f"{run.suite}.provenance.json").read_text())
        if record.machine in known:
            problems += diff(f"golden run {run.label}", _text(fresh), _text(committed))
        else:
            problems += [f"golden run {run.label}: {p}" for p in far_apart(fresh, committed, params)]
    return problems


def _text(rows: list[dict[str, str]]) -> str:
    return "\n".join(",".join(row.values()) for row in rows)


def far_apart(fresh: list[dict[str, str]], committed: list[dict[str, str]], params: Params) -> list[str]:
    """Where two histories of one run differ by more than another CPU's rounding explains."""
    if len(fresh) != len(committed):
        return [f"{len(fresh)} tasks, {len(committed)} are committed"]
    problems = []
    for new, old in zip(fresh, committed, strict=True):
        accuracy = abs(float(new["accuracy"]) - float(old["accuracy"]))
        parameters = abs(int(new["params"]) / int(old["params"]) - 1)
        if accuracy > params.tolerances.golden_accuracy or parameters > params.tolerances.golden_params:
            problems.append(
                f"task {new['task']}: accuracy {new['accuracy']}, params {new['params']}; "
                f"committed {old['accuracy']}, {old['params']}"
            )
    return problems


CHECKS: list[Callable[[Params], list[str]]] = [
    paper_agrees_with_itself,
    study_is_as_designed,
    tables_are_generated,
    claims_are_generated,
    readme_is_generated,
    page_is_generated,
    results_are_fresh,
    golden_runs_repeat,
]


def main() -> None:
    """Command line of the stage."""
    params = load_or_exit()
    failed = False
    for check in CHECKS:
        problems = check(params)
        print(f"check {check.__name__}: {'FAILED' if problems else 'ok'}", flush=True)
        for problem in problems:
            print(f"    {problem}", file=sys.stderr)
        failed = failed or bool(problems)
    if failed:
        sys.exit("check: the reported numbers are not what the code computes, see above")
    write_json(CHECK, {check.__name__: "ok" for check in CHECKS})
    verdicts.main()


if __name__ == "__main__":
    main()
