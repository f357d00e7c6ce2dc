"""Triggers decide when, where and by how much to grow (section 3.1; ablation in appendix A.6.1). One file each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from noracl.method.checks import choice, number, require, settle, whole, wholes
from noracl.method.initialisers import INITIALISERS
from noracl.method.registry import Registry, load_folder
from noracl.method.regularisers import STARTS
from noracl.method.signals import new_neurons

ED_LAYERS = ("own", "any")


@dataclass(frozen=True)
class GrowthSettings:
    """When, where and how to grow; ``trigger="none"`` is a static network."""

    trigger: Any = "joint"  #: a registered name, a ``Trigger``, or a function (signals, widths) → new neurons per layer
    init: Any = "qr"  #: a registered name, or a function (weight, neurons, scale, generator) → incoming weights
    gamma: float = 0.9  #: γ: φ must be above γ × its reference (Eq. 4)
    epsilon: float = 0.05  #: ε: singular values above it count in φ (Eq. 3)
    percentile: float = 25.0  #: p: this percentile of a layer's F must be above τ (Eq. 5)
    cooldown: int = 3  #: epochs without growth after growth
    scale: float = 0.2  #: s_init: length of the incoming weights of a new neuron
    tau_start: str = "first"  #: τ starts at its "first" value or at "zero", like the averages of online EWC
    ed_layers: str = "own"  #: trigger "joint": a layer needs φ > γφ⁰ of its "own", or in "any" hidden layer
    boost: float = 1.0  #: the learning rate during a cooldown is this many times what it is otherwise
    fsat_neurons: int | None = None  #: None: as many as Eq. 4 says
    random_scale: float = 1.0  #: deviation of the weights of init "random"
    fixed_neurons: int = 6  #: trigger "fixed": new neurons per layer and task
    schedule: tuple[int, ...] = (0, 5, 15, 25)  #: trigger "scheduled": the epochs before which layers grow
    scheduled_neurons: int = 2  #: trigger "scheduled": new neurons per layer each time
    loss_window: int = 3  #: trigger "loss": epochs over which the loss must improve
    loss_improvement: float = 0.01  #: trigger "loss": the share by which it must improve
    loss_neurons: int = 2  #: trigger "loss": new neurons per layer each time

    def __post_init__(self) -> None:
        TRIGGERS.find(self.trigger)
        INITIALISERS.find(self.init)
        choice("tau_start", self.tau_start, STARTS)
        choice("ed_layers", self.ed_layers, ED_LAYERS)
        settle(self, number, ("boost",), 0, open_low=True)
        settle(self, number, ("gamma",), 0, 1, open_low=True)
        settle(self, number, ("epsilon",), 0, open_low=True)
        settle(self, number, ("percentile",), 0, 100)
        settle(self, number, ("scale", "random_scale"), 0)
        settle(self, number, ("loss_improvement",), 0, 1)
        settle(self, whole, ("fixed_neurons", "scheduled_neurons", "loss_window", "loss_neurons"), 1)
        if self.fsat_neurons is not None:
            settle(self, whole, ("fsat_neurons",), 1)
        settle(self, whole, ("cooldown",), 0)
        settle(self, wholes, ("schedule",), 0)

    @property
    def decisive(self) -> dict[str, Any]:
        """The settings that decide a run's numbers: those that its trigger and its initialiser read."""
        if self.trigger == "none":
            return {"trigger": "none"}
        names = ("trigger", "init", *TRIGGERS.find(self.trigger).reads, INITIALISERS.find(self.init).scale)
        return {name: getattr(self, name) for name in names if name}


@dataclass(frozen=True)
class LayerSignal:
    """What the rule saw in one layer: φ against γ·reference, percentile against τ."""

    phi: float  #: φ, the effective dimension
    reference: float  #: φ⁰, the φ at the end of the last task
    percentile: float | None  #: Percentile(F, p); None if the rule does not ask it
    tau: float | None  #: τ; None if the rule does not ask it


def full(growth: GrowthSettings, seen: LayerSignal) -> bool:
    """φ > γφ⁰ (Eq. 4): the layer's activations use all of its dimensions."""
    return seen.phi > growth.gamma * seen.reference


def taken(seen: LayerSignal) -> bool:
    """Percentile(F, p) > τ (Eq. 5): the layer's weights are taken by earlier tasks."""
    return seen.percentile is not None and seen.tau is not None and seen.percentile > seen.tau


class Trigger:
    """Decides which layers grow in a later task: by the signals that it asks, or by one of the methods."""

    reads: tuple[str, ...] = ()  #: the fields of ``GrowthSettings`` that decide the rule
    asks: tuple[str, ...] = ()  #: the signals that decide after each epoch: "dimension", "fisher" or both
    loss = False  #: whether the losses of past epochs decide

    def before_epoch(self, growth: GrowthSettings, epoch: int, widths: Sequence[int]) -> list[int]:
        """New neurons per layer before an epoch, which counts from 0."""
        return [0] * len(widths)

    def after_epoch(
        self, growth: GrowthSettings, signals: Sequence[LayerSignal], losses: Sequence[float], widths: Sequence[int]
    ) -> list[int]:
        """New neurons per layer after an epoch; ``losses`` are those of this task since it last grew."""
        if not self.asks:
            return [0] * len(widths)
        pairs = zip(signals, widths, strict=True)
        return [self.neurons(growth, seen, width) if self.saturated(growth, seen) else 0 for seen, width in pairs]

    def saturated(self, growth: GrowthSettings, seen: LayerSignal) -> bool:
        """``full`` and ``taken``, as far as the rule asks them; both together are Eq. 6."""
        return ("dimension" not in self.asks or full(growth, seen)) and ("fisher" not in self.asks or taken(seen))

    def neurons(self, growth: GrowthSettings, seen: LayerSignal, width: int) -> int:
        """New neurons of a saturated layer, by Eq. 4."""
        return new_neurons(width, seen.phi, seen.reference, growth.gamma)


class ByFunction(Trigger):
    """A function of one's own: (signals, widths) → new neurons per layer, after each epoch that is not a cooldown."""

    reads = ("epsilon", "percentile", "tau_start", "cooldown", "boost")
    asks = ("dimension", "fisher")

    def __init__(self, function: Callable[[Sequence[LayerSignal], Sequence[int]], Sequence[int]]) -> None:
        self.function = function

    def after_epoch(
        self, growth: GrowthSettings, signals: Sequence[LayerSignal], losses: Sequence[float], widths: Sequence[int]
    ) -> list[int]:
        """What the function says."""
        neurons = wholes("trigger", self.function(signals, widths), 0)
        require(len(neurons) == len(widths), f"trigger must return {len(widths)} numbers, one per hidden layer")
        return list(neurons)


def as_trigger(rule: Any) -> Trigger:
    """An object of a class, an object as it is, or the rule that a function is."""
    if isinstance(rule, type):
        made: Trigger = rule()
        return made
    return rule if hasattr(rule, "after_epoch") else ByFunction(rule)


TRIGGERS = Registry[Trigger]("trigger", as_trigger)
register = TRIGGERS.register  #: decorates a class, which ``GrowthSettings(trigger=name)`` then chooses

load_folder(__name__, __path__)
