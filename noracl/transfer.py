"""Transfer of the theory to ReLU MLPs (appendix A.2.2): a run as any other, with a look at what grew in it.

Theorem 1 lets old parameters rest while new ones learn: how far do both move in the epochs after growth? Corollary 1
has new units take up the new task: what is lost, and on which tasks, without the neurons that one task added?

New neurons stand at the end of their layer, so the course of growth tells when each was born. A weight is as young as
the younger of the two neurons that it joins. Seen from a growth event (all neurons of one moment, in whatever layer),
*new* are the weights born in it, into and out of its neurons; *old* are all that were there before it, newcomers of
earlier events of the same task among them; weights born later are neither. This holds for as long as one looks.

The paper does not say what its update is. Here it is taken in two ways: how far an epoch moved the weights, end minus
start, and how far its steps moved them, each on its own. Steps go to and fro, so the second is the longer way.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from noracl.consolidation import OnlineEWC
from noracl.history import GrowthEvent, History
from noracl.learner import Learner, Outcome, Settings
from noracl.network import Network
from noracl.streams import Stream

#: Raised by one whenever a change to this file changes what ``observe`` gives.
VERSION = 1

Moment = tuple[int, int]  #: a growth event's place: the task, and its epochs that were trained before the event
BEGINNING: Moment = (0, 0)


def moments(growth: Sequence[GrowthEvent]) -> list[Moment]:
    """The beginning, then every moment at which something grew, in order."""
    return list(dict.fromkeys([BEGINNING, *((event.task, event.epoch) for event in growth)]))


def births(growth: Sequence[GrowthEvent], start: Sequence[int]) -> list[list[Moment]]:
    """When each neuron was born, a list per hidden layer; ``start`` holds the widths at the beginning."""
    born = [[BEGINNING] * width for width in start]
    for event in growth:
        born[event.layer - 1] += [(event.task, event.epoch)] * event.neurons
    return born


def weight_births(born: Sequence[Sequence[int]], inputs: int, classes: int) -> Tensor:
    """When each weight was born, flat as in ``Network.theta``; ``born`` has the same of hidden neurons, as numbers."""
    sides = [torch.tensor(side) for side in ([0] * inputs, *born, [0] * classes)]
    return torch.cat([torch.maximum(to[:, None], of).flatten() for of, to in itertools.pairwise(sides)])


@dataclass(frozen=True)
class Update:
    """What epoch ``epoch`` (from 1) of a later task did; lists have one entry for each of ``moments`` until then."""

    task: int
    epoch: int
    moved: list[float]  #: squared distance of the weights that were born then from where they began the epoch
    stepped: list[float]  #: sum over steps of the squared distance that the step moved them
    weights: list[int]  #: how many they are


@dataclass(frozen=True)
class Ratio:
    """Update of new weights over update of old ones, in the epoch that begins ``age`` epochs after an event."""

    event: Moment
    age: int
    moved: float  #: of Euclidean norms
    stepped: float  #: of root mean squares over steps of Euclidean norms
    fewer: float  #: √(old weights / new weights), which makes either a ratio of root mean squares over weights


def ratios(growth: Sequence[GrowthEvent], updates: Sequence[Update]) -> list[Ratio]:
    """Every event in every epoch after it."""

    def new_over_old(squares: Sequence[float], event: int) -> float:
        old = sum(squares[:event])
        return math.sqrt(squares[event] / old) if old else math.inf

    found = []
    for i, event in enumerate(moments(growth)[1:], start=1):
        later = [update for update in updates if (update.task, update.epoch) > event]
        for age, update in enumerate(later):
            moved, stepped = (new_over_old(squares, i) for squares in (update.moved, update.stepped))
            found.append(Ratio(event, age, moved, stepped, 1 / new_over_old(update.weights, i)))
    return found


def silence(network: Network, neurons: Sequence[Sequence[int]]) -> Network:
    """A copy in which nothing leads out of the given neurons (from 0) of each hidden layer."""
    quiet = Network(network.sizes, network.theta.clone())
    for above, chosen in zip(quiet.weights[1:], neurons, strict=True):
        above[:, list(chosen)] = 0
    return quiet


class StepCounter(OnlineEWC):
    """Online EWC that also sums up, weight by weight, the squares of what steps did since ``begin``."""

    last: Tensor | None = None

    def begin(self, theta: Tensor) -> None:
        """Start anew."""
        self.last, self.squares = theta.clone(), torch.zeros_like(theta)

    def penalise(self, theta: Tensor, gradient: Tensor) -> None:
        """Eq. 2; and the step before this one is done, so count it."""
        super().penalise(theta, gradient)
        self.count(theta)

    def count(self, theta: Tensor) -> None:
        """Add what happened since the last count."""
        if self.last is not None:
            self.squares.addcmul_(step := theta - self.last, step)
            self.last.copy_(theta)


class Observer(Learner):
    """A learner that looks on: what it learns is what ``Learner`` learns."""

    def __init__(self, stream: Stream, settings: Settings, seed: int) -> None:
        self.steps = StepCounter(settings.ewc)
        super().__init__(stream, settings, seed, self.steps)
        self.updates: list[Update] = []

    def _grow_by_calendar(self, epoch: int) -> bool:  # called before each epoch of a later task
        grown = super()._grow_by_calendar(epoch)
        self.before = self.network.theta.clone()
        self.steps.begin(self.before)
        return grown

    def _grow_by_signals(self, epoch: int) -> bool:  # called after it
        theta = self.network.theta
        self.steps.count(theta)
        self.steps.last = None
        number = {moment: i for i, moment in enumerate(moments(self.history.growth))}
        neurons = [[number[moment] for moment in layer] for layer in self.births()]
        born = weight_births(neurons, self.stream.inputs, self.stream.classes)
        moved, stepped = (
            torch.bincount(born, squares.double().cpu(), len(number)).tolist()
            for squares in ((theta - self.before).square(), self.steps.squares)
        )
        self.updates.append(Update(self.number, epoch, moved, stepped, torch.bincount(born).tolist()))
        return super()._grow_by_signals(epoch)

    def births(self) -> list[list[Moment]]:
        """When each neuron was born."""
        return births(self.history.growth, self.settings.hidden)

    def accuracy_without(self, task: int) -> list[float]:
        """Accuracy on every task so far when the neurons that grew in ``task`` are silent."""
        whole = self.network
        grown = [[i for i, born in enumerate(layer) if born[0] == task] for layer in self.births()]
        self.network = silence(whole, grown)
        try:
            return [self._accuracy(one) for one in self.stream.tasks[: self.number]]
        finally:
            self.network = whole


@dataclass(frozen=True)
class Observation:
    """What was seen of a run besides its history."""

    updates: list[Update]
    silenced: list[tuple[int, list[float]]]  #: a task in which neurons grew, and final accuracies without these

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Observation":
        """The inverse of ``dataclasses.asdict``, also through JSON."""
        return cls([Update(**update) for update in data["updates"]], [(task, acc) for task, acc in data["silenced"]])


def observe(
    stream: Stream, settings: Settings, seed: int = 0, on_task: Callable[[int, History], None] | None = None
) -> tuple[Outcome, Observation]:
    """As ``learn``, and what happened to new and old weights on the way."""
    learner = Observer(stream, settings, seed)
    for number, task in enumerate(stream.tasks, start=1):
        learner.learn_task(number, task)
        if on_task is not None:
            on_task(number, learner.history)
    grown = dict.fromkeys(event.task for event in learner.history.growth)
    silenced = [(task, learner.accuracy_without(task)) for task in grown]
    return Outcome(learner.history, learner.seconds, learner.network), Observation(learner.updates, silenced)
