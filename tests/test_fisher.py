import itertools
import math
import re
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from noracl import EWCSettings, FisherSettings, OnlineEWC, OptimisationSettings, Settings, learn
from noracl.method.fisher import ESTIMATORS, LABELS, diagonal
from noracl.method.seeds import generator
from pipeline.config import ParamsError, parse
from tests.helpers import batch, network, one_hot, plain_logits, plain_loss, toy_stream


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


TRUE, EXACT = FisherSettings(), FisherSettings(labels="exact")


def expected_square(net, x):
    """Σ_c p(c)·g(c)² of one sample, one gradient per class."""
    probabilities = plain_logits(net.theta, net.sizes, x).softmax(1)[0]
    return sum(p * squared_gradient(net, x, torch.tensor([c])) for c, p in enumerate(probabilities))


@given(st.lists(st.integers(1, 5), min_size=3, max_size=5), st.integers(1, 11), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_exact_equals_a_loop_over_samples_and_classes(sizes, rows, size, seed):
    net, (x, y) = network(sizes, seed), batch(rows, sizes[0], sizes[-1], seed)
    expected = torch.stack([expected_square(net, x[i : i + 1]) for i in range(rows)]).mean(0)
    found = diagonal(net, batches(x, y, size, sizes[-1]), EXACT, generator(0))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-14)


def test_exact_asks_neither_the_labels_nor_the_generator():
    net, (x, y), draw = network(), batch(), generator(0)
    before = draw.get_state()
    assert torch.equal(*(diagonal(net, batches(x, labels, 3), EXACT, draw) for labels in (y, (y + 1) % 3)))
    assert torch.equal(draw.get_state(), before)


def test_exact_keeps_small_variances_in_single_precision():
    """A network sure of its label: E[g²] − E[g]² would be rounding errors, some of them negative."""
    net = network((6, 5, 4, 3), seed=3)
    net.weights[-1].mul_(6)
    x, y = batch(20)
    single = network((6, 5, 4, 3), seed=3, dtype=torch.float32)
    single.theta.copy_(net.theta)
    found = diagonal(single, [(x.float(), one_hot(y).float())], EXACT, generator(0)).double()
    torch.testing.assert_close(found, diagonal(net, [(x, one_hot(y))], EXACT, generator(0)), rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize(("estimator", "share"), [("per_sample", 1), ("batch", 4)])
def test_sampled_estimates_average_to_the_exact_one(estimator, share):
    """The mean of g over labels is 0, so a squared batch gradient has the exact one over the batch size as its mean."""
    net, (x, y), draw = network((3, 4, 3)), batch(4, 3), generator(0)
    exact = diagonal(net, [(x, one_hot(y))], EXACT, draw)
    drawn = diagonal(net, [(x, one_hot(y))] * 4000, FisherSettings(estimator, "sampled"), draw)
    torch.testing.assert_close(share * drawn, exact, rtol=0.1, atol=1e-3)


def params(**fisher):
    """params.yaml with other settings of the Fisher."""
    data = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))
    data["training"]["fisher"] |= fisher
    return yaml.safe_dump(data, allow_unicode=True)


def test_params_can_choose_the_exact_fisher_and_a_stream_is_learnt_with_it():
    assert {base.fisher.labels for base in parse(params(labels="exact")).base.values()} == {"exact"}
    short = OptimisationSettings(batch_size=32, epochs_first=2, epochs_later=2)
    histories = [learn(toy_stream(2), Settings((6,), fisher=f, optimisation=short)).history for f in (EXACT, TRUE)]
    (first, *_), (second, *_) = histories[0].accuracy, histories[1].accuracy
    assert first == second, "nothing is protected in task 1"
    assert histories[0].plastic != histories[1].plastic


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
    with pytest.raises(ValueError, match="labels must be true or sampled with estimator batch, got 'exact'"):
        FisherSettings("batch", "exact")
    with pytest.raises(ParamsError, match=r"training\.fisher\.labels must be true or sampled with estimator batch"):
        parse(params(estimator="batch", labels="exact"))
    with pytest.raises(ValueError, match="batches must be a whole number of at least 1"):
        FisherSettings(batches=0)
    with pytest.raises(ValueError, match="batches must hold at least one"):
        diagonal(network(), [], FisherSettings(), generator(0))


# What other libraries compute, in a few lines each, from the facts that docs/fisher.md cites. Importances of one task:


def squared_batch_gradients(net, x, y, size):
    return [squared_gradient(net, *part) for part in zip(x.split(size), y.split(size), strict=True)]


def avalanche(net, x, y, size):
    parts = squared_batch_gradients(net, x, y, size)
    return sum(parts) / len(parts)


def mammoth(net, x, y, size):
    own = plain_logits(net.theta, net.sizes, x).softmax(1)[torch.arange(len(y)), y]
    parts = squared_batch_gradients(net, x, y, 1)
    return sum(p * part for p, part in zip(own, parts, strict=True)) / (math.ceil(len(x) / size) * size)


