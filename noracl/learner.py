"""NORACL, Algorithm 1: one stream in, one history out. A static network is the same with trigger "none"."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from noracl import fisher, plasticity, signals, triggers
from noracl.checks import choice, whole
from noracl.consolidation import Consolidation, EWCSettings, OnlineEWC
from noracl.fisher import FisherSettings
from noracl.history import EpochSignals, GrowthEvent, History
from noracl.network import INITIALISERS, Network, embed, layers, reorder_inputs
from noracl.neurogenesis import fan_in
from noracl.optimisation import SGD, Batches, NonFiniteLoss, OptimisationSettings
from noracl.seeds import generator
from noracl.streams import Stream, Task
from noracl.triggers import GrowthSettings, LayerSignal

COMPONENTS = ("sgd", "evaluation", "consolidation", "effective_dimension", "fisher_check", "neurogenesis")


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run, apart from its stream and its seed."""

    hidden: tuple[int, ...] = (32, 32)
    init: str = "glorot"
    optimisation: OptimisationSettings = field(default_factory=OptimisationSettings)
    fisher: FisherSettings = field(default_factory=FisherSettings)
    ewc: EWCSettings = field(default_factory=EWCSettings)
    growth: GrowthSettings = field(default_factory=GrowthSettings)

    def __post_init__(self) -> None:
        if not self.hidden:
            raise ValueError("hidden must name the width of at least one hidden layer")
        for width in self.hidden:
            whole("hidden", width, 1)
        choice("init", self.init, INITIALISERS)


@dataclass(frozen=True)
class Outcome:
    """The history, and apart from it the seconds per component of appendix A.7 and the final network."""

    history: History
    seconds: dict[str, float]
    network: Network


def learn(
    stream: Stream, settings: Settings, seed: int = 0, on_task: Callable[[int, History], None] | None = None
) -> Outcome:
    """Learn the stream's tasks one after the other; ``on_task`` is called with the task's number after each."""
    learner = Learner(stream, settings, seed)
    for number, task in enumerate(stream.tasks, start=1):
        learner.learn_task(number, task)
        if on_task is not None:
            on_task(number, learner.history)
    return Outcome(learner.history, learner.seconds, learner.network)


