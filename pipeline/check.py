"""Stage check: the reported numbers are what the code computes. Exits with a readable diff when they are not."""

import argparse
import difflib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pipeline import verify
from pipeline.config import Params, load
from pipeline.data.manifests import placeholder
from pipeline.evidence import choices, claims, completeness, results
from pipeline.experiments import golden, metrics, staleness
from pipeline.experiments.suites import suites
from pipeline.files import StageError
from pipeline.paths import CANARIES, GOLDEN, METRICS, PAGE, PAPER, PLOTS, README
from pipeline.report import page, readme, tables, verdict_counts
from pipeline.runs import canaries

Check = Callable[[Params], list[str]]
SHOWN = 12  # lines of a problem: more of a diff help nobody
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
    missing = [suite for suite in wrong if not canaries.file_of(suite).exists()]
    other = [suite for suite in wrong if suite not in missing]
    lines = [f"{CANARIES}: the code gives other numbers for {', '.join(other)}: run `dvc repro`"] if other else []
    return lines + ([f"{CANARIES} has no file for {', '.join(missing)}: run `dvc repro canaries`"] if missing else [])


def results_are_complete(params: Params) -> list[str]:
    """The committed results are exactly the runs that params.yaml asks for."""
    return completeness.problems(params)


def strengths_are_chosen(params: Params) -> list[str]:
    """Strengths beyond the paper are those that their rule has chosen."""
    return choices.problems(params)


def metrics_are_generated(params: Params) -> list[str]:
    """What `dvc metrics` and `dvc plots` compare is what the committed results give."""
    stages, problems = metrics.computed(params), list[str]()
    for suite, stage in stages.items():
        problems += differences(metrics.of_suite(suite), stage)
    known = {path for suite in stages for path in (METRICS / f"{suite}.json", PLOTS / f"{suite}.csv")}
    there = {path for folder in (METRICS, PLOTS) for path in folder.rglob("*.*")}
    return problems + [f"{path}: there are no such results: delete it" for path in sorted(there - known)]


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


def not_computed(params: Params) -> dict[str, str]:
    """Suites that need not be there and are not, each with its stage."""
    every = suites(params, placeholder).values()
    return {suite.name: suite.stage for suite in every if results.is_missing(suite.name)}


def results_are_fresh(params: Params) -> list[str]:
    """No stage is stale: nobody changed parameters or numerics, or edited a result, without running the stage."""
    if "DVC_STAGE" in os.environ:  # DVC itself sees to this
        return []
    done = subprocess.run([sys.executable, "-m", "dvc", "status", "--json"], capture_output=True, encoding="utf-8")
    if done.returncode:
        return [f"dvc status failed: {done.stderr.strip()}"]
    causes: dict[str, list[str]] = {}  # each with the stages that it makes stale
    absent = set(not_computed(params).values())  # told of, and no error
    stages = {stage: changes for stage, changes in json.loads(done.stdout or "{}").items() if stage not in absent}
    stages.pop("check", None)  # which this command judges itself
    for stage, changes in stages.items():
        for cause in dict.fromkeys(cause for change in changes for cause in _causes(change)):
            causes.setdefault(cause, []).append(stage)
    return [f"{cause}: {_listed(found)}: run `dvc repro`" for cause, found in causes.items()]


def _causes(change: str | dict[str, dict[str, object]]) -> list[str]:
    """What `dvc status` says about a stage, without what is only not downloaded."""
    if isinstance(change, str):
        return [change]
    found = []
    for paths in change.values():
        for path, state in paths.items():
            if isinstance(state, dict):  # parameters
                found += [f"{path}: {name} ({how})" for name, how in state.items()]
            elif state not in ("deleted", "not in cache") or not path.startswith("data/"):
                found.append(f"{path} ({state})")
    return found


def _listed(names: list[str]) -> str:
    """A few of some names, and how many more there are."""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"stale: {', '.join(names[:4])}{more}"


def golden_runs_begin_alike(params: Params) -> list[str]:
    """The beginnings of the golden runs are the committed ones, on this machine as on any other."""
    try:
        found, known = golden.compute(params), golden.committed()
    except (StageError, OSError) as error:
        return [str(error)]
    wrong = [name for name in {**known, **found} if not golden.agree(found.get(name), known.get(name))]
    return [f"{GOLDEN}: golden runs begin with other numbers on {', '.join(wrong)}: run `dvc repro`"] if wrong else []


def golden_runs_repeat(params: Params) -> list[str]:
    """Golden runs from scratch give the committed digits, or numbers within tolerances.golden_… on other machines."""
    try:
        found = list(verify.repeat(params, golden.golden_runs(params), "golden runs"))
    except (StageError, OSError) as error:
        return [str(error)]
    return [f"golden run {one.run.label}: {problem}" for one in found for problem in one.problems]


ON_INPUTS: list[Check] = [paper_is_as_pinned, paper_agrees_with_itself, canaries_agree, results_are_complete]
#: What is made from results; none of these is looked at while results are missing.
ON_RESULTS: list[Check] = [
    strengths_are_chosen,
    *(metrics_are_generated, tables_are_generated, claims_are_generated, readme_is_generated, page_is_generated),
    results_are_fresh,
]
ON_GOLDEN_RUNS: list[Check] = [golden_runs_begin_alike, golden_runs_repeat]


def main(arguments: list[str]) -> None:
    """Stage check."""
    parser = argparse.ArgumentParser(prog="python -m pipeline check", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without golden runs, which take most of the time")
    quick, params, failed = parser.parse_args(arguments).quick, load(), list[Check]()
    for check in [*ON_INPUTS, *ON_RESULTS, *([] if quick else ON_GOLDEN_RUNS)]:
        if results_are_complete in failed and check not in ON_INPUTS:
            print(f"check {check.__name__}: left out, because results are not complete", flush=True)
            continue
        problems = check(params)
        print(f"check {check.__name__}: {'FAILED' if problems else 'ok'}", flush=True)
        more = [f"… and {len(problems) - SHOWN} more lines"] if len(problems) > SHOWN else []
        for problem in [*problems[:SHOWN], *more]:
            print(f"    {problem}", file=sys.stderr, flush=True)
        failed += [check] if problems else []
    for suite, stage in not_computed(params).items():
        print(f"{suite}: not computed yet: `dvc repro {stage}` computes it")
    if failed:
        sys.exit("check: the reported numbers are not what the code computes, see above")
    if quick:
        print("check: no golden run was recomputed; `python -m pipeline check` does that")
    verdict_counts.main([])
