"""Stage check: the reported numbers are what the code computes. Exits with a readable diff when they are not."""

import difflib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pipeline.config import Params, load
from pipeline.evidence import claims, completeness, results
from pipeline.experiments import golden, staleness
from pipeline.experiments.train import result_rows
from pipeline.files import StageError
from pipeline.paths import GOLDEN, PAGE, PAPER, README, RESULTS
from pipeline.report import page, readme, tables, verdict_counts
from pipeline.runs.executor import run_all
from pipeline.runs.run import Run

Rows = list[dict[str, str]]
PINS = PAPER / "SHA256SUMS"
PIN = f"cd {PAPER} && sha256sum *.csv > {PINS.name}"


def diff(name: str, expected: str, found: str) -> list[str]:
    """A unified diff, empty when the texts are the same."""
    sides = f"{name} (committed)", f"{name} (computed now)"
    return list(difflib.unified_diff(found.splitlines(), expected.splitlines(), *sides, lineterm="", n=0))


def differences(files: dict[Path, str], stage: str) -> list[str]:
    """What is missing, and what is not as it should be."""
    problems = []
    for path, content in files.items():
        missing = [f"{path} is missing: run `dvc repro {stage}`"]
        problems += diff(str(path), content, path.read_text(encoding="utf-8")) if path.exists() else missing
    return problems


def paper_is_as_pinned(params: Params) -> list[str]:
    """The paper's numbers are those that somebody pinned on purpose: tables and claims would take in any others."""
    lines = PINS.read_text(encoding="utf-8").splitlines() if PINS.exists() else []
    pinned = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in PAPER.glob("*.csv")}
    problems = []
    for name in sorted(name for name in pinned | found if pinned.get(name) != found.get(name)):
        state = "is missing" if name not in found else f"differs from {PINS}" if name in pinned else f"is not in {PINS}"
        problems.append(f"{PAPER / name} {state}: undo that, or, if the paper says so, pin it with `{PIN}`")
    return problems


def paper_agrees_with_itself(params: Params) -> list[str]:
    """A number of the paper that is in several files has one value."""
    same = {}
    for table, row in results.SAME_IN_THE_PAPER:
        cells = results.paper(table).set_index("benchmark")
        same[table] = cells[cells["row"] == row][["params", "params_sd", "acc", "acc_sd"]].stack()
    problems = []
    for (benchmark, column), values in pd.DataFrame(same).iterrows():
        known = values.dropna()
        problems += [
            f"reports/paper: {column} of NORACL on {benchmark} is {known.iloc[0]:g} in {known.index[0]}.csv "
            f"but {value:g} in {table}.csv"
            for table, value in known.items()
            if value != known.iloc[0]
        ]
    return problems


def canaries_agree(params: Params) -> list[str]:
    """The numerics give the numbers of the committed canaries, on this machine as on any other."""
    wrong = staleness.disagreeing(staleness.compute(params))
    return [f"reports/canaries/{suite}.json: the code gives other numbers: run `dvc repro`" for suite in wrong]


def results_are_complete(params: Params) -> list[str]:
    """The committed results are exactly the runs that params.yaml asks for."""
    return completeness.problems(params)


def tables_are_generated(params: Params) -> list[str]:
    """Every committed table is what the committed results give."""
    return differences(tables.build(params), "tables")


def claims_are_generated(params: Params) -> list[str]:
    """Every committed verdict on a claim is what the committed results give."""
    return differences(claims.build(params), "claims")


def page_is_generated(params: Params) -> list[str]:
    """The committed page is what its parts give; a diff of a page helps nobody."""
    try:
        same = page.build(params) == PAGE.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        return [f"{error.filename} is missing: run `dvc repro page`"]
    return [] if same else [f"{PAGE} differs from what its parts give: run `dvc repro page`"]


def readme_is_generated(params: Params) -> list[str]:
    """The README's tables are the generated ones."""
    text = README.read_text(encoding="utf-8")
    try:
        return diff("README.md", readme.with_tables(text), text)
    except FileNotFoundError as error:
        return [f"{error.filename} is missing: run `dvc repro tables`"]


