import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noracl.method.plasticity import effective_learning_rate, locked_fraction, plastic_parameters
from noracl.method.seeds import generator
from noracl.method.signals import effective_dimension, new_neurons, percentile


def of_rank(rank, samples, neurons, singular=1.0, seed=0):
    """A matrix H whose H/√n has exactly ``rank`` singular values, all equal to ``singular``."""
    draw = generator(seed)
    left = torch.linalg.qr(torch.randn(samples, rank, generator=draw, dtype=torch.float64)).Q
    right = torch.linalg.qr(torch.randn(neurons, rank, generator=draw, dtype=torch.float64)).Q
    return math.sqrt(samples) * singular * right @ left.t()


@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_effective_dimension_counts_the_rank(neurons, extra, seed):
    rank = 1 + seed % neurons
    assert effective_dimension(of_rank(rank, neurons + extra, neurons, seed=seed), 0.05) == rank / neurons


def test_effective_dimension_looks_at_the_threshold():
    matrix = of_rank(3, 40, 6, singular=0.06)
    assert effective_dimension(matrix, 0.05) == 0.5
    assert effective_dimension(matrix, 0.07) == 0.0
    diagonal = math.sqrt(4) * torch.diag(torch.tensor([1.0, 0.04, 0.051, 0.0]))
    assert effective_dimension(diagonal, 0.05) == 0.5


def test_effective_dimension_does_not_depend_on_the_number_of_samples():
    matrix = of_rank(4, 30, 7, singular=0.3)
    for epsilon in (0.05, 0.29, 0.31):
        assert effective_dimension(matrix, epsilon) == effective_dimension(matrix.repeat(1, 5), epsilon)


def test_dead_neurons_lower_the_effective_dimension():
    matrix = of_rank(4, 30, 4)
    assert effective_dimension(torch.cat([matrix, torch.zeros(4, 30, dtype=matrix.dtype)]), 0.05) == 0.5


def test_percentile_interpolates_like_numpy():
    values = torch.tensor([[4.0, 1.0], [3.0, 2.0]])
    assert percentile(values, 0) == 1.0
    assert percentile(values, 25) == 1.75
    assert percentile(values, 100) == 4.0
    drawn = torch.rand(31, 7, generator=generator(0))
    assert percentile(drawn, 25) == pytest.approx(np.quantile(drawn.numpy(), 0.25))
    assert percentile(drawn, 25) == pytest.approx(torch.quantile(drawn, 0.25).item())


def test_number_of_new_neurons_is_equation_4():
    assert new_neurons(32, 1.0, 1.0, 0.9) == 3
    assert new_neurons(30, 1.0, 1.0, 0.9) == 3, "30 · 0.1 is 3, whatever binary fractions say"
    assert new_neurons(12, 1.0, 1.0, 0.9) == 1
    assert new_neurons(5, 1.0, 1.0, 0.9) == 1, "rounded up to 1"
    assert new_neurons(40, 0.9, 1.0, 0.5) == 16
    assert new_neurons(10, 0.2, 1.0, 0.9) == 1, "F_sat alone may fire without ED: at least 1"


def test_plasticity_metrics_by_hand():
    curvature = torch.tensor([0.0, 1.0, 3.0, 9.0, 99.0])
    torch.testing.assert_close(effective_learning_rate(curvature, 0.5), torch.tensor([0.5, 0.25, 0.125, 0.05, 0.005]))
    assert locked_fraction(curvature) == pytest.approx(1 / 5), "0.1 exactly is not below 0.1"
    assert locked_fraction(curvature, 0.3) == pytest.approx(3 / 5)
    assert plastic_parameters(curvature) == pytest.approx(1 + 1 / 2 + 1 / 4 + 1 / 10 + 1 / 100)
    assert plastic_parameters(torch.zeros(7)) == 7


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"percentile must be a number in \[0, 100\]"):
        percentile(torch.ones(2, 2), 101)
    with pytest.raises(ValueError, match="activations"):
        effective_dimension(torch.ones(0, 3), 0.05)
    with pytest.raises(ValueError, match="threshold"):
        locked_fraction(torch.ones(3), 2.0)
