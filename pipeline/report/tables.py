"""Stage tables: ours beside the paper's, with a verdict on every cell (and the tables in README.md)."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline import markdown
from pipeline.config import Params, load
from pipeline.evidence import contradictions, results
from pipeline.evidence.verdicts import MARKS, counts
from pipeline.experiments.beyond import BOUNDS, QUESTIONS
from pipeline.experiments.suites import suites
from pipeline.files import write_text
from pipeline.paths import PAPER, TABLES, VERDICTS
from pipeline.report import contradictions_table, costs_table, readings_table, readme, theory_table
from pipeline.report.comparison import COLUMNS, compare
from pipeline.report.labels import benchmark_title, on_features, provenance_line

LEGEND = "Ours, then the paper's in brackets; ✓ matches, ▲ is higher than, ▼ is lower than the paper's."
CHOSEN = "\\* marks cells that helped to choose the configuration."
MISSED = ("higher", "lower")
CONTRADICTED = (
    "† marks a miss where the paper contradicts itself (`reports/tables/contradictions.md`); we may be wrong there too."
)
#: What "released" means, by whence we know it; no verdict depends on these numbers.
RELEASED = {
    "second-hand": "The number after 'released' is the authors' released result (mean ± deviation over their seeds), "
    "which we know second-hand, from the public notes of another group; verdicts are on the paper's number.",
    "official": "The number after 'released' is the authors' released result (mean ± deviation over their seeds), read "
    "from their repository; verdicts are on the paper's number.",
}
#: Further columns of the CSV, and of them those that the Markdown shows, with their headings.
EXTRA = {"ablations": ["infeasible"], "stress": ["plastic_mean", "plastic_sd"]}
ALL = "all tables"
Matches = dict[str, dict[str, dict[str, int]]]  # by quantity and kind of cells: how many there are, and how many match
EXTRA_HEADS = {"stress": {"plastic_mean": "effective plastic parameters"}}


def kind(table: str) -> str:
    """The folder of results behind a table: both stress tests have one, and so has all that goes beyond the paper."""
    return "stress" if table.startswith("stress") else results.BEYOND if table in QUESTIONS else table


def folders(name: str, table: pd.DataFrame) -> list[str]:
    """The folders of results that a table shows."""
    bounds = [results.BOUNDS] if set(table["row"].str.removeprefix("2L ")) & set(BOUNDS) else []
    return [f"{results.BEYOND}/{name}"] if kind(name) == results.BEYOND else [kind(name), *bounds]


def names(params: Params) -> list[str]:
    """Every table that has one row per method, in the order of the paper."""
    tables = dict.fromkeys(suite.table for suite in suites(params).values() if suite.table != results.READINGS)
    several = {
        "stress": [f"stress{tasks}" for tasks in (params.stress.short, params.stress.long)],
        results.BEYOND: [name for name in QUESTIONS if not results.is_missing(f"{results.BEYOND}/{name}")],
    }
    return [name for table in tables for name in several.get(table, [table])]


def number(value: float, sd: float, thousands: bool) -> str:
    """A mean and its deviation for people, parameters in thousands."""
    if pd.isna(value):
        return "–"
    if thousands:
        return markdown.thousands(float(value), math.nan if pd.isna(sd) else float(sd))
    return f"{value:.1f}" if pd.isna(sd) else f"{value:.1f} ± {sd:.1f}"


def grid(table: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The cells of each row, benchmarks side by side; empty where there is none."""
    cells = {(cell["row"], cell["benchmark"]): cell for cell in table.to_dict("records")}
    benchmarks = dict.fromkeys(table["benchmark"])
    return {row: [cells.get((row, benchmark), {}) for benchmark in benchmarks] for row in dict.fromkeys(table["row"])}


def cell_of(cell: dict[str, Any], quantity: str) -> dict[str, Any]:
    """One number of ours and the paper's, with its verdict."""
    thousands, mean, infeasible = quantity == "params", cell[f"{quantity}_mean"], int(cell.get("infeasible") or 0)
    mine = number(mean, cell[f"{quantity}_sd"], thousands)
    judged = cell["params_verdict" if thousands else "verdict"]
    return {
        "ours": f"infeasible in {infeasible} of {infeasible + cell['seeds']} seeds" if infeasible else mine,
        "paper": number(cell[f"paper_{quantity}"], cell[f"paper_{quantity}_sd"], thousands),
        "released": number(cell[f"released_{quantity}"], cell[f"released_{quantity}_sd"], thousands),
        "value": "" if pd.isna(mean) else mean,
        "verdict": judged,
        "mark": MARKS[judged],
        "selected": cell["selected_on"] == "yes",
        "contradicted": judged in MISSED and quantity in cell["contradicted"].split(),
    }


