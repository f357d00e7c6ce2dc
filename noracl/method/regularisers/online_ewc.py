"""Online EWC, the regulariser of the paper (section 3, Eq. 1 and 2)."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from noracl.method.network import Batch, Network
from noracl.method.regularisers import EWCSettings, register


@register("online_ewc")
class OnlineEWC:
    """Quadratic penalty λ/2 Σ F̃ᵢ(θᵢ − θᵢ*)², anchored at the end of the previous task."""

    fisher: Tensor | None = None  #: F̃
    anchor: Tensor | None = None  #: θ*
    curvature: Tensor | None = None  #: λF̃

    def __init__(self, settings: EWCSettings) -> None:
        self.settings = settings

    def penalise(self, theta: Tensor, gradient: Tensor) -> None:
        """gradient += λF̃∘(θ − θ*) (Eq. 2); nothing during task 1."""
        if self.anchor is not None and self.curvature is not None:
            gradient.addcmul_(self.curvature, torch.sub(theta, self.anchor, out=self._distance))

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[Batch] = ()) -> None:
        """F̃ ← αF̃ + (1 − α)F (Eq. 1), θ* ← θ."""
        self._keep(self.settings.average(self.fisher, fisher), network.theta.clone())

    def transform(self, change: Callable[[Tensor], Tensor]) -> None:
        """Carry F̃ and θ* over to another shape or order of the parameters."""
        if self.fisher is not None and self.anchor is not None:
            self._keep(change(self.fisher), change(self.anchor))

    def _keep(self, fisher: Tensor, anchor: Tensor) -> None:
        self.fisher, self.anchor, self.curvature = fisher, anchor, self.settings.strength * fisher
        self._distance = torch.empty_like(fisher)
