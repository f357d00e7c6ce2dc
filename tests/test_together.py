"""Lock-step: several learners on one stream come to what each comes to alone, to the last byte."""

import copy
from dataclasses import replace

import pytest
import torch

from noracl import (
    Callbacks,
    EWCSettings,
    GrowthSettings,
    Learner,
    NonFiniteLoss,
    OptimisationSettings,
    Settings,
    Stream,
    learn,
    learn_together,
    permuted,
)
from noracl.method import backprop
from noracl.method.backprop import Backprop, shares
from noracl.method.initialisers import INITIALISERS
from noracl.method.network import Network, layers
from noracl.method.optimisation import ALIGNMENT, SGD, Lockstep
from noracl.method.regularisers import REGULARISERS
from noracl.method.seeds import generator
from noracl.method.together import learn_task
from noracl.method.triggers import TRIGGERS
from tests.helpers import one_hot, toy_stream, toy_task

QUICK = OptimisationSettings(batch_size=32, rate_first=0.1, rate_later=0.02, epochs_first=2, epochs_later=3)
FIRING = GrowthSettings(percentile=100, gamma=0.5, cooldown=1, loss_window=1, loss_improvement=1.0, schedule=(1,))
BASE = Settings(hidden=(6, 5), optimisation=QUICK, ewc=EWCSettings(strength=20.0), growth=FIRING)


def variants():
    """Every trigger, initialiser and regulariser, other depths, widths, rates and ways to clip."""
    found = [replace(BASE, growth=replace(FIRING, trigger=name)) for name in TRIGGERS]
    found += [replace(BASE, growth=replace(FIRING, init=name)) for name in INITIALISERS if name != "null-space"]
    found += [replace(BASE, regulariser=name) for name in REGULARISERS]
    found += [replace(BASE, hidden=hidden) for hidden in ((3,), (140, 4), (7, 6, 5), (64,))]
    found += [replace(BASE, optimisation=replace(QUICK, clip=0.1, clip_by=by)) for by in ("norm", "value")]
    found += [replace(BASE, growth=replace(FIRING, boost=3.0)), replace(BASE, init="he")]
    return found


def same(one, other):
    return one.history == other.history and torch.equal(one.network.theta, other.network.theta)


STREAMS = {"plain": toy_stream, "permuted": lambda: permuted(toy_task(), 3, 3, seed=1)}


@pytest.mark.parametrize("kind", STREAMS)
def test_each_comes_to_what_it_comes_to_alone(kind):
    stream, settings = STREAMS[kind](), variants()
    alone = [learn(stream, one, 4) for one in settings]
    assert any(outcome.history.growth for outcome in alone)
    for company in (settings, settings[::-1], settings[:3]):
        for own, outcome in zip(company, learn_together(stream, company, 4), strict=True):
            assert same(outcome, alone[settings.index(own)]), own


def test_products_are_shared_and_have_the_bytes_of_single_ones(monkeypatch):
    networks = [Network.initialise((784, *h, 10), "he", generator(i)) for i, h in enumerate([(16,), (32, 20), (45, 7)])]
    x, targets = torch.randn(256, 784, generator=generator(9)), one_hot(torch.arange(256) % 10, 10)
    group = Backprop(networks, 256)
    group.run(x, targets)
    for member, network in enumerate(networks):
        single, found, expected = Backprop([network], 256), *(torch.empty_like(network.theta) for _ in range(2))
        single.run(x, targets)
        group.gradient(member, layers(found, network.sizes))
        single.gradient(0, layers(expected, network.sizes))
        assert torch.equal(found, expected)
        assert not single.copies
    assert len(group.copies) == 3 * shares((16, 32, 45), 784, 256, torch.device("cpu"), 1)


