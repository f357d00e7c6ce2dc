import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noracl import EWCSettings
from noracl.analysis import recall, theory
from noracl.analysis.theory import Associations
from noracl.method.seeds import generator
from pipeline.experiments.power_laws import fit_exponent, half_width, mean_fit

sizes = st.integers(1, 12)
seeds = st.integers(0, 999)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed, "theory test"), dtype=torch.float64)


def problem(units, seed):
    """Weights before, a pattern, a label, a positive metric."""
    before, x, spread = normal(3, units, seed=seed)
    return before, x, 1.0 if seed % 2 else -1.0, spread.exp()


def loss(weights, before, x, y, metric):
    return ((weights @ x - y) ** 2 + (metric * (weights - before) ** 2).sum()) / 2


def independent(tasks, units, seed):
    """Features without any correlation, in place of σ(Qu)."""
    drawn = normal(tasks, units + 1, seed=seed)
    return Associations(drawn[:, 1:], drawn[:, 0].sign())


def test_nonlinearity_is_standardised_under_the_gaussian_measure():
    z = torch.linspace(-12, 12, 240_001, dtype=torch.float64)
    x, density = theory.standardised_relu(z), (-(z**2) / 2).exp() / math.sqrt(2 * math.pi)
    assert torch.trapezoid(x * density, z).item() == pytest.approx(0, abs=1e-8)
    assert torch.trapezoid(x**2 * density, z).item() == pytest.approx(1, abs=1e-8)
    linear = torch.trapezoid(x * z * density, z).item() ** 2
    assert linear == pytest.approx(0.25 / theory.RELU_DEVIATION**2, abs=1e-8), "73% of the variance is linear"


def test_features_are_standardised_and_labels_binary():
    drawn = theory.draw(400, 256, 100, generator(0))
    assert drawn.features.dtype == torch.float64
    assert drawn.features.mean().item() == pytest.approx(0, abs=0.02)
    assert drawn.features.square().mean().item() == pytest.approx(1, abs=0.03)
    assert set(drawn.labels.tolist()) == {-1.0, 1.0}
    assert torch.equal(drawn.features, theory.draw(400, 256, 100, generator(0)).features)
    static = drawn.static(64).features
    assert static.shape == (400, 64)
    assert static.square().sum(1).mean().item() == pytest.approx(1, abs=0.05), "the Fisher of a task is I/M"


def test_scaling_inside_the_nonlinearity_is_no_scaling():
    """As printed, x = σ(Qu/√M), all patterns look alike."""
    drawn = theory.standardised_relu(normal(200, 400) / math.sqrt(400))
    second = drawn.t() @ drawn / len(drawn)
    assert second.diagonal().mean().item() == pytest.approx(0.42, abs=0.02), "not 1/400"
    assert second[0, 1:].mean().item() == pytest.approx(0.42, abs=0.02), "not 0"


def test_few_inputs_correlate_the_features():
    wide, narrow = (theory.draw(200, d, 128, generator(0)).static(128).features for d in (4096, 32))

    def overlap(features):
        """Mean squared x·x' over pairs of patterns; 1/M for independent features of norm 1."""
        gram = features @ features.t()
        return (gram.square().sum() - gram.diagonal().square().sum()).item() / (200 * 199)

    assert overlap(wide) == pytest.approx(1 / 128, rel=0.1)
    assert overlap(narrow) > 2 / 128


@given(sizes, seeds)
@settings(max_examples=30, deadline=None)
def test_sherman_morrison_is_the_inverse(size, seed):
    u, v, *rows = normal(size + 2, size, seed=seed)
    matrix = torch.stack(rows) + 10 * torch.eye(size, dtype=torch.float64)
    direct = torch.linalg.inv(matrix + torch.outer(u, v))
    torch.testing.assert_close(theory.sherman_morrison(torch.linalg.inv(matrix), u, v), direct, rtol=1e-7, atol=1e-9)


