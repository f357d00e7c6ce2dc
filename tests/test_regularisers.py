import pytest
import torch

from noracl import EWCSettings, GrowthSettings, Learner, OnlineEWC, OptimisationSettings, Settings
from noracl.method.network import embed, layers
from noracl.method.regularisers import REGULARISERS, register
from noracl.method.seeds import generator
from tests.helpers import network, toy_stream


def random_like(flat, seed):
    return torch.rand(flat.shape, generator=generator(seed), dtype=flat.dtype)


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


def test_penalty_gradient_equals_autograd_of_equation_2():
    net, ewc = network(), OnlineEWC(EWCSettings(strength=7.0))
    ewc.consolidate(net, random_like(net.theta, 1))
    moved = (net.theta + random_like(net.theta, 2)).requires_grad_()
    penalty = 7.0 / 2 * (ewc.fisher * (moved - net.theta) ** 2).sum()
    start = random_like(net.theta, 3)
    gradient = start.clone()
    ewc.penalise(moved.detach(), gradient)
    torch.testing.assert_close(gradient, start + torch.autograd.grad(penalty, moved)[0])


def test_the_first_task_is_not_regularised():
    net, ewc = network(), OnlineEWC(EWCSettings())
    gradient = random_like(net.theta, 1)
    before = gradient.clone()
    ewc.penalise(net.theta, gradient)
    assert torch.equal(gradient, before)
    assert ewc.curvature is None


def test_growth_pads_fisher_and_anchor_with_zeros_and_keeps_the_rest():
    net, ewc = network(), OnlineEWC(EWCSettings())
    ewc.consolidate(net, random_like(net.theta, 1))
    fisher, anchor = ewc.fisher.clone(), ewc.anchor.clone()
    grown = net.widen(0, torch.ones(2, 6, dtype=torch.float64))
    ewc.transform(lambda flat: embed(flat, net.sizes, grown.sizes))
    for kept, old in ((ewc.fisher, fisher), (ewc.anchor, anchor)):
        first, second, third = layers(kept, grown.sizes)
        was_first, was_second, was_third = layers(old, net.sizes)
        assert torch.equal(first[:5], was_first)
        assert torch.equal(second[:, :5], was_second)
        assert torch.equal(third, was_third)
        assert not first[5:].any()
        assert not second[:, 5:].any()
    gradient = torch.zeros_like(grown.theta)
    ewc.penalise(grown.theta, gradient)
    assert not gradient.any(), "new neurons are fully plastic, old ones are at their anchor"


def test_the_anchor_is_a_copy():
    net, ewc = network(), OnlineEWC(EWCSettings())
    ewc.consolidate(net, torch.ones_like(net.theta))
    before = ewc.anchor.clone()
    net.theta.add_(1.0)
    assert torch.equal(ewc.anchor, before)


def test_a_regulariser_of_ones_own_grows_and_is_chosen_by_its_name():
    """This one lets nothing move that was there at the end of a task."""

    @register("freeze")
    class Freeze:
        curvature = None

        def __init__(self, settings):
            self.strength = settings.strength

        def penalise(self, theta, gradient):
            if self.curvature is not None:
                gradient[self.curvature > 0] = 0

        def consolidate(self, network, fisher, batches):
            assert len(next(iter(batches))) == 2
            self.curvature = torch.full_like(network.theta, self.strength)

        def transform(self, change):
            if self.curvature is not None:
                self.curvature = change(self.curvature)

    try:
        growth = GrowthSettings(trigger="scheduled", schedule=(1,))
        quick = OptimisationSettings(batch_size=32, epochs_first=2, epochs_later=2)
        learner = Learner(toy_stream(2), Settings((8, 6), regulariser="freeze", optimisation=quick, growth=growth), 0)
        learner.learn_task(1, learner.stream.tasks[0])
        old = [weight.clone() for weight in learner.network.weights]
        learner.learn_task(2, learner.stream.tasks[1])
    finally:
        del REGULARISERS["freeze"]
    for before, after in zip(old, learner.network.weights, strict=True):
        assert torch.equal(after[: before.shape[0], : before.shape[1]], before)
    assert learner.network.weights[-1][:, 6:].any(), "new neurons learn"
    assert learner.history.widths == [(8, 6), (10, 8)]
    assert learner.history.locked == [(1.0, 1.0)] * 2


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match=r"strength must be a number in \[0"):
        EWCSettings(strength=-1)
    with pytest.raises(ValueError, match=r"decay must be a number in \[0, 1\]"):
        EWCSettings(decay=1.5)
    with pytest.raises(ValueError, match="start must be one of first, zero"):
        EWCSettings(start="one")
