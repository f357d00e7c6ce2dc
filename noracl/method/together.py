"""One pass of Algorithm 1's outer loop, for one learner or for several in lock-step.

Learners that see the same mini-batches in the same order (other widths, rules or thresholds on one stream with one
seed) gather each mini-batch once. Those whose weights and regulariser are the same, as long as they have grown alike,
take the steps of an epoch once. What a learner comes to does not depend on who learns beside it, to the last byte.
"""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import methodcaller

import torch

from noracl.method.algorithm import Algorithm
from noracl.method.checks import require
from noracl.method.optimisation import Lockstep
from noracl.method.streams import Task
from noracl.method.undo import Snapshot


class Group:
    """Learners of one task; one that fails is as it was before, and the others go on."""

    def __init__(self, learners: Sequence[Algorithm]) -> None:
        self.alive, self.errors = list(learners), dict[int, Exception]()
        self.before = {id(one): Snapshot(one) for one in learners}

    def each(self, act: Callable[[Algorithm], None]) -> None:
        """Do something with every learner that has not failed."""
        for learner in list(self.alive):
            try:
                act(learner)
            except Exception as error:
                self.before[id(learner)].put_back()
                self.errors[id(learner)] = error
                self.alive.remove(learner)

    def undo(self) -> None:
        """All learners as they were before."""
        for learner in self.alive:
            self.before[id(learner)].put_back()


def learn_task(learners: Sequence[Algorithm], task: Task) -> list[Exception | None]:
    """Let every learner learn the task; for each the error that ended it, or None."""
    require_agreement(learners)
    group = Group(learners)
    try:
        _learn(group, task)
    except BaseException:
        group.undo()
        raise
    return [group.errors.get(id(one)) for one in learners]


def _learn(group: Group, task: Task) -> None:
    for other in group.alive[1:]:
        other.test_inputs = group.alive[0].test_inputs
    group.each(lambda one: one._prepare(task, getattr(group.alive[0], "batches", None)))
    lockstep: Lockstep | None = None
    for epoch in range(1, group.alive[0]._epochs + 1 if group.alive else 0):
        group.each(methodcaller("_before_epoch", epoch))
        if not group.alive:
            break
        leaders = [next(other for other in group.alive if alike(one, other)) for one in group.alive]
        steps = list(dict.fromkeys(leader.sgd for leader in leaders))
        if lockstep is None or lockstep.members != steps:
            lockstep = Lockstep(steps)
        _train(group.alive, lockstep)
        for one, leader in zip(group.alive, leaders, strict=True):
            _follow(one, leader)
        group.each(methodcaller("_after_epoch", epoch))
    group.each(methodcaller("_finish"))


def alike(one: Algorithm, other: Algorithm) -> bool:
    """Whether two learners take the same steps in this epoch: they are one, or nobody watches and nothing differs."""
    if one is other:
        return True
    watched = any(own is not None for by in (one, other) for own in (by.callbacks.step, by.callbacks.epoch))
    same = replace(one.settings, growth=other.settings.growth) == other.settings
    ours, theirs = ((type(by), type(by.regulariser), by.network.sizes, by.sgd.rate) for by in (one, other))
    return not watched and same and ours == theirs and _same_weights(one, other)


def _same_weights(one: Algorithm, other: Algorithm) -> bool:
    ours, theirs = ({"θ": by.network.theta, **by.regulariser.vectors} for by in (one, other))
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def _follow(one: Algorithm, leader: Algorithm) -> None:
    """Take over what the leader's steps came to."""
    if one is not leader:
        one.network.theta.copy_(leader.network.theta)
        one.regulariser = one.sgd.regulariser = copy.deepcopy(leader.regulariser)
        one.sgd.error = leader.sgd.error


def _train(learners: Sequence[Algorithm], lockstep: Lockstep) -> None:
    """One epoch; its seconds are shared out by the number of parameters."""
    start, batches = time.perf_counter(), learners[0].batches
    order = torch.randperm(len(batches.x), generator=learners[0].draws["order"])
    state = learners[0].draws["order"].get_state()
    for other in learners[1:]:
        other.draws["order"].set_state(state)
    lockstep.epoch(batches, order.to(batches.x.device))
    seconds, parameters = time.perf_counter() - start, sum(one.network.parameters for one in learners)
    for one in learners:
        one.seconds["sgd"] += seconds * one.network.parameters / parameters


def require_agreement(learners: Sequence[Algorithm]) -> None:
    """ValueError unless all learners would see the same mini-batches in the same order."""
    first = learners[0]
    for other in learners[1:]:
        by, its = first.settings.optimisation, other.settings.optimisation
        pairs = {
            name: (getattr(by, name), getattr(its, name)) for name in ("batch_size", "epochs_first", "epochs_later")
        }
        names = ("classes", "scale", "shift", "device")
        pairs |= {name: (getattr(first, name), getattr(other, name)) for name in names}
        pairs["tasks that were learnt"] = len(first.history.widths), len(other.history.widths)
        for name, (ours, theirs) in pairs.items():
            require(ours == theirs, f"learners learn together only if {name} is the same, got {ours} and {theirs}")
        states = [one.draws["order"].get_state() for one in (first, other)]
        require(torch.equal(*states), "learners learn together only if they have the same seed and history of tasks")
