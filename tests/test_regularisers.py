import copy
import json
import math
import pickle
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from noracl import (
    Callbacks,
    EWCSettings,
    FisherSettings,
    GrowthSettings,
    Learner,
    OnlineEWC,
    OptimisationSettings,
    Regulariser,
    Settings,
    Stream,
    Task,
    learn,
    permuted,
)
from noracl.method.fisher import diagonal
from noracl.method.network import Network, embed, layers, reorder_inputs
from noracl.method.optimisation import SGD, Lockstep
from noracl.method.regularisers import REGULARISERS, register
from noracl.method.regularisers.ewc import EWC
from noracl.method.regularisers.synaptic_intelligence import SynapticIntelligence
from noracl.method.seeds import generator
from tests.helpers import batch, network, one_hot, toy_stream, toy_task

NAMES = sorted(REGULARISERS)
RATE, CLIP, ROWS = 0.2, 1.0, 5
STRONG = EWCSettings(strength=0.7, decay=0.6)


def random_like(flat, seed):
    return torch.rand(flat.shape, generator=generator(seed), dtype=flat.dtype)


# --- Slow implementations: each weight has a key (matrix, row, column), and all that is known of it is in dictionaries.


def entries(weights):
    """Every weight by its key."""
    return {
        (number, i, j): value
        for number, matrix in enumerate(weights)
        for i, row in enumerate(matrix.tolist())
        for j, value in enumerate(row)
    }


def logits(weights, x):
    *hidden, head = weights
    for weight in hidden:
        x = torch.relu(x @ weight.t())
    return x @ head.t()


def loss(weights, x, y):
    return torch.nn.functional.cross_entropy(logits(weights, x), y)


def gradients(value, weights):
    found = torch.autograd.grad(value, weights, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for g, w in zip(found, weights, strict=True)]


class Slow:
    """No regulariser: ``penalties`` lists (factor, importance, anchor), and nothing ever comes to it."""

    def __init__(self):
        self.penalties = []

    def penalty(self, weights):
        return sum(
            factor * importance[key] * (weights[key[0]][key[1:]] - anchor[key]) ** 2
            for factor, importance, anchor in self.penalties
            for key in importance
        )

    def curvature(self, weights):
        keys = entries(weights)
        return {key: sum(2 * factor * known.get(key, 0) for factor, known, _ in self.penalties) for key in keys}

    def see(self, weights):
        """Called when a task begins and when neurons were born."""

    def step(self, before, slopes, after):
        """Called after each step, with the gradient of the loss alone."""

    def end(self, weights, x, y):
        """Called at the end of a task."""


def slow_fisher(weights, x, y):
    total = dict.fromkeys(entries(weights), 0.0)
    for i in range(len(x)):
        for key, slope in entries(gradients(loss(weights, x[i : i + 1], y[i : i + 1]), weights)).items():
            total[key] += slope**2 / len(x)
    return total


class SlowOnlineEWC(Slow):
    def end(self, weights, x, y):
        new = slow_fisher(weights, x, y)
        if self.penalties:
            old = self.penalties[0][1]
            new = {key: STRONG.decay * old.get(key, 0) + (1 - STRONG.decay) * value for key, value in new.items()}
        self.penalties = [(STRONG.strength / 2, new, entries(weights))]


class SlowEWC(Slow):
    def end(self, weights, x, y):
        self.penalties.append((STRONG.strength / 2, slow_fisher(weights, x, y), entries(weights)))


class SlowL2(Slow):
    def end(self, weights, x, y):
        anchor = entries(weights)
        self.penalties = [(STRONG.strength / 2, dict.fromkeys(anchor, 1.0), anchor)]


class SlowMAS(Slow):
    def end(self, weights, x, y):
        total = dict.fromkeys(entries(weights), 0.0) | (self.penalties[0][1] if self.penalties else {})
        for i in range(len(x)):
            for key, slope in entries(gradients(logits(weights, x[i]).square().sum(), weights)).items():
                total[key] += abs(slope) / len(x)
        self.penalties = [(STRONG.strength, total, entries(weights))]


class SlowSI(Slow):
    def __init__(self):
        super().__init__()
        self.start, self.path, self.total = {}, {}, {}

    def see(self, weights):
        self.start = entries(weights) | self.start
        self.path = dict.fromkeys(self.start, 0.0) | self.path

    def step(self, before, slopes, after):
        for key, slope in slopes.items():
            self.path[key] -= slope * (after[key] - before[key])

    def end(self, weights, x, y):
        final = entries(weights)
        for key, value in final.items():
            gain = self.path[key] / ((value - self.start[key]) ** 2 + 0.1)
            self.total[key] = max(0.0, self.total.get(key, 0.0) + gain)
        self.penalties = [(STRONG.strength, dict(self.total), final)]
        self.start, self.path = {}, {}


