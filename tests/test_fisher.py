import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noracl import FisherSettings
from noracl.method.fisher import diagonal
from noracl.method.seeds import generator
from tests.helpers import batch, network, one_hot, plain_logits, plain_loss


def batches(x, y, size, classes=3):
    return list(zip(x.split(size), one_hot(y, classes).split(size), strict=True))


def squared_gradient(net, x, y):
    theta = net.theta.clone().requires_grad_()
    return torch.autograd.grad(plain_loss(theta, net.sizes, x, y), theta)[0].square()


@given(st.lists(st.integers(1, 5), min_size=3, max_size=5), st.integers(1, 11), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_closed_form_equals_a_loop_over_samples(sizes, rows, size, seed):
    net, (x, y) = network(sizes, seed), batch(rows, sizes[0], sizes[-1], seed)
    expected = torch.stack([squared_gradient(net, x[i : i + 1], y[i : i + 1]) for i in range(rows)]).mean(0)
    found = diagonal(net, batches(x, y, size, sizes[-1]), FisherSettings(), generator(0))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-14)


def test_squared_batch_gradient_is_the_mean_over_batches():
    net, (x, y) = network(), batch(12)
    expected = (squared_gradient(net, x[:6], y[:6]) + squared_gradient(net, x[6:], y[6:])) / 2
    found = diagonal(net, batches(x, y, 6), FisherSettings(estimator="batch"), generator(0))
    torch.testing.assert_close(found, expected)


def test_sampled_labels_come_from_the_model():
    """Over many draws the mean is the expectation over the model's own distribution."""
    net, (x, _) = network((3, 4, 3)), batch(1, 3)
    probabilities = plain_logits(net.theta, net.sizes, x).softmax(1)[0]
    expected = sum(p * squared_gradient(net, x, torch.tensor([c])) for c, p in enumerate(probabilities))
    many = x.expand(20000, -1)
    found = diagonal(
        net,
        [(many, one_hot(torch.zeros(20000, dtype=torch.long)))],
        FisherSettings(labels="sampled"),
        generator(1),
    )
    torch.testing.assert_close(found, expected, rtol=0.1, atol=1e-3)
    settings = FisherSettings(labels="sampled")
    twice = [diagonal(net, [(many[:50], many[:50])], settings, generator(2)) for _ in range(2)]
    assert torch.equal(*twice)


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="estimator must be one of per_sample, batch, got 'exact'"):
        FisherSettings(estimator="exact")
    with pytest.raises(ValueError, match="labels must be one of true, sampled"):
        FisherSettings(labels="model")
    with pytest.raises(ValueError, match="batches must be a whole number of at least 1"):
        FisherSettings(batches=0)
    with pytest.raises(ValueError, match="batches must hold at least one"):
        diagonal(network(), [], FisherSettings(), generator(0))
