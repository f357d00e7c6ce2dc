"""Stage cost: seconds per component of NORACL on Permuted MNIST (appendix A.7).

Wall-clock differs from run to run: these are timings, and no check compares them.
"""

import pandas as pd

from noracl.method.algorithm import COMPONENTS
from pipeline.config import PERMUTED, load
from pipeline.experiments.builder import Builder
from pipeline.files import write_json, write_text
from pipeline.paths import PAPER, TIMING
from pipeline.runs.executor import run_all
from pipeline.runs.records import Record

#: The paper's name of each component of ours; it also times a validation pass that this code does not make.
NAMES = {
    "sgd": "SGD training",
    "consolidation": "EWC consolidation",
    "evaluation": "CL evaluation",
    "effective_dimension": "ED / SVD monitoring",
    "fisher_check": "Fisher growth-check",
    "neurogenesis": "Neurogenesis",
}
GROWTH = ("effective_dimension", "fisher_check", "neurogenesis")


def cost_table(records: list[Record], paper: pd.DataFrame) -> pd.DataFrame:
    """Mean seconds over runs and share of their sum, with the overhead of growth and the paper's column."""
    seconds = pd.DataFrame([{name: record.seconds[name] for name in COMPONENTS} for record in records]).mean()
    overhead, total = float(sum(seconds[name] for name in GROWTH)), float(seconds.sum())
    times = {NAMES[name]: float(seconds[name]) for name in COMPONENTS}
    times |= {"NORACL overhead": overhead, "Total wall-clock": total}
    counts = {
        "NORACL overhead, % of the shared components": overhead / (total - overhead) * 100,
        "growth events": sum(len(record.history.growth) for record in records if record.history) / len(records),
    }
    table = paper.rename(columns={"seconds": "paper_seconds", "share_percent": "paper_share_percent"})
    table["seconds"] = table["component"].map(times | counts).round(2)
    table["share_percent"] = (table["component"].map(times) / total * 100).round(2)
    return table[["component", "attribution", "seconds", "share_percent", "paper_seconds", "paper_share_percent"]]


def main(arguments: list[str]) -> None:
    """Stage cost."""
    params = load()
    runs = Builder(params).noracl(f"main/{PERMUTED}-noracl", PERMUTED)
    runs = [run for run in runs if run.layers == max(one.layers for one in runs)]
    records = run_all(runs, params.compute, "cost", fresh=True)
    table = cost_table(records, pd.read_csv(PAPER / "cost.csv"))
    write_text(TIMING / "cost" / "cost.csv", table.to_csv(index=False, lineterminator="\n"))
    write_json(TIMING / "cost" / "provenance.json", [records[0].machine | {"runs": str(len(records))}])
