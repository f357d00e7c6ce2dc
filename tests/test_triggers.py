import pytest
from hypothesis import given
from hypothesis import strategies as st

from noracl import GrowthSettings, LayerSignal
from noracl.triggers import after_epoch, before_epoch, on_plateau

SATURATED, FREE = (2.0, 1.0), (1.0, 2.0)  # percentile against τ


def signal(phi, reference, fisher):
    return LayerSignal(phi, reference, *fisher)


@pytest.mark.parametrize(
    ("trigger", "phi", "fisher", "expected"),
    [
        ("joint", 1.0, SATURATED, 3),
        ("joint", 1.0, FREE, 0),
        ("joint", 0.5, SATURATED, 0),
        ("joint", 0.5, FREE, 0),
        ("ed", 1.0, FREE, 3),
        ("ed", 0.5, SATURATED, 0),
        ("fsat", 1.0, SATURATED, 3),
        ("fsat", 0.5, SATURATED, 1),
        ("fsat", 1.0, FREE, 0),
    ],
)
def test_rules_of_signals(trigger, phi, fisher, expected):
    assert after_epoch(GrowthSettings(trigger=trigger), [signal(phi, 1.0, fisher)], [32]) == [expected]


def test_thresholds_are_strict():
    rule = GrowthSettings(gamma=0.5)
    assert after_epoch(rule, [signal(0.5, 1.0, SATURATED)], [32]) == [0], "φ = γφ⁰ does not fire"
    assert after_epoch(rule, [signal(1.0, 1.0, (1.0, 1.0))], [32]) == [0], "percentile = τ does not fire"


def test_each_layer_is_judged_by_itself():
    seen = [signal(1.0, 1.0, FREE), signal(1.0, 1.0, SATURATED), signal(0.1, 1.0, SATURATED)]
    assert after_epoch(GrowthSettings(), seen, [32, 64, 32]) == [0, 6, 0]


def test_fixed_growth_comes_once_at_the_start():
    rule = GrowthSettings(trigger="fixed")
    assert [before_epoch(rule, e, [8, 8]) for e in range(3)] == [[6, 6], [0, 0], [0, 0]]


def test_scheduled_growth_comes_at_its_epochs():
    rule = GrowthSettings(trigger="scheduled", schedule=(0, 2))
    assert [before_epoch(rule, e, [8]) for e in range(4)] == [[2], [0], [2], [0]]


@given(st.sampled_from(["joint", "ed", "fsat", "loss", "none"]), st.integers(0, 40))
def test_other_rules_ignore_the_calendar(trigger, epoch):
    assert before_epoch(GrowthSettings(trigger=trigger), epoch, [8, 8]) == [0, 0]


def test_loss_rule_fires_on_a_plateau():
    rule = GrowthSettings(trigger="loss", loss_window=2, loss_improvement=0.1, loss_neurons=4)
    assert on_plateau(rule, [1.0, 1.0], [8]) == [0], "too early to tell"
    assert on_plateau(rule, [1.0, 0.9, 0.8], [8]) == [0]
    assert on_plateau(rule, [1.0, 0.5, 0.95], [8]) == [4]
    assert on_plateau(rule, [9.0, 1.0, 1.0, 0.95], [8, 8]) == [4, 4]


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("trigger", "magic", "trigger must be one of joint, ed, fsat, fixed, scheduled, loss, none, got 'magic'"),
        ("init", "magic", "init must be one of qr, random, he, xavier, null-space, zero"),
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
    ],
)
def test_bad_settings_are_named(argument, value, message):
    with pytest.raises(ValueError, match=message):
        GrowthSettings(**{argument: value})
