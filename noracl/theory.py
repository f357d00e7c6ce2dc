"""Random pattern association (section 4, appendix A.2.1) in closed form and float64.

Task t shows one random binary pattern u and asks for a random label y = ±1. The hidden layer is x = σ(Qu) with
fixed Q ~ N(0, 1); only the output weights W, a row, are learnt, by minimising
½(Wx − y)² + ½(W − W')Λ(W − W')ᵀ, W' being the weights before the task and Λ a diagonal metric. Sherman–Morrison gives

    W = W' + (y − W'x) pᵀ,    p = Λ⁻¹x / (1 + xᵀΛ⁻¹x),

and the methods differ in Λ alone: 0 for gradient descent, which ends at the nearest solution; (t/M)I for EWC on
features scaled by 1/√M; the tasks since its birth for each unit of NORACL, and ε → 0 for the newborn. Tasks count
from 0, so that t is the number of tasks before task t and the metric is that of the tasks that are past.

Where this differs from appendix A.2.1, the appendix has slipped. Its weight dynamics of static EWC has
W'(I − x yᵀxᵀ/(λ + 1)) for W'(I − x xᵀ/(λ + |x|²)): where y = −1 that adds what it should take away, and |x|² is 1 only
on average. The penalty on a row W is (W − W')Λ(W − W')ᵀ, not its transpose. The index i means t. The factor 1/√M
stands inside σ, which leaves every feature near the constant σ(0) and a Fisher that is not I/M; outside,
x = σ(Qu)/√M, it does what is said of it. Sums of Fishers up to t hold t + 1 terms and would give newborn units 1, not
0; up to t − 1 they give the t/M and the t − j that the text goes on with. In corollary 1 the block −W'_old x_old pᵀ
is lost: new units fit the residual y − W'_old x_old, not y. Features are uncorrelated over draws of Q; for the one Q
that a network has, their covariance over patterns is near I/M only if d ≫ M (of standardised ReLU, 73% is linear in
u). M(φ − γφ⁰) = 1 − γ is less than one neuron, which section 3.1 rounds up to one. And the proof that both triggers
fire compares the accumulated Fisher with τ where Eq. 5 has the current task's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from noracl.checks import number, whole
from noracl.consolidation import EWCSettings
from noracl.signals import new_neurons, percentile

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


def overlap(features: Tensor) -> float:
    """Mean squared x·x' over pairs of patterns; 1/M for independent features of norm 1."""
    gram = features @ features.t()
    count = len(gram)
    return float((gram.square().sum() - gram.diagonal().square().sum()) / (count * (count - 1)))


# Learning in closed form


