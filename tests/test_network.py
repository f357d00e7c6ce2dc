import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noracl import Network
from noracl.method.backprop import Backprop
from noracl.method.network import WEIGHTS, count, embed, layers, reorder_inputs
from noracl.method.seeds import generator
from tests.helpers import batch, network, one_hot, plain_logits, plain_loss

SIZES = st.lists(st.integers(1, 6), min_size=3, max_size=6)


def write_gradient(net, x, targets, out):
    backprop = Backprop([net], len(x))
    backprop.run(x, targets)
    backprop.gradient(0, layers(out, net.sizes))


@given(SIZES, st.integers(0, 99), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_gradient_equals_finite_differences(sizes, seed, rows):
    net = network(sizes, seed)
    x, y = batch(rows, sizes[0], sizes[-1], seed)
    gradient = torch.empty_like(net.theta)
    write_gradient(net, x, one_hot(y, sizes[-1]), gradient)
    step = 1e-6
    for i in range(net.parameters):
        shift = torch.zeros_like(net.theta)
        shift[i] = step
        above, below = (plain_loss(net.theta + s, sizes, x, y) for s in (shift, -shift))
        assert gradient[i].item() == pytest.approx(((above - below) / (2 * step)).item(), abs=1e-6)


@pytest.mark.parametrize("hidden", [(5,), (5, 4), (5, 4, 3)])
def test_gradient_equals_autograd(hidden):
    sizes = (6, *hidden, 3)
    net, (x, y) = network(sizes), batch()
    gradient = torch.empty_like(net.theta)
    write_gradient(net, x, one_hot(y), gradient)
    theta = net.theta.clone().requires_grad_()
    (expected,) = torch.autograd.grad(plain_loss(theta, sizes, x, y), theta)
    torch.testing.assert_close(gradient, expected)


def test_forward_agrees_with_a_plain_forward_pass():
    net, (x, _) = network(), batch()
    expected = plain_logits(net.theta, net.sizes, x)
    torch.testing.assert_close(net.activations(x)[-1].t(), expected)
    torch.testing.assert_close(Backprop([net], len(x)).forward(x)[0].t(), expected)
    assert torch.equal(net.predict(x), expected.argmax(1))
    assert [h.shape[0] for h in net.activations(x)] == [5, 4, 3]


@pytest.mark.parametrize(
    ("scheme", "deviation"),
    [("glorot", (2 / 600) ** 0.5), ("he", (2 / 400) ** 0.5), ("lecun", 0.05), ("torch", 0.05 / 3**0.5)],
)
def test_first_weights_have_their_textbook_deviation(scheme, deviation):
    weight = Network.initialise((400, 200, 2), scheme, generator(0)).weights[0]
    assert weight.std().item() == pytest.approx(deviation, rel=0.02)
    assert weight.mean().abs().item() < deviation / 50
    assert set(WEIGHTS) == {"glorot", "he", "lecun", "torch"}


def test_parameter_counts_of_the_paper():
    assert count((784, 32, 10)) == 25408
    assert count((784, 64, 64, 10)) == 54912
    assert count((512, 128, 128, 2)) == 82176
    assert network((784, 16, 16, 10)).parameters == 12960


@given(SIZES, st.data())
@settings(max_examples=40, deadline=None)
def test_embedding_keeps_the_old_and_pads_with_zeros(old, data):
    new = [old[0], *(size + data.draw(st.integers(0, 3)) for size in old[1:-1]), old[-1]]
    flat = network(old).theta
    for before, after in zip(layers(flat, old), layers(embed(flat, old, new), new), strict=True):
        rows, columns = before.shape
        assert torch.equal(after[:rows, :columns], before)
        assert not after[rows:].any()
        assert not after[:, columns:].any()


def test_permuting_weights_equals_permuting_data():
    net, (x, y) = network(), batch()
    columns = torch.randperm(6, generator=generator(3))
    moved = Network(net.sizes, reorder_inputs(net.theta, net.sizes, columns.argsort()))
    torch.testing.assert_close(moved.activations(x)[-1], net.activations(x[:, columns])[-1])
    seen, stored = torch.empty_like(net.theta), torch.empty_like(net.theta)
    write_gradient(net, x[:, columns], one_hot(y), seen)
    write_gradient(moved, x, one_hot(y), stored)
    torch.testing.assert_close(reorder_inputs(stored, net.sizes, columns), seen)


def test_widening_refuses_what_does_not_fit():
    net = network()
    with pytest.raises(ValueError, match="layer must be below 2"):
        net.widen(2, torch.zeros(1, 4, dtype=torch.float64))
    with pytest.raises(ValueError, match="fan_in must have 5 columns"):
        net.widen(1, torch.zeros(1, 4, dtype=torch.float64))
    with pytest.raises(ValueError, match="sizes"):
        Network((6, 3), torch.zeros(18))
    with pytest.raises(ValueError, match="init must be one of glorot"):
        Network.initialise((6, 3, 2), "magic", generator(0))
    with pytest.raises(ValueError, match=r"theta must hold the 24 weights of sizes \(6, 3, 2\), got shape \(18,\)"):
        Network((6, 3, 2), torch.zeros(18))
