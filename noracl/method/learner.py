"""NORACL, Algorithm 1: one stream in, one history out. A static network is the same with trigger "none"."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from noracl.method import fisher, plasticity, signals
from noracl.method.checks import choice, instance, require, settle, shown, whole, wholes
from noracl.method.fisher import FisherSettings
from noracl.method.history import EpochSignals, GrowthEvent, History
from noracl.method.initialisers import INITIALISERS, fan_in
from noracl.method.memory import require_memory
from noracl.method.network import WEIGHTS, Batch, Network, embed, layers, reorder_inputs
from noracl.method.optimisation import SGD, Batches, NonFiniteLoss, OptimisationSettings
from noracl.method.regularisers import REGULARISERS, Consolidation, EWCSettings
from noracl.method.seeds import generator
from noracl.method.streams import Stream, Task
from noracl.method.triggers import TRIGGERS, GrowthSettings, LayerSignal
from noracl.method.undo import all_or_nothing

OnTask = Callable[[int, History], None] | None  #: called after each task with its number
PARTS = {"optimisation": OptimisationSettings, "fisher": FisherSettings, "ewc": EWCSettings, "growth": GrowthSettings}
COMPONENTS = ("sgd", "evaluation", "consolidation", "effective_dimension", "fisher_check", "neurogenesis")


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run, apart from its stream and its seed."""

    hidden: tuple[int, ...] = (32, 32)
    init: str = "glorot"
    regulariser: str = "online_ewc"
    optimisation: OptimisationSettings = field(default_factory=OptimisationSettings)
    fisher: FisherSettings = field(default_factory=FisherSettings)
    ewc: EWCSettings = field(default_factory=EWCSettings)
    growth: GrowthSettings = field(default_factory=GrowthSettings)

    def __post_init__(self) -> None:
        settle(self, wholes, ("hidden",), 1)
        require(len(self.hidden) > 0, "hidden must name the width of at least one hidden layer")
        choice("init", self.init, WEIGHTS)
        choice("regulariser", self.regulariser, REGULARISERS)
        for name, kind in PARTS.items():
            instance(name, getattr(self, name), kind)
        growth, epochs = self.growth, self.optimisation.epochs_later
        grows = growth.trigger != "scheduled" or any(epoch < epochs for epoch in growth.schedule)
        below = f"growth.schedule must name an epoch below epochs_later, which is {epochs}, or nothing ever grows"
        require(grows, f"{below}; got {growth.schedule}")


@dataclass(frozen=True)
class Outcome:
    """The history, and apart from it the seconds per component of appendix A.7 and the final network."""

    history: History
    seconds: dict[str, float]
    network: Network


def learn(stream: Stream, settings: Settings, seed: int = 0, on_task: OnTask = None) -> Outcome:
    """Learn the stream's tasks one after the other; ``on_task`` is called with the task's number after each."""
    return Learner(stream, settings, seed).learn_stream(on_task)


