"""Stage cost: seconds per component of NORACL on Permuted MNIST (appendix A.7).

Wall-clock differs from run to run: this table is timing, and no check compares it.
"""

import sys

import pandas as pd

from noracl.learner import COMPONENTS
from pipeline.executor import RunFailed, run_all
from pipeline.files import write_text
from pipeline.params import load_or_exit
from pipeline.paths import PAPER, TABLES
from pipeline.runs import Record
from pipeline.suites import MNIST_STREAM, table1
from pipeline.tables import provenance_line

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


def to_markdown(table: pd.DataFrame, line: str) -> str:
    """The table for people."""
    lines = ["| component | | seconds | % | paper: seconds (RTX 4090) | % |", "| --- | --- | --- | --- | --- | --- |"]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join("" if pd.isna(value) else f"{value}" for value in row) + " |")
    return "\n".join(lines) + f"\n\nTiming: means over {line}\n"


def main() -> None:
    """Command line of the stage."""
    params = load_or_exit()
    runs = [run for run in table1(params, MNIST_STREAM, "noracl") if len(run.settings.hidden) == max(params.depths)]
    try:
        records = run_all(runs, params.compute, "cost", fresh=True)
    except (RunFailed, FileNotFoundError) as error:
        sys.exit(f"cost: {error}")
    table = cost_table(records, pd.read_csv(PAPER / "cost.csv"))
    write_text(TABLES / "cost.csv", table.to_csv(index=False, lineterminator="\n"))
    line = f"{len(records)} runs, one core each, side by side. {provenance_line([records[0].machine])}"
    write_text(TABLES / "cost.md", to_markdown(table, line))


if __name__ == "__main__":
    main()
