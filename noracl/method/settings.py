"""Everything that decides a run, apart from its tasks and its seed."""

from dataclasses import asdict, dataclass, field
from typing import Any

from noracl.method.checks import choice, instance, require, settle, wholes
from noracl.method.fisher import FisherSettings
from noracl.method.network import WEIGHTS
from noracl.method.optimisation import OptimisationSettings
from noracl.method.regularisers import REGULARISERS, EWCSettings
from noracl.method.triggers import GrowthSettings

PARTS = {"optimisation": OptimisationSettings, "fisher": FisherSettings, "ewc": EWCSettings, "growth": GrowthSettings}


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run; ``regulariser`` is a registered name, or a class or function that makes one."""

    hidden: tuple[int, ...] = (32, 32)  #: neurons of each hidden layer at the start
    init: str = "glorot"  #: how the first weights are drawn: "glorot", "he", "lecun" or "torch"
    regulariser: Any = "online_ewc"  #: what protects learnt weights: see docs/regularisers.md
    optimisation: OptimisationSettings = field(default_factory=OptimisationSettings)  #: rates, epochs, mini-batches
    fisher: FisherSettings = field(default_factory=FisherSettings)  #: how Fisher information is estimated
    ewc: EWCSettings = field(default_factory=EWCSettings)  #: the regulariser's strength and memory
    growth: GrowthSettings = field(default_factory=GrowthSettings)  #: when, where and how to grow

    def __post_init__(self) -> None:
        settle(self, wholes, ("hidden",), 1)
        require(len(self.hidden) > 0, "hidden must name the width of at least one hidden layer")
        choice("init", self.init, WEIGHTS)
        REGULARISERS.find(self.regulariser)
        for name, kind in PARTS.items():
            instance(name, getattr(self, name), kind)
        growth, epochs = self.growth, self.optimisation.epochs_later
        grows = growth.trigger != "scheduled" or any(epoch < epochs for epoch in growth.schedule)
        below = f"growth.schedule must name an epoch below epochs_later, which is {epochs}, or nothing ever grows"
        require(grows, f"{below}; got {growth.schedule}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; ValueError if a part has no name, because only names can be written down."""
        parts = {"regulariser": self.regulariser, "trigger": self.growth.trigger, "init": self.growth.init}
        for name, part in parts.items():
            require(isinstance(part, str), f"{name} must be registered under a name to be saved, got {part!r}")
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Settings":
        """The inverse of ``to_dict``."""
        return cls(**{name: PARTS[name](**value) if name in PARTS else value for name, value in data.items()})
