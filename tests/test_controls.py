"""Controls of equal growth: one decision of NORACL is changed, everything else stays."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from noracl import Callbacks, EWCSettings, GrowthSettings, Learner, OptimisationSettings, Settings, learn, permuted
from noracl.analysis.controls import (
    AT_ONCE,
    at_random_times,
    control,
    in_random_layers,
    learn_controls,
    plan_of,
)
from noracl.method.history import GrowthEvent
from tests.helpers import toy_task

QUICK = OptimisationSettings(batch_size=32, rate_first=0.1, rate_later=0.02, epochs_first=2, epochs_later=4)
FIRING = GrowthSettings(percentile=100, gamma=0.5, cooldown=1)
BASE = Settings(hidden=(6, 5), optimisation=QUICK, ewc=EWCSettings(strength=20.0), growth=FIRING)
STREAM = permuted(toy_task(), 5, 3, seed=1)


@pytest.fixture(scope="module")
def grown():
    outcome = learn(STREAM, BASE, 4)
    assert len(outcome.history.growth) >= 4
    assert {event.layer for event in outcome.history.growth} == {1, 2}
    return outcome


def neurons(events, layer=None):
    return sum(event.neurons for event in events if layer in (None, event.layer))


def test_the_same_events_with_the_same_weights_are_the_same_run(grown):
    (replayed,) = learn_controls(["init qr"], STREAM, BASE, 4)
    assert torch.equal(replayed.network.theta, grown.network.theta)
    assert replayed.history.accuracy == grown.history.accuracy
    seen = [(event.task, event.epoch, event.layer, event.neurons) for event in replayed.history.growth]
    assert seen == [(event.task, event.epoch, event.layer, event.neurons) for event in grown.history.growth]


def test_growth_at_the_start_of_a_task_and_after_its_last_epoch_is_replayed():
    rule = replace(FIRING, trigger="scheduled", schedule=(0, 2))
    calendar = replace(BASE, growth=rule)
    expected = learn(STREAM, calendar, 4)
    assert 0 in {event.epoch for event in expected.history.growth}
    (replayed,) = learn_controls(["init qr"], STREAM, calendar, 4)
    assert torch.equal(replayed.network.theta, expected.network.theta)
    last = learn(STREAM, replace(BASE, growth=replace(FIRING, cooldown=0)), 4)
    assert QUICK.epochs_later in {event.epoch for event in last.history.growth}
    (replayed,) = learn_controls(["init qr"], STREAM, replace(BASE, growth=replace(FIRING, cooldown=0)), 4)
    assert torch.equal(replayed.network.theta, last.network.theta)


def test_random_times_keep_layers_and_neurons(grown):
    events = grown.history.growth
    moved = at_random_times(events, STREAM, BASE, 4)
    assert [neurons(moved, layer) for layer in (1, 2)] == [neurons(events, layer) for layer in (1, 2)]
    assert plan_of(moved, 2) != plan_of(events, 2)
    assert all(1 < event.task <= 5 and 1 <= event.epoch <= QUICK.epochs_later for event in moved)
    many = at_random_times([GrowthEvent(2, 1, 1, 1)] * 4000, STREAM, BASE, 0)
    found = Counter((event.task, event.epoch) for event in many)
    assert len(found) == 4 * QUICK.epochs_later, "every epoch of every later task can be drawn"
    assert max(found.values()) < 2 * min(found.values()), "all with the same probability"


def test_random_layers_keep_times_and_neurons(grown):
    events = grown.history.growth
    moved = in_random_layers(events, STREAM, BASE, 4)
    assert [(one.task, one.epoch, one.neurons) for one in moved] == [(e.task, e.epoch, e.neurons) for e in events]
    many = Counter(event.layer for event in in_random_layers([GrowthEvent(2, 1, 1, 1)] * 1000, STREAM, BASE, 0))
    assert set(many) == {1, 2}
    assert abs(many[1] - 500) < 100


def test_a_seed_draws_its_own_plan(grown):
    events = grown.history.growth
    plans = [plan_of(at_random_times(events, STREAM, BASE, seed), 2) for seed in (4, 4, 5)]
    assert plans[0] == plans[1] != plans[2]


def test_all_at_once_is_the_static_network_of_the_last_size(grown):
    (found,) = learn_controls([AT_ONCE], STREAM, BASE, 4)
    static = replace(BASE, hidden=grown.network.widths, growth=replace(FIRING, trigger="none"))
    expected = learn(STREAM, static, 4)
    assert torch.equal(found.network.theta, expected.network.theta)
    assert found.history.widths == [grown.network.widths] * 5


def test_other_weights_for_the_same_events(grown):
    (found,) = learn_controls(["init zero"], STREAM, BASE, 4)
    assert found.history.widths == grown.history.widths
    assert not torch.equal(found.network.theta, grown.network.theta)


def test_a_control_does_not_depend_on_who_is_beside_it(grown):
    names = ["random times", "random layers", AT_ONCE, "init he"]
    together = learn_controls(names, STREAM, BASE, 4)
    for name, outcome in zip(names, together, strict=True):
        (alone,) = learn_controls([name], STREAM, BASE, 4)
        assert torch.equal(alone.network.theta, outcome.network.theta), name
        assert neurons(outcome.history.growth) in (0, neurons(grown.history.growth))


def test_controls_are_told_of_like_other_learners(grown):
    told = []
    learn_controls(["init qr"], STREAM, BASE, 4, Callbacks(task=lambda learner, task: told.append(task)))
    assert told == [1, 2, 3, 4, 5]
    assert isinstance(control("random times", STREAM, BASE, 4, grown), Learner)