SLOW = {
    "ewc": SlowEWC,
    "l2": SlowL2,
    "mas": SlowMAS,
    "none": Slow,
    "online_ewc": SlowOnlineEWC,
    "si": SlowSI,
}

# --- A story of three tasks: a number is a layer that grows, None is an epoch.

STORY = [(None, None), (0, None, 1, None, 0), (None,)]


def data(number):
    x, y = batch(12, seed=number)
    return x, y, torch.randperm(6, generator=generator(number))


def newborn(number, place, fan_in):
    return torch.randn(2, fan_in, generator=generator(number, "born", place), dtype=torch.float64)


class Rows:
    """What SGD asks of ``Batches``, with double precision."""

    batch_size = ROWS

    def __init__(self, x, y):
        self.x, self.targets = x, one_hot(y)

    def load(self, index):
        return self.x[index], self.targets[index]

    def __iter__(self):
        return map(self.load, torch.arange(len(self.x)).split(ROWS))


class Fast:
    """Tells the story to the library as the learner does; permuted inputs reorder the weights."""

    def __init__(self, regulariser, permutes=False):
        self.regulariser, self.permutes, self.network = regulariser, permutes, network()

    def reorder(self, index):
        sizes = self.network.sizes
        self.network = Network(sizes, reorder_inputs(self.network.theta, sizes, index))
        self.regulariser.transform(lambda flat: reorder_inputs(flat, sizes, index))

    def grow(self, layer, fan_in):
        old = self.network.sizes
        self.network = self.network.widen(layer, fan_in)
        self.regulariser.transform(lambda flat: embed(flat, old, self.network.sizes))

    def tell(self, stop=None):
        """The whole story, or up to (task, event)."""
        for number, events in enumerate(STORY):
            x, y, columns = data(number)
            self.rows, index = Rows(x, y), columns.argsort() if self.permutes else torch.arange(6)
            self.reorder(index)
            for place, event in enumerate(events):
                if (number, place) == stop:
                    return self
                if event is None:
                    self.epoch()
                else:
                    fan_in = newborn(number, place, self.network.sizes[event])
                    self.grow(event, fan_in[:, index] if event == 0 else fan_in)
            self.end()
            self.reorder(index.argsort())
            if (number, len(events)) == stop:
                return self
        return self

    def epoch(self):
        Lockstep([SGD(self.network, self.regulariser, RATE, CLIP)]).epoch(self.rows, torch.arange(12))

    def end(self):
        fisher = diagonal(self.network, self.rows, FisherSettings(), generator(0))
        self.regulariser.consolidate(self.network, fisher, self.rows)


def tell_slowly(slow, permutes):
    """The story with autograd, on inputs that really are permuted; also how often steps were clipped."""
    weights, clipped = [weight.clone() for weight in network().weights], []
    for number, events in enumerate(STORY):
        x, y, columns = data(number)
        x = x[:, columns] if permutes else x
        slow.see(weights)
        for place, event in enumerate(events):
            if event is None:
                for part in torch.arange(12).split(ROWS):
                    weights = [weight.detach().requires_grad_() for weight in weights]
                    slopes = gradients(loss(weights, x[part], y[part]), weights)
                    steps = gradients(loss(weights, x[part], y[part]) + slow.penalty(weights), weights)
                    norm = math.sqrt(sum(float((step**2).sum()) for step in steps))
                    clipped.append(norm > CLIP)
                    after = [w - RATE * min(1, CLIP / norm) * step for w, step in zip(weights, steps, strict=True)]
                    slow.step(entries(weights), entries(slopes), entries(after))
                    weights = after
            else:
                fan_in = newborn(number, place, weights[event].shape[1])
                weights[event] = torch.cat([weights[event], fan_in])
                above = weights[event + 1]
                weights[event + 1] = torch.cat([above, torch.zeros(len(above), 2, dtype=above.dtype)], 1)
                slow.see(weights)
        weights = [weight.detach().requires_grad_() for weight in weights]
        slow.end(weights, x, y)
    return weights, clipped


