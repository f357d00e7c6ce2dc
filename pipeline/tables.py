"""Stage tables: ours beside the paper's, with a verdict on every cell (and the tables in README.md)."""

import json
import math
import re
from pathlib import Path

import pandas as pd

from pipeline.files import write_text
from pipeline.params import Params, Tolerances, load_or_exit
from pipeline.paths import METRICS, PAPER, PLOTS, README, RESULTS, TABLES
from pipeline.train import FAMILIES, suite_of

PAPER_SEEDS = 5
MARKS = {"match": "✓ match", "higher": "▲ higher", "lower": "▼ lower", "n/a": "n/a"}
TITLES = {
    "permuted_mnist": "Permuted MNIST",
    "rotated_mnist": "Rotated MNIST",
    "split_mnist": "Binary Split MNIST",
}
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


def read_results(suites: list[str]) -> pd.DataFrame:
    """Rows of several suites, one per run and task."""
    return pd.concat([pd.read_csv(RESULTS / f"{suite}.csv") for suite in suites], ignore_index=True)


def compare(results: pd.DataFrame, paper: pd.DataFrame, selected: pd.DataFrame, limits: Tolerances) -> pd.DataFrame:
    """One row per cell: mean and deviation over seeds after the last task, the paper's numbers, the verdicts.

    ``results`` has a column ``row`` with the table's row names. Verdicts are on the numbers as printed.
    """
    runs = ["row", "benchmark", "seed"]
    final = results.sort_values("task").groupby(runs, sort=False).tail(1)
    cells = final.groupby(["row", "benchmark"], sort=False).agg(
        seeds=("seed", "count"),
        params_mean=("params", "mean"),
        params_sd=("params", "std"),
        acc_mean=("accuracy", "mean"),
        acc_sd=("accuracy", "std"),
    )
    cells[["acc_mean", "acc_sd"]] = (cells[["acc_mean", "acc_sd"]] * 100).round(2)
    cells[["params_mean", "params_sd"]] = cells[["params_mean", "params_sd"]].round(0)
    theirs = paper.rename(
        columns={"params": "paper_params", "params_sd": "paper_params_sd", "acc": "paper_acc", "acc_sd": "paper_acc_sd"}
    )
    table = theirs.merge(cells.reset_index(), on=["row", "benchmark"], how="right")
    table["verdict"] = [
        verdict(r.acc_mean, r.acc_sd, r.seeds, r.paper_acc, r.paper_acc_sd, limits.accuracy_points)
        for r in table.itertuples()
    ]
    table["params_verdict"] = [
        verdict(
            r.params_mean,
            r.params_sd,
            r.seeds,
            r.paper_params,
            r.paper_params_sd,
            limits.params_share * r.paper_params,
        )
        for r in table.itertuples()
    ]
    chosen = set(zip(selected["row"], selected["benchmark"], strict=True))
    cell_names = zip(table["row"], table["benchmark"], strict=True)
    table["selected_on"] = ["yes" if cell in chosen else "no" for cell in cell_names]
    whole = ["params_mean", "params_sd", "paper_params", "paper_params_sd"]
    table[whole] = table[whole].astype("Int64")
    return table[COLUMNS]


def counts(table: pd.DataFrame, column: str = "verdict") -> dict[str, dict[str, int]]:
    """Matches and cells, apart for cells that helped to choose the configuration and cells that did not."""
    judged = table[table[column] != "n/a"]
    parts = {"all": judged, "selected_on": judged[judged.selected_on == "yes"]}
    parts["held_out"] = judged[judged.selected_on == "no"]
    return {name: {"match": int((p[column] == "match").sum()), "cells": len(p)} for name, p in parts.items()}


def _number(value: float, sd: float, thousands: bool) -> str:
    if pd.isna(value):
        return "–"
    text = f"{value / 1000:.1f}k" if thousands else f"{value:.1f}"
    if pd.isna(sd) or (thousands and sd == 0):
        return text
    return f"{text} ± {sd / 1000:.1f}" if thousands else f"{text} ± {sd:.1f}"


