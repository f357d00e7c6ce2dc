"""The one reader of results: ours and the paper's, by table, benchmark and row."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from pipeline.paths import PAPER, RESULTS, TIMING
from pipeline.runs.provenance import distinct

Key = tuple[str, str, str]  # table, benchmark (or experiment), row (or method)
Cells = dict[Key, pd.DataFrame]
EXACT = "all"  # the seed of a number that belongs to no seed
MEAN = "mean"  # the seed of a mean over the seeds that the authors released
RELEASED = ["row", "benchmark", "params", "params_sd", "acc", "acc_sd", "source"]
#: One result of the paper that it prints in several tables: (table, row) for each of them.
SAME_IN_THE_PAPER = [("main", "2L NORACL"), ("ablations", "full"), ("sensitivity", "default")]
#: Results that are not one row per run and task.
OTHER = ("theory", "transfer")
BEYOND = "beyond"  # the folder of results that answer what the paper does not show
BOUNDS = f"{BEYOND}/bounds"
READINGS = "readings"  # the folder of results under other readings of the paper, which no table mixes with the rest


def counted_once(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells without those that an earlier table of the paper has already."""
    names = pd.MultiIndex.from_frame(cells[["table", "row"]])
    return cells[~names.isin(SAME_IN_THE_PAPER[1:])]


def row_name(table: str, layers: int, method: str) -> str:
    """How a table calls a method: Table 1 has networks of several depths."""
    return f"{layers}L {method}" if table == "main" else method


def runs(*tables: str) -> pd.DataFrame:
    """The results of some tables, or of all of them: one row per run and task, with its table, suite and row."""
    every = [path for path in sorted(RESULTS.glob("*/*/runs.csv")) if path.parts[-3] != READINGS]
    paths = [path for path in every if not tables or path.parts[-3] in tables]
    if not paths:
        raise FileNotFoundError(f"{RESULTS} has no results of {', '.join(tables) or 'any table'}: run `dvc repro`")
    return pd.concat(map(_read, paths), ignore_index=True)


def suite(name: str) -> pd.DataFrame:
    """The results of one suite, as ``runs`` has them."""
    return _read(RESULTS / name / "runs.csv")


def _read(path: Path) -> pd.DataFrame:
    """One suite's file."""
    return _with_rows(pd.read_csv(path).assign(table=path.parts[-3], suite="/".join(path.parts[-3:-1])))


def with_bounds(found: pd.DataFrame) -> pd.DataFrame:
    """The results of a table, and as further rows of it the bounds on its benchmarks, if they are computed."""
    if is_missing(BOUNDS):
        return found
    bounds = suite(BOUNDS)
    own = bounds[bounds["benchmark"].isin(found["benchmark"])].assign(table=found["table"].iloc[0])
    return pd.concat([found, _with_rows(own)], ignore_index=True)


def _with_rows(found: pd.DataFrame) -> pd.DataFrame:
    """Runs with the rows that they are in."""
    names = found[["table", "layers", "method"]].itertuples(index=False)
    return found.assign(row=[row_name(*name) for name in names])


def missing_readings(names: Iterable[str]) -> list[str]:
    """Of these readings, those that are not computed yet."""
    return [name for name in names if is_missing(f"{READINGS}/{name}")]


def is_missing(suite: str) -> bool:
    """Whether a suite is one that nobody has computed yet, and need not have: there is not even a folder for it."""
    return suite.startswith((f"{READINGS}/", f"{BEYOND}/")) and not (RESULTS / suite).exists()


def under_reading(name: str) -> pd.DataFrame | None:
    """The results under a reading, as rows of Table 1 and of the ablations; None if they are not computed.

    NORACL is in both tables, as in the paper.
    """
    path = RESULTS / READINGS / name / "runs.csv"
    if not path.exists():
        return None
    found = pd.read_csv(path).assign(suite=f"{READINGS}/{name}")
    variant, full = found["method"].str.match("full$|init |trigger "), found["method"] == "full"
    main = pd.concat([found[~variant], found[full].assign(method="NORACL")]).assign(table="main")
    return _with_rows(pd.concat([main, found[variant].assign(table="ablations")], ignore_index=True))


