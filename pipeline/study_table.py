"""Table reconstruction: every configuration that was run, and its distance to the paper on both halves of the cells."""

import json
from pathlib import Path

import pandas as pd

from pipeline.params import Params
from pipeline.paths import PAPER, RESULTS, TABLES
from pipeline.study import BASE, distance, distances
from pipeline.tables import provenance_line

PARTS = ("one at a time", "factorial", "promoted", "finalist")
SHOWN = 12  # of the factorial's configurations, nearest first
HEADS = ("configuration", "seeds", "choosing half", "held-back half")


def configurations(results: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration: how far it came, its distances, and its accuracies and NORACL's parameters."""
    reached = results.groupby("configuration", sort=False)["part"].agg(lambda parts: max(parts, key=PARTS.index))
    once = results.drop_duplicates(["configuration", "benchmark", "row", "seed"])
    cells = distances(once, paper)
    rows = []
    for name, part in cells.groupby("configuration", sort=False):
        choosing, held_back = part[part["choosing"]], part[~part["choosing"]]
        row: dict[str, object] = {"configuration": name, "part": reached[name], "seeds": int(part["seeds"].max())}
        row |= {"distance_choosing": distance(choosing), "cells_choosing": len(choosing)}
        row |= {"distance_held_back": distance(held_back), "cells_held_back": len(held_back)}
        for benchmark in dict.fromkeys(cells["benchmark"]):
            row[f"distance_choosing {benchmark}"] = distance(choosing[choosing["benchmark"] == benchmark])
        for cell in part.sort_values(["benchmark", "row"], kind="stable").itertuples():
            row[f"{cell.benchmark} {cell.row} {cell.quantity}"] = cell.ours
        rows.append(row)
    return pd.DataFrame(rows).round(2)


def open_points(params: Params, results: pd.DataFrame) -> pd.DataFrame:
    """One row per open point: ours, the paper's, and the distances of accuracy and parameters."""
    rows = []
    for name, point in params.reconstruction.open_points.items():
        paper = pd.read_csv(PAPER / f"{point.table}.csv")
        cells = distances(results[results["configuration"] == name], paper).set_index("quantity")
        row: dict[str, object] = {"reading": name, "table": point.table, "row": point.row}
        for quantity in ("acc", "params"):
            row[quantity], row[f"paper_{quantity}"] = cells.loc[quantity, "ours"], cells.loc[quantity, "paper"]
            row[f"errors_{quantity}"] = cells.loc[quantity, "errors"]
        rows.append(row)
    return pd.DataFrame(rows).round(2)


def _line(row: dict[str, object]) -> str:
    held_back = f"{row['distance_held_back']:.1f} ({row['cells_held_back']} cells)"
    values = (
        row["configuration"],
        row["seeds"],
        f"{row['distance_choosing']:.1f} ({row['cells_choosing']})",
        held_back,
    )
    return "| " + " | ".join(str(value) for value in values) + " |"


def to_markdown(table: pd.DataFrame, points: pd.DataFrame, machines: list[dict[str, str]]) -> str:
    """The table for people: all single changes and finalists, the nearest of the factorial."""
    whole = table["cells_choosing"].max()
    lines = [
        f"{len(table)} configurations were run. Distances are in standard errors (root mean square over cells): "
        "about 1 would be chance. Chosen by the first column alone; the second was held back.",
    ]
    for title, part in (
        ("Finalists: all of Table 1, all seeds", table[table["part"] == "finalist"]),
        ("One choice at a time", table[table["part"].isin(["one at a time"]) | (table["configuration"] == BASE)]),
        (f"Combinations, the {SHOWN} nearest on Binary Split MNIST", _nearest(table)),
    ):
        lines += ["", f"### {title}", "| " + " | ".join(HEADS) + " |", "| --- |" + " --- |" * (len(HEADS) - 1)]
        lines += [_line(row) for row in part.to_dict("records")]
    lines += ["", "### Open points on Permuted MNIST", "| reading | accuracy % | params |", "| --- | --- | --- |"]
    for row in points.to_dict("records"):
        accuracy = f"{row['acc']:.1f} ({row['paper_acc']:.1f})"
        lines.append(
            f"| {row['reading']} | {accuracy} | {row['params'] / 1000:.1f}k ({row['paper_params'] / 1000:.1f}k) |"
        )
    lines += ["", f"The paper's in brackets. The choosing half has {whole} cells. {provenance_line(machines)}"]
    return "\n".join(lines) + "\n"


def _nearest(table: pd.DataFrame) -> pd.DataFrame:
    crossed = table[~table["part"].isin(["one at a time"])]
    return crossed.sort_values("distance_choosing split_mnist", kind="stable").head(SHOWN)


def build(params: Params) -> dict[Path, str]:
    """The files of the table, by path."""
    results = pd.read_csv(RESULTS / "reconstruction.csv")
    open_rows = results["part"] == "open point"
    table = configurations(results[~open_rows], pd.read_csv(PAPER / "main.csv"))
    points = open_points(params, results[open_rows])
    machines = json.loads((RESULTS / "reconstruction.provenance.json").read_text())
    return {
        TABLES / "reconstruction.csv": table.to_csv(index=False, lineterminator="\n"),
        TABLES / "reconstruction-open.csv": points.to_csv(index=False, lineterminator="\n"),
        TABLES / "reconstruction.md": to_markdown(table, points, machines),
    }
