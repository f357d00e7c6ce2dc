"""The numbers that claims are tested on: ours and the paper's in one shape, by table, benchmark and row."""

from pathlib import Path

import pandas as pd

from pipeline.intervals import EXACT
from pipeline.paths import PAPER, RESULTS, TABLES
from pipeline.statistics import Cell
from pipeline.suites import FAMILIES

Key = tuple[str, str, str]  # table, benchmark (or experiment), row (or method)
Cells = dict[Key, Cell]


def results_by_cell() -> Cells:
    """Every result, by table, benchmark and row; accuracies in percent."""
    cells: Cells = {}
    for path in sorted(RESULTS.glob("*.csv")):
        if path.name.endswith(".signals.csv"):
            continue
        frame = pd.read_csv(path, dtype={"seed": str})
        table, group = path.stem, "experiment" if "experiment" in frame else "benchmark"
        if "method" not in frame:
            frame["method"] = "NORACL"  # transfer has no other
        if "accuracy" in frame:
            frame["accuracy"] *= 100
        if path.stem.startswith("stress-"):
            table = "stress"
        elif path.stem.endswith(FAMILIES):
            table, frame["method"] = "main", frame["layers"].astype(str) + "L " + frame["method"]
        elif path.stem.startswith("ablations-"):
            table = "ablations"
        for (name, row), rows in frame.groupby([group, "method"], sort=False):
            cells[table, str(name), str(row)] = rows
    return cells | costs(TABLES / "cost.csv")


def costs(path: Path) -> Cells:
    """The table of costs, ours or the paper's, a component a cell."""
    if not path.exists():
        return {}
    table = pd.read_csv(path)
    return {
        ("cost", "permuted_mnist", row.component): pd.DataFrame({"seed": [EXACT], "value": [row.seconds]})
        for row in table.itertuples()
    }


def paper_numbers() -> pd.DataFrame:
    """The paper's tables in one, indexed as cells are."""
    frames = []
    for path in sorted(PAPER.glob("*.csv")):
        frame = pd.read_csv(path)
        if {"benchmark", "acc"} <= set(frame):
            frames.append(frame.assign(table=path.stem))
    return pd.concat(frames).set_index(["table", "benchmark", "row"]).sort_index()


def paper_by_cell(paper: pd.DataFrame) -> Cells:
    """The paper's own numbers in the shape of results, so that a claim can be put to them as well."""
    columns = ["accuracy", "params", "width_1", "width_2", "growth_events", "plastic", "locked_1", "locked_2"]
    cells = {}
    for key, cell in paper.iterrows():
        numbers = {"seed": ["paper"], "task": [1], "accuracy": [cell["acc"]], "params": [cell["params"]]}
        cells[key] = pd.DataFrame(numbers).reindex(columns=["seed", "task", *columns])
    return cells | costs(PAPER / "cost.csv")
