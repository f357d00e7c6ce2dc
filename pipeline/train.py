"""Stages train@…: every run of a benchmark and a family, as one CSV of results."""

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from noracl import History
from pipeline.executor import RunFailed, run_all
from pipeline.files import write_json, write_text
from pipeline.params import Params, load_or_exit
from pipeline.paths import RESULTS, TIMING
from pipeline.runs import Record, Run

SIGNAL_COLUMNS = (
    *("benchmark", "method", "layers", "seed", "task", "epoch", "layer"),
    *("phi", "reference", "percentile", "tau", "neurons"),
)
FAMILIES = ("static", "noracl")


def suite_of(benchmark: str, family: str) -> str:
    """The suite of Table 1 that holds a benchmark's runs of one family."""
    return f"{benchmark}-{family}"


def table1_runs(params: Params, benchmark: str, family: str) -> list[Run]:
    """The runs behind one benchmark's column of Table 1 (section 5.1)."""
    suite = suite_of(benchmark, family)
    start = params.benchmarks[benchmark].start
    methods = params.static.widths if family == "static" else {"NORACL": start}
    rule = {"trigger": "none"} if family == "static" else {}
    return [
        Run.of(params, suite, benchmark, method, seed, params.settings(benchmark, (width,) * depth, **rule))
        for depth in params.depths
        for method, width in methods.items()
        for seed in params.seeds
    ]


def result_rows(run: Run, history: History, layers: int) -> list[dict[str, object]]:
    """One row per task, as reports/results holds them; ``layers`` is the largest depth of the suite."""
    rows = []
    for index, accuracies in enumerate(history.accuracy):
        row: dict[str, object] = {
            "suite": run.suite,
            "benchmark": run.benchmark,
            "method": run.method,
            "layers": len(run.settings.hidden),
            "seed": run.seed,
            "task": index + 1,
            "accuracy": f"{history.average_accuracy(index):.6f}",
            "accuracy_first": f"{accuracies[0]:.6f}",
            "accuracy_newest": f"{accuracies[-1]:.6f}",
            "params": history.parameters[index],
        }
        widths, locked = history.widths[index], history.locked[index]
        for layer in range(layers):
            row[f"width_{layer + 1}"] = widths[layer] if layer < len(widths) else ""
        row["growth_events"] = sum(event.task <= index + 1 for event in history.growth)
        for layer in range(layers):
            row[f"locked_{layer + 1}"] = f"{locked[layer]:.6f}" if layer < len(locked) else ""
        row["plastic"] = f"{history.plastic[index]:.3f}"
        rows.append(row)
    return rows


def signal_rows(run: Run, history: History) -> list[dict[str, object]]:
    """One row per epoch and layer at which the growth rule looked, with the neurons that it added."""
    grown = {(e.task, e.epoch, e.layer): e.neurons for e in history.growth}
    return [
        {
            "benchmark": run.benchmark,
            "method": run.method,
            "layers": len(run.settings.hidden),
            "seed": run.seed,
            "task": seen.task,
            "epoch": seen.epoch,
            "layer": layer,
            "phi": f"{signal.phi:.6f}",
            "reference": f"{signal.reference:.6f}",
            "percentile": "" if signal.percentile is None else f"{signal.percentile:.6e}",
            "tau": "" if signal.tau is None else f"{signal.tau:.6e}",
            "neurons": grown.get((seen.task, seen.epoch, layer), 0),
        }
        for seen in history.signals
        for layer, signal in enumerate(seen.layers, start=1)
    ]


def write_csv(path: Path, rows: Sequence[dict[str, object]], columns: Sequence[str] = ()) -> None:
    """A CSV with Unix line ends, replaced at once; ``columns`` where there may be no row to tell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_suite(suite: str, runs: Sequence[Run], records: Sequence[Record]) -> None:
    """Results, the signals behind them, where they were computed, and apart from them how long it took."""
    layers = max(len(run.settings.hidden) for run in runs)
    pairs = [(run, record.history) for run, record in zip(runs, records, strict=True) if record.history is not None]
    write_csv(RESULTS / f"{suite}.csv", [row for run, history in pairs for row in result_rows(run, history, layers)])
    signals = [row for run, history in pairs for row in signal_rows(run, history)]
    write_csv(RESULTS / f"{suite}.signals.csv", signals, SIGNAL_COLUMNS)
    machines: list[dict[str, str]] = []
    for record in records:
        if record.machine not in machines:
            machines.append(record.machine)
    write_json(RESULTS / f"{suite}.provenance.json", machines)
    timing = [
        {
            "method": run.method,
            "layers": len(run.settings.hidden),
            "seed": run.seed,
            **{name: f"{seconds:.2f}" for name, seconds in record.seconds.items()},
        }
        for run, record in zip(runs, records, strict=True)
    ]
    write_csv(TIMING / f"{suite}.csv", timing)


def main() -> None:
    """Command line of the stages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark")
    parser.add_argument("family", choices=FAMILIES)
    arguments = parser.parse_args()
    params = load_or_exit()
    if arguments.benchmark not in params.benchmarks:
        sys.exit(f"params.yaml has no benchmarks.{arguments.benchmark}; it has {', '.join(params.benchmarks)}")
    runs = table1_runs(params, arguments.benchmark, arguments.family)
    suite = suite_of(arguments.benchmark, arguments.family)
    try:
        records = run_all(runs, params.compute, suite)
    except (RunFailed, FileNotFoundError) as error:
        sys.exit(f"{suite}: {error}")
    write_suite(suite, runs, records)


if __name__ == "__main__":
    main()
