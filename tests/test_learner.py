import itertools
from dataclasses import fields, replace

import pytest
import torch

from noracl import (
    Callbacks,
    EWCSettings,
    FisherSettings,
    GrowthSettings,
    LayerSignal,
    Learner,
    NonFiniteLoss,
    NullSpaceExhausted,
    OptimisationSettings,
    Settings,
    Stream,
    Task,
    learn,
    permuted,
)
from noracl.method.fisher import diagonal
from noracl.method.initialisers import INITIALISERS
from noracl.method.learner import COMPONENTS
from noracl.method.network import layers
from noracl.method.optimisation import SGD, Batches, Lockstep
from noracl.method.seeds import generator
from noracl.method.triggers import TRIGGERS
from tests.helpers import one_hot, plain_loss, toy_stream, toy_task

QUICK = OptimisationSettings(batch_size=32, epochs_first=3, epochs_later=3, rate_later=0.02)
SMALL = Settings(hidden=(8, 6), optimisation=QUICK, ewc=EWCSettings(strength=10.0))
STATIC = replace(SMALL, growth=GrowthSettings(trigger="none"))


def growing(**kwargs) -> Settings:
    return replace(SMALL, growth=GrowthSettings(**kwargs))


def scripted(monkeypatch, script):
    """Let the signals follow a script: (task, epoch) → per layer (φ, φ⁰, percentile, τ)."""
    asked = []

    def measure(self):
        place = (self.number, self.epoch_of_script)
        asked.append(place)
        return [LayerSignal(*values) for values in script(place)]

    original = Learner._grow_by_signals

    def remember(self, epoch):
        self.epoch_of_script = epoch
        return original(self, epoch)

    monkeypatch.setattr(Learner, "_measure", measure)
    monkeypatch.setattr(Learner, "_grow_by_signals", remember)
    return asked


def test_static_training_equals_autograd_with_torch_optim():
    """Three tasks in the library against the same loop with autograd, torch's SGD and clip_grad_norm_."""
    settings = replace(STATIC, optimisation=replace(QUICK, clip=0.5), ewc=EWCSettings(strength=50.0, decay=0.9))
    stream = toy_stream()
    learner = Learner.of(stream, settings, seed=5)
    twin = Learner.of(stream, settings, seed=5)  # the same draws of initial weights and orders
    theta = twin.network.theta.clone().requires_grad_()
    sizes = twin.network.sizes
    fisher = anchor = None
    for number, task in enumerate(stream.tasks, start=1):
        learner.learn(task)
        rate = 0.1 if number == 1 else 0.02
        optimiser = torch.optim.SGD([theta], rate)
        for _ in range(3):
            order = torch.randperm(len(task.x), generator=twin.draws["order"])
            for index in order.split(32):
                optimiser.zero_grad()
                loss = plain_loss(theta, sizes, task.x[index], task.y[index])
                if fisher is not None:
                    loss = loss + 50.0 / 2 * (fisher * (theta - anchor) ** 2).sum()
                loss.backward()
                torch.nn.utils.clip_grad_norm_([theta], 0.5)
                optimiser.step()
        squares = []
        for i in range(96):  # 5 batches of 32 cover the 96 samples
            (g,) = torch.autograd.grad(plain_loss(theta, sizes, task.x[i : i + 1], task.y[i : i + 1]), theta)
            squares.append(g.square())
        current = torch.stack(squares).mean(0)
        fisher = current if fisher is None else 0.9 * fisher + 0.1 * current
        anchor = theta.detach().clone()
        torch.testing.assert_close(learner.network.theta, theta.detach(), rtol=1e-3, atol=2e-5)
        torch.testing.assert_close(learner.regulariser.fisher, fisher, rtol=5e-3, atol=1e-6)