def sherman_morrison(inverse: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """(A + uvᵀ)⁻¹ from A⁻¹."""
    left, right = inverse @ u, v @ inverse
    return inverse - torch.outer(left, right) / (1 + v @ left)


def gain(x: Tensor, metric: Tensor) -> Tensor:
    """p = Λ⁻¹x / (1 + xᵀΛ⁻¹x), Λ the diagonal ``metric``; where that is 0, the limit: only its zeros move."""
    free = metric == 0
    if free.any():
        x = x * free
        square = x @ x
        if not square:
            raise ValueError("metric must not be 0 on just those units that do not respond to x")
        return x / square
    scaled = x / metric
    return scaled / (1 + x @ scaled)


def update(weights: Tensor, x: Tensor, y: float, metric: Tensor) -> Tensor:
    """W = W' + (y − W'x) pᵀ: the minimum of ½(Wx − y)² + ½(W − W')Λ(W − W')ᵀ."""
    return weights + (y - weights @ x) * gain(x, metric)


def stored_share(x: Tensor, metric: Tensor) -> float:
    """Share of the residual that the update takes away, pᵀx; |x|²/(λ + |x|²) where Λ = λI."""
    return float(gain(x, metric) @ x)


def course(associations: Associations, metric: Callable[[int], Tensor]) -> Tensor:
    """Output weights after every task, tasks × units; ``metric(t)`` covers the units that exist in task t."""
    weights = torch.zeros_like(associations.features)
    current = torch.zeros_like(weights[0])
    for t, (x, y) in enumerate(zip(associations.features, associations.labels.tolist(), strict=True)):
        penalty = metric(t)
        units = len(penalty)
        current[:units] = update(current[:units], x[:units], y, penalty)
        weights[t] = current
    return weights


def gradient_descent(associations: Associations) -> Tensor:
    """The course without a penalty: each task moves W to the nearest solution of its own."""
    free = torch.zeros_like(associations.features[0])
    return course(associations, lambda t: free)


def static_ewc(associations: Associations) -> Tensor:
    """The course of EWC at a fixed width M with Λ = (t/M)I, for features scaled as by ``Associations.static``."""
    ones = torch.ones_like(associations.features[0])
    return course(associations, lambda t: ones * (t / len(ones)))


def full_fisher_ewc(associations: Associations, prior: float) -> Tensor:
    """The course with the whole Fisher Λ = prior·I + Σ xxᵀ of past tasks, which is least squares over all of them."""
    number("prior", prior, 0, open_low=True)
    weights = torch.zeros_like(associations.features)
    current = torch.zeros_like(weights[0])
    inverse = torch.eye(len(current), dtype=current.dtype) / prior
    for t, (x, y) in enumerate(zip(associations.features, associations.labels.tolist(), strict=True)):
        scaled = inverse @ x
        current = current + (y - current @ x) * scaled / (1 + x @ scaled)
        inverse = sherman_morrison(inverse, x, x)
        weights[t] = current
    return weights


def births(widths: Sequence[int]) -> Tensor:
    """The task in which each unit was born, given the width in each task."""
    born = [t for t, (now, before) in enumerate(zip(widths, [0, *widths], strict=False)) for _ in range(now - before)]
    return torch.tensor(born, dtype=torch.float64)


def growing_metric(task: int, born: Tensor, epsilon: float) -> Tensor:
    """NORACL's Λ in a task: for a unit born in task j the t − j tasks since (Fisher I a task), ε for the newborn."""
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

    old: float  #: change of the old weights, theorem 1: 0 as ε → 0
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


# Growth


def whole_widths(width: int, tasks: int, gamma: float) -> list[int]:
    """Width in each task by Eq. 4: a single input vector has φ = φ⁰ = 1/M, so k = max(1, ⌊1 − γ⌋) = 1."""
    widths = [width]
    for _ in range(tasks - 1):
        phi = 1 / widths[-1]
        widths.append(widths[-1] + new_neurons(widths[-1], phi, phi, gamma))
    return widths


def fractional_widths(width: int, tasks: int, gamma: float) -> list[float]:
    """The paper's approximation M(t) = M⁰ + (1 − γ)t, with fractions of neurons."""
    return [width + (1 - gamma) * t for t in range(tasks)]


def gate_opens(fisher: Tensor, p: float, average: EWCSettings | None) -> list[bool]:
    """Whether Eq. 5 opens in each task but the first; ``fisher`` holds each task's diagonal, tasks × units.

    Past tasks are averaged as in Eq. 1, or, without ``average``, summed as in appendix A.2.1 (τ stays an average).
    """
    settings = average or EWCSettings()
    total: Tensor | None = None
    tau: Tensor | None = None
    opens = []
    for current in fisher:
        if tau is not None:
            opens.append(percentile(current, p) > float(tau))
        total = settings.average(total, current) if average else current if total is None else total + current
        tau = settings.average(tau, total.mean())
    return opens


# Recall


def recall(associations: Associations, weights: Tensor) -> Tensor:
    """y_s W_t x_s for each moment t (rows) and pattern s (columns): 1 is perfect, above 0 the right sign."""
    return (weights @ associations.features.t()) * associations.labels


def so_far(recalled: Tensor, task: int) -> Tensor:
    """What is recalled of every pattern seen up to and with ``task``."""
    return recalled[task, : task + 1]


def at_age(recalled: Tensor, age: int, starts: int) -> Tensor:
    """What is recalled of each of the first ``starts`` patterns after ``age`` further tasks."""
    first = torch.arange(starts)
    return recalled[first + age, first]


def signal_to_noise(recalled: Tensor) -> float:
    """Mean over deviation of what is recalled; 0 where the noise has left the range of float64."""
    if not recalled.isfinite().all():
        return 0.0
    scaled = recalled / recalled.abs().max()  # or its square may leave that range
    return float(scaled.mean() / scaled.std())


def right(recalled: Tensor) -> float:
    """Share of patterns that are recalled with the right sign."""
    return float((recalled > 0).double().mean())


@dataclass(frozen=True)
class Moments:
    """Mean and mean square of what is recalled, at each moment (rows) of each pattern (columns)."""

    mean: Tensor
    square: Tensor

    def signal_to_noise(self, pick: Callable[[Tensor], Tensor]) -> float:
        """Of the patterns that ``pick`` takes from a matrix, as of measured ones."""
        mean = float(pick(self.mean).mean())
        return mean / math.sqrt(float(pick(self.square).mean()) - mean**2)


def expected_recall(steps: Sequence[float], width: int) -> Moments:
    """Recall at a fixed width if features were independent: W = W' + a(y − W'x)xᵀ with a = ``steps[t]``, |x|² = 1.

    To first order in 1/M a further task scales the signal by 1 − a/M, and takes v = E(Wx)² of an unseen pattern
    and the square of a stored one by the same law. EWC, a = M/(M + t), ends at the signal M/(M + t) for every pattern.
    """
    tasks = len(steps)
    mean, square = (torch.zeros(tasks, tasks, dtype=torch.float64) for _ in range(2))
    unseen = 0.0
    for t, a in enumerate(steps):
        if t:
            mean[t, :t] = mean[t - 1, :t] * (1 - a / width)
            square[t, :t] = square[t - 1, :t] * (1 - 2 * a / width) + a**2 * (unseen + 1) / width
        mean[t, t] = a
        square[t, t] = (1 - a) ** 2 * unseen + a**2
        unseen = unseen * (1 - 2 * a / width) + a**2 * (unseen + 1) / width
    return Moments(mean, square)


def expected_noise(neurons: int, width: int, start: int, age: int) -> float:
    """Variance of the recall of pattern ``start`` after ``age`` further tasks in NORACL's limit; the mean stays 1.

    New units answer to old patterns too. For independent features and k new units a task, to first order in 1/k, a
    residual of variance 1 + v adds (1 + v)/k to the recall of all other patterns: 1 + v grows by 1 + 1/k a task.
    """
    rate = 1 + 1 / neurons
    return (1 + 1 / width) * rate**start * (rate**age - 1)


def own_units(associations: Associations, weights: Tensor, widths: Sequence[int]) -> Tensor:
    """What ``weights`` recall of each pattern through just the units that existed when it was learnt.

    It takes the identity of the task, which section 3 rules out.
    """
    unborn = torch.arange(widths[-1]) >= torch.tensor(widths)[:, None]
    return (associations.features.masked_fill(unborn, 0.0) @ weights) * associations.labels


# Power laws


@dataclass(frozen=True)
class Fit:
    """An exponent and its 95% interval."""

    exponent: float
    low: float
    high: float


def student(freedom: int) -> float:
    """The 97.5% quantile of Student's t (Cornish–Fisher; within 1% from 3 degrees of freedom)."""
    whole("freedom", freedom, 3)
    z, n = NormalDist().inv_cdf(0.975), freedom
    terms = (
        (z**3 + z) / (4 * n),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3),
    )
    return z + sum(terms)


