"""Random pattern association (section 4, appendix A.2.1) in closed form and float64.

Task t shows one random binary pattern u and asks for a random label y = ±1. The hidden layer is x = σ(Qu) with
fixed Q ~ N(0, 1); only the output weights W, a row, are learnt, by minimising ½(Wx − y)² + ½(W − W')Λ(W − W')ᵀ, where
W' holds the weights before the task and Λ is a diagonal metric. Sherman–Morrison gives

    W = W' + (y − W'x) pᵀ,    p = Λ⁻¹x / (1 + xᵀΛ⁻¹x),

and the methods differ in Λ alone: 0 for gradient descent, which ends at the nearest solution; (t/M)I for EWC on
features scaled by 1/√M; for each unit of NORACL the tasks since its birth, and ε → 0 for the newborn. Tasks count
from 0: t tasks come before task t, and its metric is that of these past tasks.

Where this differs from appendix A.2.1, the appendix has a slip. Its weight dynamics of static EWC has
W'(I − x yᵀxᵀ/(λ + 1)) for W'(I − x xᵀ/(λ + |x|²)): for y = −1 that adds what it should take away, and |x|² is 1 only
on average. The penalty on a row W is (W − W')Λ(W − W')ᵀ, not its transpose. The index i means t. The factor 1/√M is
inside σ, which leaves every feature near the constant σ(0) and a Fisher that is not I/M; outside, x = σ(Qu)/√M, it
does what the text says. Sums of Fishers up to t hold t + 1 terms and would give newborn units 1, not 0; up to t − 1
they give the t/M and the t − j that the text uses afterwards. Corollary 1 loses the block −W'_old x_old pᵀ: new units
fit the residual y − W'_old x_old, not y. Features are uncorrelated over draws of Q; for the one Q that a network has,
their covariance over patterns is near I/M only if d ≫ M (of standardised ReLU, 73% is linear in u).
M(φ − γφ⁰) = 1 − γ is less than one neuron, which section 3.1 rounds up to one. And the proof that both triggers fire
compares the accumulated Fisher with τ where Eq. 5 has the current task's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from noracl.method.checks import number, require, whole
from noracl.method.regularisers import EWCSettings
from noracl.method.signals import new_neurons, percentile

#: Mean and deviation of ReLU under N(0, 1).
RELU_MEAN = 1 / math.sqrt(2 * math.pi)
RELU_DEVIATION = math.sqrt(1 / 2 - 1 / (2 * math.pi))


def standardised_relu(z: Tensor) -> Tensor:
    """σ with mean 0 and variance 1 under the Gaussian measure."""
    return (z.relu() - RELU_MEAN) / RELU_DEVIATION


@dataclass(frozen=True)
class Associations:
    """A sequence of tasks: ``features`` are tasks × units, ``labels`` ±1."""

    features: Tensor
    labels: Tensor

    def static(self, width: int) -> "Associations":
        """As a network of fixed width sees them: its first units, scaled so that E|x|² = 1 and E[xxᵀ] = I/M."""
        return Associations(self.features[:, :width] / math.sqrt(width), self.labels)


def draw(tasks: int, inputs: int, units: int, generator: torch.Generator) -> Associations:
    """Random binary patterns of unit norm through x = σ(Qu), Q ~ N(0, 1), and random labels."""
    for name, value in (("tasks", tasks), ("inputs", inputs), ("units", units)):
        whole(name, value, 1)
    signs = torch.randint(2, (tasks, inputs + 1), generator=generator).double() * 2 - 1
    projection = torch.randn(units, inputs, generator=generator, dtype=torch.float64)
    return Associations(standardised_relu(signs[:, :-1] / math.sqrt(inputs) @ projection.t()), signs[:, -1])


def sherman_morrison(inverse: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """(A + uvᵀ)⁻¹ from A⁻¹."""
    left, right = inverse @ u, v @ inverse
    return inverse - torch.outer(left, right) / (1 + v @ left)


def gain(x: Tensor, metric: Tensor) -> Tensor:
    """p = Λ⁻¹x / (1 + xᵀΛ⁻¹x) for the diagonal Λ ``metric``; if that has zeros, the limit: only their units move."""
    free = metric == 0
    if not free.any():
        scaled = x / metric
        return scaled / (1 + x @ scaled)
    x = x * free
    require(bool(x @ x), "metric must not be 0 on just those units that do not respond to x")
    return x / (x @ x)


def update(weights: Tensor, x: Tensor, y: float, metric: Tensor) -> Tensor:
    """W = W' + (y − W'x) pᵀ: the minimum of ½(Wx − y)² + ½(W − W')Λ(W − W')ᵀ."""
    return weights + (y - weights @ x) * gain(x, metric)


def stored_share(x: Tensor, metric: Tensor) -> float:
    """Share of the residual that the update takes away, pᵀx; |x|²/(λ + |x|²) where Λ = λI."""
    return float(gain(x, metric) @ x)


def course(associations: Associations, metric: Callable[[int], Tensor]) -> Tensor:
    """Output weights after every task, tasks × units; ``metric(t)`` covers the units that exist in task t."""
    current, weights = torch.zeros_like(associations.features[0]), []
    for t, (x, y) in enumerate(zip(associations.features, associations.labels.tolist(), strict=True)):
        units = len(penalty := metric(t))
        current[:units] = update(current[:units], x[:units], y, penalty)
        weights.append(current.clone())
    return torch.stack(weights)


def gradient_descent(associations: Associations) -> Tensor:
    """The course without a penalty: each task moves W to the nearest solution of its own."""
    return course(associations, lambda t: torch.zeros_like(associations.features[0]))


def static_ewc(associations: Associations) -> Tensor:
    """The course of EWC at a fixed width M with Λ = (t/M)I, for features scaled as by ``Associations.static``."""
    return course(associations, lambda t: torch.full_like(associations.features[0], t / len(associations.features[0])))


def full_fisher_ewc(associations: Associations, prior: float) -> Tensor:
    """The course with the whole Fisher Λ = prior·I + Σ xxᵀ of past tasks, which is least squares over all of them."""
    number("prior", prior, 0, open_low=True)
    current, weights = torch.zeros_like(associations.features[0]), []
    inverse = torch.eye(len(current), dtype=current.dtype) / prior
    for x, y in zip(associations.features, associations.labels.tolist(), strict=True):
        scaled = inverse @ x
        current = current + (y - current @ x) * scaled / (1 + x @ scaled)
        inverse = sherman_morrison(inverse, x, x)
        weights.append(current)
    return torch.stack(weights)


def births(widths: Sequence[int]) -> Tensor:
    """The task in which each unit was born, given the width in each task."""
    born = [t for t, (now, before) in enumerate(zip(widths, [0, *widths], strict=False)) for _ in range(now - before)]
    return torch.tensor(born, dtype=torch.float64)


def growing_metric(task: int, born: Tensor, epsilon: float) -> Tensor:
    """NORACL's Λ in a task: for a unit born in task j the t − j tasks since (Fisher I per task), ε for the newborn."""
    age = task - born[born <= task]
    return torch.where(age == 0, epsilon, age)