@pytest.mark.parametrize("permutes", [False, True], ids=["as stored", "permuted"])
@pytest.mark.parametrize("name", SLOW)
def test_learning_equals_a_slow_implementation(name, permutes):
    slow, fast = SLOW[name](), Fast(REGULARISERS[name](STRONG), permutes).tell()
    weights, clipped = tell_slowly(slow, permutes)
    for ours, theirs in zip(fast.network.weights, weights, strict=True):
        torch.testing.assert_close(ours, theirs.detach())
    assert set(clipped) == {False, True}, "clipping plays a part"
    expected = slow.curvature(weights)
    assert any(expected.values()) == (name != "none")
    curvature = fast.regulariser.curvature
    found = entries(
        layers(torch.zeros_like(fast.network.theta) if curvature is None else curvature, fast.network.sizes)
    )
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-10)


# --- What is asked of every regulariser: who registers one has it tested here.

MOMENTS = [(0, 1), (0, 2), (1, 1), (1, 3), (1, 5), (2, 0)]  # in and between tasks, before and after growth


def at(moment, name):
    return Fast(REGULARISERS[name](STRONG), permutes=True).tell(moment)


def goes_on(fast):
    """What it does from here: the next gradient, and all it knows after the task."""
    theta, gradient = fast.network.theta, random_like(fast.network.theta, 1)
    fast.regulariser.penalise(theta, gradient)
    fast.epoch()
    fast.end()
    return {"gradient": gradient, "theta": fast.network.theta, **fast.regulariser.vectors}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", NAMES)
