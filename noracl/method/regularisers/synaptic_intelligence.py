"""Synaptic Intelligence: Zenke, Poole and Ganguli, Continual learning through synaptic intelligence, 2017."""

from collections.abc import Iterable

import torch
from torch import Tensor

from noracl.method.checks import number
from noracl.method.network import Batch, Network
from noracl.method.regularisers import EWCSettings, Quadratic, register


@register("si")
class SynapticIntelligence(Quadratic):
    """Penalty c Σ Ωᵢ(θᵢ − θᵢ*)² (Zenke's Eq. 4), anchored at the end of the previous task.

    ω is what each weight took off the task's loss on its way (Eq. 3): −Σ g∘Δθ over the steps, g being the gradient of
    the loss without the penalty, and Δθ the step that was really taken. Ω ← max(0, Ω + ω / ((θ − θ*)² + ξ)) at the end
    of a task (Eq. 5); the maximum is not in the equation, but in the code that Zenke et al. published.

    Reads ``strength``, which is c. ``damping`` is ξ, by default the 0.1 of their permuted MNIST.
    """

    # Besides importance and anchor, ``vectors`` holds ``path``, which is ω so far; ``last`` and ``slope``, which are θ
    # and g at the last call; and ``known``, which is 0 for weights that were born since then, or else 1. In task 1 the
    # anchor is where the weights started.
    scale = 2.0
    _born: Tensor | None = None

    def __init__(self, settings: EWCSettings, damping: float = 0.1) -> None:
        super().__init__(settings)
        self.damping = number("damping", damping, 0, open_low=True)

    def penalise(self, theta: Tensor, gradient: Tensor) -> None:
        """gradient += 2cΩ∘(θ − θ*), nothing during task 1; and the step before this one is done, so count it."""
        self._count(theta)
        self.vectors["slope"].copy_(gradient)
        super().penalise(theta, gradient)

    def consolidate(self, network: Network, fisher: Tensor, batches: Iterable[Batch] = ()) -> None:
        """Ω as in Eq. 5, θ* ← θ, ω ← 0."""
        theta, zeros = network.theta, torch.zeros_like(network.theta)
        self._count(theta)
        gain = self.vectors["path"] / ((theta - self.anchor).square() + self.damping)
        importance = (self.vectors.get("importance", zeros) + gain).relu()
        self.keep(importance=importance, anchor=theta.clone(), path=zeros)

    def derive(self) -> None:
        """Also which weights were born since the last call, if any."""
        super().derive()
        born = self.vectors["known"] == 0
        self._born = born if born.any() else None

    def _count(self, theta: Tensor) -> None:  # ω −= g∘Δθ for the last step
        kept = self.vectors
        if not kept:
            self._begin(theta)
        if self._born is not None:  # a weight's way begins where it was born
            self.anchor[self._born] = kept["last"][self._born] = theta[self._born]
            kept["known"].fill_(1)
            self._born = None
        kept["path"].addcmul_(kept["slope"], torch.sub(theta, kept["last"], out=self._distance), value=-1)
        kept["last"].copy_(theta)

    @torch.inference_mode(False)  # what inference mode makes cannot be changed outside it
    def _begin(self, theta: Tensor) -> None:
        zeros = torch.zeros_like(theta)
        self.keep(anchor=theta.clone(), last=theta.clone(), path=zeros, slope=zeros.clone(), known=zeros + 1)
