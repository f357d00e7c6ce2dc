"""How much golden runs differ from the committed results when the processor's instructions are others.

A stand-in for other machines: MKL, torch's own kernels and oneDNN can be told to leave instructions unused.
`MKL_CBWR=COMPATIBLE python -m pipeline portability split_mnist` measures one row of the table and keeps the others.
"""

import argparse
import os

import pandas as pd

from pipeline import markdown
from pipeline.config import Params, load
from pipeline.experiments.golden import golden_runs
from pipeline.files import write_text
from pipeline.paths import PORTABILITY
from pipeline.verify import Rows, far_apart, repeat

#: What is set before torch is loaded, and what that does.
SETTINGS = {
    "": "as it is",
    "MKL_CBWR=AVX2 ONEDNN_MAX_CPU_ISA=SSE41": "MKL bound to AVX2, oneDNN to SSE4.1",
    "ATEN_CPU_CAPABILITY=default": "torch's own kernels and random draws without AVX2",
    "MKL_CBWR=COMPATIBLE": "MKL for any x86-64 processor",
}


def compare(fresh: Rows, committed: Rows, params: Params) -> dict[str, str]:
    """Where and how far two histories of one run differ."""
    pairs = list(zip(fresh, committed, strict=True))
    points = max(abs(float(new["accuracy"]) - float(old["accuracy"])) for new, old in pairs) * 100
    return {
        "first_task": next((new["task"] for new, old in pairs if new != old), "none"),
        "accuracy_points": f"{points:.2f}",
        "final_accuracy": f"{float(fresh[-1]['accuracy']) * 100:.2f}",
        "committed_accuracy": f"{float(committed[-1]['accuracy']) * 100:.2f}",
        "final_params": fresh[-1]["params"],
        "committed_params": committed[-1]["params"],
        "within_tolerances": "no" if far_apart(fresh, committed, params) else "yes",
    }


def measure(params: Params, benchmark: str) -> dict[str, str]:
    """The golden run of a benchmark, in this process's environment, against the committed one."""
    runs = [run for run in golden_runs(params) if run.benchmark == benchmark]
    (one,) = repeat(params, runs, f"portability, {benchmark}")
    apart = compare(one.fresh, one.committed, params)
    return {"instructions": one.machine["instructions"], "benchmark": benchmark, **apart}


def to_markdown(table: pd.DataFrame) -> str:
    """The table for people."""
    rows = []
    for row in table.to_dict("records"):
        name = f"{row['meaning']}, `{row['setting']}`" if row["setting"] else row["meaning"]
        apart = "nowhere" if row["first_task"] == "none" else f"in task {row['first_task']}"
        outside = "" if row["within_tolerances"] == "yes" else ", outside `tolerances.golden_…`"
        ends = f"{row['final_accuracy']} %, {row['final_params']} params"
        ends += f" (committed: {row['committed_accuracy']} %, {row['committed_params']})"
        rows.append([name, row["benchmark"], apart, f"{row['accuracy_points']} points{outside}", ends])
    heads = ["processor", "benchmark", "first differs from the committed run"]
    heads += ["accuracy differs by at most", "at the end"]
    note = "One golden run each (two-layer NORACL, first seed), by `python -m pipeline portability`."
    return markdown.table(heads, rows, note)


def main(arguments: list[str]) -> None:
    """Measure some benchmarks in the environment as it is set."""
    params = load()
    known = [run.benchmark for run in golden_runs(params)]
    parser = argparse.ArgumentParser(prog="python -m pipeline portability", description=__doc__)
    parser.add_argument("benchmarks", nargs="+", choices=known)
    wanted = parser.parse_args(arguments).benchmarks
    active = [one for one in SETTINGS if all(os.environ.get(k) == v for k, v in (p.split("=") for p in one.split()))]
    rows = pd.read_csv(PORTABILITY, keep_default_na=False, dtype=str).to_dict("records") if PORTABILITY.exists() else []
    for benchmark in wanted:
        row = {"setting": active[-1], "meaning": SETTINGS[active[-1]], **measure(params, benchmark)}
        rows = [old for old in rows if (old["setting"], old["benchmark"]) != (active[-1], benchmark)] + [row]
        rows.sort(key=lambda one: (list(SETTINGS).index(one["setting"]), known.index(one["benchmark"])))
        table = pd.DataFrame(rows)
        write_text(PORTABILITY, table.to_csv(index=False, lineterminator="\n"))
        write_text(PORTABILITY.with_suffix(".md"), to_markdown(table))
        print(f"portability: {row['meaning']}, {benchmark}: {row['accuracy_points']} points")
