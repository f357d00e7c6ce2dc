"""Ways to keep a network plastic: each against its published rule, and against doing nothing."""

from dataclasses import replace

import pytest
import torch

from noracl import Callbacks, EWCSettings, OptimisationSettings, Settings, learn, permuted
from noracl.analysis import upkeep
from noracl.analysis.upkeep import KINDS, ContinualBackprop, PulledEWC, learn_kept_up
from noracl.method.network import layers
from noracl.method.plasticity import dormant_fraction
from noracl.method.seeds import generator
from tests.helpers import toy_stream, toy_task

QUICK = OptimisationSettings(batch_size=32, rate_first=0.1, rate_later=0.02, epochs_first=2, epochs_later=3)
STATIC = Settings(hidden=(6, 5), optimisation=QUICK, ewc=EWCSettings(strength=20.0))
STATIC = replace(STATIC, growth=replace(STATIC.growth, trigger="none"))
NEUTRAL = {"none": 1.0, "L2 towards initialisation": 0.0, "shrink and perturb": 1.0, "continual backpropagation": 0.0}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [toy_stream(), permuted(toy_task(), 3, 3, seed=1)], ids=["plain", "permuted"])
def test_without_strength_nothing_changes(kind, stream, monkeypatch):
    monkeypatch.setattr(upkeep, "NOISE", 0.0)
    expected = learn(stream, STATIC, 3)
    found, dormancy = learn_kept_up(kind, NEUTRAL[kind], stream, STATIC, 3)
    assert found.history == expected.history
    assert torch.equal(found.network.theta, expected.network.theta)
    assert [len(shares) for shares in dormancy.shares] == [2, 2, 2]


def test_dormant_neurons_are_those_of_the_newest_task():
    stream = toy_stream()
    found, dormancy = learn_kept_up("none", 1.0, stream, STATIC, 3)
    x = stream.tasks[-1].x[:32].float() * stream.scale + stream.shift
    hidden = found.network.activations(x)[:-1]
    assert dormancy.shares[-1] == tuple(dormant_fraction(one, upkeep.DORMANT) for one in hidden)


def test_the_pull_towards_the_first_weights_is_the_gradient_of_its_penalty():
    regulariser, draws = PulledEWC(EWCSettings(strength=3.0)), generator(1)
    regulariser.pull = 0.7
    start, anchor, fisher, theta = (torch.rand(20, generator=draws) for _ in range(4))
    gradient = torch.zeros(20)
    regulariser.penalise(start, gradient)
    assert not gradient.any(), "at the first weights, before the first task has ended, nothing pulls"
    regulariser.keep(anchor=anchor, importance=fisher)
    regulariser.penalise(theta, gradient)
    at = theta.clone().requires_grad_()
    (1.5 * (fisher * (at - anchor) ** 2).sum() + 0.7 * ((at - start) ** 2).sum()).backward()
    assert torch.allclose(gradient, at.grad)


def test_shrinking_comes_before_each_later_task(monkeypatch):
    monkeypatch.setattr(upkeep, "NOISE", 0.0)
    still = replace(STATIC, optimisation=replace(QUICK, rate_later=1e-30), ewc=EWCSettings(strength=0.0))
    seen = []
    callbacks = Callbacks(task=lambda learner, task: seen.append(learner.network.theta.clone()))
    learn_kept_up("shrink and perturb", 0.5, permuted(toy_task(), 3, 3, seed=1), still, 3, callbacks)
    assert torch.allclose(seen[1], 0.5 * seen[0])
    assert torch.allclose(seen[2], 0.25 * seen[0])
    monkeypatch.setattr(upkeep, "NOISE", 0.1)
    seen.clear()
    learn_kept_up("shrink and perturb", 1.0, toy_stream(), still, 3, callbacks)
    assert 0.05 < float((seen[1] - seen[0]).std()) < 0.2


