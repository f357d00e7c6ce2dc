"""NORACL, Algorithm 1: what happens in one task, and the state that is carried from task to task (section 3)."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from noracl.method import fisher, plasticity, signals
from noracl.method.advice import warn_of
from noracl.method.callbacks import Callbacks
from noracl.method.history import EpochSignals, GrowthEvent, History
from noracl.method.initialisers import INITIALISERS, fan_in
from noracl.method.memory import require_memory
from noracl.method.network import Batch, Network, embed, layers, reorder_inputs
from noracl.method.optimisation import SGD, Batches, NonFiniteLoss
from noracl.method.regularisers import Regulariser
from noracl.method.settings import Settings
from noracl.method.streams import Task, check_task
from noracl.method.triggers import LayerSignal, Trigger

COMPONENTS = ("sgd", "evaluation", "consolidation", "effective_dimension", "fisher_check", "neurogenesis")


class Algorithm:
    """Algorithm 1 in parts; ``Learner`` sets up the state and is what people use."""

    settings: Settings  #: what it was made with
    callbacks: Callbacks
    classes: int | None  #: size of the head
    scale: float
    shift: float
    device: torch.device | None
    draws: dict[str, torch.Generator]
    network: Network  #: there as soon as the number of inputs is known
    untrained: Network
    regulariser: Regulariser  #: what protects the weights
    trigger: Trigger
    fisher_average: Tensor | None  #: F̃, which τ needs whatever the regulariser
    tau: Tensor | None  #: τ of each hidden layer
    reference: list[float]  #: φ⁰
    losses: list[float]
    cooldown: int
    history: History  #: accuracies, widths and growth events so far
    seconds: dict[str, float]  #: seconds per component so far (appendix A.7)
    task: Task  #: the task under way, its number, its mini-batches and the steps on them
    number: int
    batches: Batches
    sgd: SGD
    tests: list[Task]  #: of each task that was learnt, what it is tested on
    test_inputs: dict[int, Tensor]

    def _begin(self, inputs: int, samples: int) -> None:  # the first weights
        assert self.classes is not None
        self.device = self.device or torch.device("cpu")
        sizes = (inputs, *self.settings.hidden, self.classes)
        require_memory(sizes, samples, self.device)
        network = Network.initialise(sizes, self.settings.init, self.draws["weights"])
        self.network = Network(sizes, network.theta.to(self.device))
        self.untrained = Network(sizes, self.network.theta.clone())

    def _check(self, task: Task) -> None:
        assert self.classes is not None
        check_task("task", task, self.network.sizes[0], self.classes, self.scale, self.shift, tested=False)

    # The parts of one pass of the outer loop, which ``together.learn_task`` puts together

    def _prepare(self, given: Task, batches: Batches | None) -> None:  # mini-batches may come from another learner
        if not hasattr(self, "network"):
            self.device = self.device or given.x.device
            self.classes = self.classes or max(2, int(given.y.max()) + 1 if len(given.y) else 2)
            self._begin(given.x.shape[1], len(given.x))
        task = given.to(self.device)
        self._check(task)
        require_memory(self.network.sizes, len(task.x), task.x.device)
        self.task, self.number, self.losses = task, len(self.history.widths) + 1, []
        warn_of(task, self.scale, self.shift, self._epochs, self._rate, self.settings.optimisation.batch_size)
        self.batches = batches or self._batches(task)
        with self._clock("evaluation"):
            self.history.untrained.append(self._accuracy(task, self.untrained))
            self.history.zero_shot.append(self._accuracy(task, self.network))
        if task.columns is not None:
            self._reorder(task.columns.argsort())
        self._make_steps()

    def _before_epoch(self, epoch: int) -> None:
        if self.number > 1:
            self._grow_by_calendar(epoch - 1)
        if self.sgd.network is not self.network:
            self._make_steps()
        self.sgd.rate = self._rate * (self.settings.growth.boost if self.cooldown > 0 else 1.0)

    def _after_epoch(self, epoch: int) -> None:
        if isinstance(error := self.sgd.error, NonFiniteLoss):
            raise NonFiniteLoss(f"the loss became non-finite at task {self.number}, epoch {epoch}, {error}") from None
        if error is not None:
            raise error
        if self.callbacks.epoch is not None:
            self.callbacks.epoch(self, epoch)
        if self.number > 1:
            self._grow_by_signals(epoch)

    def _finish(self) -> None:
        self._consolidate()
        if self.task.columns is not None:
            self._reorder(self.task.columns)
        self._record()
        del self.task, self.batches, self.sgd

    def _make_steps(self) -> None:
        by, on_step = self.settings.optimisation, self.callbacks.step
        self.sgd = SGD(self.network, self.regulariser, self._rate, by.clip, by.clip_by)
        self.sgd.on_step = None if on_step is None else lambda step: on_step(self, step)

    @property
    def _epochs(self) -> int:
        by = self.settings.optimisation
        return by.epochs_later if self.number > 1 else by.epochs_first

    @property
    def _rate(self) -> float:
        by = self.settings.optimisation
        return by.rate_later if self.number > 1 else by.rate_first

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
        phi = self._effective_dimensions(self.batches)
        percentiles: Sequence[float | None] = [None] * len(phi)
        taus = percentiles
        if "fisher" in self.trigger.asks and self.tau is not None:
            with self._clock("fisher_check"):
                current = layers(self._fisher(self.batches), self.network.sizes)[:-1]
                percentiles = [signals.percentile(matrix, self.settings.growth.percentile) for matrix in current]
                taus = self.tau.tolist()
        return [LayerSignal(*values) for values in zip(phi, self.reference, percentiles, taus, strict=True)]

    def _effective_dimensions(self, batches: Batches) -> list[float]:
        with self._clock("effective_dimension"):
            hidden = self.network.activations(next(batches.first(1))[0])[:-1]
            return [signals.effective_dimension(h, self.settings.growth.epsilon) for h in hidden]

    def _monitored_loss(self) -> float:
        with self._clock("evaluation"):
            total = samples = 0.0
            for x, targets in self._fisher_batches(self.batches):
                total -= float((self.network.activations(x)[-1].log_softmax(0) * targets.t()).sum())
                samples += len(x)
            return total / samples

    def _grow(self, epoch: int, neurons: Sequence[int], seen: Sequence[LayerSignal]) -> bool:
        for layer, k in enumerate(neurons):
            if k:
                self._widen(layer, k)
                event = GrowthEvent(self.number, epoch, layer + 1, k, **(vars(seen[layer]) if seen else {}))
                self.history.growth.append(event)
                if self.callbacks.growth is not None:
                    self.callbacks.growth(self, event)
        return any(neurons)

    def _widen(self, layer: int, neurons: int) -> None:  # neurogenesis, section 3.2
        growth, old = self.settings.growth, self.network.sizes
        wider = (*old[: layer + 1], old[layer + 1] + neurons, *old[layer + 2 :])
        require_memory(wider, len(self.task.x), self.task.x.device)
        with self._clock("neurogenesis"):
            setting = INITIALISERS.find(growth.init).scale
            scale = getattr(growth, setting) if setting else 1.0
            permuted = self.task.columns if layer == 0 else None
            seen = torch.arange(old[layer]) if permuted is None else permuted  # the order that the initialiser sees
            weight = self.network.weights[layer][:, seen]
            new = fan_in(growth.init, weight, neurons, scale, self.draws["growth"])
            self.network = self.network.widen(layer, new[:, seen.argsort()])
            self._transform(lambda flat: embed(flat, old, self.network.sizes))

    def _transform(self, change: Callable[[Tensor], Tensor]) -> None:  # all that is kept per parameter
        self.regulariser.transform(change)
        if self.fisher_average is not None:
            self.fisher_average = change(self.fisher_average)

    def _reorder(self, index: Tensor) -> None:  # so that a task with permuted inputs trains on the stored data
        sizes = self.network.sizes
        self.network = Network(sizes, reorder_inputs(self.network.theta, sizes, index))
        self._transform(lambda flat: reorder_inputs(flat, sizes, index))

    def _batches(self, task: Task) -> Batches:
        size = self.settings.optimisation.batch_size
        return Batches(task.x, task.y, self.network.sizes[-1], self.scale, self.shift, size)

    def _fisher_batches(self, batches: Batches) -> Iterator[Batch]:
        return batches.first(self.settings.fisher.batches)

    def _fisher(self, batches: Batches) -> Tensor:
        settings = self.settings.fisher
        return fisher.diagonal(self.network, self._fisher_batches(batches), settings, self.draws["labels"])

    def _consolidate(self) -> None:  # the end of a task: Eq. 1, θ*, τ and φ⁰
        with self._clock("consolidation"):
            current = self._fisher(self.batches)
            if not torch.isfinite(current).all():
                raise NonFiniteLoss(f"the loss became non-finite at task {self.number}, after its last step")
            self.regulariser.consolidate(self.network, current, self._fisher_batches(self.batches))
            if self.curvature.isnan().any():
                raise NonFiniteLoss(f"the regulariser's importances became NaN at task {self.number}")
            average = self.settings.ewc.average
            self.fisher_average = average(self.fisher_average, current)
            magnitudes = torch.stack([f.mean() for f in layers(self.fisher_average, self.network.sizes)[:-1]])
            self.tau = average(self.tau, magnitudes, self.settings.growth.tau_start)
        if self.trigger.asks:
            self.reference = self._effective_dimensions(self.batches)

    def _record(self) -> None:  # section 5 and appendix A.4
        history, network, curvature = self.history, self.network, self.curvature
        self.tests.append(self.task.without_training_data())
        with self._clock("evaluation"):
            history.accuracy.append([self._accuracy(task, network) for task in self.tests])
        history.widths.append(network.widths)
        history.parameters.append(network.parameters)
        history.locked.append(plasticity.locked_by_layer(network, curvature))
        history.plastic.append(plasticity.plastic_parameters(curvature))

    @property
    def curvature(self) -> Tensor:
        """Second derivative of the penalty, per parameter: what the plasticity metrics of appendix A.4 read."""
        known = self.regulariser.curvature
        return torch.zeros_like(self.network.theta) if known is None else known

    def _accuracy(self, task: Task, network: Network) -> float:
        key, y = id(task.x_test), task.y_test
        if key not in self.test_inputs:  # permuted tasks share them
            self.test_inputs[key] = task.x_test.float() * self.scale + self.shift
        if task.columns is not None:
            network = Network(network.sizes, reorder_inputs(network.theta, network.sizes, task.columns.argsort()))
        parts = zip(torch.split(self.test_inputs[key], 1000), torch.split(y, 1000), strict=True)
        right = sum(int((network.predict(rows) == labels).sum()) for rows, labels in parts)
        return right / len(y) if len(y) else math.nan

    @contextmanager
    def _clock(self, component: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[component] += time.perf_counter() - start