def van_de_ven(net, x, labels, size=1, fisher_n=None):
    """``labels`` of None are all labels; the divisor is the last index of a loop, which ``fisher_n`` may end."""
    if labels is None:
        parts = [expected_square(net, row) for row in x.split(1)]
    else:
        parts = squared_batch_gradients(net, x, labels, size)
    return sum(parts[:fisher_n]) / (len(parts) - 1 if fisher_n is None else fisher_n)


def equilibrium(net, x, y, size, normalised):
    rows = [len(part) for part in x.split(size)]
    parts = squared_batch_gradients(net, x, y, size)
    found = sum(n**2 * part for n, part in zip(rows, parts, strict=True)) / len(x)  # gradients of sums, not of means
    return found / (found.norm() + 1e-8) if normalised else found


def predicted(net, x):
    return plain_logits(net.theta, net.sizes, x).argmax(1)


def drawn(net, x, size, task):
    """The labels that our estimator draws: theirs are drawn from the same distribution."""
    draw, parts = generator(task), plain_logits(net.theta, net.sizes, x).softmax(1).split(size)
    return torch.cat([torch.multinomial(part, 1, generator=draw)[:, 0] for part in parts])


# Penalties after each task, as functions of θ:


def online(importances, anchors, d, factor):
    total = torch.zeros_like(anchors[0])
    for importance, anchor in zip(importances, anchors, strict=True):
        total = d * total + importance
        yield lambda theta, weights=total, anchor=anchor: factor * (weights * (theta - anchor) ** 2).sum()


def separate(importances, anchors, factor):
    for t in range(1, len(anchors) + 1):
        terms = list(zip(importances[:t], anchors[:t], strict=True))
        yield lambda theta, terms=terms: factor * sum((w * (theta - anchor) ** 2).sum() for w, anchor in terms)


def paper(importances, anchors, d, factor):
    average = importances[0]
    for t, (importance, anchor) in enumerate(zip(importances, anchors, strict=True)):
        average = d * average + (1 - d) * importance if t else average
        yield lambda theta, weights=average, anchor=anchor: factor * (weights * (theta - anchor) ** 2).sum()


L, D, TASKS, UNKNOWN = 3.0, 0.8, 3, network(seed=77).theta
SHAPES = [(12, 12), (12, 4), (11, 4)]  #: samples and size of a mini-batch: one, equal ones, unequal ones
#: By the rows of the table: importance(net, x, y, size, task), and penalties(importances, anchors).
THEIRS = {
    "NORACL, the paper": (lambda n, x, y, b, t: avalanche(n, x, y, 1), lambda f, a: paper(f, a, D, L / 2)),
    "Avalanche, online": (lambda n, x, y, b, t: avalanche(n, x, y, b), lambda f, a: online(f, a, D, L)),
    "Avalanche, online, d = 1": (lambda n, x, y, b, t: avalanche(n, x, y, b), lambda f, a: online(f, a, 1, L)),
    "Avalanche, separate": (lambda n, x, y, b, t: avalanche(n, x, y, b), lambda f, a: separate(f, a, L)),
    "mammoth, ewc_on": (lambda n, x, y, b, t: mammoth(n, x, y, b), lambda f, a: online(f, a, D, L)),
    "van de Ven, all": (lambda n, x, y, b, t: van_de_ven(n, x, None), lambda f, a: online(f, a, D, L * D / 2)),
    "van de Ven, all, fisher_n": (
        lambda n, x, y, b, t: van_de_ven(n, torch.cat([x, -x]), None, fisher_n=len(x)),
        lambda f, a: online(f, a, D, L * D / 2),
    ),
    "van de Ven, all, d = 1": (lambda n, x, y, b, t: van_de_ven(n, x, None), lambda f, a: online(f, a, 1, L / 2)),
    "van de Ven, all, offline": (lambda n, x, y, b, t: van_de_ven(n, x, None), lambda f, a: separate(f, a, L / 2)),
    "van de Ven, sample": (
        lambda n, x, y, b, t: van_de_ven(n, x, drawn(n, x, b, t)),
        lambda f, a: online(f, a, D, L * D / 2),
    ),
    "van de Ven, true": (lambda n, x, y, b, t: van_de_ven(n, x, y), lambda f, a: online(f, a, D, L * D / 2)),
    "van de Ven, true, fisher_batch = B": (
        lambda n, x, y, b, t: van_de_ven(n, x, y, b),
        lambda f, a: online(f, a, D, L * D / 2),
    ),
    "van de Ven, pred": (
        lambda n, x, y, b, t: van_de_ven(n, x, predicted(n, x)),
        lambda f, a: online(f, a, D, L * D / 2),
    ),
    "Equilibrium-Fisher-Control, oEWC, not normalised": (
        lambda n, x, y, b, t: equilibrium(n, x, y, b, normalised=False),
        lambda f, a: online(f, a, D, L),
    ),
    "Equilibrium-Fisher-Control, oEWC": (
        lambda n, x, y, b, t: equilibrium(n, x, y, b, normalised=True),
        lambda f, a: online(f, a, D, L),
    ),
}
FISHERS = [FisherSettings(*one) for one in itertools.product(ESTIMATORS, LABELS) if one != ("batch", "exact")]
TABLE = re.search(
    r"\| library and options .*\n\| --- .*\n((?:\|.*\n)+)", Path("docs/fisher.md").read_text(encoding="utf-8")
)
ROWS = {name: cells for name, *cells in ([c.strip(" `") for c in r[1:-1].split("|")] for r in TABLE[1].splitlines())}


