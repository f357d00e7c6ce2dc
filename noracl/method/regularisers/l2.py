"""L2 towards the weights at the end of the last task: the control of Kirkpatrick et al. (2017, Fig. 2A)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from noracl.method.network import Batch, Network
from noracl.method.regularisers import Quadratic, register


@register("l2")
class L2(Quadratic):
    """Penalty λ/2 ‖θ − θ*‖²: Eq. 2 of section 3 with 1 for every F̃ᵢ, so that all weights are equally important.

    A weight that was born since the last task has no θ* yet, and stays free until its first task has ended. Reads
    ``strength``, which is λ.
    """

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[Batch] = ()) -> None:
        """θ* ← θ."""
        self.keep(importance=torch.ones_like(network.theta), anchor=network.theta.clone())
