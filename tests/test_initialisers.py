import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noracl import NullSpaceExhausted
from noracl.method.initialisers import INITIALISERS, fan_in
from noracl.method.seeds import generator
from tests.helpers import batch, network


@given(
    st.sampled_from(sorted(INITIALISERS)),
    st.lists(st.integers(2, 6), min_size=1, max_size=4),
    st.integers(1, 9),
    st.data(),
)
@settings(max_examples=80, deadline=None)
def test_growth_keeps_the_function_and_the_old_weights(init, hidden, neurons, data):
    """Every initialiser, depth and layer."""
    net = network((7, *hidden, 3))
    layer = data.draw(st.integers(0, len(hidden) - 1))
    before = net.theta.clone()
    width, fan = net.weights[layer].shape
    free = fan - min(width, fan)
    if init == "null-space" and neurons > free:
        with pytest.raises(NullSpaceExhausted, match=f"needs {neurons} free directions, {free} are left"):
            fan_in(init, net.weights[layer], neurons, 0.2, generator(0))
        return
    grown = net.widen(layer, fan_in(init, net.weights[layer], neurons, 0.2, generator(0)))
    x, _ = batch(9, 7)
    torch.testing.assert_close(grown.activations(x)[-1], net.activations(x)[-1], rtol=1e-13, atol=1e-13)
    assert grown.widths[layer] == hidden[layer] + neurons
    assert torch.equal(net.theta, before)
    for old, new in zip(net.weights, grown.weights, strict=True):
        assert torch.equal(new[: old.shape[0], : old.shape[1]], old)
    assert not grown.weights[layer + 1][:, hidden[layer] :].any(), "zero fan-out"


@pytest.mark.parametrize("neurons", [1, 3, 6, 7, 20])
def test_qr_columns_are_orthogonal_and_scaled_also_beyond_the_fan_in(neurons):
    columns = fan_in("qr", torch.zeros(4, 6, dtype=torch.float64), neurons, 0.2, generator(0)).t()
    assert columns.shape == (6, neurons)
    for block in columns.split(6, dim=1):
        torch.testing.assert_close(
            block.t() @ block, 0.04 * torch.eye(block.shape[1], dtype=torch.float64), rtol=1e-5, atol=1e-7
        )
    if neurons > 6:
        assert not torch.allclose(columns[:, 0], columns[:, 6])


def test_qr_equals_the_first_columns_of_the_square_factor():
    """The paper draws a square matrix and keeps k columns; drawing k columns is the same."""
    square = torch.randn(8, 8, generator=generator(5), dtype=torch.float64)
    torch.testing.assert_close(torch.linalg.qr(square[:, :3]).Q, torch.linalg.qr(square).Q[:, :3])


def test_null_space_is_orthogonal_to_the_existing_weights():
    weight = torch.randn(6, 20, generator=generator(0))
    columns = fan_in("null-space", weight, 14, 0.2, generator(1)).t()
    assert (weight @ columns).abs().max() < 1e-6
    torch.testing.assert_close(columns.t() @ columns, 0.04 * torch.eye(14), rtol=1e-5, atol=1e-6)
    with pytest.raises(NullSpaceExhausted) as caught:
        fan_in("null-space", weight, 15, 0.2, generator(1))
    assert (caught.value.needed, caught.value.available) == (15, 14)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.needed, again.available) == (15, 14), "crosses process borders"


@pytest.mark.parametrize(
    ("init", "deviation"), [("random", 0.5), ("he", (2 / 300) ** 0.5), ("xavier", (2 / 450) ** 0.5), ("zero", 0.0)]
)
def test_scale_of_the_independent_initialisers(init, deviation):
    columns = fan_in(init, torch.zeros(50, 300), 100, 0.5, generator(0))
    assert columns.std().item() == pytest.approx(deviation, rel=0.02)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="init must be one of he, null-space, qr, random, xavier, zero, got 'magic'"):
        fan_in("magic", torch.zeros(3, 3), 1, 0.2, generator(0))
    with pytest.raises(ValueError, match="neurons must be a whole number of at least 1"):
        fan_in("qr", torch.zeros(3, 3), 0, 0.2, generator(0))
    with pytest.raises(ValueError, match=r"scale must be a number in \[0"):
        fan_in("qr", torch.zeros(3, 3), 1, -0.2, generator(0))
