"""Results are exactly the runs that params.yaml asks for: none is missing or left over, and each has all its tasks."""

from collections.abc import Sequence

import pandas as pd

from pipeline.config import Params
from pipeline.data.manifests import placeholder
from pipeline.evidence.results import EXACT, OTHER, is_missing, other
from pipeline.experiments.suites import Suite, suites
from pipeline.experiments.train import LABELS
from pipeline.paths import RESULTS
from pipeline.runs.run import Run


def problems(params: Params) -> list[str]:
    """Everything that is missing, left over or impossible, one line per cause."""
    asked = suites(params, placeholder)
    found = {path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("*") if path.is_file()}
    unknown = sorted(found - set(asked) - set(OTHER))
    lines = [f"{RESULTS / name}: params.yaml asks for no such suite: delete it" for name in unknown]
    new = set[str]()
    for name, benchmark in params.benchmarks.items():
        both = [f"{benchmark.table}/{name}-{networks}" for networks in ("static", "noracl")]
        if not any((RESULTS / suite).exists() for suite in both):
            new |= set(both)
            stages = " ".join(asked[suite].stage for suite in both)
            lines.append(f"params.yaml: benchmarks.{name} has no results yet: run `dvc repro {stages}`")
    for suite in asked.values():
        if is_missing(suite.name) or suite.name in new:  # a missing reading is no error: the report says so
            continue
        lines += [f"{RESULTS / suite.name}/{line}: run `dvc repro {suite.stage}`" for line in of_suite(suite)]
    for name in OTHER:
        seeds = set(other(name)["seed"].astype(str)) - {EXACT} if (RESULTS / name / f"{name}.csv").exists() else set()
        if seeds != set(map(str, params.seeds)):
            held = f"holds seeds {', '.join(sorted(seeds)) or 'none'}"
            lines.append(f"{RESULTS / name}/{name}.csv {held}, not those of params.yaml: run `dvc repro {name}`")
    return lines


def of_suite(suite: Suite) -> list[str]:
    """What is wrong with the files of one suite."""
    runs = {(run.benchmark, run.method, str(run.layers), str(run.seed)): run for run in suite.runs()}
    files = ["runs.csv", "provenance.json", *(["signals.csv"] if suite.signals else [])]
    there = {path.name for path in (RESULTS / suite.name).glob("*")}
    if there != set(files):
        return [f" holds {', '.join(sorted(there)) or 'nothing'}, not {', '.join(files)}"]
    table = pd.read_csv(RESULTS / suite.name / "runs.csv", dtype=str, keep_default_na=False)
    groups = {tuple(map(str, key)): rows for key, rows in table.groupby(list(LABELS), sort=False)}
    lines = _listed("runs.csv lacks", [key for key in runs if key not in groups], "that params.yaml asks for")
    lines += _listed("runs.csv holds", [key for key in groups if key not in runs], "that params.yaml does not ask for")
    wrong = [key for key, rows in groups.items() if key in runs and not possible(runs[key], rows)]
    lines += _listed("runs.csv holds", wrong, "that cannot be: tasks, shares or sizes do not add up")
    if suite.signals:
        seen = pd.read_csv(RESULTS / suite.name / "signals.csv", dtype=str, keep_default_na=False)
        strange = [key for key in seen[list(LABELS)].drop_duplicates().itertuples(index=False) if key not in runs]
        lines += _listed("signals.csv holds", [tuple(key) for key in strange], "that params.yaml does not ask for")
    return lines


def _listed(what: str, keys: Sequence[tuple[str, ...]], which: str) -> list[str]:
    """One line for all runs with the same problem."""
    return [f"{what} {len(keys)} runs {which}, first {' '.join(keys[0])}"] if keys else []


def possible(run: Run, rows: pd.DataFrame) -> bool:
    """Whether rows can be what this run left: all tasks in order, shares in [0, 1], sizes that the widths give."""
    if list(rows["task"]) == ["0"]:  # the method could not go on
        return True
    if list(rows["task"]) != [str(task) for task in range(1, run.tasks + 1)]:
        return False
    shares = rows.filter(regex="^(accuracy|locked_)").iloc[:, : 3 + run.layers].apply(pd.to_numeric, errors="coerce")
    widths = rows[[f"width_{layer}" for layer in range(1, run.layers + 1)]]
    sizes = [str(run.size([*map(int, row)])) for row in widths.itertuples(index=False)]
    return bool(((shares >= 0) & (shares <= 1)).all(axis=None)) and list(rows["params"]) == sizes
