"""Memory Aware Synapses: Aljundi et al., Memory Aware Synapses: learning what (not) to forget, 2018."""

from collections.abc import Iterable

import torch
from torch import Tensor

from noracl.method.backprop import Backprop
from noracl.method.checks import require
from noracl.method.network import Batch, Network, layers
from noracl.method.regularisers import Quadratic, register


@register("mas")
class MemoryAwareSynapses(Quadratic):
    """Penalty λ Σ Ωᵢ(θᵢ − θᵢ*)² (Aljundi's Eq. 3), anchored at the end of the previous task.

    Ω is added up over tasks, as published. It needs inputs but no labels, and comes from the mini-batches that also
    give the Fisher. Reads ``strength``, which is λ.
    """

    scale = 2.0

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[Batch]) -> None:
        """Ω ← Ω + the sensitivity of the outputs on this task, θ* ← θ."""
        before = self.vectors.get("importance", torch.zeros_like(network.theta))
        self.keep(importance=before + sensitivity(network, batches), anchor=network.theta.clone())


def sensitivity(network: Network, batches: Iterable[Batch]) -> Tensor:
    """Mean over samples of |∂‖F(x)‖² / ∂θ|, F(x) being the logits (Aljundi's Eq. 2 for several outputs)."""
    total, samples = torch.zeros_like(network.theta), 0
    for x, _ in batches:
        backprop = Backprop([network], len(x))
        torch.mul(backprop.forward(x), 2, out=backprop.errors)
        backprop.descend()
        for (deltas, inputs), matrix in zip(backprop.passes[0].pairs(x), layers(total, network.sizes), strict=True):
            matrix.addmm_(deltas.abs(), inputs.abs())  # gradients are δaᵀ: their absolute values sum to |D||A|ᵀ
        samples += len(x)
    require(samples > 0, "batches must hold at least one mini-batch")
    return total.div_(samples)
