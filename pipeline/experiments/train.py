"""The training stages: every run of a suite, as one CSV of results."""

import argparse
from collections.abc import Sequence

from noracl.analysis.upkeep import Dormancy
from noracl.method.algorithm import COMPONENTS
from pipeline.config import load
from pipeline.data.pixels import manifest_of, name_of
from pipeline.experiments import metrics
from pipeline.experiments.suites import suites
from pipeline.files import write_csv, write_json
from pipeline.paths import MANIFESTS, RESULTS, TIMING
from pipeline.runs.executor import RunFailed, run_all
from pipeline.runs.provenance import distinct
from pipeline.runs.records import Record
from pipeline.runs.run import Run

Row = dict[str, object]
LABELS = ("benchmark", "method", "layers", "seed")
SIGNALS = (*LABELS, "task", "epoch", "layer", "phi", "reference", "percentile", "tau", "neurons")


def labels(run: Run) -> Row:
    """What names a run in every CSV."""
    return {name: getattr(run, name) for name in LABELS}


def per_layer(name: str, values: Sequence[object], layers: int) -> Row:
    """One column per layer, empty where a network has fewer."""
    return {f"{name}_{i + 1}": values[i] if i < len(values) else "" for i in range(layers)}


def result_rows(run: Run, record: Record, layers: int) -> list[Row]:
    """One row per task, as runs.csv holds them; ``layers`` is the largest depth of the suite.

    A run in which the method could not go on has one row, for task 0, without numbers.
    """
    rows, history, seen = [], record.history, record.observation
    dormant = seen.shares if isinstance(seen, Dormancy) else None
    if history is None:
        return [{**dict.fromkeys(result_columns(layers), ""), **labels(run), "task": 0}]
    for index, accuracies in enumerate(history.accuracy):
        rows.append(
            {
                **labels(run),
                "task": index + 1,
                "accuracy": f"{history.average_accuracy(index):.6f}",
                "accuracy_first": f"{accuracies[0]:.6f}",
                "accuracy_newest": f"{accuracies[-1]:.6f}",
                "params": history.parameters[index],
                **per_layer("width", history.widths[index], layers),
                "growth_events": sum(event.task <= index + 1 for event in history.growth),
                **per_layer("locked", [f"{share:.6f}" for share in history.locked[index]], layers),
                "plastic": f"{history.plastic[index]:.3f}",
                **(per_layer("dormant", [f"{share:.6f}" for share in dormant[index]], layers) if dormant else {}),
            }
        )
    return rows


def result_columns(layers: int, dormant: bool = False) -> list[str]:
    """Columns of runs.csv; dormant neurons are counted where a suite is about them."""
    measured = ("task", "accuracy", "accuracy_first", "accuracy_newest", "params")
    widths, locked = per_layer("width", (), layers), per_layer("locked", (), layers)
    counted = per_layer("dormant", (), layers) if dormant else {}
    return [*LABELS, *measured, *widths, "growth_events", *locked, "plastic", *counted]


def signal_rows(run: Run, record: Record) -> list[Row]:
    """One row per epoch and layer at which the growth rule looked, with the neurons that it added."""
    if (history := record.history) is None:
        return []
    grown = {(e.task, e.epoch, e.layer): e.neurons for e in history.growth}
    return [
        {
            **labels(run),
            **{"task": seen.task, "epoch": seen.epoch, "layer": layer},
            **{"phi": f"{signal.phi:.6f}", "reference": f"{signal.reference:.6f}"},
            "percentile": "" if signal.percentile is None else f"{signal.percentile:.6e}",
            "tau": "" if signal.tau is None else f"{signal.tau:.6e}",
            "neurons": grown.get((seen.task, seen.epoch, layer), 0),
        }
        for seen in history.signals
        for layer, signal in enumerate(seen.layers, start=1)
    ]


def write_suite(suite: str, runs: Sequence[Run], records: Sequence[Record], signals: bool = False) -> None:
    """Results, the signals behind them, where they were computed, and apart from them how long it took."""
    layers = max(run.layers for run in runs)
    pairs = list(zip(runs, records, strict=True))
    folder = RESULTS / suite
    rows = [row for run, record in pairs for row in result_rows(run, record, layers)]
    dormant = any(isinstance(record.observation, Dormancy) for record in records)
    write_csv(folder / "runs.csv", rows, result_columns(layers, dormant))
    if signals:
        write_csv(folder / "signals.csv", [row for pair in pairs for row in signal_rows(*pair)], SIGNALS)
    write_json(folder / "provenance.json", distinct(record.machine | run.encoder for run, record in pairs))
    spent = (*COMPONENTS, "total", "cpu")
    timing: list[Row] = [
        {**labels(run), "tasks": record.tasks, **{name: f"{record.seconds.get(name, 0):.2f}" for name in spent}}
        for run, record in pairs
    ]
    write_csv(TIMING / f"{suite}.csv", timing, list(timing[0]))


def summary(runs: Sequence[Run], records: Sequence[Record]) -> str:
    """Means over seeds after the last task, one line per method."""
    found: dict[str, list[Record]] = {}
    for run, record in zip(runs, records, strict=True):
        found.setdefault(f"{run.benchmark} {run.layers}L {run.method}", []).append(record)
    lines = []
    for name, group in found.items():
        done = [record.history for record in group if record.history]
        seeds = len(done) or 1
        accuracy = sum(history.average_accuracy() for history in done) / seeds
        size = sum(history.parameters[-1] for history in done) / seeds
        lines.append(f"  {name}: {accuracy:.2%}, {size:.0f} parameters, {len(done)} of {len(group)} seeds")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Every training stage."""
    params = load()
    known = suites(params)
    parser = argparse.ArgumentParser(prog="python -m pipeline train", description=__doc__)
    parser.add_argument("suite", choices=known, metavar="SUITE", help=", ".join(known))
    for reading in {name.removeprefix("readings/") for name in arguments if name not in known} & set(params.readings):
        params.under(reading)  # says why it cannot be used
    suite = known[parser.parse_args(arguments).suite]
    runs = suite.runs()
    for data in {run.data for run in runs if run.data.kind == "pixels"}:
        if data != manifest_of(name := name_of(data), params):
            raise RunFailed(f"{MANIFESTS}/{name}.json is not what params.yaml says: run `dvc repro pixels@{name}`")
    records = run_all(runs, params.compute, suite.name)
    write_suite(suite.name, runs, records, suite.signals)
    metrics.write(suite.name)
    print(summary(runs, records))