class Learner:
    """The state that Algorithm 1 carries from task to task."""

    def __init__(
        self, stream: Stream, settings: Settings, seed: int, consolidation: Consolidation | None = None
    ) -> None:
        self.stream, self.settings = stream, settings
        self.draws = {name: generator(seed, name) for name in ("weights", "order", "growth", "labels", "fisher")}
        sizes = (stream.inputs, *settings.hidden, stream.classes)
        network = Network.initialise(sizes, settings.init, self.draws["weights"])
        self.network = Network(sizes, network.theta.to(stream.tasks[0].x.device))
        self.consolidation: Consolidation = consolidation or OnlineEWC(settings.ewc)
        self.fisher_average: Tensor | None = None  # F̃, which τ needs whatever the regulariser
        self.tau: Tensor | None = None
        self.reference: list[float] = []  # φ⁰
        self.cooldown = 0
        self.losses: list[float] = []
        self.history = History()
        self.seconds = dict.fromkeys(COMPONENTS, 0.0)
        self.test_sets: dict[int, tuple[Tensor, Tensor]] = {}

    def learn_task(self, number: int, task: Task) -> None:
        """One pass of the outer loop of Algorithm 1."""
        settings = self.settings.optimisation
        epochs, rate = (
            (settings.epochs_first, settings.rate_first)
            if number == 1
            else (settings.epochs_later, settings.rate_later)
        )
        self.task, self.number, self.losses = task, number, []
        self.batches = Batches(
            task.x, task.y, self.stream.classes, self.stream.scale, self.stream.shift, settings.batch_size
        )
        if task.columns is not None:
            self._reorder(task.columns.argsort())
        sgd = SGD(self.network, self.consolidation, rate, settings.clip, settings.clip_penalty)
        for epoch in range(epochs):
            grown = number > 1 and self._grow_by_calendar(epoch)
            if grown:
                sgd = SGD(self.network, self.consolidation, rate, settings.clip, settings.clip_penalty)
            order = torch.randperm(len(task.x), generator=self.draws["order"]).to(task.x.device)
            with self._clock("sgd"):
                try:
                    sgd.epoch(self.batches, order)
                except NonFiniteLoss as error:
                    place = f"task {number}, epoch {epoch + 1}, {error}"
                    raise NonFiniteLoss(f"the loss became non-finite at {place}") from None
            if number > 1 and self._grow_by_signals(epoch + 1):
                sgd = SGD(self.network, self.consolidation, rate, settings.clip, settings.clip_penalty)
        self._consolidate()
        if task.columns is not None:
            self._reorder(task.columns)
        self._record()

    # Growth: when and where

    def _grow_by_calendar(self, epoch: int) -> bool:
        return self._grow(epoch, triggers.before_epoch(self.settings.growth, epoch, self.network.widths), [])

    def _grow_by_signals(self, epoch: int) -> bool:
        growth = self.settings.growth
        if not growth.monitors:
            return False
        if growth.reads_loss:
            self.losses.append(self._monitored_loss())
        if self.cooldown > 0:
            self.cooldown -= 1
            return False
        if growth.reads_loss:
            seen: list[LayerSignal] = []
            neurons = triggers.on_plateau(growth, self.losses, self.network.widths)
        else:
            seen = self._measure()
            self.history.signals.append(EpochSignals(self.number, epoch, tuple(seen)))
            neurons = triggers.after_epoch(growth, seen, self.network.widths)
        grown = self._grow(epoch, neurons, seen)
        if grown:
            self.cooldown = growth.cooldown
            self.losses.clear()
        return grown

    def _measure(self) -> list[LayerSignal]:
        growth, hidden = self.settings.growth, len(self.network.widths)
        phi = self._effective_dimensions()
        percentiles: list[float | None] = [None] * hidden
        taus: list[float | None] = [None] * hidden
        if growth.reads_fisher:
            assert self.tau is not None
            with self._clock("fisher_check"):
                current = layers(self._fisher(), self.network.sizes)[:hidden]
                percentiles = [signals.percentile(matrix, growth.percentile) for matrix in current]
                taus = self.tau.tolist()
        return [LayerSignal(*values) for values in zip(phi, self.reference, percentiles, taus, strict=True)]

    def _effective_dimensions(self) -> list[float]:
        with self._clock("effective_dimension"):
            x, _ = next(self.batches.first(1))
            hidden = self.network.activations(x)[:-1]
            return [signals.effective_dimension(h, self.settings.growth.epsilon) for h in hidden]

    def _monitored_loss(self) -> float:
        with self._clock("evaluation"):
            total = samples = 0.0
            for x, targets in self._fisher_batches():
                total -= float((self.network.activations(x)[-1].log_softmax(0) * targets.t()).sum())
                samples += len(x)
            return total / samples

    # Growth: how

    def _grow(self, epoch: int, neurons: Sequence[int], seen: Sequence[LayerSignal]) -> bool:
        for layer, k in enumerate(neurons):
            if k:
                self._widen(layer, k)
                saw = vars(seen[layer]) if seen else {}
                self.history.growth.append(GrowthEvent(self.number, epoch, layer + 1, k, **saw))
        return any(neurons)

    def _widen(self, layer: int, neurons: int) -> None:
        growth, old = self.settings.growth, self.network.sizes
        with self._clock("neurogenesis"):
            weight = self.network.weights[layer]
            columns = self.task.columns if layer == 0 else None
            scale = growth.random_scale if growth.init == "random" else growth.scale
            if columns is not None:
                weight = weight[:, columns]  # in the order in which the network sees its inputs
            new = fan_in(growth.init, weight, neurons, scale, self.draws["growth"])
            if columns is not None:
                new = new[:, columns.argsort()]
            self.network = self.network.widen(layer, new)
            self._transform(lambda flat: embed(flat, old, self.network.sizes))

    def _transform(self, change: Callable[[Tensor], Tensor]) -> None:
        self.consolidation.transform(change)
        if self.fisher_average is not None:
            self.fisher_average = change(self.fisher_average)

    def _reorder(self, index: Tensor) -> None:
        def change(flat: Tensor) -> Tensor:
            return reorder_inputs(flat, self.network.sizes, index.to(flat.device))

        self.network = Network(self.network.sizes, change(self.network.theta))
        self._transform(change)

    # The end of a task

    def _fisher_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = None
        if self.settings.fisher.order == "shuffled":
            order = torch.randperm(len(self.batches), generator=self.draws["fisher"])
        return self.batches.first(self.settings.fisher.batches, order)

    def _fisher(self) -> Tensor:
        return fisher.diagonal(self.network, self._fisher_batches(), self.settings.fisher, self.draws["labels"])

    def _consolidate(self) -> None:
        with self._clock("consolidation"):
            current = self._fisher()
            if not bool(torch.isfinite(current).all()):
                raise NonFiniteLoss(f"the loss became non-finite at task {self.number}, after its last step")
            self.consolidation.consolidate(self.network, current, self._fisher_batches())
            average = self.settings.ewc.average
            self.fisher_average = average(self.fisher_average, current)
            matrices = layers(self.fisher_average, self.network.sizes)[:-1]
            magnitudes = torch.stack([matrix.mean() for matrix in matrices])
            self.tau = average(self.tau, magnitudes, self.settings.growth.tau_start)
        if self.settings.growth.reads_dimension:
            self.reference = self._effective_dimensions()

    def _record(self) -> None:
        history, network = self.history, self.network
        with self._clock("evaluation"):
            history.accuracy.append([self._accuracy(task) for task in self.stream.tasks[: self.number]])
        history.widths.append(network.widths)
        history.parameters.append(network.parameters)
        curvature = self.consolidation.curvature
        if curvature is None:
            curvature = torch.zeros_like(network.theta)
        matrices = layers(curvature, network.sizes)[:-1]
        history.locked.append(tuple(plasticity.locked_fraction(matrix) for matrix in matrices))
        history.plastic.append(plasticity.plastic_parameters(curvature))

    def _accuracy(self, task: Task) -> float:
        key = id(task.x_test)
        if key not in self.test_sets:  # permuted tasks share one
            x = task.x_test.float() * self.stream.scale + self.stream.shift
            self.test_sets[key] = x, task.y_test
        x, y = self.test_sets[key]
        network = self.network
        if task.columns is not None:
            index = task.columns.argsort().to(x.device)
            network = Network(network.sizes, reorder_inputs(network.theta, network.sizes, index))
        correct = 0
        for rows, labels in zip(torch.split(x, 1000), torch.split(y, 1000), strict=True):
            correct += int((network.predict(rows) == labels).sum())
        return correct / len(y)

    @contextmanager
    def _clock(self, component: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[component] += time.perf_counter() - start
