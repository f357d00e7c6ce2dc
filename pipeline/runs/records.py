"""What a run leaves, as plain data and back: nothing becomes a record that the run cannot have left."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from noracl import EpochSignals, GrowthEvent, History, LayerSignal
from noracl.analysis import controls, transfer, upkeep
from pipeline.runs import ways
from pipeline.sections import STRICT

if TYPE_CHECKING:
    from pipeline.runs.run import Run


class Invalid(ValueError):
    """This is no record of the run; the message says why."""


@dataclass(frozen=True)
class Record:
    """What a run left: its history, or the reason why the method could not go on; and where and how long."""

    tasks: int
    history: History | None
    infeasible: str | None
    seconds: dict[str, float]
    machine: dict[str, str]
    observation: ways.Seen | None = None

    def first(self, tasks: int) -> "Record":
        """The record of the first tasks of the stream."""
        return replace(self, tasks=tasks, history=self.history and self.history.first(tasks))


_SEEN = (transfer.Observation, transfer.Update, upkeep.Dormancy)
for _kind in (Record, History, EpochSignals, GrowthEvent, LayerSignal, *_SEEN):
    setattr(_kind, "__pydantic_config__", STRICT)  # noqa: B010
_RECORDS = TypeAdapter(Record)


def to_plain(record: object) -> dict[str, Any]:
    """A record as what JSON can hold; Invalid if it is no record."""
    if not isinstance(record, Record):
        raise Invalid(f"it is a {type(record).__name__}")
    return asdict(record)


def from_plain(content: dict[str, Any], run: "Run") -> Record:
    """A record of this run, or of a longer one that begins with it; Invalid if it is anything else."""
    try:
        record = _RECORDS.validate_json(json.dumps(content, allow_nan=False))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise Invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (TypeError, ValueError) as error:  # what JSON cannot hold
        raise Invalid(str(error)) from None
    for problem in _problems(record, run):
        raise Invalid(problem)
    return record


def _problems(record: Record, run: "Run") -> Iterator[str]:
    """Whatever this run cannot have left, in a record whose types are right."""
    history = record.history
    if record.tasks < run.tasks or (record.tasks > run.tasks and (history is None or run.how != ways.LEARN)):
        yield f"tasks is {record.tasks}, the run has {run.tasks}"
    if (history is None) == (record.infeasible is None):
        yield "it must hold a history, or a reason why there is none"
    if "total" not in record.seconds or min(record.seconds.values()) < 0:
        yield f"seconds are {record.seconds}"
    if not record.machine:
        yield "machine is empty"
    if type(record.observation) is not (ways.seen(run.how) if history is not None else type(None)):
        yield "observation is there, or missing, against what the run asks for"
    if isinstance(record.observation, upkeep.Dormancy):
        yield from _problems_of_dormancy(record.observation, record.tasks, run)
    if history is not None:
        yield from _problems_of_history(history, record.tasks, run)


def _first(history: History, task: int, run: "Run") -> tuple[int, ...]:
    """Widths without growth: a control may have NORACL's last ones, and one network per task adds up."""
    if run.how == ways.CONTROL + controls.AT_ONCE:
        return history.widths[0]
    return tuple(width * (task if run.how == ways.SEPARATE else 1) for width in run.settings.hidden)


def _problems_of_dormancy(found: upkeep.Dormancy, tasks: int, run: "Run") -> Iterator[str]:
    if len(found.shares) != tasks:
        yield f"observation.shares has {len(found.shares)} tasks, not {tasks}"
    for shares in found.shares:
        if len(shares) != run.layers or not all(0 <= share <= 1 for share in shares):
            yield f"observation.shares has {shares}"


def _problems_of_history(history: History, tasks: int, run: "Run") -> Iterator[str]:
    layers, epochs = run.layers, run.settings.optimisation.epochs_later
    for name in ("accuracy", "widths", "parameters", "locked", "plastic", "zero_shot", "untrained"):
        if (length := len(getattr(history, name))) != tasks:
            yield f"history.{name} has {length} tasks, not {tasks}"
    for task, accuracies in enumerate(history.accuracy, start=1):
        if len(accuracies) != task or not all(0 <= share <= 1 for share in accuracies):
            yield f"history.accuracy after task {task} is {accuracies}"
    for name in ("zero_shot", "untrained"):
        if not all(0 <= share <= 1 for share in getattr(history, name)):
            yield f"history.{name} is {getattr(history, name)}"
    for event in history.growth:
        known = 1 < event.task <= tasks and 0 <= event.epoch <= epochs and 0 < event.layer <= layers
        if not known or event.neurons < 1 or run.settings.growth.trigger == "none":
            yield f"history.growth has the event {event}"
    for task in range(1, tasks + 1):
        grown = [event for event in history.growth if event.task <= task]
        widths = tuple(
            start + sum(event.neurons for event in grown if event.layer == layer)
            for layer, start in enumerate(_first(history, task, run), start=1)
        )
        if history.widths[task - 1] != widths:
            yield f"history.widths after task {task} are {history.widths[task - 1]}, growth gives {widths}"
        size, plastic, locked = history.parameters[task - 1], history.plastic[task - 1], history.locked[task - 1]
        if size != run.size(widths):
            yield f"history.parameters after task {task} are {size}, which its widths do not give"
        if not 0 <= plastic <= size * (1 + 1e-6):
            yield f"history.plastic after task {task} is {plastic} of {size} parameters"
        if len(locked) != layers or not all(0 <= share <= 1 for share in locked):
            yield f"history.locked after task {task} is {locked}"
    for seen in history.signals:
        known = 1 < seen.task <= tasks and 0 < seen.epoch <= epochs and len(seen.layers) == layers
        if not known or any(value is not None and value < 0 for one in seen.layers for value in vars(one).values()):
            yield f"history.signals has {seen}"