def signals(suite: str) -> pd.DataFrame:
    """What the growth rule saw in the runs of a suite: one row per run, epoch and layer."""
    return pd.read_csv(RESULTS / suite / "signals.csv")


def other(name: str) -> pd.DataFrame:
    """The results of ``theory`` or ``transfer``."""
    return pd.read_csv(RESULTS / name / f"{name}.csv")


def paper(table: str) -> pd.DataFrame:
    """The paper's numbers of a table; none where it has no such table."""
    path = PAPER / f"{table}.csv"
    return pd.read_csv(path) if path.exists() else pd.read_csv(PAPER / "main.csv").iloc[:0]


def released(table: str) -> pd.DataFrame:
    """What the authors released for cells of a table: mean and deviation over their seeds, and whence we know it."""
    found = pd.read_csv(PAPER / "released.csv", dtype={"seed": str})
    (first, noracl), same = SAME_IN_THE_PAPER[0], dict(SAME_IN_THE_PAPER)
    if table in same:
        shared = found[(found["table"] == first) & (found["row"] == noracl)]
        found = pd.concat([found, shared.assign(table=table, row=same[table])]).drop_duplicates()
    means = found[(found["table"] == table) & (found["seed"] == MEAN)]
    return means.rename(columns={"accuracy": "acc", "accuracy_sd": "acc_sd"})[RELEASED].reset_index(drop=True)


def last_task(results: pd.DataFrame) -> pd.DataFrame:
    """The last task of each run, in the order of the runs; a run that could not go on has no numbers there."""
    run = ["suite", "row", "benchmark", "layers", "seed"]
    return results[results["task"] == results.groupby(run)["task"].transform("max")]


def machines(*tables: str) -> list[dict[str, str]]:
    """Every machine that computed a run of these tables."""
    paths = [path for table in tables for path in sorted((RESULTS / table).rglob("provenance.json"))]
    return distinct(one for path in paths for one in json.loads(path.read_text(encoding="utf-8")))


def by_cell(found: pd.DataFrame) -> Cells:
    """Runs by table, benchmark and row; accuracies in percent."""
    found = found.astype({"seed": str}).assign(accuracy=found["accuracy"] * 100)
    return dict(iter(found.groupby(["table", "benchmark", "row"])))


def results_by_cell() -> Cells:
    """Every result, by table, benchmark and row; accuracies in percent."""
    cells = by_cell(runs())
    for name in OTHER:
        frame = other(name).assign(suite=name).astype({"seed": str})
        methods = frame.get("method", pd.Series("NORACL", frame.index))  # transfer has no other
        cells |= {(name, *which): rows for which, rows in frame.groupby([frame["experiment"], methods], sort=False)}
    return cells | costs(TIMING / "cost" / "cost.csv")


def costs(path: Path) -> Cells:
    """The table of costs, ours or the paper's, with one cell per component."""
    if not path.exists():
        return {}
    frame = pd.read_csv(path).rename(columns={"seconds": "value"}).assign(seed=EXACT, suite="cost")
    return {("cost", "permuted_mnist", component): rows for component, rows in frame.groupby("component")}


def paper_numbers() -> pd.DataFrame:
    """The paper's tables in one, indexed as cells are."""
    frames = {path.stem: pd.read_csv(path) for path in PAPER.glob("*.csv")}
    cells = {name: frame.set_index(["benchmark", "row"]) for name, frame in frames.items() if "acc" in frame}
    return pd.concat(cells, names=["table"]).sort_index()


def paper_by_cell(numbers: pd.DataFrame) -> Cells:
    """The paper's own numbers in the shape of results, so that a claim can be put to them as well."""
    printed = numbers.rename(columns={"acc": "accuracy"}).assign(seed="paper", task=1, suite="paper")
    printed[["width_1", "width_2", "growth_events", "plastic", "locked_1", "locked_2"]] = math.nan
    return {key: printed.loc[[key]] for key in printed.index} | costs(PAPER / "cost.csv")