def test_every_row_count_gives_each_network_the_bytes_it_gets_alone():
    """Parts of a shared buffer that begin where torch's own buffers never do get other sums from some BLAS."""
    made = [(16,), (33, 17), (12, 12), (27, 38), (45, 7)]
    networks = [Network.initialise((784, *h, 2), "he", generator(i)) for i, h in enumerate(made)]
    for rows in (1, 87, 96, 121, 255, 256):
        group = Lockstep([SGD(one, REGULARISERS.find("none")(BASE), 0.1, None) for one in networks])
        parts = [one for backprop, _ in group._passes(rows) for one in backprop.passes]
        assert all(one.weights is network.weights for one, network in zip(parts, networks, strict=True))
        addresses = [part.data_ptr() for one in parts for part in (*one.outputs, *one.deltas)]
        assert all(address % ALIGNMENT == 0 for address in addresses), rows


def test_where_sharing_a_product_would_change_bytes_it_is_not_shared(monkeypatch):
    stream, settings = toy_stream(), variants()[:4]
    expected = [learn(stream, one, 4) for one in settings]
    asked = []
    monkeypatch.setattr(backprop, "shares", lambda widths, *more: asked.append(widths))
    found = learn_together(stream, settings, 4)
    assert any(len(widths) > 1 for widths in asked)
    assert all(same(one, other) for one, other in zip(found, expected, strict=True))


def test_sharing_is_refused_if_one_sum_differs(monkeypatch):
    """A product that is right only up to rounding is not taken."""
    device, sizes = torch.device("cpu"), (12, 20)
    assert shares(sizes, 49, 32, device, 1)
    real = torch.cat
    monkeypatch.setattr(backprop.torch, "cat", lambda parts: real(parts).nextafter(torch.tensor(9.0)))
    assert not shares.__wrapped__(sizes, 49, 32, device, 1)
    assert not shares.__wrapped__((32,), 49, 32, device, 1), "nobody to share with"


def test_steps_are_taken_once_by_those_that_have_grown_alike(monkeypatch):
    changes = ({}, {"trigger": "ed"}, {"gamma": 0.5001}, {"trigger": "fixed"})
    settings = [replace(BASE, growth=replace(FIRING, **change)) for change in changes]
    settings += [replace(BASE, regulariser="si"), replace(BASE, regulariser="si", growth=replace(FIRING, init="he"))]
    stream, networks = toy_stream(), []
    alone = [learn(stream, one, 4) for one in settings]
    assert [one.history.growth[0].epoch for one in alone] == [1, 1, 1, 0, 1, 1]
    assert torch.equal(alone[0].network.theta, alone[1].network.theta)
    assert not torch.equal(alone[0].network.theta, alone[2].network.theta)
    original = Lockstep.epoch
    monkeypatch.setattr(
        Lockstep, "epoch", lambda self, *given: (networks.append(len(self.members)), original(self, *given))[1]
    )
    together = learn_together(stream, settings, 4)
    assert all(same(one, other) for one, other in zip(together, alone, strict=True))
    first, second, *later = networks[1:]
    assert networks[0] == first == 2, "one network for each regulariser"
    assert second == 3, "nothing but the fixed schedule has grown yet"
    assert set(later) == {5}, "two rules with the same growth are one network to the end"
    networks.clear()
    watched = learn_together(stream, settings, 4, Callbacks(epoch=lambda learner, epoch: None))
    assert set(networks) == {len(settings)}, "whoever looks sees every network at work"
    assert all(same(one, other) for one, other in zip(watched, alone, strict=True))


def test_one_that_fails_is_as_it_was_and_the_others_go_on():
    stream = toy_stream()
    wild = replace(BASE, optimisation=replace(QUICK, rate_later=1e30, clip=None))
    settings = [BASE, wild, replace(BASE, hidden=(9,))]
    first, failed, last = learn_together(stream, settings, 4)
    assert same(first, learn(stream, BASE, 4))
    assert same(last, learn(stream, settings[2], 4))
    assert isinstance(failed, NonFiniteLoss)
    with pytest.raises(NonFiniteLoss) as alone:
        learn(stream, wild, 4)
    assert str(failed) == str(alone.value)
    wild = replace(BASE, optimisation=replace(QUICK, rate_first=1e30, clip=None))
    both = learn_together(stream, [BASE, wild, replace(wild, growth=replace(FIRING, trigger="ed"))], 4)
    assert same(both[0], first)
    assert [type(one) for one in both[1:]] == [NonFiniteLoss] * 2, "also the one that only followed"


