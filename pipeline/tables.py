"""Stage tables: ours beside the paper's, with a verdict on every cell (and the tables in README.md)."""

import json
import math
import re
from contextlib import suppress
from pathlib import Path

import pandas as pd

from pipeline.files import write_text
from pipeline.names import title
from pipeline.params import Params, Stress, Tolerances, load_or_exit
from pipeline.paths import METRICS, PAPER, PLOTS, README, RESULTS, TABLES, TIMING
from pipeline.suites import ON_FEATURES, runs_of_suite, stress_names, table1_names

PAPER_SEEDS = 5
#: One result of the paper that it prints in several tables: (table, row) for each of them.
SAME_IN_THE_PAPER = [("main", "2L NORACL"), ("ablations", "full"), ("sensitivity", "default")]
MARKS = {"match": "✓", "higher": "▲", "lower": "▼", "n/a": ""}
LEGEND = "Ours, then the paper's in brackets; ✓ matches, ▲ is higher than, ▼ is lower than the paper's."
CHOSEN = "\\* marks cells that helped to choose the configuration."
COLUMNS = [
    *("row", "benchmark", "seeds", "params_mean", "params_sd", "acc_mean", "acc_sd"),
    *("paper_params", "paper_params_sd", "paper_acc", "paper_acc_sd", "verdict", "params_verdict", "selected_on"),
]


def verdict(ours: float, sd: float, seeds: int, paper: float, paper_sd: float, tolerance: float) -> str:
    """match within max(2 standard errors of the difference, tolerance), else higher or lower; n/a without numbers.

    A missing deviation (one seed, or a number that the paper gives without one) counts as 0.
    """
    if math.isnan(ours) or math.isnan(paper):
        return "n/a"
    spread, paper_spread = (0.0 if math.isnan(s) else s for s in (sd, paper_sd))
    error = math.sqrt(spread**2 / seeds + paper_spread**2 / PAPER_SEEDS)
    if abs(ours - paper) <= max(2 * error, tolerance):
        return "match"
    return "higher" if ours > paper else "lower"


def read_results(*suites: str) -> pd.DataFrame:
    """Rows of several suites, one per run and task."""
    return pd.concat([pd.read_csv(RESULTS / f"{suite}.csv") for suite in suites], ignore_index=True)


def final_rows(results: pd.DataFrame) -> pd.DataFrame:
    """The last task of each run; a run that could not go on has no numbers there."""
    return results.sort_values("task", kind="stable").groupby(["row", "benchmark", "seed"], sort=False).tail(1)


def compare(results: pd.DataFrame, paper: pd.DataFrame, selected: pd.DataFrame, limits: Tolerances) -> pd.DataFrame:
    """One row per cell: mean and deviation over seeds after the last task, the paper's numbers, the verdicts.

    ``results`` has a column ``row`` with the table's row names. Verdicts are on the numbers as printed. A cell with
    a run that could not go on has no mean, as in the paper; ``infeasible`` counts such runs.
    """
    cells = (
        final_rows(results)
        .groupby(["row", "benchmark"], sort=False)
        .agg(
            seeds=("accuracy", "count"),
            infeasible=("accuracy", lambda values: int(values.isna().sum())),
            params_mean=("params", "mean"),
            params_sd=("params", "std"),
            acc_mean=("accuracy", "mean"),
            acc_sd=("accuracy", "std"),
            plastic_mean=("plastic", "mean"),
            plastic_sd=("plastic", "std"),
        )
    )
    cells[["acc_mean", "acc_sd"]] = (cells[["acc_mean", "acc_sd"]] * 100).round(2)
    whole = ["params_mean", "params_sd", "plastic_mean", "plastic_sd"]
    cells[whole] = cells[whole].round(0)
    cells.loc[cells.infeasible > 0, [*whole, "acc_mean", "acc_sd"]] = math.nan
    theirs = paper.rename(columns={name: f"paper_{name}" for name in paper if name not in ("row", "benchmark")})
    table = cells.reset_index().merge(theirs, on=["row", "benchmark"], how="left")
    for name, ours, tolerance in (("verdict", "acc", None), ("params_verdict", "params", limits.params_share)):
        table[name] = [
            verdict(
                cell[f"{ours}_mean"],
                cell[f"{ours}_sd"],
                cell["seeds"],
                cell[f"paper_{ours}"],
                cell[f"paper_{ours}_sd"],
                limits.accuracy_points if tolerance is None else tolerance * cell[f"paper_{ours}"],
            )
            for cell in table.to_dict("records")
        ]
    chosen = set(zip(selected["row"], selected["benchmark"], strict=True))
    cell_names = zip(table["row"], table["benchmark"], strict=True)
    table["selected_on"] = ["yes" if cell in chosen else "no" for cell in cell_names]
    counted = [*whole, "paper_params", "paper_params_sd"]
    table[counted] = table[counted].astype("Int64")
    return table


