"""What a run leaves behind, and what is derived from it (section 5)."""

from dataclasses import asdict, dataclass, field
from typing import Any

from noracl.triggers import LayerSignal


@dataclass(frozen=True)
class EpochSignals:
    """What the growth rule saw at the end of an epoch, a ``LayerSignal`` per hidden layer."""

    task: int
    epoch: int
    layers: tuple[LayerSignal, ...]


@dataclass(frozen=True)
class GrowthEvent:
    """``neurons`` new neurons in hidden layer ``layer``; task, epoch and layer count from 1.

    ``epoch`` is the last epoch that was trained before the event; 0 is the start of the task. The signals are
    None for rules that do not read them.
    """

    task: int
    epoch: int
    layer: int
    neurons: int
    phi: float | None = None
    reference: float | None = None
    percentile: float | None = None
    tau: float | None = None


@dataclass
class History:
    """The course of one run; lists have one entry per task that was learnt."""

    accuracy: list[list[float]] = field(default_factory=list)  #: R[t][j], j ≤ t, as fractions
    widths: list[tuple[int, ...]] = field(default_factory=list)
    parameters: list[int] = field(default_factory=list)
    locked: list[tuple[float, ...]] = field(default_factory=list)  #: locked fraction per hidden layer
    plastic: list[float] = field(default_factory=list)  #: effective plastic parameters
    growth: list[GrowthEvent] = field(default_factory=list)
    signals: list[EpochSignals] = field(default_factory=list)

    def average_accuracy(self, task: int = -1) -> float:
        """Mean accuracy over the tasks seen so far, after the task with this index (default: the last)."""
        row = self.accuracy[task]
        return sum(row) / len(row)

    def forgetting(self) -> float:
        """Mean over earlier tasks of the best accuracy ever reached minus the final one."""
        final = self.accuracy[-1]
        drops = [max(row[j] for row in self.accuracy[j:-1]) - final[j] for j in range(len(final) - 1)]
        return sum(drops) / len(drops) if drops else 0.0

    def backward_transfer(self) -> float:
        """Mean over earlier tasks of the final accuracy minus the one right after learning the task."""
        final = self.accuracy[-1]
        gains = [final[j] - self.accuracy[j][j] for j in range(len(final) - 1)]
        return sum(gains) / len(gains) if gains else 0.0

    def first(self, tasks: int) -> "History":
        """The history of the first ``tasks`` tasks, as if the stream had ended there."""
        return History(
            self.accuracy[:tasks],
            self.widths[:tasks],
            self.parameters[:tasks],
            self.locked[:tasks],
            self.plastic[:tasks],
            [event for event in self.growth if event.task <= tasks],
            [epoch for epoch in self.signals if epoch.task <= tasks],
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "History":
        """The inverse of ``to_dict``."""
        signals = [
            EpochSignals(s["task"], s["epoch"], tuple(LayerSignal(**layer) for layer in s["layers"]))
            for s in data["signals"]
        ]
        return cls(
            [list(row) for row in data["accuracy"]],
            [tuple(w) for w in data["widths"]],
            list(data["parameters"]),
            [tuple(x) for x in data["locked"]],
            list(data["plastic"]),
            [GrowthEvent(**event) for event in data["growth"]],
            signals,
        )