def test_whoever_fails_is_undone_and_can_go_on():
    stream, told = toy_stream(), []

    def fail(learner, step):
        told.append(step)
        if learner.number == 2 and step == 2:
            raise KeyError("a callback of one's own")

    watched = Learner.of(stream, BASE, 4, Callbacks(step=fail))
    other = Learner.of(stream, BASE, 4)
    assert learn_task([watched, other], stream.tasks[0]) == [None, None]
    before = copy.deepcopy(watched)
    error, none = learn_task([watched, other], stream.tasks[1])
    assert isinstance(error, KeyError)
    assert none is None
    assert torch.equal(watched.network.theta, before.network.theta)
    assert watched.history == before.history
    watched.callbacks = Callbacks()
    watched.learn(stream.tasks[1])
    assert torch.equal(watched.network.theta, other.network.theta), "as if nothing had happened"


def test_the_first_may_fail_before_it_begins():
    stream = toy_stream()
    first, other = (Learner.of(stream, BASE, 4) for _ in range(2))
    first.classes = 2  # a label of the task is beyond this head
    other.classes = 2
    other._check = lambda task: None
    error, none = learn_task([first, other], stream.tasks[0])
    assert "the head's classes" in str(error)
    assert none is None
    assert other.tasks == 1


def test_an_interrupt_undoes_all():
    stream = toy_stream()

    def stop(learner, epoch):
        raise KeyboardInterrupt

    learners = [Learner.of(stream, BASE, 4), Learner.of(stream, BASE, 4, Callbacks(epoch=stop))]
    thetas = [one.network.theta.clone() for one in learners]
    with pytest.raises(KeyboardInterrupt):
        learn_task(learners, stream.tasks[0])
    assert all(torch.equal(one.network.theta, theta) for one, theta in zip(learners, thetas, strict=True))
    assert not any(hasattr(one, "task") for one in learners)


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("batch_size is the same, got 32 and 16", {"batch_size": 16}),
        ("epochs_first is the same, got 2 and 1", {"epochs_first": 1}),
        ("epochs_later is the same, got 3 and 9", {"epochs_later": 9}),
    ],
)
def test_settings_that_cannot_go_together_are_named(words, other):
    settings = [BASE, replace(BASE, optimisation=replace(QUICK, **other))]
    with pytest.raises(ValueError, match=words):
        learn_together(toy_stream(), settings)


def test_settings_may_be_any_iterable_but_must_be_some():
    stream = toy_stream()
    (drawn,), (listed,) = learn_together(stream, (one for one in [BASE])), learn_together(stream, [BASE])
    assert drawn.history == listed.history
    with pytest.raises(ValueError, match="settings must hold at least one"):
        learn_together(stream, [])
    with pytest.raises(ValueError, match="settings must be several, such as a list, got Settings"):
        learn_together(stream, BASE)


def test_learners_with_other_seeds_or_tasks_do_not_go_together():
    stream = toy_stream()
    with pytest.raises(ValueError, match="the same seed"):
        learn_task([Learner.of(stream, BASE, seed) for seed in (0, 1)], stream.tasks[0])
    ahead = Learner.of(stream, BASE, 0).learn(stream.tasks[0])
    with pytest.raises(ValueError, match="tasks that were learnt is the same, got 1 and 0"):
        learn_task([ahead, Learner.of(stream, BASE, 0)], stream.tasks[1])
    wider = Stream(stream.tasks, 5)
    with pytest.raises(ValueError, match="classes is the same, got 3 and 5"):
        learn_task([Learner.of(stream, BASE, 0), Learner.of(wider, BASE, 0)], stream.tasks[0])


def test_everybody_is_told_of_every_task_and_time_is_shared_out():
    stream, told = toy_stream(), []
    callbacks = Callbacks(task=lambda learner, task: told.append((learner.settings.hidden, task)))
    outcomes = learn_together(stream, [BASE, replace(BASE, hidden=(40, 40))], 0, callbacks)
    assert told == [(hidden, task) for task in (1, 2, 3) for hidden in (BASE.hidden, (40, 40))]
    assert 0 < outcomes[0].seconds["sgd"] < outcomes[1].seconds["sgd"]
