import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noracl import EWCSettings, Learner, OptimisationSettings, Settings
from noracl.method.plasticity import dormant_fraction, effective_rank, locked_by_layer, plastic_parameters
from noracl.method.seeds import generator
from tests.helpers import network, toy_task

SHORT = OptimisationSettings(batch_size=16, epochs_first=5, epochs_later=5, rate_later=0.1)


def matrix(neurons, samples, seed=0):
    """Activations of which every third is 0."""
    values = torch.randn(neurons, samples, generator=generator(seed), dtype=torch.float64).relu()
    return values * (torch.arange(neurons) % 3 > 0)[:, None]


def test_locked_by_layer_is_a_loop_over_weights():
    net = network((6, 5, 4, 3))
    curvature = 20 * torch.rand(net.parameters, generator=generator(0))
    first, second = curvature[:30].tolist(), curvature[30:50].tolist()
    for threshold in (0.1, 0.3):
        expected = [sum(1 / (1 + c) < threshold for c in part) / len(part) for part in (first, second)]
        assert locked_by_layer(net, curvature, threshold) == pytest.approx(expected)


def test_a_learner_can_be_asked_at_any_time():
    learner = Learner(Settings((8,), optimisation=SHORT, ewc=EWCSettings(strength=5000.0)), classes=3)
    for seed in range(2):
        learner.learn(toy_task(seed))
        assert locked_by_layer(learner.network, learner.curvature) == learner.history.locked[-1]
        assert plastic_parameters(learner.curvature) == learner.history.plastic[-1]
    assert learner.history.locked[-1][0] > 0


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([0.0, 0.025, 0.5, 1.0]), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_dormant_neurons_are_counted_by_definition(neurons, samples, tau, seed):
    h = matrix(neurons, samples, seed)
    active = [sum(abs(float(value)) for value in row) / samples for row in h]
    mean = sum(active) / neurons
    dormant = [one == 0 if mean == 0 else one / mean <= tau for one in active]
    assert dormant_fraction(h, tau) == pytest.approx(sum(dormant) / neurons)


def test_dormant_neurons_by_hand():
    h = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 6.0]])  # means 0, 1 and 3.5; of all 1.5
    assert dormant_fraction(h) == pytest.approx(1 / 3)
    assert dormant_fraction(h, 0.6) == pytest.approx(1 / 3)
    assert dormant_fraction(h, 0.7) == pytest.approx(2 / 3)
    assert dormant_fraction(1000 * h, 0.7) == dormant_fraction(h, 0.7), "no matter the scale"
    assert dormant_fraction(torch.zeros(4, 3)) == 1


def test_effective_rank_by_hand():
    assert effective_rank(torch.diag(torch.tensor([3.0, 3.0, 3.0, 0.0]))) == pytest.approx(3)
    assert effective_rank(torch.ones(4, 7)) == pytest.approx(1)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert effective_rank(torch.diag(torch.tensor([1.0, 3.0]))) == pytest.approx(math.exp(entropy))
    assert effective_rank(torch.zeros(3, 2)) == 0


@given(st.integers(2, 8), st.integers(2, 8), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_effective_rank_is_the_entropy_of_numpys_singular_values(neurons, samples, seed):
    h = torch.randn(neurons, samples, generator=generator(seed), dtype=torch.float64)
    singular = np.linalg.svd(h.numpy(), compute_uv=False)
    entropy = -sum(s / singular.sum() * math.log(s / singular.sum()) for s in singular)
    assert effective_rank(h) == pytest.approx(math.exp(entropy))
    assert effective_rank(h) <= np.linalg.matrix_rank(h.numpy()) + 1e-9


def test_bad_arguments_are_named():
    net = network()
    with pytest.raises(ValueError, match=r"curvature must hold one number for each of 62 parameters, got shape \(3,\)"):
        locked_by_layer(net, torch.ones(3))
    with pytest.raises(ValueError, match=r"threshold must be a number in \[0, 1\], got 2"):
        locked_by_layer(net, torch.ones(62), 2)
    with pytest.raises(ValueError, match=r"threshold must be a number in \[0, ∞\), got -1"):
        dormant_fraction(torch.ones(2, 2), -1)
    for function in (dormant_fraction, effective_rank):
        for wrong in (torch.ones(3), torch.ones(0, 3)):
            with pytest.raises(ValueError, match="activations must be a non-empty neurons × samples matrix, got shape"):
                function(wrong)