@given(sizes, seeds)
@settings(max_examples=30, deadline=None)
def test_update_solves_the_normal_equations(units, seed):
    before, x, y, metric = problem(units, seed)
    direct = torch.linalg.solve(torch.outer(x, x) + torch.diag(metric), y * x + metric * before)
    torch.testing.assert_close(theory.update(before, x, y, metric), direct, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_update_is_what_a_minimiser_of_the_loss_finds(seed):
    before, x, y, metric = problem(7, seed)
    top, bottom = (metric.max() + x @ x).sqrt(), metric.min().sqrt()  # of the curvature: the best heavy ball
    rate, momentum = 4 / (top + bottom) ** 2, ((top - bottom) / (top + bottom)) ** 2
    weights, velocity = before.clone().requires_grad_(), torch.zeros(7)
    for _ in range(400):
        (gradient,) = torch.autograd.grad(loss(weights, before, x, y, metric), weights)
        velocity = momentum * velocity - rate * gradient
        weights = (weights + velocity).detach().requires_grad_()
    torch.testing.assert_close(theory.update(before, x, y, metric), weights.detach(), rtol=1e-9, atol=1e-10)


def test_without_a_penalty_gradient_descent_ends_at_the_update():
    before, x, y, _ = problem(6, 3)
    weights = before.clone()
    for _ in range(2000):
        weights -= 0.05 * (weights @ x - y) * x
    torch.testing.assert_close(theory.update(before, x, y, torch.zeros(6)), weights)


def test_printed_weight_dynamics_is_no_minimum():
    """Appendix A.2.1 has x yᵀxᵀ in the bracket; x xᵀ is right."""
    before, x, _, _ = problem(6, 0)
    x, one = x / x.norm(), torch.ones(6, dtype=torch.float64)
    for y in (1.0, -1.0):
        printed = before - (before @ x) * y * x / 2 + y * x / 2
        right = before - (before @ x) * x / 2 + y * x / 2
        torch.testing.assert_close(theory.update(before, x, y, one), right)
        assert (loss(printed, before, x, y, one) > loss(right, before, x, y, one) + 1e-3).item() == (y == -1.0)


@given(sizes, seeds)
@settings(max_examples=30, deadline=None)
def test_stored_share_is_the_residuals_loss(units, seed):
    before, x, y, metric = problem(units, seed)
    left = (y - theory.update(before, x, y, metric) @ x) / (y - before @ x)
    assert theory.stored_share(x, metric) == pytest.approx(1 - left.item(), abs=1e-9)
    even = torch.full_like(x, 0.3)
    assert theory.stored_share(x, even) == pytest.approx((x @ x / (0.3 + x @ x)).item())
    assert theory.stored_share(x, torch.zeros(units)) == pytest.approx(1)


def test_ewc_is_the_same_on_scaled_and_unscaled_features():
    drawn = theory.draw(30, 40, 9, generator(1))
    static = drawn.static(9)
    unscaled = theory.course(drawn, lambda t: torch.full((9,), float(t), dtype=torch.float64))
    torch.testing.assert_close(
        recall.recall(static, theory.static_ewc(static)), recall.recall(drawn, unscaled), rtol=1e-9, atol=1e-9
    )


def test_full_fisher_is_least_squares_over_all_tasks():
    drawn = theory.draw(25, 40, 10, generator(2)).static(10)
    x, y = drawn.features, drawn.labels
    direct = torch.linalg.solve(x.t() @ x + 1e-3 * torch.eye(10, dtype=torch.float64), x.t() @ y)
    torch.testing.assert_close(theory.full_fisher_ewc(drawn, 1e-3)[-1], direct, rtol=1e-8, atol=1e-9)


def test_full_fisher_retains_as_many_patterns_as_there_are_units():
    drawn = theory.draw(16, 256, 16, generator(0)).static(16)
    recalled = recall.recall(drawn, theory.full_fisher_ewc(drawn, 1e-9))
    torch.testing.assert_close(recalled[-1], torch.ones(16, dtype=torch.float64), rtol=0, atol=1e-3)
    assert recall.so_far(recall.recall(drawn, theory.static_ewc(drawn)), 15).min() < 0.5


@given(st.integers(1, 8), st.integers(1, 6), st.integers(2, 6), seeds)
@settings(max_examples=30, deadline=None)
def test_theorem_1_and_corollary_1(width, neurons, tasks, seed):
    widths = [width + neurons * t for t in range(tasks)]
    drawn = independent(tasks, widths[-1], seed)
    weights = theory.noracl(drawn, widths)
    for t in range(1, tasks):
        old = widths[t - 1]
        assert torch.equal(weights[t, :old], weights[t - 1, :old]), "theorem 1, in the limit"
        x, y = drawn.features[t, : widths[t]], drawn.labels[t]
        residual = y - weights[t - 1, :old] @ x[:old]
        fitted = torch.linalg.lstsq(x[None, old:], residual[None, None], driver="gelsd").solution[:, 0]
        torch.testing.assert_close(weights[t, old : widths[t]], fitted, rtol=1e-7, atol=1e-9)
        assert not weights[t, widths[t] :].any(), "the unborn are silent"
    scale = weights.abs().max().item()
    torch.testing.assert_close(
        recall.own_units(drawn, weights[-1], widths), torch.ones(tasks, dtype=torch.float64), rtol=0, atol=1e-11 * scale
    )
    found = [theory.preservation(drawn, widths, epsilon) for epsilon in (1e-2, 1e-4, 1e-6, 1e-8)]
    x, old = drawn.features[-1], widths[-2]
    age = theory.growing_metric(tasks - 1, theory.births(widths), 0.0)[:old]
    residual = drawn.labels[-1] - weights[-2] @ x
    slope = (residual.abs() * (x[:old] / age).norm() / (x[old:] @ x[old:]) / weights[-2].norm()).item()
    for epsilon, one in zip((1e-2, 1e-4, 1e-6, 1e-8), found, strict=True):
        assert one.old <= slope * epsilon * (1 + 1e-6) + 1e-13, "theorem 1: of the order of ε"
        assert one.printed == pytest.approx((weights[-2] @ x).abs().item()), "y alone is not the least-squares fit"
    for before, after in itertools.pairwise(found):
        assert after.old <= before.old + 1e-12
        assert after.new <= before.new + 1e-12
        assert after.unlearnt <= before.unlearnt + 1e-12


def test_metric_of_growing_networks_by_hand():
    born = theory.births([2, 3, 3, 5])
    assert born.tolist() == [0, 0, 1, 3, 3]
    assert theory.growing_metric(0, born, 0.5).tolist() == [0.5, 0.5]
    assert theory.growing_metric(2, born, 0.5).tolist() == [2, 2, 1]
    assert theory.growing_metric(3, born, 0.0).tolist() == [3, 3, 2, 0, 0]


@given(st.integers(1, 300), st.integers(2, 60), st.floats(0.01, 0.999))
@settings(max_examples=30, deadline=None)
def test_whole_neurons_grow_by_one_a_task_whatever_gamma(width, tasks, gamma):
    assert theory.whole_widths(width, tasks, gamma) == list(range(width, width + tasks))
    fractional = theory.fractional_widths(width, tasks, gamma)
    assert (fractional[-1] - fractional[0]) / (tasks - 1) == pytest.approx(1 - gamma)


def test_gate_compares_the_current_fisher_with_the_past():
    fisher = torch.tensor([[1.0, 1.0], [1.0, 3.0], [1.0, 3.0]])
    average = EWCSettings(decay=0.5)
    # averaged: F̃ = 1, 1 | 1, 2 and τ = 1, 1.25; summed: F̃ = 1, 1 | 2, 4 and τ = 1, 0.9·1 + 0.1·3
    assert theory.gate_opens(fisher, 100, average) == [True, True]
    assert theory.gate_opens(fisher, 0, average) == [False, False]
    assert theory.gate_opens(fisher, 5, average) == [True, False], "1.1 > 1 but not > 1.25"
    assert theory.gate_opens(fisher, 5, None) == [True, False], "not > 1.2"
    assert theory.gate_opens(fisher, 12, None) == [True, True]
    flat = theory.draw(40, 256, 64, generator(0)).features.square()
    assert not any(theory.gate_opens(flat, 25, EWCSettings())), "the paper's percentile never opens it"


def test_ewc_keeps_every_pattern_at_the_same_signal():
    width, tasks = 20, 50
    mean = recall.expected_recall([width / (width + t) for t in range(tasks)], width).mean
    for t in (0, 1, 30, 49):
        torch.testing.assert_close(recall.so_far(mean, t), torch.full((t + 1,), width / (width + t)).double())
    torch.testing.assert_close(recall.expected_recall([1.0] * 3, 4).mean[2], torch.tensor([9 / 16, 3 / 4, 1]).double())


@pytest.mark.parametrize("method", ["gd", "ewc"])
def test_expected_recall_is_what_independent_features_give(method):
    width, tasks, draws = 64, 96, 24
    step, learn = {
        "gd": (lambda t: 1.0, theory.gradient_descent),
        "ewc": (lambda t: width / (width + t), theory.static_ewc),
    }[method]
    signs = [independent(tasks, width, seed) for seed in range(draws)]
    scaled = [Associations(a.features.sign() / math.sqrt(width), a.labels) for a in signs]
    recalled = torch.stack([recall.so_far(recall.recall(a, learn(a)), tasks - 1) for a in scaled])
    moments = recall.expected_recall([step(t) for t in range(tasks)], width)
    assert recalled.mean().item() == pytest.approx(moments.mean[-1].mean().item(), abs=0.03)
    expected = moments.signal_to_noise(lambda matrix: recall.so_far(matrix, tasks - 1))
    assert recall.signal_to_noise(recalled.flatten()) == pytest.approx(expected, rel=0.07)


def test_new_units_disturb_old_patterns_as_expected():
    """What theorem 1 does not give: the old weights stay, the recall does not."""
    width, neurons, tasks = 16, 16, 12
    widths = [width + neurons * t for t in range(tasks)]
    signs = [independent(tasks, widths[-1], seed) for seed in range(120)]
    drawn = [Associations(a.features.sign(), a.labels) for a in signs]
    first = torch.stack([recall.recall(a, theory.noracl(a, widths))[-1, 0] for a in drawn])
    assert first.mean().item() == pytest.approx(1, abs=0.25)
    expected = recall.expected_noise(neurons, width, 0, tasks - 1)
    assert first.var().item() == pytest.approx(expected, rel=0.3)
    assert expected > 1, "signal-to-noise is below 1 after k units for each of 11 further tasks"


@given(st.floats(-3, 3), st.floats(0.01, 100))
@settings(max_examples=30, deadline=None)
def test_fit_finds_a_known_exponent(exponent, factor):
    x = torch.logspace(0, 3, 20, dtype=torch.float64)
    fit = fit_exponent(x, factor * x**exponent)
    assert fit.exponent == pytest.approx(exponent, abs=1e-9)
    assert fit.high - fit.low < 1e-6


def test_interval_covers_a_known_exponent_as_often_as_it_says():
    x = torch.logspace(0, 2, 8, dtype=torch.float64)
    fits = [fit_exponent(x, x**-1 * (0.3 * noise).exp()) for noise in normal(600, 8)]
    assert sum(fit.low <= -1 <= fit.high for fit in fits) / 600 == pytest.approx(0.95, abs=0.025)


def test_mean_of_exponents_by_hand():
    fit = mean_fit([-1.0, -2.0, -3.0, -2.0])
    assert fit.exponent == -2
    assert fit.high - fit.low == pytest.approx(2 * 3.182446 * math.sqrt(2 / 3) / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706205), (3, 3.182446), (5, 2.570582), (10, 2.228139), (30, 2.042272), (100, 1.983972)],
)
def test_intervals_are_students(freedom, quantile):
    """97.5 % quantiles as tables print them."""
    assert half_width(1.0, freedom) == pytest.approx(quantile, abs=1e-6)
    assert half_width(0.25, freedom) == pytest.approx(quantile / 4, abs=1e-6)


