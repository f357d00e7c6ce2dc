"""Online EWC, the regulariser of the paper (section 3, Eq. 1 and 2)."""

from collections.abc import Iterable

from torch import Tensor

from noracl.method.network import Batch, Network
from noracl.method.regularisers import Quadratic, register


@register("online_ewc")
class OnlineEWC(Quadratic):
    """Penalty λ/2 Σ F̃ᵢ(θᵢ − θᵢ*)² (Eq. 2), anchored at the end of the previous task.

    Reads every setting: ``strength`` is λ, ``decay`` is α, ``start`` says how F̃ starts, and without ``half`` the
    penalty is λ Σ F̃ᵢ(θᵢ − θᵢ*)².
    """

    @property
    def scale(self) -> float:  # type: ignore[override]
        """κ is scale × λF̃."""
        return 1.0 if self.settings.half else 2.0

    @property
    def fisher(self) -> Tensor | None:
        """F̃; None before the first task has ended."""
        return self.vectors.get("importance")

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[Batch] = ()) -> None:
        """F̃ ← αF̃ + (1 − α)F (Eq. 1), θ* ← θ."""
        self.keep(importance=self.settings.average(self.fisher, fisher), anchor=network.theta.clone())