def test_neurons_are_renewed_as_often_as_the_rate_says(monkeypatch):
    monkeypatch.setattr(upkeep, "MATURITY", 4)
    stream, renewed, steps = toy_stream(), [], []
    original_step, original = ContinualBackprop.renew, ContinualBackprop._renew

    def step(learner, number):
        steps.append(number)
        original_step(learner, number)

    def renew(learner, layer, neuron):
        chosen, useful, age = learner.utility[layer], learner.utility[layer].clone(), learner.age[layer].clone()
        assert float(chosen[neuron]) == float(useful[age > 4].min()), "the least useful of the mature ones"
        before = learner.network.theta.clone()
        original(learner, layer, neuron)
        after = [layers(one, learner.network.sizes) for one in (before, learner.network.theta)]
        assert not after[1][layer + 1][:, neuron].any()
        assert not torch.equal(after[0][layer][neuron], after[1][layer][neuron])
        new = [torch.zeros_like(matrix, dtype=torch.bool) for matrix in after[0]]
        new[layer][neuron], new[layer + 1][:, neuron] = True, True
        flat = torch.cat([one.flatten() for one in new])
        assert torch.equal(before[~flat], learner.network.theta[~flat]), "no other weight changes"
        if learner.number > 1:
            assert not learner.curvature[flat].any(), "what is new is free"
            assert learner.curvature[~flat].any()
        assert learner.age[layer][neuron] == learner.utility[layer][neuron] == 0
        renewed.append((len(steps), layer))

    monkeypatch.setattr(ContinualBackprop, "renew", step)
    monkeypatch.setattr(ContinualBackprop, "_renew", renew)
    learn_kept_up("continual backpropagation", 0.01, stream, STATIC, 3)
    for layer, width in enumerate(STATIC.hidden):
        expected, due, ages = [], 0.0, [0] * width
        for number in range(1, len(steps) + 1):
            ages = [age + 1 for age in ages]
            due += 0.01 * sum(age > 4 for age in ages)
            if due >= 1:
                due -= 1
                expected.append(number)
                ages[ages.index(max(ages))] = 0  # which one it is changes nothing: all others stay mature
        assert [at for at, where in renewed if where == layer] == pytest.approx(expected, abs=2)
        assert expected


def test_usefulness_is_activation_times_outgoing_weights():
    stream, seen = toy_stream(1), []
    one_step = replace(STATIC, optimisation=replace(QUICK, batch_size=256, epochs_first=1))
    original = ContinualBackprop.renew

    class Looked(ContinualBackprop):
        def renew(self, step):
            original(self, step)
            seen.append((self.network.theta.clone(), [one.clone() for one in self.utility], self.batches.inputs))

    learner = Looked.of(stream, one_step, 3, Callbacks(step=Looked.renew))
    learner.strength, learner.dormant, learner.draws["upkeep"] = 1e-9, [], generator(3)
    learner.learn(stream.tasks[0])
    ((theta, utility, x),) = seen
    weights = layers(theta, learner.network.sizes)
    h = (x.double() @ weights[0].double().t()).relu()
    assert torch.allclose(utility[0].double(), 0.01 * h.mean(0) * weights[1].double().abs().sum(0), rtol=1e-4)
    h = (h @ weights[1].double().t()).relu()
    assert torch.allclose(utility[1].double(), 0.01 * h.mean(0) * weights[2].double().abs().sum(0), rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_that_is_stopped_leaves_no_trace(kind):
    stream, strength = toy_stream(), 0.05
    learner = KINDS[kind].of(stream, STATIC, 3)
    learner.strength, learner.dormant, learner.draws["upkeep"] = strength, [], generator(3, "upkeep")
    step = ContinualBackprop.renew if kind == "continual backpropagation" else None
    learner.callbacks = Callbacks(step=step)
    learner.learn(stream.tasks[0])

    def stop(learner, epoch):
        raise KeyboardInterrupt

    learner.callbacks = Callbacks(step=step, epoch=stop)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(stream.tasks[1])
    learner.callbacks = Callbacks(step=step)
    learner.learn(stream.tasks[1])
    learner.learn(stream.tasks[2])
    expected, dormancy = learn_kept_up(kind, strength, stream, STATIC, 3)
    assert learner.history == expected.history
    assert learner.dormant == dormancy.shares
