"""Controls of equal growth: the neurons that a run of NORACL grew, at other times, in other layers, or all at once.

NORACL decides when to grow (section 3.1), where, and with which weights (section 3.2). Each control changes one of
these and keeps the rest of the run, so that its accuracy tells what that one decision is worth. A plan says how many
neurons each layer gets at each moment; ``Replay`` grows by it and asks no signal.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch

from noracl.analysis.transfer import Moment
from noracl.method.callbacks import Callbacks
from noracl.method.history import GrowthEvent
from noracl.method.learner import Learner, Outcome, learn_side_by_side
from noracl.method.seeds import generator
from noracl.method.settings import Settings
from noracl.method.streams import Stream

Plan: TypeAlias = dict[Moment, list[int]]  #: new neurons per hidden layer after an epoch of a task
REPLAYED = "init "  #: a control of this name and an initialiser's replays all events with that initialiser


def plan_of(events: Sequence[GrowthEvent], layers: int) -> Plan:
    """The plan that gives these events."""
    plan: Plan = {}
    for event in events:
        plan.setdefault((event.task, event.epoch), [0] * layers)[event.layer - 1] += event.neurons
    return plan


def at_random_times(events: Sequence[GrowthEvent], stream: Stream, settings: Settings, seed: int) -> list[GrowthEvent]:
    """Every event in its layer, after an epoch that is drawn from all epochs of all later tasks."""
    epochs, draws = settings.optimisation.epochs_later, generator(seed, "random times")
    drawn = torch.randint((len(stream.tasks) - 1) * epochs, (len(events),), generator=draws).tolist()
    moved = [
        replace(event, task=at // epochs + 2, epoch=at % epochs + 1) for event, at in zip(events, drawn, strict=True)
    ]
    return sorted(moved, key=lambda event: (event.task, event.epoch, event.layer))


def in_random_layers(events: Sequence[GrowthEvent], stream: Stream, settings: Settings, seed: int) -> list[GrowthEvent]:
    """Every event at its time, in a layer that is drawn from all hidden layers."""
    drawn = torch.randint(len(settings.hidden), (len(events),), generator=generator(seed, "random layers")).tolist()
    return [replace(event, layer=layer + 1) for event, layer in zip(events, drawn, strict=True)]


Move: TypeAlias = Callable[[Sequence[GrowthEvent], Stream, Settings, int], list[GrowthEvent]]
MOVES: dict[str, Move] = {"random times": at_random_times, "random layers": in_random_layers}
AT_ONCE = "from the start"  #: the control that has NORACL's last widths from the first task on


class Replay(Learner):
    """A learner that grows by a plan."""

    plan: Plan

    def _grow_by_calendar(self, epoch: int) -> None:  # before an epoch, which counts from 0 here
        if epoch == 0:
            self._grow_by_plan(0)

    def _grow_by_signals(self, epoch: int) -> None:
        self._grow_by_plan(epoch)

    def _grow_by_plan(self, epoch: int) -> None:
        self._grow(epoch, self.plan.get((self.number, epoch), []), [])


def control(
    name: str, stream: Stream, settings: Settings, seed: int, grown: Outcome, callbacks: Callbacks | None = None
) -> Learner:
    """A learner that is a control of what NORACL, with the same settings and seed, has come to."""
    events, growth = grown.history.growth, settings.growth
    if name == AT_ONCE:
        static = replace(growth, trigger="none")
        return Learner.of(stream, replace(settings, hidden=grown.network.widths, growth=static), seed, callbacks)
    moved = MOVES[name](events, stream, settings, seed) if name in MOVES else events
    init = name.removeprefix(REPLAYED) if name.startswith(REPLAYED) else growth.init
    learner = Replay.of(stream, replace(settings, growth=replace(growth, trigger="none", init=init)), seed, callbacks)
    learner.plan = plan_of(moved, len(settings.hidden))
    return learner


def learn_controls(
    names: Sequence[str], stream: Stream, settings: Settings, seed: int = 0, callbacks: Callbacks | None = None
) -> list[Outcome | Exception]:
    """Let NORACL learn the stream, then every control of it, in lock-step; their outcomes or errors."""
    grown = Learner.of(stream, settings, seed).learn_stream(stream)
    learners = [control(name, stream, settings, seed, grown, callbacks) for name in names]
    return learn_side_by_side(learners, stream)
