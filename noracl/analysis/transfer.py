"""Transfer of the theory to ReLU MLPs (appendix A.2.2): a run like any other, and a look at what grew in it.

Theorem 1 lets old parameters rest while new ones learn: how far do both move in the epochs after growth? Corollary 1
has new units take up the new task: what is lost, and on which tasks, without the neurons that one task added?

New neurons are at the end of their layer, so the events of growth tell when each was born. A weight is as young as the
younger of the two neurons that it joins. For a growth event (all neurons of one moment, in any layer), *new* are the
weights born in it, into and out of its neurons; *old* are all that were there before it, including newcomers of
earlier events of the same task; weights born later are neither, however long one looks.

The paper does not define its update. Here it has two measures: how far an epoch moved the weights, end minus start,
and how far its steps moved them, each on its own. Steps go to and fro, so the second is the longer way.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from noracl.method.callbacks import Callbacks
from noracl.method.history import GrowthEvent
from noracl.method.learner import Learner, Outcome
from noracl.method.network import Network
from noracl.method.settings import Settings
from noracl.method.streams import Stream

Moment = tuple[int, int]  #: when something grew: the task, and the epochs of it that were trained before
BEGINNING: Moment = (0, 0)


def moments(growth: Sequence[GrowthEvent]) -> list[Moment]:
    """The beginning, then every moment at which something grew, in order."""
    return list(dict.fromkeys([BEGINNING, *((event.task, event.epoch) for event in growth)]))


def births(growth: Sequence[GrowthEvent], start: Sequence[int]) -> list[list[Moment]]:
    """When each neuron was born, one list per hidden layer; ``start`` holds the widths at the beginning."""
    born = [[BEGINNING] * width for width in start]
    for event in growth:
        born[event.layer - 1] += [(event.task, event.epoch)] * event.neurons
    return born


@dataclass(frozen=True)
class Update:
    """What epoch ``epoch`` (from 1) of a later task did; lists have one entry for each of ``moments`` until then."""

    task: int
    epoch: int
    moved: list[float]  #: squared distance of the weights that were born then from where they began the epoch
    stepped: list[float]  #: sum over steps of the squared distance that the step moved them
    weights: list[int]  #: number of these weights


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
        for age, update in enumerate(one for one in updates if (one.task, one.epoch) > event):
            moved, stepped, more = (new_over_old(of, i) for of in (update.moved, update.stepped, update.weights))
            found.append(Ratio(event, age, moved, stepped, 1 / more))
    return found


def silence(network: Network, neurons: Sequence[Sequence[int]]) -> Network:
    """A copy in which nothing leads out of the given neurons (from 0) of each hidden layer."""
    quiet = Network(network.sizes, network.theta.clone())
    for above, chosen in zip(quiet.weights[1:], neurons, strict=True):
        above[:, list(chosen)] = 0
    return quiet


class Observer(Learner):
    """A learner that records updates; it learns exactly what ``Learner`` learns."""

    last: Tensor | None = None  # θ after the last step, while steps are counted
    squares: Tensor  # the squares of the steps so far, weight by weight

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.updates: list[Update] = []
        theirs = self.callbacks.step

        def count(learner: Observer, step: int) -> None:
            learner.count()
            if theirs is not None:
                theirs(learner, step)

        self.callbacks = replace(self.callbacks, step=count)

    def count(self) -> None:
        """Add what happened since the last count."""
        if self.last is not None:
            self.squares.addcmul_(step := self.network.theta - self.last, step)
            self.last.copy_(self.network.theta)

    def _grow_by_calendar(self, epoch: int) -> None:  # called before each epoch of a later task
        super()._grow_by_calendar(epoch)
        self.before = self.network.theta.clone()
        self.last, self.squares = self.before.clone(), torch.zeros_like(self.before)

    def _grow_by_signals(self, epoch: int) -> None:  # called after it
        theta, growth = self.network.theta, self.history.growth
        self.last = None
        number = {moment: i for i, moment in enumerate(moments(growth))}
        hidden = [torch.tensor([number[moment] for moment in layer]) for layer in births(growth, self.settings.hidden)]
        inputs, *_, classes = self.network.sizes
        sides = [torch.zeros(inputs).long(), *hidden, torch.zeros(classes).long()]
        born = torch.cat([torch.maximum(to[:, None], of).flatten() for of, to in itertools.pairwise(sides)])
        squares = ((theta - self.before).square(), self.squares)
        moved, stepped = (torch.bincount(born, one.double().cpu(), len(number)).tolist() for one in squares)
        self.updates.append(Update(self.number, epoch, moved, stepped, torch.bincount(born).tolist()))
        super()._grow_by_signals(epoch)

    def accuracy_without(self, task: int) -> list[float]:
        """Accuracy on every task so far when the neurons that grew in ``task`` are silent."""
        born = births(self.history.growth, self.settings.hidden)
        quiet = silence(self.network, [[i for i, at in enumerate(layer) if at[0] == task] for layer in born])
        return [self._accuracy(one, quiet) for one in self.tests]


@dataclass(frozen=True)
class Observation:
    """What was seen of a run besides its history."""

    updates: list[Update]
    silenced: list[tuple[int, list[float]]]  #: a task in which neurons grew, and final accuracies without these


def observe(
    stream: Stream, settings: Settings, seed: int = 0, callbacks: Callbacks | None = None
) -> tuple[Outcome, Observation]:
    """As ``learn``, and what happened to new and old weights on the way."""
    learner = Observer.of(stream, settings, seed, callbacks)
    outcome = learner.learn_stream(stream)
    grown = dict.fromkeys(event.task for event in learner.history.growth)
    return outcome, Observation(learner.updates, [(task, learner.accuracy_without(task)) for task in grown])
