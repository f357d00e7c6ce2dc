"""Stage transfer: does the theory carry over to ReLU MLPs (appendix A.2.2)? NORACL on Permuted MNIST, two layers."""

import sys
from collections.abc import Iterator
from dataclasses import replace

from noracl import transfer
from pipeline.executor import RunFailed, run_all
from pipeline.files import write_json
from pipeline.params import Params, load_or_exit
from pipeline.paths import RESULTS
from pipeline.runs import Record, Run
from pipeline.suites import MNIST_STREAM
from pipeline.train import write_csv

#: experiment, seed, task and epoch of growth, x, quantity, value
Row = tuple[str, int, int, int | str, int | str, str, float]
COLUMNS = ("experiment", "seed", "task", "epoch", "x", "quantity", "value")
AGES = 60  # epochs after a growth event that are reported


def runs(params: Params) -> list[Run]:
    """The two-layer NORACL of Table 1, looked at while it learns."""
    settings = params.settings(MNIST_STREAM, (params.benchmarks[MNIST_STREAM].start,) * 2)
    plain = [Run.of(params, "transfer", MNIST_STREAM, "NORACL", seed, settings) for seed in params.seeds]
    return [replace(run, observed=True) for run in plain]


def rows(seed: int, record: Record) -> Iterator[Row]:
    """What one run gives; ``x`` is a layer, epochs since growth, or the task of which accuracy is told."""
    if (history := record.history) is None or (seen := record.observation) is None:
        return
    final = history.accuracy[-1]
    for j, accuracy in enumerate(final, start=1):
        yield "final", seed, j, "", j, "accuracy", accuracy
    for event in history.growth:
        yield "growth", seed, event.task, event.epoch, event.layer, "neurons", event.neurons
    for ratio in transfer.ratios(history.growth, seen.updates):
        if ratio.age < AGES:
            for quantity in ("moved", "stepped", *(("fewer",) if ratio.age == 0 else ())):
                yield "update", seed, *ratio.event, ratio.age, quantity, getattr(ratio, quantity)
    for task, accuracies in seen.silenced:
        for j, (without, whole) in enumerate(zip(accuracies, final, strict=True), start=1):
            yield "silenced", seed, task, "", j, "change", without - whole


def main() -> None:
    """Command line of the stage."""
    params = load_or_exit()
    todo = runs(params)
    try:
        records = run_all(todo, params.compute, "transfer")
    except (RunFailed, FileNotFoundError) as error:
        sys.exit(f"transfer: {error}")
    found = [row for run, record in zip(todo, records, strict=True) for row in rows(run.seed, record)]
    table: list[dict[str, object]] = [
        {**dict(zip(COLUMNS, row, strict=True)), "value": f"{row[-1]:.6g}"} for row in found
    ]
    write_csv(RESULTS / "transfer.csv", table, COLUMNS)
    machines = [record.machine for record in records]
    write_json(RESULTS / "transfer.provenance.json", [m for i, m in enumerate(machines) if m not in machines[:i]])


if __name__ == "__main__":
    main()