def test_clipping_is_by_the_global_norm_with_the_penalty_included():
    task = toy_task()
    learner = Learner.of(Stream([task], 3), STATIC, 0)
    batches = Batches(task.x, task.y, 3, 1.0, 0.0, 96)
    learner.regulariser.consolidate(learner.network, torch.full_like(learner.network.theta, 100.0))
    learner.network.theta.add_(0.1)
    before = learner.network.theta.clone()
    Lockstep([SGD(learner.network, learner.regulariser, rate=0.01, clip=0.5)]).epoch(batches, torch.arange(96))
    moved = learner.network.theta - before
    assert moved.norm().item() == pytest.approx(0.01 * 0.5, rel=1e-4)
    penalty = 10.0 * 100.0 * 0.1
    theta = before.clone().requires_grad_()
    (loss_gradient,) = torch.autograd.grad(plain_loss(theta, learner.network.sizes, task.x, task.y), theta)
    direction = loss_gradient + penalty
    torch.testing.assert_close(moved / moved.norm(), -direction / direction.norm(), rtol=1e-3, atol=1e-5)


def test_tau_may_start_at_zero_while_the_fisher_does_not():
    first, zero = (Learner(growing(tau_start=start)) for start in ("first", "zero"))
    for learner in (first, zero):
        learner.learn(toy_task())
    assert torch.equal(first.fisher_average, zero.fisher_average)
    torch.testing.assert_close(zero.tau, 0.1 * first.tau)


def test_fisher_comes_from_the_first_rows_as_stored():
    stream = toy_stream()
    learner = Learner.of(stream, replace(STATIC, fisher=FisherSettings(batches=2)), 0)
    learner.learn(stream.tasks[0])
    first = zip(stream.tasks[0].x[:64].split(32), one_hot(stream.tasks[0].y[:64]).float().split(32), strict=True)
    expected = diagonal(learner.network, first, FisherSettings(), generator(0))
    torch.testing.assert_close(learner.fisher_average, expected)


def test_permuted_stream_equals_a_stream_of_permuted_copies():
    data = toy_task()
    through = permuted(data, 3, 3, seed=4)
    copies = Stream(
        [Task(data.x[:, t.columns], data.y, data.x_test[:, t.columns], data.y_test) for t in through.tasks], 3
    )
    for settings in (STATIC, growing(trigger="scheduled", schedule=(0, 2)), growing(percentile=100, gamma=0.5)):
        a, b = learn(through, settings, 1), learn(copies, settings, 1)
        torch.testing.assert_close(a.network.theta, b.network.theta, rtol=1e-3, atol=1e-4)
        assert a.history.widths == b.history.widths
        assert a.history.accuracy == b.history.accuracy


