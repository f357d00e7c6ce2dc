"""How much golden runs differ from the committed results when the processor's instructions are others.

A stand-in for other machines: MKL, torch's own kernels and oneDNN can be told to leave instructions unused.
`python -m pipeline.portability split_mnist` measures one benchmark and keeps the other rows; `dvc` does not run it.
"""

import argparse
import csv
import json
import os
import subprocess
import sys

import pandas as pd

from pipeline.check import golden_runs
from pipeline.executor import RunFailed, run_all
from pipeline.files import write_text
from pipeline.params import Params, load_or_exit
from pipeline.paths import RESULTS, TABLES
from pipeline.runs import machine
from pipeline.train import result_rows

#: What is set before torch is loaded, and what that does.
SETTINGS = {
    "": "as it is",
    "MKL_CBWR=AVX2 ONEDNN_MAX_CPU_ISA=SSE41": "MKL bound to AVX2, oneDNN to SSE4.1",
    "ATEN_CPU_CAPABILITY=default": "torch's own kernels and random draws without AVX2",
    "MKL_CBWR=COMPATIBLE": "MKL for any x86-64 processor",
}
COLUMNS = (
    *("setting", "meaning", "instructions", "benchmark", "first_task", "accuracy_points", "final_accuracy"),
    *("committed_accuracy", "final_params", "committed_params", "within_tolerances"),
)


def compare(fresh: list[dict[str, str]], committed: list[dict[str, str]], params: Params) -> dict[str, object]:
    """Where and how far two histories of one run part."""
    pairs = list(zip(fresh, committed, strict=True))
    apart = [int(new["task"]) for new, old in pairs if new != old]
    points = max(abs(float(new["accuracy"]) - float(old["accuracy"])) for new, old in pairs) * 100
    share = max(abs(int(new["params"]) / int(old["params"]) - 1) for new, old in pairs)
    allowed = params.tolerances
    within = points <= allowed.golden_accuracy * 100 and share <= allowed.golden_params
    return {
        "first_task": apart[0] if apart else "none",
        "accuracy_points": f"{points:.2f}",
        "final_accuracy": f"{float(fresh[-1]['accuracy']) * 100:.2f}",
        "committed_accuracy": f"{float(committed[-1]['accuracy']) * 100:.2f}",
        "final_params": fresh[-1]["params"],
        "committed_params": committed[-1]["params"],
        "within_tolerances": "yes" if within else "no",
    }


def measure(params: Params, benchmark: str) -> dict[str, object]:
    """The golden run of a benchmark, in this process's environment, against the committed one."""
    (run,) = (run for run in golden_runs(params) if run.benchmark == benchmark)
    (record,) = run_all([run], params.compute, f"portability, {benchmark}", fresh=True)
    depth, seed = str(len(run.settings.hidden)), str(run.seed)
    with (RESULTS / f"{run.suite}.csv").open(newline="") as file:
        committed = [row for row in csv.DictReader(file) if (row["layers"], row["seed"]) == (depth, seed)]
    rows = result_rows(run, record, max(params.depths), run.suite)
    fresh = [{name: str(value) for name, value in row.items()} for row in rows]
    return {"instructions": machine()["instructions"], "benchmark": benchmark, **compare(fresh, committed, params)}


def elsewhere(setting: str, benchmark: str) -> dict[str, object]:
    """The same in a process of its own, because libraries look at their environment once."""
    environment = {**os.environ, **dict(part.split("=") for part in setting.split())}
    command = [sys.executable, "-m", "pipeline.portability", "--here", benchmark]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return {"setting": setting, "meaning": SETTINGS[setting], **found}


def to_markdown(table: pd.DataFrame) -> str:
    """The table for people."""
    lines = ["| processor | benchmark | parts from the committed run | accuracy differs by at most | at the end |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for row in table.to_dict("records"):
        name = f"{row['meaning']}, `{row['setting']}`" if row["setting"] else row["meaning"]
        apart = "nowhere" if row["first_task"] == "none" else f"in task {row['first_task']}"
        ends = f"{row['final_accuracy']} %, {row['final_params']} params"
        ends += f" (committed: {row['committed_accuracy']} %, {row['committed_params']})"
        outside = "" if row["within_tolerances"] == "yes" else ", outside `tolerances.golden_…`"
        cells = (name, row["benchmark"], apart, f"{row['accuracy_points']} points{outside}", ends)
        lines.append(f"| {' | '.join(cells)} |")
    line = "One golden run each (two-layer NORACL, first seed), by `python -m pipeline.portability`."
    return "\n".join(lines) + f"\n\n{line}\n"


def main() -> None:
    """Command line."""
    params = load_or_exit()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark", nargs="*", choices=[*params.benchmarks], help="all by default")
    parser.add_argument("--setting", action="append", choices=[*SETTINGS], help="all by default")
    parser.add_argument("--here", action="store_true", help="measure in this environment and print")
    options = parser.parse_args()
    if options.here:
        try:
            print(json.dumps(measure(params, *options.benchmark)))
        except (RunFailed, FileNotFoundError) as error:
            sys.exit(str(error))
        return
    path = TABLES / "portability.csv"
    rows = pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records") if path.exists() else []
    known = {(row["setting"], row["benchmark"]): row for row in rows}
    for setting in options.setting or SETTINGS:
        for benchmark in options.benchmark or params.benchmarks:
            known[setting, benchmark] = elsewhere(setting, benchmark)
            order = [known[s, b] for s in SETTINGS for b in params.benchmarks if (s, b) in known]
            table = pd.DataFrame(order, columns=list(COLUMNS)).astype(str)
            write_text(path, table.to_csv(index=False, lineterminator="\n"))
            write_text(path.with_suffix(".md"), to_markdown(table))
            print(
                f"portability: {SETTINGS[setting]}, {benchmark}: {known[setting, benchmark]['accuracy_points']} points"
            )


if __name__ == "__main__":
    main()