def overtakes(results: pd.DataFrame, method: str, rival: str) -> int | None:
    """The task from which on the method's mean accuracy over seeds stays above the rival's; None if it does not."""
    means = results.pivot_table(index="task", columns="method", values="accuracy", aggfunc="mean")
    behind = means.index[means[method] <= means[rival]]
    last = int(behind.max()) if len(behind) else 0
    return last + 1 if last < int(means.index.max()) else None


def counts(table: pd.DataFrame, column: str = "verdict") -> dict[str, dict[str, int]]:
    """Matches and cells, apart for cells that helped to choose the configuration and cells that did not."""
    judged = table[table[column] != "n/a"]
    parts = {"all": judged, "selected_on": judged[judged.selected_on == "yes"]}
    parts["held_out"] = judged[judged.selected_on == "no"]
    return {name: {"match": int((p[column] == "match").sum()), "cells": len(p)} for name, p in parts.items()}


def number(value: float, sd: float, thousands: bool) -> str:
    """A mean and its deviation for people, parameters in thousands."""
    if pd.isna(value):
        return "–"
    text = f"{value / 1000:.1f}k" if thousands else f"{value:.1f}"
    if pd.isna(sd) or (thousands and sd == 0):
        return text
    return f"{text} ± {sd / 1000:.1f}" if thousands else f"{text} ± {sd:.1f}"


def _cell(cell: dict[str, object], ours: str, thousands: bool) -> str:
    """Ours, mark, the paper's in brackets."""
    if cell["infeasible"]:
        return f"N/A, infeasible in {cell['infeasible']} of {cell['infeasible'] + cell['seeds']} seeds"  # type: ignore[operator]
    mine = number(cell[f"{ours}_mean"], cell[f"{ours}_sd"], thousands)  # type: ignore[arg-type]
    theirs = number(cell[f"paper_{ours}"], cell[f"paper_{ours}_sd"], thousands)  # type: ignore[arg-type]
    mark = MARKS[str(cell["params_verdict" if thousands else "verdict"])]
    star = "\\*" if cell["selected_on"] == "yes" else ""
    return mine + star if theirs == "–" else f"{mine}{star} {mark} ({theirs})"


