"""The training stages: every run of a suite, as one CSV of results."""

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from noracl.learner import COMPONENTS
from pipeline.executor import RunFailed, run_all
from pipeline.files import write_json, write_text
from pipeline.params import load_or_exit
from pipeline.paths import RESULTS, TIMING
from pipeline.runs import Record, Run
from pipeline.suites import ON_FEATURES, runs_of_suite, suites, table1_names

SIGNAL_COLUMNS = (
    *("benchmark", "method", "layers", "seed", "task", "epoch", "layer"),
    *("phi", "reference", "percentile", "tau", "neurons"),
)


def result_rows(run: Run, record: Record, layers: int, suite: str) -> list[dict[str, object]]:
    """One row per task, as reports/results holds them; ``layers`` is the largest depth of the suite.

    A run in which the method could not go on has one row, for task 0, without numbers.
    """
    history, rows = record.history, []
    if history is None:
        row = dict.fromkeys(result_columns(layers), "")
        labels = (suite, run.benchmark, run.method, len(run.settings.hidden), run.seed, 0)
        return [row | dict(zip(row, labels, strict=False))]
    for index, accuracies in enumerate(history.accuracy):
        widths, locked = history.widths[index], history.locked[index]
        missing = [""] * (layers - len(widths))
        values = [
            *(suite, run.benchmark, run.method, len(run.settings.hidden), run.seed, index + 1),
            f"{history.average_accuracy(index):.6f}",
            f"{accuracies[0]:.6f}",
            f"{accuracies[-1]:.6f}",
            history.parameters[index],
            *(*widths, *missing),
            sum(event.task <= index + 1 for event in history.growth),
            *(*(f"{share:.6f}" for share in locked), *missing),
            f"{history.plastic[index]:.3f}",
        ]
        rows.append(dict(zip(result_columns(layers), values, strict=True)))
    return rows


def result_columns(layers: int) -> list[str]:
    """Columns of reports/results/<suite>.csv."""
    return [
        *("suite", "benchmark", "method", "layers", "seed", "task"),
        *("accuracy", "accuracy_first", "accuracy_newest", "params"),
        *(f"width_{layer + 1}" for layer in range(layers)),
        "growth_events",
        *(f"locked_{layer + 1}" for layer in range(layers)),
        "plastic",
    ]


def signal_rows(run: Run, record: Record) -> list[dict[str, object]]:
    """One row per epoch and layer at which the growth rule looked, with the neurons that it added."""
    if (history := record.history) is None:
        return []
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


def write_csv(path: Path, rows: Sequence[dict[str, object]], columns: Sequence[str]) -> None:
    """A CSV with Unix line ends, replaced at once."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_suite(suite: str, runs: Sequence[Run], records: Sequence[Record], signals: bool = False) -> None:
    """Results, the signals behind them, where they were computed, and apart from them how long it took."""
    layers = max(len(run.settings.hidden) for run in runs)
    pairs = list(zip(runs, records, strict=True))
    rows = [row for run, record in pairs for row in result_rows(run, record, layers, suite)]
    write_csv(RESULTS / f"{suite}.csv", rows, result_columns(layers))
    if signals:
        seen = [row for run, record in pairs for row in signal_rows(run, record)]
        write_csv(RESULTS / f"{suite}.signals.csv", seen, SIGNAL_COLUMNS)
    machines: list[dict[str, str]] = []
    for run, record in pairs:
        if (made := record.machine | run.encoder) not in machines:
            machines.append(made)
    write_json(RESULTS / f"{suite}.provenance.json", machines)
    timing = [
        {
            "benchmark": run.benchmark,
            "method": run.method,
            "layers": len(run.settings.hidden),
            "seed": run.seed,
            "tasks": record.tasks,
            **{name: f"{record.seconds.get(name, 0):.2f}" for name in (*COMPONENTS, "total", "cpu")},
        }
        for run, record in pairs
    ]
    write_csv(TIMING / f"{suite}.csv", timing, list(timing[0]))


def main() -> None:
    """Command line of the stages."""
    params = load_or_exit()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=[*suites(params), *ON_FEATURES])
    suite = parser.parse_args().suite
    try:
        runs = runs_of_suite(params, suite)
        records = run_all(runs, params.compute, suite)
        write_suite(suite, runs, records, signals=suite in table1_names(params))
    except (RunFailed, OSError) as error:
        sys.exit(f"{suite}: {error}")


if __name__ == "__main__":
    main()