def tasks(rows):
    return [(network(seed=t), *batch(rows, seed=t)) for t in range(TASKS)]


def their_slopes(name, rows, size):
    """The gradient of a library's penalty after each task, by autograd."""
    importance, penalties = THEIRS[name]
    importances = [importance(net, x, y, size, t) for t, (net, x, y) in enumerate(tasks(rows))]
    theta = UNKNOWN.clone().requires_grad_()
    after = penalties(importances, [net.theta for net, _, _ in tasks(rows)])
    return [torch.autograd.grad(penalty(theta), theta)[0] for penalty in after]


def our_slopes(fisher, ewc, rows, size):
    """What our regulariser adds to the gradient after each task."""
    regulariser, slopes = OnlineEWC(ewc), []
    for t, (net, x, y) in enumerate(tasks(rows)):
        regulariser.consolidate(net, diagonal(net, batches(x, y, size), fisher, generator(t)), ())
        slopes.append(torch.zeros_like(net.theta))
        regulariser.penalise(UNKNOWN, slopes[-1])
    return slopes


def close(ours, theirs):
    return torch.allclose(ours, theirs, rtol=1e-6, atol=1e-12)


def proportional(ours, theirs):
    return close(ours * (theirs.norm() / ours.norm()), theirs)


def test_every_row_of_the_table_is_compared():
    assert list(ROWS) == list(THEIRS)
    known = {"after every task", "after every task, if B divides N", "after task 1 only", "never"}
    assert {cells[-1] for cells in ROWS.values()} == known


def cases():
    """Every row that has a strength, on all shapes but that on which the library divides by zero."""
    for name, (rows, size) in itertools.product(ROWS, SHAPES):
        if ROWS[name][-1] != "never" and (name, rows) != ("van de Ven, true, fisher_batch = B", size):
            yield name, rows, size


@pytest.mark.parametrize(("name", "rows", "size"), cases())
def test_the_table_makes_the_penalties_equal(name, rows, size):
    estimator, labels, strength, decay, start, when = ROWS[name]
    theirs = their_slopes(name, rows, size)
    known = {"L": L, "d": D, "N": rows, "B": size, "K": math.ceil(rows / size)}
    for alpha in (0.0, 0.5, 1.0) if decay == "any" else (eval(decay, {}, known),):
        ewc = EWCSettings(eval(strength, {}, known), alpha, start)
        equal = list(map(close, our_slopes(FisherSettings(estimator, labels), ewc, rows, size), theirs))
        assert equal[0] == (rows % size == 0 or not when.endswith("if B divides N"))
        assert all(equal) == (equal[0] and when != "after task 1 only")


@pytest.mark.parametrize("name", [name for name, cells in ROWS.items() if cells[-1] == "after task 1 only"])
def test_no_other_decay_makes_them_equal_after_task_2(name):
    """Task 1 fixes λ, or λ(1 − α) if F̃ starts at zero."""
    fisher, theirs = FisherSettings(*ROWS[name][:2]), their_slopes(name, 12, 4)
    for alpha, start in itertools.product([i / 20 for i in range(20)], ["first", "zero"]):
        one = our_slopes(fisher, EWCSettings(1.0, alpha, start), 12, 4)[0]
        strength = float(theirs[0].norm() / one.norm())
        first, second, _ = our_slopes(fisher, EWCSettings(strength, alpha, start), 12, 4)
        assert close(first, theirs[0])
        assert not close(second, theirs[1])


@pytest.mark.parametrize("name", [name for name, cells in ROWS.items() if cells[-1] == "never"])
def test_where_no_strength_does_none_does(name):
    theirs = their_slopes(name, 12, 4)
    after = 1 if name.startswith("Equilibrium") else 0  # its norm is a strength after task 1
    for fisher in FISHERS:
        assert not proportional(our_slopes(fisher, EWCSettings(1.0, D, "zero"), 12, 4)[after], theirs[after])


@pytest.mark.parametrize(("rows", "size"), SHAPES)
def test_what_the_others_are_instead(rows, size):
    net, (x, y), draw = network(), batch(rows), generator(0)
    exact = diagonal(net, batches(x, y, size), EXACT, draw)
    assert (mammoth(net, x, y, size) <= exact).all()
    with_each_label = x.repeat_interleave(3, 0), torch.arange(3).repeat(rows)
    torch.testing.assert_close(mammoth(net, *with_each_label, 3), exact / 3)
    own = diagonal(net, batches(x, predicted(net, x), size), TRUE, draw)
    torch.testing.assert_close(van_de_ven(net, x, predicted(net, x)) * (rows - 1) / rows, own)
    if rows % size == 0:
        found = equilibrium(net, x, y, size, normalised=True)
        ours = diagonal(net, batches(x, y, size), FisherSettings("batch"), draw)
        torch.testing.assert_close(found, ours / ours.norm(), rtol=1e-6, atol=0)