def _text(cell: dict[str, Any], quantity: str) -> str:
    """Ours, mark, the paper's and the released one in brackets."""
    if not cell:
        return ""
    shown = cell_of(cell, quantity)
    if cell["infeasible"]:
        return f"N/A, {shown['ours']}"
    star = "\\*" if shown["selected"] else ""
    dagger = "†" if shown["contradicted"] else ""
    released = "" if shown["released"] == "–" else f"; released {shown['released']}"
    theirs = "" if shown["paper"] == "–" else f" {shown['mark']}{dagger} ({shown['paper']}{released})"
    return f"{shown['ours']}{star}{theirs}"


def marked(table: pd.DataFrame) -> bool:
    """Whether a cell of the table is a miss where the paper contradicts itself."""
    cells = table.to_dict("records")
    return any(cell_of(cell, quantity)["contradicted"] for cell in cells for quantity in ("params", "acc"))


def to_markdown(table: pd.DataFrame, machines: list[dict[str, str]], params: Params, extra: dict[str, str]) -> str:
    """The table for people: one row per method, benchmarks side by side; ``extra`` names further columns."""
    benchmarks = [benchmark_title(benchmark, params) for benchmark in dict.fromkeys(table["benchmark"])]
    heads = [f"{title}: {what}" for title in benchmarks for what in ("params", "accuracy %")]
    rows = []
    for row, cells in grid(table).items():
        texts = [_text(cell, quantity) for cell in cells for quantity in ("params", "acc")]
        rows.append([row, *texts, *("" if pd.isna(cells[-1][name]) else f"{cells[-1][name]:.0f}" for name in extra)])
    seeds = sorted(set(table["seeds"] + table["infeasible"]))
    notes = [LEGEND] if table[["paper_acc", "paper_params"]].notna().any(axis=None) else []
    notes += [CHOSEN] if "yes" in set(table["selected_on"]) else []
    notes += [CONTRADICTED] if marked(table) else []
    notes += [RELEASED[source] for source in sorted(set(table["released_source"].dropna()))]
    notes += ["One seed." if seeds == [1] else f"Mean ± deviation over {' or '.join(map(str, seeds))} seeds."]
    notes += [provenance_line(machines, any(on_features(name, params) for name in dict.fromkeys(table["benchmark"])))]
    return markdown.table(["", *heads, *extra.values()], rows, " ".join(notes))


def results_of(name: str, params: Params) -> pd.DataFrame:
    """The results behind a table, with bounds where it has benchmarks; the short stress test begins the long one."""
    if kind(name) == results.BEYOND:
        return results.suite(f"{results.BEYOND}/{name}")
    runs = results.runs(kind(name))
    if name in {benchmark.table for benchmark in params.benchmarks.values()}:
        return results.with_bounds(runs)
    if kind(name) != "stress":
        return runs
    tasks, stress = int(name.removeprefix("stress")), params.stress
    left_out = [f"stress/{network}" for network in stress.long_only] if tasks == stress.short else []
    return runs[(runs["task"] <= tasks) & ~runs["suite"].isin(left_out)].reset_index(drop=True)


def build_table(name: str, params: Params) -> pd.DataFrame:
    """A table, ours beside the paper's."""
    runs, selected = results_of(name, params), pd.read_csv(PAPER / "selected_on.csv")
    chosen, contradicted = selected[selected["table"] == name], contradictions.concerned(contradictions.find(), name)
    theirs, released = results.paper(name), results.released(name)
    return compare(runs, theirs, chosen, params.tolerances, released, contradicted)


def tally(tables: Mapping[str, pd.DataFrame]) -> Matches:
    """Matching cells, by quantity; a cell that several tables of the paper print counts in the first of them alone."""
    cells = results.counted_once(pd.concat([table.assign(table=name) for name, table in tables.items()]))
    return {"accuracy": counts(cells), "params": counts(cells, "params_verdict")}


def build(params: Params) -> dict[Path, str]:
    """Every file of the stage, by path."""
    files: dict[Path, str] = {}
    compared: dict[str, pd.DataFrame] = {}
    for name in names(params):
        table = build_table(name, params)
        columns, extra = COLUMNS + EXTRA.get(kind(name), []), EXTRA_HEADS.get(kind(name), {})
        files[TABLES / f"{name}.csv"] = table[columns].to_csv(index=False, lineterminator="\n")
        files[TABLES / f"{name}.md"] = to_markdown(table, results.machines(*folders(name, table)), params, extra)
        compared[name] = table
    verdicts = {name: tally({name: table}) for name, table in compared.items()} | {ALL: tally(compared)}
    files[VERDICTS] = json.dumps(verdicts, indent=1) + "\n"
    for other in (theory_table, costs_table, contradictions_table, readings_table):
        files |= other.build(params)
    return files


def main(arguments: list[str]) -> None:
    """Stage tables."""
    for path, content in build(load()).items():
        write_text(path, content)
    readme.refresh()
