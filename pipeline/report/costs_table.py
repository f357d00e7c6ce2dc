"""Tables of time: seconds per component (appendix A.7), and hours per table of this report."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline import markdown
from pipeline.config import Params
from pipeline.evidence.results import BEYOND, is_missing
from pipeline.experiments.suites import Suite, suites
from pipeline.paths import TABLES, TIMING

CORES = (1, 2, 16)
SHOWN = {
    "stress": "stress tests"
}  # tables that have another name here; what goes beyond the paper has a row per question


def timings(name: str, stage: str) -> pd.DataFrame:
    """A file of seconds that a stage wrote."""
    path = TIMING / f"{name}.csv"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `dvc repro {stage}`")
    return pd.read_csv(path)


def cost_markdown() -> str:
    """Seconds per component of NORACL, ours beside the paper's."""
    rows = timings("cost/cost", "cost").astype(object).fillna("").values
    (made,) = json.loads((TIMING / "cost" / "provenance.json").read_text(encoding="utf-8"))
    heads = ("component", "", "seconds", "%", "paper: seconds (RTX 4090)", "%")
    where = f"{made['cpu']} ({made['instructions']}), torch {made['torch']}, Python {made['python']}"
    note = f"Wall-clock: means over {made['runs']} runs, one core each, side by side, on {where}."
    return markdown.table(heads, rows, note)


def seconds_of(suite: Suite, counted: dict[str, int]) -> list[float]:
    """Seconds that the runs of a suite took the processor, without runs that a suite before it has.

    ``counted`` holds the lengths of the streams of runs that are counted: a short one is the start of a long one.
    """
    spent = timings(suite.name, suite.stage).set_index(["benchmark", "method", "layers", "seed"])["cpu"]
    seconds = []
    for run in suite.runs():
        name, key = (run.benchmark, run.method, run.layers, run.seed), run.key
        if name in spent.index and run.tasks > counted.get(key, 0):
            seconds.append(float(spent.loc[name]))
            counted[key] = run.tasks
    return seconds


def hours_markdown(params: Params) -> str:
    """How long each table takes, from the measured seconds of its runs."""
    tables, counted, missing = dict[str, list[float]](), dict[str, int](), list[str]()
    for suite in suites(params).values():
        if is_missing(suite.name):
            missing.append(suite.name)
            continue
        table = suite.name.replace("/", ": ") if suite.table == BEYOND else SHOWN.get(suite.table, suite.table)
        tables.setdefault(table, []).extend(seconds_of(suite, counted))
    rows, total = [], np.zeros(len(CORES))
    for table, seconds in tables.items():
        hours = np.maximum(np.divide(sum(seconds), CORES), max(seconds, default=0)) / 3600
        total += hours
        rows.append([table, len(seconds), *(f"{h:.2f} h" for h in hours)])
    rows.append(["all", sum(map(len, tables.values())), *(f"**{h:.2f} h**" for h in total)])
    note = "A run takes one core. A run that two tables share is counted in the first. No table ends before its "
    note += "longest run. Hours are those of the processor."
    note += f" Not computed yet, and not counted: {', '.join(missing)}." if missing else ""
    return markdown.table(("table", "runs", "1 core", "2 cores", "16 cores (by calculation)"), rows, note)


def build(params: Params) -> dict[Path, str]:
    """Both files, by path."""
    return {TABLES / "cost.md": cost_markdown(), TABLES / "hours.md": hours_markdown(params)}
