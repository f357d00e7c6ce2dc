import itertools
import json
import math
from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from noracl import GrowthEvent, GrowthSettings, learn, permuted
from noracl.analysis.transfer import BEGINNING, Observation, Observer, Update, births, moments, observe, ratios, silence
from noracl.method.network import layers
from noracl.method.optimisation import SGD, Lockstep
from tests.helpers import batch, network, toy_stream, toy_task
from tests.test_learner import QUICK, SMALL

RULES = {
    "joint": {"percentile": 100, "gamma": 0.5, "cooldown": 0},
    "ed": {"gamma": 0.5, "cooldown": 1},
    "scheduled": {"schedule": (0, 2)},
    "fixed": {"fixed_neurons": 2},
    "loss": {"loss_window": 1, "loss_improvement": 1.0},
    "none": {},
}


def growing(trigger, hidden=(5, 4)):
    return replace(SMALL, hidden=hidden, growth=GrowthSettings(trigger=trigger, **RULES[trigger]))


@given(
    st.sampled_from(sorted(RULES)),
    st.lists(st.integers(3, 6), min_size=1, max_size=3).map(tuple),
    st.integers(1, 4),
    st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_births_are_the_growth_of_widths_task_by_task(trigger, hidden, tasks, seed):
    quick = replace(growing(trigger, hidden), optimisation=replace(QUICK, epochs_first=1, epochs_later=2))
    history = learn(toy_stream(tasks, rows=40), quick, seed).history
    born = births(history.growth, hidden)
    for task, widths in enumerate(history.widths, start=1):
        assert tuple(sum(birth[0] <= task for birth in layer) for layer in born) == widths
    for layer, width in zip(born, hidden, strict=True):
        assert layer == sorted(layer), "newcomers come last"
        assert layer[:width] == [BEGINNING] * width
    assert moments(history.growth) == sorted({birth for layer in [[BEGINNING], *born] for birth in layer})


@pytest.mark.parametrize("trigger", RULES)
def test_looking_on_changes_not_a_byte(trigger):
    stream = permuted(toy_task(), 3, 3, seed=4)
    plain = learn(stream, growing(trigger), 7)
    watched, seen = observe(stream, growing(trigger), 7)
    assert torch.equal(plain.network.theta, watched.network.theta)
    assert plain.history == watched.history
    assert [(u.task, u.epoch) for u in seen.updates] == [(t, e) for t in (2, 3) for e in (1, 2, 3)]
    assert bool(seen.silenced) == bool(plain.history.growth) == (trigger != "none")


def recorded(monkeypatch):
    """Let every epoch leave (sizes, weights before each step and after the last)."""
    epochs, step, epoch = [], SGD.step, Lockstep.epoch

    def remember_step(self, gradient, number):
        epochs[-1][1].append(self.network.theta.clone())
        step(self, gradient, number)

    def remember_epoch(self, batches, order):
        (sgd,) = self.members
        epochs.append((sgd.network.sizes, []))
        epoch(self, batches, order)
        epochs[-1][1].append(sgd.network.theta.clone())

    monkeypatch.setattr(SGD, "step", remember_step)
    monkeypatch.setattr(Lockstep, "epoch", remember_epoch)
    return epochs


def slow_ratios(before, after, sizes, course):
    """New over old by looking at each weight on its own: was it there before the event, or just after it?"""
    found = []
    for pairs in (list(itertools.pairwise(course)), [(course[0], course[-1])]):
        new = old = news = olds = 0.0
        for start, end in pairs:
            for i, (a, b) in enumerate(zip(layers(start, sizes), layers(end, sizes), strict=True)):
                for to in range(sizes[i + 1]):
                    for of in range(sizes[i]):
                        square = (b[to, of] - a[to, of]).item() ** 2
                        if to < before[i + 1] and of < before[i]:
                            old, olds = old + square, olds + 1
                        elif to < after[i + 1] and of < after[i]:
                            new, news = new + square, news + 1
        found.append(math.sqrt(new / old))
    return *found, math.sqrt(olds / news)


@pytest.mark.parametrize("trigger", ["joint", "scheduled"])
def test_ratios_are_those_of_a_slow_loop_over_weights(monkeypatch, trigger):
    epochs = recorded(monkeypatch)
    outcome, seen = observe(permuted(toy_task(rows=80), 3, 3, seed=1), growing(trigger, (4, 3)), 3)
    found = {(ratio.event, ratio.age): ratio for ratio in ratios(outcome.history.growth, seen.updates)}
    sizes = [size for size, _ in epochs]
    grown = [i for i in range(1, len(sizes)) if sizes[i] != sizes[i - 1]]
    # 3 epochs per task: event (t, e) comes after 3(t − 1) + e epochs; the very last may have no epoch after it
    events = {3 * (t - 1) + e: (t, e) for t, e in moments(outcome.history.growth)[1:] if 3 * (t - 1) + e < len(epochs)}
    assert sorted(events) == grown
    assert len(grown) >= 3
    assert len(found) == sum(len(epochs) - at for at in grown)
    for at, event in events.items():
        for age in range(len(epochs) - at):
            stepped, moved, fewer = slow_ratios(sizes[at - 1], sizes[at], *epochs[at + age])
            one = found[event, age]
            assert (one.moved, one.stepped, one.fewer) == pytest.approx((moved, stepped, fewer), rel=1e-4)


def test_ratios_by_hand():
    growth = [GrowthEvent(2, 1, 1, 1), GrowthEvent(2, 1, 2, 1), GrowthEvent(3, 0, 1, 1)]
    updates = [
        Update(2, 1, [1.0], [1.0], [8]),
        Update(2, 2, [4.0, 16.0], [9.0, 1.0], [8, 2]),
        Update(3, 1, [3.0, 1.0, 1.0], [3.0, 1.0, 4.0], [8, 2, 1]),
    ]
    first, second, third = ratios(growth, updates)
    assert (first.event, first.age, first.moved, first.stepped, first.fewer) == ((2, 1), 0, 2.0, 1 / 3, 2.0)
    assert (second.event, second.age, second.moved) == ((2, 1), 1, math.sqrt(1 / 3)), "what is born later is neither"
    assert (third.event, third.age, third.moved, third.stepped) == ((3, 0), 0, 0.5, 1.0)
    assert third.fewer == pytest.approx(math.sqrt(10))
    assert ratios(growth[:1], [Update(2, 2, [0.0, 1.0], [1.0, 1.0], [8, 2])])[0].moved == math.inf


chosen = st.tuples(st.sets(st.integers(0, 4)), st.sets(st.integers(0, 3))).map(lambda sets: [sorted(s) for s in sets])


@given(chosen, st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_silenced_neurons_say_nothing_and_twice_is_once(neurons, seed):
    full = network(seed=seed)
    kept = full.theta.clone()
    once = silence(full, neurons)
    assert torch.equal(silence(once, neurons).theta, once.theta)
    assert torch.equal(full.theta, kept), "the network itself is left alone"
    x, _ = batch(seed=seed)
    below = x
    for weight, silent in zip(full.weights[:-1], neurons, strict=True):
        below = torch.relu(below @ weight.t())
        below[:, silent] = 0
    torch.testing.assert_close(once.activations(x)[-1].t(), below @ full.weights[-1].t())


def test_silencing_a_neuron_that_was_never_used_changes_nothing():
    full = network().widen(0, torch.randn(2, 6, dtype=torch.float64)).widen(1, torch.randn(1, 7, dtype=torch.float64))
    x, _ = batch()
    quiet = silence(full, [[5, 6], [4]])
    assert torch.equal(quiet.activations(x)[-1], full.activations(x)[-1])
    assert not torch.equal(silence(full, [[0], []]).activations(x)[-1], full.activations(x)[-1])


def test_accuracy_without_is_of_the_network_without_and_leaves_it_whole():
    stream = permuted(toy_task(), 3, 3, seed=4)
    learner = Observer.of(stream, growing("fixed"), 0)
    for task in stream.tasks:
        learner.learn(task)
    learner.network.theta.add_(torch.randn(learner.network.parameters, generator=torch.Generator().manual_seed(0)))
    kept = learner.network.theta.clone()
    final = [learner._accuracy(task, learner.network) for task in stream.tasks]
    assert learner.accuracy_without(1) == final, "what was there from the beginning did not grow in task 1"
    quiet = silence(learner.network, [[5, 6], [4, 5]])
    for task, found in zip(stream.tasks, learner.accuracy_without(2), strict=True):
        right = quiet.activations(task.x_test[:, task.columns])[-1].argmax(0) == task.y_test
        assert found == pytest.approx(right.double().mean().item())
    assert learner.accuracy_without(2) != final
    assert torch.equal(learner.network.theta, kept)


def test_an_observation_comes_back_from_json():
    _, seen = observe(toy_stream(2), growing("fixed"), 0)
    assert seen.updates
    assert seen.silenced
    back = TypeAdapter(Observation).validate_json(json.dumps(asdict(seen)))
    assert back == seen, "as the run store keeps it"
