"""Stage transfer: does the theory carry over to ReLU MLPs (appendix A.2.2)? NORACL on Permuted MNIST, two layers."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from noracl.analysis import transfer
from pipeline.config import PERMUTED, Params, load
from pipeline.data.manifests import Manifest, read_manifest
from pipeline.experiments.builder import Builder
from pipeline.files import write_csv, write_json
from pipeline.paths import RESULTS
from pipeline.runs.executor import run_all
from pipeline.runs.provenance import distinct
from pipeline.runs.records import Record
from pipeline.runs.run import Run
from pipeline.runs.ways import OBSERVE

#: experiment, seed, task and epoch of growth, x, quantity, value
Row = tuple[str, int, int, int | str, int | str, str, float]
COLUMNS = ("experiment", "seed", "task", "epoch", "x", "quantity", "value")
AGES = 60  # epochs after a growth event that are reported


def runs(params: Params, manifest_of: Callable[[str], Manifest] = read_manifest) -> list[Run]:
    """The deepest NORACL of Table 1, looked at while it learns."""
    plain = Builder(params, manifest_of).noracl("transfer", PERMUTED)
    return [replace(run, how=OBSERVE) for run in plain if run.layers == max(one.layers for one in plain)]


def rows(seed: int, record: Record) -> Iterator[Row]:
    """What one run gives; ``x`` is a layer, epochs since growth, or the task of which accuracy is told."""
    history, seen = record.history, record.observation
    if history is None or not isinstance(seen, transfer.Observation):
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


def main(arguments: list[str]) -> None:
    """Stage transfer."""
    params = load()
    todo = runs(params)
    records = run_all(todo, params.compute, "transfer")
    found = [row for run, record in zip(todo, records, strict=True) for row in rows(run.seed, record)]
    table: list[dict[str, object]] = [
        {**dict(zip(COLUMNS, row, strict=True)), "value": f"{row[-1]:.6g}"} for row in found
    ]
    write_csv(RESULTS / "transfer" / "transfer.csv", table, COLUMNS)
    write_json(RESULTS / "transfer" / "provenance.json", distinct(record.machine for record in records))