def test_small_helpers():
    assert recall.spaced(1, 8, 4) == [1, 2, 4, 8]
    assert recall.spaced(1, 4, 50) == [1, 2, 3, 4]
    assert recall.falls_below([1, 2, 4], [3.0, 2.0, 0.0], 1.0) == pytest.approx(2 * math.sqrt(2))
    assert recall.falls_below([3, 4], [0.5, 2.0], 1.0) == 3
    assert math.isnan(recall.falls_below([1, 2], [3.0, 2.0], 1.0))
    recalled = torch.tensor([[1.0, 9.0, 9.0], [0.5, 1.0, 9.0], [-0.25, 0.5, 1.0]])
    assert recall.at_age(recalled, 1, 2).tolist() == [0.5, 0.5]
    assert recall.so_far(recalled, 2).tolist() == [-0.25, 0.5, 1.0]
    assert recall.right(recall.so_far(recalled, 2)) == pytest.approx(2 / 3)


def test_signal_to_noise_bears_noise_of_any_size():
    values = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert recall.signal_to_noise(values) == pytest.approx(2)
    assert recall.signal_to_noise(values * 1e300) == pytest.approx(2)
    assert recall.signal_to_noise(values * torch.inf) == 0


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="inputs must be a whole number of at least 1"):
        theory.draw(3, 0, 3, generator(0))
    with pytest.raises(ValueError, match="epsilon must be a number in"):
        theory.preservation(independent(2, 3, 0), [2, 3], 0.0)
    with pytest.raises(ValueError, match="metric must not be 0"):
        theory.gain(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.0]))
    with pytest.raises(ValueError, match="at least 5 values"):
        fit_exponent(torch.ones(4), torch.ones(4))
    with pytest.raises(ValueError, match="prior must be a number in"):
        theory.full_fisher_ewc(independent(2, 3, 0), 0.0)