def to_markdown(table: pd.DataFrame, machines: list[dict[str, str]], extra: dict[str, str] | None = None) -> str:
    """The table for people, a row a method, benchmarks side by side; ``extra`` names further columns."""
    benchmarks = list(dict.fromkeys(table["benchmark"]))
    heads = [f"{title(b)}: {what}" for b in benchmarks for what in ("params", "accuracy %")]
    heads += (extra or {}).values()
    lines = [f"| | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    for row in dict.fromkeys(table["row"]):
        parts = []
        for benchmark in benchmarks:
            found = table[(table["row"] == row) & (table["benchmark"] == benchmark)].to_dict("records")
            parts += [_cell(found[0], "params", True), _cell(found[0], "acc", False)] if found else ["", ""]
        for name in extra or {}:
            value = found[0][name]
            parts.append("" if pd.isna(value) else f"{value:.0f}")
        lines.append(f"| {row} | {' | '.join(parts)} |")
    seeds = sorted(set(table["seeds"] + table["infeasible"]))
    note = [LEGEND] if table[["paper_acc", "paper_params"]].notna().any(axis=None) else []
    note += [CHOSEN] if "yes" in set(table["selected_on"]) else []
    note.append("One seed." if seeds == [1] else f"Mean ± deviation over {', '.join(map(str, seeds))} seeds.")
    lines += ["", " ".join([*note, provenance_line(machines)])]
    return "\n".join(lines) + "\n"


def provenance_line(machines: list[dict[str, str]]) -> str:
    """Which machine, which versions and, on frozen features, which weights made the numbers."""
    known, made = ("cpu", "instructions", "torch", "python"), []
    for one in machines:
        more = "".join(f", {name} {value}" for name, value in one.items() if name not in known)
        made.append(f"{one['cpu']} ({one['instructions']}), torch {one['torch']}, Python {one['python']}{more}")
    return f"Computed on {'; '.join(made)}."


def machines_of(*suites: str) -> list[dict[str, str]]:
    """Every machine that computed a run of these suites."""
    found: list[dict[str, str]] = []
    for suite in suites:
        for one in json.loads((RESULTS / f"{suite}.provenance.json").read_text()):
            if one not in found:
                found.append(one)
    return found


def suites_of_tables(params: Params) -> dict[str, list[str]]:
    """The suites behind each table."""
    found = {"main": table1_names(params)}
    found |= {name: [name] for name in ON_FEATURES}
    found |= {f"stress{tasks}": stress_names(params) for tasks in (params.stress.short, params.stress.long)}
    found["ablations"] = [f"ablations-{benchmark}" for benchmark in params.ablations.benchmarks]
    found["sensitivity"] = ["sensitivity"]
    return found


def stress_results(results: pd.DataFrame, tasks: int, stress: Stress) -> pd.DataFrame:
    """The first tasks of the long stream; the short stream leaves some methods out."""
    left_out = stress.long_only if tasks == stress.short else []
    return results[(results["task"] <= tasks) & ~results["method"].isin(left_out)].reset_index(drop=True)


def build_table(name: str, parts: list[str], params: Params) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table and the results behind it."""
    results = read_results(*parts)
    if name.startswith("stress"):
        results = stress_results(results, int(name.removeprefix("stress")), params.stress)
    results["row"] = results["method"]
    if name == "main":
        results["row"] = results["layers"].astype(str) + "L " + results["method"]
    path = PAPER / f"{name}.csv"
    paper = pd.read_csv(path if path.exists() else PAPER / "main.csv")
    if not path.exists():
        paper = paper.iloc[:0]
    selected = pd.read_csv(PAPER / "selected_on.csv")
    table = compare(results, paper, selected[selected["table"] == name], params.tolerances)
    order = {cell: i for i, cell in enumerate(zip(paper["row"], paper["benchmark"], strict=True))}
    places = [order.get(cell, len(order)) for cell in zip(table["row"], table["benchmark"], strict=True)]
    table = table.iloc[sorted(range(len(table)), key=lambda i: places[i])].reset_index(drop=True)
    if name.startswith("stress"):
        table["overtakes_75x32"] = [
            overtakes(results, "NORACL", "75×32") if "75×32" in set(results["method"]) and row == "NORACL" else None
            for row in table["row"]
        ]
        table["overtakes_75x32"] = table["overtakes_75x32"].astype("Int64")
    return table, results


EXTRA = {
    "ablations": ["infeasible"],
    "stress": ["plastic_mean", "plastic_sd", "overtakes_75x32"],
}
EXTRA_HEADS = {
    "stress": {"plastic_mean": "effective plastic parameters", "overtakes_75x32": "stays ahead of 75×32 from task"}
}


def build(params: Params) -> dict[Path, str]:
    """Every file of the stage, by path."""
    files: dict[Path, str] = {}
    numbers: dict[str, object] = {}
    verdicts: dict[str, object] = {}
    for name, parts in suites_of_tables(params).items():
        table, results = build_table(name, parts, params)
        kind = "stress" if name.startswith("stress") else name
        files[TABLES / f"{name}.csv"] = table[COLUMNS + EXTRA.get(kind, [])].to_csv(index=False, lineterminator="\n")
        files[TABLES / f"{name}.md"] = to_markdown(table, machines_of(*parts), EXTRA_HEADS.get(kind))
        numbers[name] = metrics(table)
        verdicts[name] = {"accuracy": counts(table), "params": counts(table, "params_verdict")}
        if name in ("ablations", "sensitivity", "cifar10_sizes", f"stress{params.stress.short}"):
            continue
        for benchmark, rows in results.groupby("benchmark"):
            shown = ["accuracy", "params", *(column for column in rows if column.startswith("width_"))]
            curves = rows.groupby(["row", "task"], sort=False)[shown].mean().round(4)
            files[PLOTS / f"{benchmark if name == 'main' else kind}.csv"] = curves.to_csv(lineterminator="\n")
    files[METRICS] = json.dumps({"tables": numbers, "verdicts": verdicts}, indent=1) + "\n"
    return files


def metrics(table: pd.DataFrame) -> dict[str, object]:
    """What `dvc metrics diff` and `dvc exp show` compare."""
    cells: dict[str, dict[str, object]] = {}
    for cell in table.to_dict("records"):
        if not pd.isna(cell["acc_mean"]):
            numbers = {"accuracy": cell["acc_mean"], "params": int(cell["params_mean"])}
            name = re.sub(r"[^\w×=-]+", "_", cell["row"])
            cells.setdefault(cell["benchmark"], {})[name] = numbers
    return dict(cells)


def timing_markdown(params: Params) -> str:
    """How long each table takes, from the seconds of its runs; timing, so no part of any freshness check."""
    lines = ["| table | runs | 1 core | 2 cores | 16 cores (by calculation) |", "| --- | --- | --- | --- | --- |"]
    total = {1: 0.0, 2: 0.0, 16: 0.0}
    counted, loaded = 0, []
    for name, (seconds, of_the_processor) in seconds_by_table(params).items():
        hours = {cores: max(sum(seconds) / cores, max(seconds)) / 3600 for cores in total}
        total = {cores: total[cores] + hours[cores] for cores in total}
        cells = " | ".join(f"{hours[cores]:.2f} h" for cores in total)
        lines.append(f"| {name} | {len(seconds)} | {cells} |")
        counted += len(seconds)
        loaded += [] if of_the_processor else [name]
    lines.append(f"| all | {counted} | " + " | ".join(f"**{hours:.2f} h**" for hours in total.values()) + " |")
    note = "A run takes one core; what two tables share is counted in the first; no table ends before its longest run. "
    note += "Seconds of the processor"
    note += f", but wall-clock beside other work, so too long, for {', '.join(loaded)}." if loaded else "."
    return "\n".join([*lines, "", note]) + "\n"


def seconds_of(timing: pd.DataFrame) -> "pd.Series[float]":
    """The seconds of a suite's runs: the processor's where they were measured, else wall-clock."""
    return timing.get("cpu", timing["total"])


def seconds_by_table(params: Params) -> dict[str, tuple[list[float], bool]]:
    """The seconds of each run, once, and whether they are the processor's or wall-clock."""
    found: dict[str, tuple[list[float], bool]] = {}
    lengths: dict[str, int] = {}  # of the streams of runs that are counted: a short one is the start of a long one
    for name, parts in suites_of_tables(params).items():
        seconds, of_the_processor = [], True
        for suite in parts:
            timing = pd.read_csv(TIMING / f"{suite}.csv")
            of_the_processor &= "cpu" in timing
            for run, spent in zip(runs_of_suite(params, suite), seconds_of(timing), strict=True):
                if run.tasks > lengths.get(run.key, 0):
                    seconds.append(float(spent))
                    lengths[run.key] = run.tasks
        if seconds:
            found[re.sub(r"(?<=^stress)\d+$", " tests", name)] = seconds, of_the_processor
    study = [pd.read_csv(path) for path in sorted(TIMING.glob("reconstruction-*.csv"))]
    if study:
        spent = [float(value) for timing in study for value in seconds_of(timing)]
        found["reconstruction"] = spent, all("cpu" in timing for timing in study)
    return found


def readme_with_tables(text: str, tables: Path = TABLES) -> str:
    """README.md with each block between <!-- table NAME --> and <!-- end --> replaced by the generated table."""

    def fill(block: re.Match[str]) -> str:
        return f"{block[1]}\n{(tables / f'{block[2]}.md').read_text()}<!-- end -->"

    return re.sub(r"(<!-- table (\w+) -->)\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def refresh_readme() -> None:
    """Put the tables into README.md; while one is not made yet, the stage that makes it will do that."""
    with suppress(FileNotFoundError):
        write_text(README, readme_with_tables(README.read_text()))


def main() -> None:
    """Command line of the stage."""
    params = load_or_exit()
    for path, content in build(params).items():
        write_text(path, content)
    write_text(TABLES / "timing.md", timing_markdown(params))
    refresh_readme()


if __name__ == "__main__":
    main()
