"""NORACL, Algorithm 1: a learner that is given one task after the other, and grows when two signals agree.

A static network is the same with trigger "none". ``learn`` is the short form for a whole stream.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import torch
from torch import Tensor

from noracl.method import saving, signals
from noracl.method.algorithm import COMPONENTS, Algorithm
from noracl.method.callbacks import Callbacks
from noracl.method.checks import instance, number, require, shown, whole
from noracl.method.history import History
from noracl.method.inputs import as_labels, as_matrix
from noracl.method.network import Network, layers
from noracl.method.regularisers import REGULARISERS
from noracl.method.seeds import generator
from noracl.method.settings import Settings
from noracl.method.streams import LARGEST, Stream, Task
from noracl.method.together import learn_task
from noracl.method.triggers import TRIGGERS, LayerSignal


@dataclass(frozen=True)
class Outcome:
    """The history, and apart from it the seconds per component of appendix A.7 and the final network."""

    history: History  #: accuracies, widths and growth events
    seconds: dict[str, float]  #: seconds per component, by its name
    network: Network  #: the final network


def learn(
    stream: Stream, settings: Settings | None = None, seed: int = 0, callbacks: Callbacks | None = None
) -> Outcome:
    """Learn the stream's tasks one after the other."""
    return Learner.of(stream, settings, seed, callbacks).learn_stream(stream)


def learn_together(
    stream: Stream, settings: Iterable[Settings], seed: int = 0, callbacks: Callbacks | None = None
) -> list[Outcome | Exception]:
    """Learn a stream with several settings in lock-step, which takes less time than one after the other.

    Each outcome is what ``learn`` gives with these settings, to the last byte; where that raises an error, the error is
    in the list, and the others go on. Settings must agree in mini-batches and epochs.
    """
    require(isinstance(settings, Iterable), f"settings must be several, such as a list, got {shown(settings)}")
    learners = [Learner.of(stream, one, seed, callbacks) for one in settings]
    require(len(learners) > 0, "settings must hold at least one Settings")
    return learn_side_by_side(learners, stream)


def learn_side_by_side(learners: Sequence["Learner"], stream: Stream) -> list[Outcome | Exception]:
    """Let learners that were made for a stream learn it in lock-step; an error ends one of them, not the others."""
    found: dict[int, Exception] = {}
    for task in stream.tasks:
        alive = [place for place in range(len(learners)) if place not in found]
        errors = learn_task([learners[place] for place in alive], task) if alive else []
        found |= {place: error for place, error in zip(alive, errors, strict=True) if error is not None}
        for place in alive:
            if place not in found:
                learners[place]._tell()
    return [found.get(place) or Outcome(one.history, one.seconds, one.network) for place, one in enumerate(learners)]