def test_scaling_equals_scaled_data():
    pixels = torch.randint(0, 256, (64, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    y = torch.arange(64) % 3
    stored = Stream([Task(pixels, y, pixels, y)] * 2, 3, scale=1 / 80, shift=-1.0)
    scaled = pixels.float() / 80 - 1
    ready = Stream([Task(scaled, y, scaled, y)] * 2, 3)
    a, b = learn(stored, SMALL, 1), learn(ready, SMALL, 1)
    torch.testing.assert_close(a.network.theta, b.network.theta, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", [(7,), (8, 6), (10, 9, 8)])
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_every_rule_runs_at_every_depth_and_its_history_adds_up(trigger, hidden):
    growth = GrowthSettings(
        trigger=trigger, percentile=100, gamma=0.5, cooldown=0, loss_window=1, loss_improvement=1.0, schedule=(1,)
    )
    outcome = learn(toy_stream(), replace(SMALL, hidden=hidden, growth=growth), seed=2)
    history = outcome.history
    widths = list(hidden)
    for number in (1, 2, 3):
        for event in (e for e in history.growth if e.task == number):
            assert event.neurons >= 1
            widths[event.layer - 1] += event.neurons
        assert history.widths[number - 1] == tuple(widths)
        sizes = (9, *widths, 3)
        assert history.parameters[number - 1] == sum(a * b for a, b in itertools.pairwise(sizes))
        assert len(history.accuracy[number - 1]) == number
    assert not [e for e in history.growth if e.task == 1], "growth is looked at from task 2 on"
    assert bool(history.growth) == (trigger != "none"), "these settings make every rule fire"
    assert outcome.network.widths == tuple(widths)
    assert set(outcome.seconds) == set(COMPONENTS)
    assert all(0 <= f <= 1 for row in history.locked for f in row)
    assert all(0 < p <= n for p, n in zip(history.plastic, history.parameters, strict=True))


FIRING = {"gamma": 1.0, "epsilon": 0.1, "percentile": 100.0, "cooldown": 1, "loss_window": 1, "loss_improvement": 1.0}
FIRING |= {"fixed_neurons": 1, "scheduled_neurons": 1, "schedule": (0, 1), "loss_neurons": 1}
OTHER = {"gamma": 0.7, "epsilon": 0.6, "percentile": 99.0, "cooldown": 9, "loss_window": 2, "loss_improvement": 0.0}
OTHER |= {"fixed_neurons": 2, "scheduled_neurons": 2, "schedule": (1, 2), "loss_neurons": 2, "fsat_neurons": 2}
OTHER |= {"scale": 0.5, "random_scale": 0.5, "tau_start": "zero", "ed_layers": "any", "boost": 3.0}


@pytest.mark.parametrize(
    ("trigger", "init"), [*((rule, "qr") for rule in TRIGGERS), *(("fixed", init) for init in INITIALISERS)]
)
def test_decisive_settings_are_those_that_change_a_run(trigger, init):
    """Finished runs are found by them: one too few would take a run for another, one too many would repeat it."""

    def run(**changes):
        settings = growing(**{"trigger": trigger, "init": init, **FIRING, **changes})
        outcome = learn(toy_stream(3), replace(settings, hidden=(5, 3)))
        return outcome.history, outcome.network.theta.tolist()

    decisive = GrowthSettings(trigger=trigger, init=init).decisive
    plain = run()
    assert OTHER.keys() | {"trigger", "init"} == {field.name for field in fields(GrowthSettings)}
    assert run(**{name: value for name, value in OTHER.items() if name not in decisive}) == plain
    for name in OTHER.keys() & decisive.keys():
        assert run(**{name: OTHER[name]}) != plain, name


def test_three_epochs_with_cooldown_by_hand(monkeypatch):
    """Layer 1 asks at every check; the cooldown of 1 epoch lets only every second check happen."""
    asked = scripted(monkeypatch, lambda place: [(1.0, 1.0, 2.0, 1.0), (1.0, 1.0, 0.5, 1.0)])
    history = learn(toy_stream(2), replace(growing(cooldown=1, gamma=0.5), hidden=(8, 6))).history
    assert asked == [(2, 1), (2, 3)], "epoch 2 is spent cooling down"
    assert [(e.task, e.epoch, e.layer, e.neurons) for e in history.growth] == [(2, 1, 1, 4), (2, 3, 1, 6)]
    assert history.widths == [(8, 6), (18, 6)]
    assert [(s.task, s.epoch) for s in history.signals] == asked


def test_cooldown_of_three_carries_over_to_the_next_task(monkeypatch):
    asked = scripted(monkeypatch, lambda place: [(1.0, 1.0, 2.0, 1.0)])
    stream = toy_stream(3)
    history = learn(stream, replace(growing(gamma=0.9), hidden=(10,))).history
    # task 2: check at epoch 1, cool down 2, 3; task 3: cool down 1, check at 2, cool down 3.
    assert asked == [(2, 1), (3, 2)]
    assert [e.neurons for e in history.growth] == [1, 1]


def test_both_layers_may_grow_at_once(monkeypatch):
    scripted(monkeypatch, lambda place: [(1.0, 1.0, 2.0, 1.0), (0.9, 1.0, 2.0, 1.0)])
    history = learn(toy_stream(2), replace(growing(gamma=0.5, cooldown=9), hidden=(8, 10))).history
    assert [(e.layer, e.neurons, e.phi, e.percentile) for e in history.growth] == [(1, 4, 1.0, 2.0), (2, 4, 0.9, 2.0)]


def test_tau_and_reference_follow_the_paper():
    stream = toy_stream(3)
    learner = Learner.of(stream, SMALL, 0)
    learner.learn(stream.tasks[0])
    first = [m.mean().item() for m in layers(learner.regulariser.fisher, learner.network.sizes)[:2]]
    assert learner.tau.tolist() == pytest.approx(first)
    learner.learn(stream.tasks[1])
    second = [m.mean().item() for m in layers(learner.regulariser.fisher, learner.network.sizes)[:2]]
    expected = [0.9 * a + 0.1 * b for a, b in zip(first, second, strict=True)]
    assert learner.tau.tolist() == pytest.approx(expected, rel=1e-5)
    hidden = learner.network.activations(stream.tasks[1].x[:32])[:2]
    singular = [torch.linalg.svdvals(h / 32**0.5) for h in hidden]
    assert learner.reference == [(s > 0.05).double().mean().item() for s in singular]


def test_old_weights_fisher_and_anchor_survive_growth_bit_for_bit():
    stream = toy_stream(2)
    learner = Learner.of(stream, growing(), 0)
    learner.learn(stream.tasks[0])
    learner.task = stream.tasks[1]
    before = learner.network.sizes
    kept = [v.clone() for v in (learner.network.theta, learner.regulariser.fisher, learner.regulariser.anchor)]
    probe = stream.tasks[1].x
    logits = learner.network.activations(probe)[-1]
    learner._widen(0, 3)
    learner._widen(1, 2)
    now = (learner.network.theta, learner.regulariser.fisher, learner.regulariser.anchor)
    assert learner.network.widths == (11, 8)
    for old, new in zip(kept, now, strict=True):
        for a, b in zip(layers(old, before), layers(new, learner.network.sizes), strict=True):
            assert torch.equal(a, b[: a.shape[0], : a.shape[1]])
    torch.testing.assert_close(learner.network.activations(probe)[-1], logits)


@pytest.mark.parametrize(
    ("init", "expected"),
    [("qr", 0.3), ("null-space", 0.3), ("random", 0.02 * 3), ("he", 2**0.5), ("xavier", (2 * 9 / 514) ** 0.5)],
)
def test_new_neurons_start_at_the_scale_that_is_set(init, expected):
    """Root mean square of the norm of their 9 weights; as many as it takes to tell."""
    neurons = 1 if init == "null-space" else 497
    learner = Learner.of(toy_stream(), growing(init=init, scale=0.3, random_scale=0.02), 0)
    learner.task = toy_task()
    learner._widen(0, neurons)
    new = learner.network.weights[0][8:]
    assert new.square().sum(1).mean().sqrt().item() == pytest.approx(expected, rel=0.05)


def test_the_same_seed_gives_the_same_bytes():
    settings = growing(percentile=95, gamma=0.5)
    a, b, other = (learn(toy_stream(), settings, seed) for seed in (3, 3, 4))
    assert torch.equal(a.network.theta, b.network.theta)
    assert a.history == b.history
    assert not (
        a.network.theta.shape == other.network.theta.shape and torch.equal(a.network.theta, other.network.theta)
    )


def test_the_first_half_of_a_long_stream_is_the_short_stream():
    settings = growing(percentile=95, gamma=0.5)
    data = toy_task()
    short = learn(permuted(data, 2, 3, 0), settings, 0)
    long = learn(permuted(data, 4, 3, 0), settings, 0)
    assert long.history.first(2) == short.history


def test_zero_initialised_neurons_stay_inert():
    outcome = learn(toy_stream(), growing(trigger="fixed", init="zero"))
    first, second, _ = outcome.network.weights
    assert outcome.network.widths == (20, 18)
    assert not first[8:].any()
    assert not second[:, 8:].any()


def test_null_space_error_reaches_the_caller():
    with pytest.raises(NullSpaceExhausted):
        learn(toy_stream(), growing(trigger="fixed", init="null-space", fixed_neurons=9))


def test_divergence_is_reported_with_its_place():
    wild = replace(STATIC, optimisation=replace(QUICK, rate_first=1e30, clip=None))
    with pytest.raises(NonFiniteLoss, match="the loss became non-finite at task 1, epoch 1, step 2"):
        learn(toy_stream(), wild)


def test_divergence_at_the_very_last_step_is_no_result():
    one_step = replace(QUICK, batch_size=96, epochs_first=1, rate_first=1e30, clip=None)
    with pytest.raises(NonFiniteLoss, match="non-finite at task 1, after its last step"):
        learn(toy_stream(1), replace(STATIC, optimisation=one_step))


def test_sampled_labels_and_batch_estimator_run():
    for fisher in (FisherSettings(labels="sampled"), FisherSettings(estimator="batch", batches=2)):
        assert learn(toy_stream(), replace(SMALL, fisher=fisher)).history.average_accuracy() > 0.3


def test_callbacks_see_every_step_epoch_task_and_growth_and_change_nothing():
    seen = {name: [] for name in ("step", "epoch", "task", "growth")}
    callbacks = Callbacks(
        step=lambda learner, step: seen["step"].append((learner.number, step)),
        epoch=lambda learner, epoch: seen["epoch"].append((learner.number, epoch)),
        task=lambda learner, number: seen["task"].append((number, learner.tasks, len(learner.history.accuracy))),
        growth=lambda learner, event: seen["growth"].append((event, learner.widths)),
    )
    settings = growing(trigger="fixed", fixed_neurons=2)
    outcome, quiet = learn(toy_stream(), settings, 0, callbacks), learn(toy_stream(), settings, 0)
    assert torch.equal(outcome.network.theta, quiet.network.theta)
    assert outcome.history == quiet.history
    assert seen["task"] == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    by = settings.optimisation
    epochs = [(1, n + 1) for n in range(by.epochs_first)] + [(t, n + 1) for t in (2, 3) for n in range(by.epochs_later)]
    assert seen["epoch"] == epochs
    steps = -(-96 // by.batch_size)
    assert seen["step"] == [(task, step + 1) for task, _ in epochs for step in range(steps)]
    assert [event for event, _ in seen["growth"]] == outcome.history.growth
    assert [widths for _, widths in seen["growth"]][:2] == [(10, 6), (10, 8)]
    with pytest.raises(ValueError, match="epoch must be a function, got 5"):
        Callbacks(epoch=5)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (Settings, {"hidden": (8, 0)}, "hidden must be a whole number of at least 1"),
        (Settings, {"hidden": ()}, "hidden must name"),
        (Settings, {"init": "magic"}, "init must be one of glorot, he, lecun, torch, got 'magic'"),
        (
            Settings,
            {"regulariser": "magic"},
            "regulariser must be one of ewc, l2, mas, none, online_ewc, si, got 'magic'",
        ),
        (OptimisationSettings, {"batch_size": 0}, "batch_size"),
        (OptimisationSettings, {"rate_later": 0.0}, r"rate_later must be a number in \(0"),
        (OptimisationSettings, {"rate_first": "0.1"}, "rate_first"),
        (OptimisationSettings, {"epochs_first": 1.5}, "epochs_first"),
        (OptimisationSettings, {"clip": -1.0}, "clip"),
    ],
)
def test_bad_settings_are_named(kind, fields, message):
    with pytest.raises(ValueError, match=message):
        kind(**fields)