class Learner:
    """The state that Algorithm 1 carries from task to task."""

    def __init__(
        self, stream: Stream, settings: Settings, seed: int, consolidation: Consolidation | None = None
    ) -> None:
        instance("stream", stream, Stream)
        instance("settings", settings, Settings)
        self.stream, self.settings = stream, settings
        self.draws = {name: generator(seed, name) for name in ("weights", "order", "growth", "labels")}
        sizes = (stream.inputs, *settings.hidden, stream.classes)
        require_memory(sizes, max(len(task.x) for task in stream.tasks), stream.tasks[0].x.device)
        network = Network.initialise(sizes, settings.init, self.draws["weights"])
        self.network = Network(sizes, network.theta.to(stream.tasks[0].x.device))
        if consolidation is None:
            consolidation = REGULARISERS[settings.regulariser](settings.ewc)
        ready = hasattr(consolidation, "penalise") and not isinstance(consolidation, type)
        require(ready, f"consolidation must be a regulariser (a Consolidation), got {shown(consolidation)}")
        self.consolidation: Consolidation = consolidation
        self.trigger = TRIGGERS[settings.growth.trigger]
        self.fisher_average: Tensor | None = None  # F̃, which τ needs whatever the regulariser
        self.tau: Tensor | None = None
        self.reference: list[float] = []  # φ⁰
        self.losses: list[float] = []
        self.cooldown, self.history, self.seconds = 0, History(), dict.fromkeys(COMPONENTS, 0.0)
        self.learnt: list[Task] = []
        self.test_inputs: dict[int, Tensor] = {}

    def learn_stream(self, on_task: OnTask = None) -> Outcome:
        """Algorithm 1, from the first task that was not learnt yet."""
        require(on_task is None or callable(on_task), f"on_task must be a function, got {shown(on_task)}")
        for number, task in list(enumerate(self.stream.tasks, start=1))[len(self.learnt) :]:
            self.learn_task(number, task)
            if on_task is not None:
                on_task(number, self.history)
        return Outcome(self.history, self.seconds, self.network)

    def learn_task(self, number: int, task: Task) -> None:
        """One pass of the outer loop of Algorithm 1; whatever stops it, the learner is then as it was before."""
        due = len(self.learnt) + 1
        in_turn = whole("number", number, 1) == due
        require(in_turn, f"number must be {due}, the first task that was not learnt yet, got {number}")
        if all(task is not one for one in self.stream.tasks):
            self.stream.check("task", task)
            require_memory(self.network.sizes, len(task.x), task.x.device)
        with all_or_nothing(self):
            self._learn_task(due, task)

    def _learn_task(self, number: int, task: Task) -> None:
        stream, by, later = self.stream, self.settings.optimisation, number > 1
        epochs, rate = (by.epochs_later, by.rate_later) if later else (by.epochs_first, by.rate_first)
        self.task, self.number, self.losses = task, number, []
        self.batches = Batches(task.x, task.y, stream.classes, stream.scale, stream.shift, by.batch_size)
        if task.columns is not None:
            self._reorder(task.columns.argsort())
        sgd: SGD | None = None
        for epoch in range(1, epochs + 1):
            if later:
                self._grow_by_calendar(epoch - 1)
            if sgd is None or sgd.network is not self.network:
                sgd = SGD(self.network, self.consolidation, rate, by.clip)
            order = torch.randperm(len(task.x), generator=self.draws["order"]).to(task.x.device)
            try:
                with self._clock("sgd"):
                    sgd.epoch(self.batches, order)
            except NonFiniteLoss as error:
                raise NonFiniteLoss(f"the loss became non-finite at task {number}, epoch {epoch}, {error}") from None
            if later:
                self._grow_by_signals(epoch)
        self._consolidate()
        if task.columns is not None:
            self._reorder(task.columns)
        self._record()

    def _grow_by_calendar(self, epoch: int) -> None:  # before an epoch of a later task
        self._grow(epoch, self.trigger.before_epoch(self.settings.growth, epoch, self.network.widths), [])

    def _grow_by_signals(self, epoch: int) -> None:  # after an epoch of a later task, section 3.1
        growth, trigger = self.settings.growth, self.trigger
        if trigger.loss:
            self.losses.append(self._monitored_loss())
        if self.cooldown > 0:
            self.cooldown -= 1
            return
        seen = self._measure() if trigger.asks else []
        if seen:
            self.history.signals.append(EpochSignals(self.number, epoch, tuple(seen)))
        if self._grow(epoch, trigger.after_epoch(growth, seen, self.losses, self.network.widths), seen):
            self.cooldown, self.losses = growth.cooldown, []

    def _measure(self) -> list[LayerSignal]:  # both signals, Eq. 3 to 5
        phi = self._effective_dimensions()
        percentiles: Sequence[float | None] = [None] * len(phi)
        taus = percentiles
        if "fisher" in self.trigger.asks and self.tau is not None:
            with self._clock("fisher_check"):
                current = layers(self._fisher(), self.network.sizes)[:-1]
                percentiles = [signals.percentile(matrix, self.settings.growth.percentile) for matrix in current]
                taus = self.tau.tolist()
        return [LayerSignal(*values) for values in zip(phi, self.reference, percentiles, taus, strict=True)]

    def _effective_dimensions(self) -> list[float]:
        with self._clock("effective_dimension"):
            hidden = self.network.activations(next(self.batches.first(1))[0])[:-1]
            return [signals.effective_dimension(h, self.settings.growth.epsilon) for h in hidden]

    def _monitored_loss(self) -> float:
        with self._clock("evaluation"):
            total = samples = 0.0
            for x, targets in self._fisher_batches():
                total -= float((self.network.activations(x)[-1].log_softmax(0) * targets.t()).sum())
                samples += len(x)
            return total / samples

    def _grow(self, epoch: int, neurons: Sequence[int], seen: Sequence[LayerSignal]) -> bool:
        for layer, k in enumerate(neurons):
            if k:
                self._widen(layer, k)
                saw = vars(seen[layer]) if seen else {}
                self.history.growth.append(GrowthEvent(self.number, epoch, layer + 1, k, **saw))
        return any(neurons)

    def _widen(self, layer: int, neurons: int) -> None:  # neurogenesis, section 3.2
        growth, old = self.settings.growth, self.network.sizes
        wider = (*old[: layer + 1], old[layer + 1] + neurons, *old[layer + 2 :])
        require_memory(wider, len(self.task.x), self.task.x.device)
        with self._clock("neurogenesis"):
            setting = INITIALISERS[growth.init].scale
            scale = getattr(growth, setting) if setting else 1.0
            permuted = self.task.columns if layer == 0 else None
            seen = torch.arange(old[layer]) if permuted is None else permuted  # the order that the initialiser sees
            weight = self.network.weights[layer][:, seen]
            new = fan_in(growth.init, weight, neurons, scale, self.draws["growth"])
            self.network = self.network.widen(layer, new[:, seen.argsort()])
            self._transform(lambda flat: embed(flat, old, self.network.sizes))

    def _transform(self, change: Callable[[Tensor], Tensor]) -> None:  # all that is kept per parameter
        self.consolidation.transform(change)
        if self.fisher_average is not None:
            self.fisher_average = change(self.fisher_average)

    def _reorder(self, index: Tensor) -> None:  # so that a task with permuted inputs trains on the stored data
        sizes = self.network.sizes
        self.network = Network(sizes, reorder_inputs(self.network.theta, sizes, index))
        self._transform(lambda flat: reorder_inputs(flat, sizes, index))

    def _fisher_batches(self) -> Iterator[Batch]:
        return self.batches.first(self.settings.fisher.batches)

    def _fisher(self) -> Tensor:
        return fisher.diagonal(self.network, self._fisher_batches(), self.settings.fisher, self.draws["labels"])

    def _consolidate(self) -> None:  # the end of a task: Eq. 1, θ*, τ and φ⁰
        with self._clock("consolidation"):
            current = self._fisher()
            if not torch.isfinite(current).all():
                raise NonFiniteLoss(f"the loss became non-finite at task {self.number}, after its last step")
            self.consolidation.consolidate(self.network, current, self._fisher_batches())
            average = self.settings.ewc.average
            self.fisher_average = average(self.fisher_average, current)
            magnitudes = torch.stack([f.mean() for f in layers(self.fisher_average, self.network.sizes)[:-1]])
            self.tau = average(self.tau, magnitudes, self.settings.growth.tau_start)
        if self.trigger.asks:
            self.reference = self._effective_dimensions()

    def _record(self) -> None:  # section 5 and appendix A.4
        history, network = self.history, self.network
        self.learnt.append(self.task)
        with self._clock("evaluation"):
            history.accuracy.append([self._accuracy(task) for task in self.learnt])
        history.widths.append(network.widths)
        history.parameters.append(network.parameters)
        known = self.consolidation.curvature
        curvature = torch.zeros_like(network.theta) if known is None else known
        history.locked.append(tuple(map(plasticity.locked_fraction, layers(curvature, network.sizes)[:-1])))
        history.plastic.append(plasticity.plastic_parameters(curvature))

    def _accuracy(self, task: Task) -> float:
        key, y, network = id(task.x_test), task.y_test, self.network
        if key not in self.test_inputs:  # permuted tasks share them
            self.test_inputs[key] = task.x_test.float() * self.stream.scale + self.stream.shift
        if task.columns is not None:
            network = Network(network.sizes, reorder_inputs(network.theta, network.sizes, task.columns.argsort()))
        parts = zip(torch.split(self.test_inputs[key], 1000), torch.split(y, 1000), strict=True)
        return sum(int((network.predict(rows) == labels).sum()) for rows, labels in parts) / len(y)

    @contextmanager
    def _clock(self, component: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[component] += time.perf_counter() - start
