"""The record of a run, and what is derived from it (section 5)."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from noracl.method.checks import require, whole
from noracl.method.triggers import LayerSignal


@dataclass(frozen=True)
class EpochSignals:
    """What the growth rule saw at the end of an epoch: one ``LayerSignal`` per hidden layer."""

    task: int  #: from 1
    epoch: int  #: from 1
    layers: tuple[LayerSignal, ...]  #: of hidden layers, from the inputs on


@dataclass(frozen=True)
class GrowthEvent:
    """New neurons in a hidden layer; task and layer count from 1, signals are None if the rule does not read them."""

    task: int  #: from 1
    epoch: int  #: the last epoch that was trained before the event; 0 is the start of the task
    layer: int  #: from 1, the one next to the inputs
    neurons: int  #: how many it got
    phi: float | None = None  #: φ
    reference: float | None = None  #: φ⁰, the φ at the end of the last task
    percentile: float | None = None  #: Percentile(F, p)
    tau: float | None = None  #: τ


@dataclass
class History:
    """The course of one run; all lists but the last two have one entry per task that was learnt.

    Accuracies are fractions, and NaN on tasks that came without test data.
    """

    accuracy: list[list[float]] = field(default_factory=list)  #: R[t][j], j ≤ t: on task j after task t
    widths: list[tuple[int, ...]] = field(default_factory=list)  #: neurons per hidden layer
    parameters: list[int] = field(default_factory=list)  #: number of weights
    locked: list[tuple[float, ...]] = field(default_factory=list)  #: locked fraction per hidden layer
    plastic: list[float] = field(default_factory=list)  #: effective plastic parameters
    zero_shot: list[float] = field(default_factory=list)  #: on each task right before it was learnt
    untrained: list[float] = field(default_factory=list)  #: on each task with the first weights of all
    growth: list[GrowthEvent] = field(default_factory=list)  #: every growth event
    signals: list[EpochSignals] = field(default_factory=list)  #: what the growth rule saw each time it looked

    def average_accuracy(self, task: int = -1) -> float:
        """Mean accuracy over the tasks seen so far, after the task with this index (default: the last)."""
        tasks = self._learnt()
        require(
            -tasks <= whole("task", task, None) < tasks, f"task must be below {tasks}, the tasks learnt, got {task}"
        )
        return sum(self.accuracy[task]) / len(self.accuracy[task])

    def forgetting(self) -> float:
        """Mean over earlier tasks of the best accuracy ever reached minus the final one."""
        self._learnt()
        *earlier, final = self.accuracy
        drops = [max(row[j] for row in earlier[j:]) - final[j] for j in range(len(earlier))]
        return sum(drops) / len(drops) if drops else 0.0

    def backward_transfer(self) -> float:
        """Mean over earlier tasks of the final accuracy minus the one right after learning the task."""
        self._learnt()
        *earlier, final = self.accuracy
        gains = [final[j] - row[j] for j, row in enumerate(earlier)]
        return sum(gains) / len(gains) if gains else 0.0

    def learning_accuracy(self) -> float:
        """Mean accuracy on each task right after it was learnt (Riemer et al. 2019)."""
        return sum(row[-1] for row in self.accuracy) / self._learnt()

    def forward_transfer(self) -> float:
        """Mean over later tasks of the accuracy right before learning minus that of the first weights.

        As in Lopez-Paz and Ranzato 2017, section 2; 0 if there is only one task.
        """
        gains = [before - first for before, first in zip(self.zero_shot[1:], self.untrained[1:], strict=True)]
        return sum(gains) / len(gains) if self._learnt() > 1 else 0.0

    def first(self, tasks: int) -> "History":
        """The history of the first ``tasks`` tasks, as if the stream had ended there."""
        tasks = whole("tasks", tasks, 0)
        kept = {f.name: getattr(self, f.name)[:tasks] for f in fields(self)}
        for name in ("growth", "signals"):
            kept[name] = [one for one in getattr(self, name) if one.task <= tasks]
        return History(**kept)

    def _learnt(self) -> int:
        require(len(self.accuracy) > 0, "this history holds no task: learn at least one first")
        return len(self.accuracy)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "History":
        """The inverse of ``to_dict``."""
        return cls(
            [list(row) for row in data["accuracy"]],
            [tuple(row) for row in data["widths"]],
            list(data["parameters"]),
            [tuple(row) for row in data["locked"]],
            list(data["plastic"]),
            list(data["zero_shot"]),
            list(data["untrained"]),
            [GrowthEvent(**event) for event in data["growth"]],
            [EpochSignals(**{**s, "layers": tuple(LayerSignal(**x) for x in s["layers"])}) for s in data["signals"]],
        )