class Learner(Algorithm):
    """Learns tasks as they arrive, and can be asked at any time.

    >>> learner = Learner(Settings(hidden=(32, 32)), classes=2)
    >>> learner.learn(x, y, x_test, y_test).learn(x2, y2, x2_test, y2_test)
    >>> learner.predict(x2_test), learner.score(x_test, y_test), learner.widths, learner.history

    ``classes`` is the size of the head, by default what the first task has; inputs are scaled to x·scale + shift.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        classes: int | None = None,
        seed: int = 0,
        callbacks: Callbacks | None = None,
        *,
        scale: float = 1.0,
        shift: float = 0.0,
        device: torch.device | str | None = None,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        instance("settings", self.settings, Settings)
        self.callbacks = Callbacks() if callbacks is None else callbacks
        instance("callbacks", self.callbacks, Callbacks)
        self.classes = None if classes is None else whole("classes", classes, 2)
        self.scale, self.shift = (number(n, v, -LARGEST, LARGEST) for n, v in (("scale", scale), ("shift", shift)))
        self.device = None if device is None else torch.device(device)
        self.draws = {name: generator(seed, name) for name in ("weights", "order", "growth", "labels")}
        made = REGULARISERS.find(self.settings.regulariser)(self.settings.ewc)
        require(hasattr(made, "penalise"), f"regulariser must make a Regulariser, got {type(made).__name__}")
        self.regulariser = made
        self.trigger = TRIGGERS.find(self.settings.growth.trigger)
        self.fisher_average, self.tau, self.reference, self.losses, self.cooldown = None, None, [], [], 0
        self.history, self.seconds, self.tests, self.test_inputs = History(), dict.fromkeys(COMPONENTS, 0.0), [], {}

    @classmethod
    def of(
        cls,
        stream: Stream,
        settings: Settings | None = None,
        seed: int = 0,
        callbacks: Callbacks | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """A learner for the tasks of a stream: with its head, its scaling and its device."""
        instance("stream", stream, Stream)
        place = stream.tasks[0].x.device if device is None else device
        learner = cls(settings, stream.classes, seed, callbacks, scale=stream.scale, shift=stream.shift, device=place)
        learner._begin(stream.inputs, max(len(task.x) for task in stream.tasks))
        return learner

    # What people ask for

    def learn(self, x: Any, y: Any = None, x_test: Any = None, y_test: Any = None, *, columns: Any = None) -> Self:
        """Learn one more task, given as arrays, tensors, frames or lists, or as a ``Task``.

        Whatever stops it, the learner is then as it was before. Without test data the task's accuracy is unknown (NaN).
        """
        task = x if isinstance(x, Task) else Task(x, y, x_test, y_test, columns)
        (error,) = learn_task([self], task)
        if error is not None:
            raise error
        self._tell()
        return self

    def learn_stream(self, stream: Stream) -> Outcome:
        """Algorithm 1, from the first task of the stream that was not learnt yet."""
        instance("stream", stream, Stream)
        for task in stream.tasks[self.tasks :]:
            self.learn(task)
        return Outcome(self.history, self.seconds, self.network)

    def predict(self, x: Any) -> Tensor:
        """The most likely class of each sample."""
        return self._logits(x).argmax(1)

    def predict_proba(self, x: Any) -> Tensor:
        """The probability of each class, samples × classes."""
        return self._logits(x).softmax(1)

    def score(self, x: Any, y: Any) -> float:
        """Share of samples whose class is predicted."""
        found, labels = self.predict(x), as_labels("y", y)
        require(labels.shape == found.shape, f"y must hold {len(found)} labels, got shape {tuple(labels.shape)}")
        return float((found == labels.to(found.device)).double().mean())

    def signals(self, x: Any, y: Any) -> list[LayerSignal]:
        """What the growth rule would see of these data now: φ, φ⁰, Percentile(F, p) and τ of each hidden layer."""
        self._require_begun()
        require(bool(self.reference), "signals need a learnt task to compare with, and a trigger that reads them")
        task = Task(x, y)
        self._check(task)
        batches = self._batches(task)
        phi, state = self._effective_dimensions(batches), self.draws["labels"].get_state()
        current = layers(self._fisher(batches), self.network.sizes)[:-1]
        self.draws["labels"].set_state(state)
        percentiles = [signals.percentile(matrix, self.settings.growth.percentile) for matrix in current]
        taus = [None] * len(phi) if self.tau is None else self.tau.tolist()
        return [LayerSignal(*seen) for seen in zip(phi, self.reference, percentiles, taus, strict=True)]

    @property
    def tasks(self) -> int:
        """Tasks that were learnt."""
        return len(self.history.widths)

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons in each hidden layer."""
        return self.network.widths if hasattr(self, "network") else self.settings.hidden

    def module(self) -> torch.nn.Module:
        """The network as a module of torch, with the scaling of the inputs; a copy, on the learner's device."""
        self._require_begun()
        return self.network.to_module(self.scale, self.shift)

    def save(self, path: str | PathLike[str]) -> None:
        """Write all that the next task needs to a file of arrays and JSON; ``Learner.load`` goes on from there."""
        saving.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], callbacks: Callbacks | None = None) -> Self:
        """A learner from a file that ``save`` wrote."""
        return saving.load(cls, path, callbacks)

    def __repr__(self) -> str:
        size = f", {self.network.parameters} parameters" if hasattr(self, "network") else ""
        return f"{type(self).__name__}({self.tasks} tasks learnt, widths {self.widths}{size})"

    def __getstate__(self) -> dict[str, Any]:
        passing = ("task", "batches", "sgd")  # of the task under way
        kept = {name: value for name, value in vars(self).items() if name not in passing}
        states = {name: draw.get_state() for name, draw in self.draws.items()}
        return kept | {"draws": states, "test_inputs": {}, "callbacks": Callbacks()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"draws": {name: generator(0) for name in state["draws"]}})
        for name, draw in self.draws.items():
            draw.set_state(state["draws"][name])

    def _tell(self) -> None:
        if self.callbacks.task is not None:
            self.callbacks.task(self, self.number)

    def _require_begun(self) -> None:
        require(hasattr(self, "network"), "this learner has learnt nothing yet: call learn(x, y) first")

    def _logits(self, x: Any) -> Tensor:
        """Of samples as ``learn`` takes them, samples × classes."""
        self._require_begun()
        rows, inputs = as_matrix("x", x), self.network.sizes[0]
        require(rows.shape[1] == inputs, f"x must have {inputs} columns, got {rows.shape[1]}")
        parts = [part.to(self.device).float() * self.scale + self.shift for part in torch.split(rows, 1000)]
        return torch.cat([self.network.activations(part)[-1].t() for part in parts])