def to_markdown(table: pd.DataFrame, machines: list[dict[str, str]]) -> str:
    """The table for people: ours, then the paper's in brackets, then the verdict in words."""
    lines = [
        "| row | benchmark | params (paper) | | accuracy % (paper) | | helped to choose? |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in table.itertuples():
        params = f"{_number(r.params_mean, r.params_sd, True)} ({_number(r.paper_params, r.paper_params_sd, True)})"
        accuracy = f"{_number(r.acc_mean, r.acc_sd, False)} ({_number(r.paper_acc, r.paper_acc_sd, False)})"
        title = TITLES.get(r.benchmark, r.benchmark)
        lines.append(
            f"| {r.row} | {title} | {params} | {MARKS[r.params_verdict]} | {accuracy} | {MARKS[r.verdict]} "
            f"| {r.selected_on} |"
        )
    seeds = sorted(set(table.seeds))
    lines += ["", f"Seeds a cell: {', '.join(map(str, seeds))}. " + provenance_line(machines)]
    return "\n".join(lines) + "\n"


def provenance_line(machines: list[dict[str, str]]) -> str:
    """Which machine and which versions made the numbers."""
    made = "; ".join(f"{m['cpu']} ({m['instructions']}), torch {m['torch']}, Python {m['python']}" for m in machines)
    return f"Computed on {made}."


def machines_of(suites: list[str]) -> list[dict[str, str]]:
    """Every machine that computed a run of these suites."""
    found: list[dict[str, str]] = []
    for suite in suites:
        for one in json.loads((RESULTS / f"{suite}.provenance.json").read_text()):
            if one not in found:
                found.append(one)
    return found


def build(params: Params) -> dict[Path, str]:
    """Every file of the stage, by path."""
    suites = [suite_of(benchmark, family) for benchmark in params.benchmarks for family in FAMILIES]
    results = read_results(suites)
    results["row"] = results["layers"].astype(str) + "L " + results["method"]
    selected = pd.read_csv(PAPER / "selected_on.csv").query("table == 'main'")
    table = compare(results, pd.read_csv(PAPER / "main.csv"), selected, params.tolerances)
    order = {row: i for i, row in enumerate(dict.fromkeys(pd.read_csv(PAPER / "main.csv")["row"]))}
    table = table.sort_values("row", key=lambda rows: rows.map(order), kind="stable")
    table = table.sort_values("benchmark", key=lambda b: b.map(list(params.benchmarks).index), kind="stable")
    files = {
        TABLES / "main.csv": table.to_csv(index=False, lineterminator="\n"),
        TABLES / "main.md": to_markdown(table, machines_of(suites)),
        METRICS: json.dumps(metrics(table), indent=1) + "\n",
    }
    for benchmark, rows in results.groupby("benchmark"):
        for quantity in ("accuracy", "params"):
            wide = rows.pivot_table(index="task", columns="row", values=quantity, aggfunc="mean", sort=False)
            files[PLOTS / f"{benchmark}-{quantity}.csv"] = wide.round(4).to_csv(lineterminator="\n")
    return files


def metrics(table: pd.DataFrame) -> dict[str, object]:
    """What `dvc metrics diff` and `dvc exp show` compare."""
    cells: dict[str, dict[str, dict[str, float]]] = {}
    for r in table.itertuples():
        cell = {"accuracy": r.acc_mean, "params": int(r.params_mean)}
        cells.setdefault(r.benchmark, {})[r.row.replace(" ", "_")] = cell
    verdicts = {"accuracy": counts(table), "params": counts(table, "params_verdict")}
    return {"main": cells, "verdicts": verdicts}


def readme_with_tables(text: str, tables: Path = TABLES) -> str:
    """README.md with each block between <!-- table NAME --> and <!-- end --> replaced by the generated table."""

    def fill(block: re.Match[str]) -> str:
        return f"{block[1]}\n{(tables / f'{block[2]}.md').read_text()}<!-- end -->"

    return re.sub(r"(<!-- table (\w+) -->)\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def main() -> None:
    """Command line of the stage."""
    params = load_or_exit()
    for path, content in build(params).items():
        write_text(path, content)
    if README.exists():
        write_text(README, readme_with_tables(README.read_text()))
    summary = json.loads(METRICS.read_text())["verdicts"]["accuracy"]
    write = ", ".join(f"{name} {c['match']}/{c['cells']}" for name, c in summary.items())
    print(f"tables: accuracies that match the paper: {write}")


if __name__ == "__main__":
    main()