def noracl(associations: Associations, widths: Sequence[int], epsilon: float = 0.0) -> Tensor:
    """The course of NORACL with the given width in each task, for unscaled features; ``epsilon`` 0 is the limit."""
    number("epsilon", epsilon, 0)
    born = births(widths)
    return course(associations, lambda t: growing_metric(t, born, epsilon))


@dataclass(frozen=True)
class Preservation:
    """What one update of NORACL leaves of theorem 1 and corollary 1 at an ε > 0; the first two are relative."""

    old: float  #: change of the old weights, which theorem 1 lets vanish as ε → 0
    new: float  #: distance of the new weights from the residual's least squares over the new units, corollary 1
    unlearnt: float  #: share of the residual that is left
    printed: float  #: |Wx − y| if the new units fit y, as printed, and not the residual


def preservation(associations: Associations, widths: Sequence[int], epsilon: float) -> Preservation:
    """The last task learnt with ε, after a course that was learnt in the limit."""
    number("epsilon", epsilon, 0, open_low=True)
    last, old = len(widths) - 1, widths[-2]
    before = noracl(associations, widths)[last - 1]
    x, y = associations.features[last], float(associations.labels[last])
    after = update(before, x, y, growing_metric(last, births(widths), epsilon))
    residual = y - before @ x
    fitted = residual * x[old:] / (x[old:] @ x[old:])
    return Preservation(
        old=float((after - before)[:old].norm() / before[:old].norm()),
        new=float((after[old:] - fitted).norm() / fitted.norm()),
        unlearnt=float((y - after @ x).abs() / residual.abs()),
        printed=float((before @ x).abs()),
    )


def whole_widths(width: int, tasks: int, gamma: float) -> list[int]:
    """Width in each task by Eq. 4: a single input vector has φ = φ⁰ = 1/M, so k = max(1, ⌊1 − γ⌋) = 1."""
    widths = [width]
    while len(widths) < tasks:
        widths.append(widths[-1] + new_neurons(widths[-1], 1 / widths[-1], 1 / widths[-1], gamma))
    return widths


def fractional_widths(width: int, tasks: int, gamma: float) -> list[float]:
    """The paper's approximation M(t) = M⁰ + (1 − γ)t, with fractions of neurons."""
    return [width + (1 - gamma) * t for t in range(tasks)]


def gate_opens(fisher: Tensor, p: float, average: EWCSettings | None) -> list[bool]:
    """Whether Eq. 5 holds in each task but the first; ``fisher`` has each task's diagonal, tasks × units."""
    # Past tasks are averaged as in Eq. 1, or, without ``average``, summed as in appendix A.2.1 (τ stays an average).
    settings = average or EWCSettings()
    total = settings.average(None, fisher[0]) if average else fisher[0]
    tau, opens = settings.average(None, total.mean()), []
    for current in fisher[1:]:
        opens.append(percentile(current, p) > float(tau))
        total = settings.average(total, current) if average else total + current
        tau = settings.average(tau, total.mean())
    return opens
