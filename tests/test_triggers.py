import pytest
from hypothesis import given
from hypothesis import strategies as st

from noracl import GrowthSettings, LayerSignal
from noracl.method.triggers import TRIGGERS, Trigger, register

SATURATED, FREE = (2.0, 1.0), (1.0, 2.0)  # percentile against τ


def signal(phi, reference, fisher):
    return LayerSignal(phi, reference, *fisher)


def after(seen, widths, losses=(), **settings):
    growth = GrowthSettings(**settings)
    return TRIGGERS[growth.trigger].after_epoch(growth, seen, losses, widths)


def before(epochs, widths, **settings):
    growth = GrowthSettings(**settings)
    return [TRIGGERS[growth.trigger].before_epoch(growth, epoch, widths) for epoch in range(epochs)]


@pytest.mark.parametrize(
    ("trigger", "phi", "fisher", "expected"),
    [
        ("joint", 1.0, SATURATED, 3),
        ("joint", 1.0, FREE, 0),
        ("joint", 0.5, SATURATED, 0),
        ("joint", 0.5, FREE, 0),
        ("ed", 1.0, FREE, 3),
        ("ed", 1.0, (None, None), 3),
        ("ed", 0.5, SATURATED, 0),
        ("fsat", 1.0, SATURATED, 3),
        ("fsat", 0.5, SATURATED, 1),
        ("fsat", 1.0, FREE, 0),
    ],
)
def test_rules_of_signals(trigger, phi, fisher, expected):
    assert after([signal(phi, 1.0, fisher)], [32], trigger=trigger) == [expected]


def test_fisher_saturation_alone_may_add_a_fixed_number():
    seen = [signal(1.0, 1.0, SATURATED), signal(0.1, 1.0, SATURATED), signal(1.0, 1.0, FREE)]
    assert after(seen, [32] * 3, trigger="fsat", fsat_neurons=7) == [7, 7, 0]


def test_thresholds_are_strict():
    assert after([signal(0.5, 1.0, SATURATED)], [32], gamma=0.5) == [0], "φ = γφ⁰ does not fire"
    assert after([signal(1.0, 1.0, (1.0, 1.0))], [32], gamma=0.5) == [0], "percentile = τ does not fire"


def test_each_layer_is_judged_by_itself():
    seen = [signal(1.0, 1.0, FREE), signal(1.0, 1.0, SATURATED), signal(0.1, 1.0, SATURATED)]
    assert after(seen, [32, 64, 32]) == [0, 6, 0]


def test_fixed_growth_comes_once_at_the_start():
    assert before(3, [8, 8], trigger="fixed") == [[6, 6], [0, 0], [0, 0]]


def test_scheduled_growth_comes_at_its_epochs():
    assert before(4, [8], trigger="scheduled", schedule=(0, 2)) == [[2], [0], [2], [0]]


@pytest.mark.parametrize("trigger", sorted(set(TRIGGERS) - {"fixed", "scheduled"}))
def test_other_rules_ignore_the_calendar(trigger):
    assert before(40, [8, 8], trigger=trigger) == [[0, 0]] * 40


@given(st.sampled_from(["fixed", "scheduled", "none"]), st.lists(st.floats(0, 9), max_size=9))
def test_rules_of_the_calendar_ignore_the_signals_and_the_loss(trigger, losses):
    assert after([signal(1.0, 1.0, SATURATED)], [8], losses, trigger=trigger) == [0]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [([1.0, 1.0], 0), ([1.0, 0.9, 0.8], 0), ([1.0, 0.5, 0.95], 4), ([9.0, 1.0, 1.0, 0.95], 4)],
    ids=["too early to tell", "improves", "plateau", "looks no further back than its window"],
)
def test_loss_rule_fires_on_a_plateau(losses, expected):
    settings = {"trigger": "loss", "loss_window": 2, "loss_improvement": 0.1, "loss_neurons": 4}
    assert after([], [8, 8], losses, **settings) == [expected] * 2


def test_a_rule_of_ones_own_is_a_class_in_the_registry():
    class Doubling(Trigger):
        reads = ("percentile",)

        def before_epoch(self, growth, epoch, widths):
            return list(widths)

    register("doubling")(Doubling)
    try:
        assert before(2, [3, 4], trigger="doubling") == [[3, 4]] * 2
        decisive = {"trigger": "doubling", "init": "qr", "percentile": 25.0, "scale": 0.2}
        assert GrowthSettings(trigger="doubling").decisive == decisive
        with pytest.raises(ValueError, match="trigger 'doubling' is already registered"):
            register("doubling")(Doubling)
    finally:
        del TRIGGERS["doubling"]


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("trigger", "magic", f"trigger must be one of {', '.join(TRIGGERS)}, got 'magic'"),
        ("init", "magic", "init must be one of he, null-space, qr, random, xavier, zero, got 'magic'"),
        ("gamma", 0.0, r"gamma must be a number in \(0, 1\], got 0.0"),
        ("gamma", 1.1, r"gamma must be a number in \(0, 1\], got 1.1"),
        ("gamma", float("nan"), "gamma"),
        ("epsilon", 0.0, "epsilon must be a number in"),
        ("percentile", 101, r"percentile must be a number in \[0, 100\], got 101"),
        ("percentile", -1, "percentile"),
        ("cooldown", -1, "cooldown must be a whole number of at least 0"),
        ("scale", -0.1, "scale"),
        ("fixed_neurons", 0, "fixed_neurons"),
        ("schedule", (1, -1), "schedule"),
        ("loss_window", 0, "loss_window"),
        ("cooldown", True, "cooldown"),
        ("tau_start", "half", "tau_start must be one of first, zero, got 'half'"),
        ("fsat_neurons", 0, "fsat_neurons must be a whole number of at least 1, got 0"),
        ("loss_improvement", 2.0, "loss_improvement"),
        ("random_scale", -1.0, "random_scale"),
    ],
)
def test_bad_settings_are_named(argument, value, message):
    with pytest.raises(ValueError, match=message):
        GrowthSettings(**{argument: value})
