"""When and where to grow (section 3.1), and the rules it is compared with (appendix A.6.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from noracl.checks import choice, number, whole
from noracl.consolidation import STARTS
from noracl.neurogenesis import INITIALISERS
from noracl.signals import new_neurons

TRIGGERS = ("joint", "ed", "fsat", "fixed", "scheduled", "loss", "none")


@dataclass(frozen=True)
class GrowthSettings:
    """When, where and how to grow; ``trigger="none"`` is a static network.

    τ, like the averages of online EWC, starts at its ``first`` value or at ``zero``. F_sat alone adds
    ``fsat_neurons`` per event, or as many as Eq. 4 says.
    """

    trigger: str = "joint"
    init: str = "qr"
    gamma: float = 0.9
    epsilon: float = 0.05
    percentile: float = 25.0
    cooldown: int = 3
    scale: float = 0.2
    tau_start: str = "first"
    fsat_neurons: int | None = None
    random_scale: float = 1.0
    fixed_neurons: int = 6
    schedule: tuple[int, ...] = (0, 5, 15, 25)
    scheduled_neurons: int = 2
    loss_window: int = 3
    loss_improvement: float = 0.01
    loss_neurons: int = 2

    def __post_init__(self) -> None:
        choice("trigger", self.trigger, TRIGGERS)
        choice("init", self.init, INITIALISERS)
        number("gamma", self.gamma, 0, 1, open_low=True)
        number("epsilon", self.epsilon, 0, open_low=True)
        number("percentile", self.percentile, 0, 100)
        whole("cooldown", self.cooldown, 0)
        number("scale", self.scale, 0)
        choice("tau_start", self.tau_start, STARTS)
        if self.fsat_neurons is not None:
            whole("fsat_neurons", self.fsat_neurons, 1)
        number("random_scale", self.random_scale, 0)
        whole("fixed_neurons", self.fixed_neurons, 1)
        for epoch in self.schedule:
            whole("schedule", epoch, 0)
        whole("scheduled_neurons", self.scheduled_neurons, 1)
        whole("loss_window", self.loss_window, 1)
        number("loss_improvement", self.loss_improvement, 0, 1)
        whole("loss_neurons", self.loss_neurons, 1)

    @property
    def reads_dimension(self) -> bool:
        """Whether the rule looks at φ (for F_sat alone, only to say how many neurons)."""
        return self.trigger in ("joint", "ed", "fsat")

    @property
    def reads_fisher(self) -> bool:
        """Whether the rule looks at the current task's Fisher."""
        return self.trigger in ("joint", "fsat")

    @property
    def reads_loss(self) -> bool:
        """Whether the rule looks at the loss of past epochs."""
        return self.trigger == "loss"

    @property
    def monitors(self) -> bool:
        """Whether the rule looks at the network at the end of an epoch."""
        return self.reads_dimension or self.reads_loss


@dataclass(frozen=True)
class LayerSignal:
    """What the rule saw in one layer: φ against γ·reference, percentile against τ."""

    phi: float
    reference: float
    percentile: float | None
    tau: float | None


def saturated(signal: LayerSignal, settings: GrowthSettings) -> bool:
    """Eq. 6 for the joint rule; either half of it for the ablations."""
    dimension = signal.phi > settings.gamma * signal.reference
    if settings.trigger == "ed":
        return dimension
    plasticity = signal.percentile is not None and signal.tau is not None and signal.percentile > signal.tau
    return plasticity and (dimension or settings.trigger == "fsat")


def after_epoch(settings: GrowthSettings, signals: Sequence[LayerSignal], widths: Sequence[int]) -> list[int]:
    """New neurons per layer by the signals at the end of an epoch (Eq. 4 to 6)."""
    fixed = settings.fsat_neurons if settings.trigger == "fsat" else None
    return [
        (fixed or new_neurons(width, s.phi, s.reference, settings.gamma)) if saturated(s, settings) else 0
        for s, width in zip(signals, widths, strict=True)
    ]


def on_plateau(settings: GrowthSettings, losses: Sequence[float], widths: Sequence[int]) -> list[int]:
    """New neurons per layer when the loss improved by less than a share over the last epochs."""
    if len(losses) <= settings.loss_window:
        return [0] * len(widths)
    plateau = losses[-1] > (1 - settings.loss_improvement) * losses[-1 - settings.loss_window]
    return [settings.loss_neurons if plateau else 0] * len(widths)


def before_epoch(settings: GrowthSettings, epoch: int, widths: Sequence[int]) -> list[int]:
    """New neurons per layer by the calendar, before epoch ``epoch`` (from 0) of a later task."""
    if settings.trigger == "fixed" and epoch == 0:
        return [settings.fixed_neurons] * len(widths)
    if settings.trigger == "scheduled" and epoch in settings.schedule:
        return [settings.scheduled_neurons] * len(widths)
    return [0] * len(widths)