def test_all_that_a_regulariser_knows_is_in_its_vectors(name, moment):
    first = at(moment, name)
    fresh = REGULARISERS[name](STRONG)
    fresh.keep(**{key: vector.clone() for key, vector in first.regulariser.vectors.items()})
    assert all(vector.shape == first.network.theta.shape for vector in fresh.vectors.values())
    again = at(moment, name)
    again.regulariser = fresh
    torch.testing.assert_close(goes_on(again), goes_on(first), rtol=0, atol=0)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_goes_on_alike_and_shares_nothing(name, duplicate):
    for moment in MOMENTS:
        first, again = at(moment, name), at(moment, name)
        again.regulariser = duplicate(first.regulariser)
        before = {key: vector.clone() for key, vector in again.regulariser.vectors.items()}
        after = goes_on(first)
        torch.testing.assert_close(again.regulariser.vectors, before, rtol=0, atol=0)
        torch.testing.assert_close(goes_on(again), after, rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_protected_in_the_first_task(name):
    fast = at((0, 1), name)
    gradient = random_like(fast.network.theta, 1)
    before = gradient.clone()
    fast.regulariser.penalise(fast.network.theta, gradient)
    assert torch.equal(gradient, before)
    assert fast.regulariser.curvature is None


@pytest.mark.parametrize("name", NAMES)
def test_newborn_weights_are_free_and_the_others_stay_as_protected_as_they_were(name):
    fast = at((1, 0), name)
    old, before = fast.network.sizes, fast.regulariser.curvature
    moved = fast.network.theta + random_like(fast.network.theta, 1)
    pull = torch.zeros_like(moved)
    copy.deepcopy(fast.regulariser).penalise(moved, pull)
    fast.grow(0, newborn(0, 0, 6))
    fast.grow(1, newborn(0, 1, 7))
    for vector in fast.regulariser.vectors.values():
        inside = embed(torch.ones_like(moved), old, fast.network.sizes)
        assert not vector[inside == 0].any(), "padded with zeros"
    if before is not None:
        assert torch.equal(fast.regulariser.curvature, embed(before, old, fast.network.sizes))
    gradient = torch.zeros_like(fast.network.theta)
    born = random_like(gradient, 2) * (embed(torch.ones_like(moved), old, fast.network.sizes) == 0)
    fast.regulariser.penalise(embed(moved, old, fast.network.sizes) + born, gradient)
    assert torch.equal(gradient, embed(pull, old, fast.network.sizes))


@pytest.mark.parametrize("name", NAMES)
def test_curvature_is_the_second_derivative_of_the_penalty(name):
    fast = at((2, 0), name)
    theta, change = fast.network.theta, random_like(fast.network.theta, 1)
    low, high = torch.zeros_like(theta), torch.zeros_like(theta)
    copy.deepcopy(fast.regulariser).penalise(theta, low)
    copy.deepcopy(fast.regulariser).penalise(theta + change, high)
    curvature = fast.regulariser.curvature
    torch.testing.assert_close(high - low, torch.zeros_like(theta) if curvature is None else curvature * change)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_keeps_is_its_own(name):
    fast = at((0, 0), name)
    fisher = random_like(fast.network.theta, 1)
    fast.regulariser.consolidate(fast.network, fisher, fast.rows)
    before = {key: vector.clone() for key, vector in fast.regulariser.vectors.items()}
    fisher.add_(1.0)
    fast.network.theta.add_(1.0)
    torch.testing.assert_close(fast.regulariser.vectors, before, rtol=0, atol=0)


QUICK = OptimisationSettings(batch_size=32, epochs_first=3, epochs_later=3, rate_later=0.02)
GROWING = Settings(
    hidden=(8, 6),
    optimisation=QUICK,
    ewc=EWCSettings(strength=0.1),
    growth=GrowthSettings(trigger="scheduled", schedule=(0, 2)),
)


@pytest.mark.parametrize("name", NAMES)
def test_the_learner_learns_with_it_in_any_order_of_the_inputs(name):
    source = toy_task()
    through = permuted(source, 3, 3, seed=4)
    copies = [Task(source.x[:, t.columns], source.y, source.x_test[:, t.columns], source.y_test) for t in through.tasks]
    settings = replace(GROWING, regulariser=name)
    a, b = learn(through, settings, 1), learn(Stream(copies, 3), settings, 1)
    torch.testing.assert_close(a.network.theta, b.network.theta, rtol=1e-3, atol=1e-4)
    assert a.history.accuracy == b.history.accuracy
    assert a.history.widths == b.history.widths == [(8, 6), (12, 10), (16, 14)]
    json.dumps(asdict(a.history), allow_nan=False)
    free = [parameters == plastic for parameters, plastic in zip(a.history.parameters, a.history.plastic, strict=True)]
    assert free == [name == "none"] * 3, "appendix A.4 sees what it protects"


@pytest.mark.parametrize("name", NAMES)
def test_a_learner_that_was_saved_or_stopped_goes_on_as_if_nothing_had_been(name, tmp_path):
    stream, stop = toy_stream(), [True]

    def epoch(learner, number):
        if learner.number == 2 and number == 2 and stop:
            stop.clear()
            raise KeyboardInterrupt

    settings = replace(GROWING, regulariser=name)
    whole = Learner.of(stream, settings)
    whole.learn_stream(stream)
    stopped = Learner.of(stream, settings, callbacks=Callbacks(epoch=epoch))
    with pytest.raises(KeyboardInterrupt):
        stopped.learn_stream(stream)
    stopped.save(tmp_path / "learner.npz")
    for learner in (stopped, Learner.load(tmp_path / "learner.npz")):
        learner.learn_stream(stream)
        torch.testing.assert_close(learner.regulariser.vectors, whole.regulariser.vectors, rtol=0, atol=0)
        assert learner.history == whole.history


@pytest.mark.parametrize("name", NAMES)
def test_the_gate_of_growth_has_its_fisher_whatever_protects_the_weights(name):
    growth = GrowthSettings(percentile=100, gamma=0.5, cooldown=0)
    settings = replace(GROWING, regulariser=name, growth=growth)
    seen = [layer for epoch in learn(toy_stream(), settings, 2).history.signals for layer in epoch.layers]
    assert seen
    assert all(layer.percentile > 0 and layer.tau > 0 for layer in seen)


# --- One by one.


@pytest.mark.parametrize(("start", "first"), [("first", 1.0), ("zero", 0.1)])
def test_moving_average_by_hand(start, first):
    net = network()
    ewc = OnlineEWC(EWCSettings(strength=2.0, decay=0.9, start=start))
    one, two = random_like(net.theta, 1), random_like(net.theta, 2)
    ewc.consolidate(net, one)
    torch.testing.assert_close(ewc.fisher, first * one)
    ewc.consolidate(net, two)
    torch.testing.assert_close(ewc.fisher, 0.9 * first * one + 0.1 * two)
    torch.testing.assert_close(ewc.curvature, 2.0 * ewc.fisher)


TASKS = st.lists(st.tuples(st.sampled_from([0.0, 1e-12, 1e-3, 1.0, 1e4]), st.floats(-2, 2)), min_size=1, max_size=6)


@given(TASKS, st.floats(-2, 2))
def test_one_penalty_pulls_like_the_penalties_of_all_tasks_together(tasks, place):
    """Kirkpatrick's Eq. 3, with Fishers of any size and for any number of tasks."""

    def both(value):
        return torch.full((2,), value, dtype=torch.float64)

    ewc, gradient = EWC(EWCSettings(strength=3.0)), both(0.0)
    for fisher, anchor in tasks:
        ewc.consolidate(Network((1, 1, 1), both(anchor)), both(fisher))
    ewc.penalise(both(place), gradient)
    pull = sum(3.0 * fisher * (place - anchor) for fisher, anchor in tasks)
    assert gradient.tolist() == pytest.approx([pull] * 2, abs=1e-14 * sum(fisher for fisher, _ in tasks))


def test_a_weight_that_made_the_loss_worse_is_free_and_not_pushed_away():
    net, si = network(), SynapticIntelligence(EWCSettings(strength=1.0), damping=0.5)
    slope = random_like(net.theta, 1) + 0.1
    si.penalise(net.theta, slope.clone())
    half = net.parameters // 2
    step = torch.full_like(net.theta, -0.2)
    step[half:] *= -1
    net.theta.add_(step)
    si.consolidate(net, torch.zeros_like(slope))
    torch.testing.assert_close(si.curvature[:half], 2 * slope[:half] * 0.2 / (0.2**2 + 0.5))
    assert not si.curvature[half:].any(), "uphill"


def test_a_constant_of_a_method_is_an_argument_of_its_class():
    sharp, published = partial(SynapticIntelligence, damping=1e-3), partial(SynapticIntelligence, damping=0.1)
    one, two, three = (learn(toy_stream(2), replace(GROWING, regulariser=r)) for r in (sharp, published, "si"))
    assert one.history.plastic[0] < two.history.plastic[0]
    assert two.history == three.history
    with pytest.raises(ValueError, match=r"damping must be a number in \(0, ∞\), got 0"):
        SynapticIntelligence(EWCSettings(), damping=0)


def test_memory_aware_synapses_ask_for_data_but_for_no_labels():
    net, ((x, y), (_, other)) = network(), (batch(seed=1), batch(seed=2))
    one, two = (REGULARISERS["mas"](EWCSettings()) for _ in "ab")
    one.consolidate(net, torch.zeros_like(net.theta), [(x, one_hot(y))])
    two.consolidate(net, torch.zeros_like(net.theta), [(x, one_hot(other))])
    assert torch.equal(one.curvature, two.curvature)
    with pytest.raises(ValueError, match="batches must hold at least one mini-batch"):
        one.consolidate(net, torch.zeros_like(net.theta), [])


def test_a_regulariser_of_ones_own_grows_and_is_chosen_by_its_name():
    """This one lets nothing move that was there at the end of a task."""

    @register("freeze")
    class Freeze(Regulariser):
        def penalise(self, theta, gradient):
            if self.curvature is not None:
                gradient[self.curvature > 0] = 0

        def consolidate(self, network, fisher, batches):
            assert len(next(iter(batches))) == 2
            self.keep(frozen=torch.ones_like(network.theta))

        def derive(self):
            self.curvature = self.settings.strength * self.vectors["frozen"]

    stream, growth = toy_stream(2), GrowthSettings(trigger="scheduled", schedule=(1,))
    try:
        learner = Learner.of(stream, replace(GROWING, regulariser="freeze", growth=growth, ewc=EWCSettings()))
        learner.learn(stream.tasks[0])
        old = [weight.clone() for weight in learner.network.weights]
        learner.learn(stream.tasks[1])
    finally:
        del REGULARISERS["freeze"]
    for before, after in zip(old, learner.network.weights, strict=True):
        assert torch.equal(after[: before.shape[0], : before.shape[1]], before)
    assert learner.network.weights[-1][:, 6:].any(), "new neurons learn"
    assert learner.history.widths == [(8, 6), (10, 8)]
    assert learner.history.locked == [(1.0, 1.0)] * 2


GUIDE = Path("docs/regularisers.md")


def test_the_guide_lists_the_regularisers_and_its_example_learns():
    text = GUIDE.read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]
    assert sorted(rows) == [f"`{name}`" for name in SLOW]
    code = text.split("```python\n")[1].split("```")[0]
    assert len(code.splitlines()) <= 20
    (name,) = [line.split('"')[1] for line in code.splitlines() if line.startswith("@register(")]
    try:
        exec(code, {})
        settings = replace(GROWING, regulariser=name, ewc=EWCSettings(strength=5.0))
        history, naive = (learn(toy_stream(), one).history for one in (settings, replace(settings, regulariser="none")))
    finally:
        REGULARISERS.pop(name, None)
    assert history.widths == naive.widths
    assert history.plastic < naive.plastic


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match=r"strength must be a number in \[0"):
        EWCSettings(strength=-1)
    with pytest.raises(ValueError, match=r"decay must be a number in \[0, 1\]"):
        EWCSettings(decay=1.5)
    with pytest.raises(ValueError, match="start must be one of first, zero"):
        EWCSettings(start="one")
