"""What keeps a network plastic without growth: three published ways, on top of online EWC, at a fixed size.

Section 5.4 claims that growth keeps plasticity on long streams. These are what one would use instead. Each has one
number, its strength; all else is as its authors have it, or is said below. Learners here also record which share of
each hidden layer is dormant after each task.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from noracl.method.callbacks import Callbacks
from noracl.method.learner import Learner, Outcome
from noracl.method.network import WEIGHTS, layers
from noracl.method.optimisation import Batches
from noracl.method.plasticity import dormant_fraction
from noracl.method.regularisers.online_ewc import OnlineEWC
from noracl.method.seeds import generator
from noracl.method.settings import Settings
from noracl.method.streams import Stream, Task

DORMANT = 0.025  #: τ of Sokar et al. 2023: a neuron is dormant below this share of its layer's mean activation
NOISE = 0.01  #: standard deviation of what shrink and perturb adds, as in Ash and Adams 2020
MEMORY, MATURITY = 0.99, 100  #: η and m of continual backpropagation, as in Dohare et al. 2024


@dataclass
class Dormancy:
    """Dormant share of each hidden layer after each task, on the first mini-batch of the task."""

    shares: list[tuple[float, ...]]


class Watched(Learner):
    """A learner that records its dormant neurons."""

    strength: float
    dormant: list[tuple[float, ...]]

    def _consolidate(self) -> None:
        super()._consolidate()
        hidden = self.network.activations(next(self.batches.first(1))[0])[:-1]
        self.dormant.append(tuple(dormant_fraction(one, DORMANT) for one in hidden))


class PulledEWC(OnlineEWC):
    """Online EWC, plus a penalty λ₀‖θ − θ⁰‖² towards the first weights (Kumar, Marklund and Van Roy 2023)."""

    pull = 0.0

    def penalise(self, theta: Tensor, gradient: Tensor) -> None:
        """gradient += κ∘(θ − θ*) + 2λ₀(θ − θ⁰)."""
        if "start" not in self.vectors:
            self._begin(theta)
        super().penalise(theta, gradient)
        gradient.add_(torch.sub(theta, self.vectors["start"], out=self._distance), alpha=2 * self.pull)

    @torch.inference_mode(False)  # what inference mode makes cannot be changed outside it
    def _begin(self, theta: Tensor) -> None:
        self.keep(start=theta.clone(), anchor=theta.clone())


class Pulled(Watched):
    """L2 towards initialisation; its strength is λ₀."""

    def _prepare(self, given: Task, batches: Batches | None) -> None:
        if not isinstance(self.regulariser, PulledEWC):
            self.regulariser = PulledEWC(self.settings.ewc)
            self.regulariser.pull = self.strength
        super()._prepare(given, batches)


class ShrinkAndPerturb(Watched):
    """θ ← strength·θ + noise before each later task (Ash and Adams 2020)."""

    def _prepare(self, given: Task, batches: Batches | None) -> None:
        super()._prepare(given, batches)
        if self.number > 1:
            theta = self.network.theta
            noise = torch.randn(theta.shape, generator=self.draws["upkeep"]).to(theta.device)
            theta.mul_(self.strength).add_(noise, alpha=NOISE)


class ContinualBackprop(Watched):
    """Renews the least useful of the mature neurons, few at a time (Dohare et al. 2024, algorithm 1).

    Its strength is ρ, the share of mature neurons that is renewed per step. A neuron's usefulness is a moving average
    of its mean activation times its outgoing weights, here after the step, on the mini-batch of the step. What a
    renewed neuron's weights meant to earlier tasks is forgotten, so EWC does not hold them, as it is with new neurons.
    """

    utility: list[Tensor]
    age: list[Tensor]
    due: list[float]

    def _make_steps(self) -> None:
        if self.number == 1:
            widths = self.network.widths
            self.utility = [torch.zeros(width) for width in widths]
            self.age, self.due = [torch.zeros(width) for width in widths], [0.0] * len(widths)
        super()._make_steps()

    def renew(self, step: int) -> None:
        """Called after each step, while its mini-batch is still loaded."""
        left = len(self.batches.x) - (step - 1) * self.batches.batch_size  # the last mini-batch may be smaller
        hidden = self.network.activations(self.batches.inputs[:left])[:-1]
        for layer, activations in enumerate(hidden):
            useful = activations.abs().mean(1) * self.network.weights[layer + 1].abs().sum(0)
            self.utility[layer] = MEMORY * self.utility[layer] + (1 - MEMORY) * useful
            self.age[layer] = self.age[layer] + 1
            mature = self.age[layer] > MATURITY
            self.due[layer] += self.strength * int(mature.sum())
            if self.due[layer] >= 1:
                self.due[layer] -= 1
                self._renew(layer, int(self.utility[layer].where(mature, torch.inf).argmin()))

    @torch.inference_mode(False)
    def _renew(self, layer: int, neuron: int) -> None:
        incoming, outgoing = self.network.weights[layer : layer + 2]
        draw = WEIGHTS[self.settings.init]
        incoming[neuron] = draw(incoming.shape[1], incoming.shape[0], self.draws["upkeep"])[0].to(incoming.device)
        outgoing[:, neuron] = 0
        new = torch.zeros_like(self.network.theta, dtype=torch.bool)
        parts = layers(new, self.network.sizes)
        parts[layer][neuron] = True
        parts[layer + 1][:, neuron] = True
        self._transform(lambda flat: flat.masked_fill(new, 0))
        rest = torch.arange(len(incoming)) != neuron
        self.utility[layer], self.age[layer] = self.utility[layer] * rest, self.age[layer] * rest


KINDS: dict[str, type[Watched]] = {
    "none": Watched,
    "L2 towards initialisation": Pulled,
    "shrink and perturb": ShrinkAndPerturb,
    "continual backpropagation": ContinualBackprop,
}


def learn_kept_up(
    kind: str, strength: float, stream: Stream, settings: Settings, seed: int = 0, callbacks: Callbacks | None = None
) -> tuple[Outcome, Dormancy]:
    """Learn a stream with one of ``KINDS``; what it comes to, and its dormant neurons."""
    learner = KINDS[kind].of(stream, settings, seed, callbacks)
    learner.strength, learner.dormant = strength, []
    learner.draws["upkeep"] = generator(seed, "upkeep")
    if isinstance(learner, ContinualBackprop):
        learner.callbacks = replace(learner.callbacks, step=ContinualBackprop.renew)
    return learner.learn_stream(stream), Dormancy(learner.dormant)