def fit_exponent(x: Tensor, y: Tensor) -> Fit:
    """b of y = c·xᵇ by least squares of log y on log x; the interval takes the errors for independent."""
    if len(x) < 5 or bool((x <= 0).any()) or bool((y <= 0).any()):
        raise ValueError("x and y must hold at least 5 values, all above 0")
    across = x.double().log() - x.double().log().mean()
    up = y.double().log() - y.double().log().mean()
    spread = across @ across
    slope = float(across @ up / spread)
    rest = up - slope * across
    error = math.sqrt(float(rest @ rest) / (len(x) - 2) / float(spread))
    half = student(len(x) - 2) * error
    return Fit(slope, slope - half, slope + half)


def mean_fit(exponents: Sequence[float]) -> Fit:
    """Mean and interval of exponents that were fitted each on its own, where errors within a fit hang together."""
    values = torch.tensor(exponents, dtype=torch.float64)
    mean, half = float(values.mean()), student(len(values) - 1) * float(values.std()) / math.sqrt(len(values))
    return Fit(mean, mean - half, mean + half)


def spaced(low: int, high: int, points: int) -> list[int]:
    """At most ``points`` whole numbers from ``low`` to ``high``, evenly spaced on a logarithmic scale."""
    ratio = math.log(high / low) / max(1, points - 1)
    return sorted({round(low * math.exp(ratio * i)) for i in range(points)})


def falls_below(x: Sequence[float], y: Sequence[float], level: float) -> float:
    """The x at which y is first below ``level``, interpolated between logarithms of x; NaN if it never is."""
    for i, value in enumerate(y):
        if value < level:
            if i == 0:
                return x[0]
            share = (y[i - 1] - level) / (y[i - 1] - value)
            return float(x[i - 1] * (x[i] / x[i - 1]) ** share)
    return math.nan
