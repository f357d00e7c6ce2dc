"""EWC with a penalty per task: Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, 2017."""

from collections.abc import Iterable

import torch
from torch import Tensor

from noracl.method.network import Batch, Network
from noracl.method.regularisers import Quadratic, register


@register("ewc")
class EWC(Quadratic):
    """Penalty Σₖ λ/2 Σᵢ F_{k,i}(θᵢ − θ*_{k,i})² over all tasks k so far (Kirkpatrick's Eq. 3).

    The sum of quadratic penalties is one quadratic penalty, as they note: apart from a constant it is
    λ/2 Σᵢ Fᵢ(θᵢ − θᵢ*)², with F = ΣFₖ and θ* = ΣFₖθ*ₖ / F. So two vectors do, however many tasks there are.
    Reads ``strength``, which is λ.
    """

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[Batch] = ()) -> None:
        """F ← F + Fₖ, and θ* moves towards θ by the share Fₖ / F."""
        theta = network.theta
        total = self.vectors.get("importance", torch.zeros_like(theta)) + fisher
        share = torch.where(total > 0, fisher / total, 1.0)
        self.keep(importance=total, anchor=torch.lerp(self.vectors.get("anchor", theta), theta, share))