def results_are_fresh(params: Params) -> list[str]:
    """No stage is stale: nobody changed parameters or numerics, or edited a result, without running the stage."""
    if "DVC_STAGE" in os.environ:  # DVC itself sees to this
        return []
    done = subprocess.run([sys.executable, "-m", "dvc", "status", "--json"], capture_output=True, text=True)
    if done.returncode:
        return [f"dvc status failed: {done.stderr.strip()}"]
    problems, absent = [], {f"reading@{name}" for name in results.missing_readings(params.readings)}
    for stage, changes in json.loads(done.stdout or "{}").items():
        if stage in absent:  # which is told of, and is no error
            continue
        for change in changes if stage != "check" else []:  # which this command judges itself
            if isinstance(change, str):
                problems.append(f"{stage}: {change}: run `dvc repro`")
                continue
            for kind, paths in change.items():
                for path, state in paths.items():
                    if state not in ("deleted", "not in cache") or not path.startswith("data/"):  # not downloaded
                        problems.append(f"{stage}: {kind}: {path} ({state}): run `dvc repro`")
    return problems


def committed_and_fresh(params: Params, runs: list[Run], title: str) -> list[tuple[Run, dict[str, str], Rows, Rows]]:
    """Runs computed from scratch: each with the machine, the committed rows and the fresh ones."""
    found = []
    for run, record in zip(runs, run_all(runs, params.compute, title, fresh=True), strict=True):
        table = pd.read_csv(RESULTS / run.suite / "runs.csv", dtype=str, keep_default_na=False)
        name = pd.Series({"method": run.method, "layers": str(run.layers), "seed": str(run.seed)})
        committed = table[(table[name.index] == name).all(axis=1)].to_dict("records")
        rows = result_rows(run, record, sum(table.columns.str.startswith("width_")))
        found.append((run, record.machine, committed, [{key: str(row[key]) for key in row} for row in rows]))
    return found


def far_apart(fresh: Rows, committed: Rows, params: Params) -> list[str]:
    """Where two histories of one run differ by more than another CPU's rounding explains."""
    if len(fresh) != len(committed):
        return [f"{len(fresh)} tasks, {len(committed)} are committed"]
    problems, limits = [], params.tolerances
    for new, old in zip(fresh, committed, strict=True):
        accuracy = abs(float(new["accuracy"]) - float(old["accuracy"]))
        if accuracy > limits.golden_accuracy or abs(int(new["params"]) / int(old["params"]) - 1) > limits.golden_params:
            problems.append(
                f"task {new['task']}: accuracy {new['accuracy']}, params {new['params']}; "
                f"committed {old['accuracy']}, {old['params']}"
            )
    return problems


def golden_runs_begin_alike(params: Params) -> list[str]:
    """The beginnings of the golden runs are the committed ones, on this machine as on any other."""
    try:
        found, known = golden.compute(params), golden.committed()
    except (StageError, OSError) as error:
        return [str(error)]
    wrong = [name for name in {**known, **found} if not golden.agree(found.get(name), known.get(name))]
    return [f"{GOLDEN}: the golden run on {name} begins with other numbers: run `dvc repro`" for name in wrong]


def golden_runs_repeat(params: Params) -> list[str]:
    """Golden runs from scratch give the committed digits, or numbers within tolerances.golden_… on other machines."""
    problems: list[str] = []
    try:
        found = committed_and_fresh(params, golden.golden_runs(params), "golden runs")
    except (StageError, OSError) as error:
        return [str(error)]
    for run, machine, committed, fresh in found:
        if machine in json.loads((RESULTS / run.suite / "provenance.json").read_text(encoding="utf-8")):
            new, old = ("\n".join(",".join(row.values()) for row in rows) for rows in (fresh, committed))
            problems += diff(f"golden run {run.label}", new, old)
        else:
            problems += [f"golden run {run.label}: {p}" for p in far_apart(fresh, committed, params)]
    return problems


CHECKS: list[Callable[[Params], list[str]]] = [
    *(paper_is_as_pinned, paper_agrees_with_itself, canaries_agree, results_are_complete, tables_are_generated),
    *(claims_are_generated, readme_is_generated, page_is_generated, results_are_fresh),
    *(golden_runs_begin_alike, golden_runs_repeat),
]


def main(arguments: list[str]) -> None:
    """Stage check."""
    params = load()
    failed = False
    for check in CHECKS:
        problems = check(params)
        print(f"check {check.__name__}: {'FAILED' if problems else 'ok'}", flush=True)
        for problem in problems:
            print(f"    {problem}", file=sys.stderr)
        failed |= bool(problems)
    for name in results.missing_readings(params.readings):
        print(f"reading {name}: not computed yet: `dvc repro reading@{name}` computes it")
    if failed:
        sys.exit("check: the reported numbers are not what the code computes, see above")
    verdict_counts.main([])
