"""What random pattern association recalls (section 4): measured, and calculated for independent features."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from noracl.analysis.theory import Associations


def recall(associations: Associations, weights: Tensor) -> Tensor:
    """y_s W_t x_s for each moment t (rows) and pattern s (columns): 1 is perfect, above 0 the right sign."""
    return (weights @ associations.features.t()) * associations.labels


def so_far(recalled: Tensor, task: int) -> Tensor:
    """What is recalled of every pattern up to that of ``task``, right after this task."""
    return recalled[task, : task + 1]


def at_age(recalled: Tensor, age: int, starts: int) -> Tensor:
    """What is recalled of each of the first ``starts`` patterns after ``age`` further tasks."""
    return recalled[torch.arange(age, age + starts), torch.arange(starts)]


def signal_to_noise(recalled: Tensor) -> float:
    """Mean over deviation of what is recalled; 0 if the noise is beyond the range of float64."""
    if not recalled.isfinite().all():
        return 0.0
    scaled = recalled / recalled.abs().max()  # otherwise its square may leave that range
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
        """Mean over deviation for the patterns that ``pick`` takes from a matrix."""
        mean = float(pick(self.mean).mean())
        return mean / math.sqrt(float(pick(self.square).mean()) - mean**2)


def expected_recall(steps: Sequence[float], width: int) -> Moments:
    """Recall at a fixed width if features were independent: W = W' + a(y − W'x)xᵀ with a = ``steps[t]``, |x|² = 1.

    To first order in 1/M a further task scales the signal by 1 − a/M, and one law holds for the square of a stored
    pattern and for that of an unseen one, v = E(Wx)². EWC, a = M/(M + t), gives every pattern the signal M/(M + t).
    """
    mean, square = (torch.zeros(len(steps), len(steps), dtype=torch.float64) for _ in range(2))
    unseen = 0.0
    for t, a in enumerate(steps):
        kept, added = 1 - 2 * a / width, a**2 * (unseen + 1) / width
        mean[t, :t] = mean[t - 1, :t] * (1 - a / width)
        square[t, :t] = square[t - 1, :t] * kept + added
        mean[t, t], square[t, t] = a, (1 - a) ** 2 * unseen + a**2
        unseen = unseen * kept + added
    return Moments(mean, square)


def expected_noise(neurons: int, width: int, start: int, age: int) -> float:
    """Variance of the recall of pattern ``start`` after ``age`` further tasks in NORACL's limit; the mean stays 1.

    New units respond to old patterns too. For independent features and k new units per task, to first order in 1/k, a
    residual of variance 1 + v adds (1 + v)/k to the variance of every other recall: 1 + v grows by 1 + 1/k per task.
    """
    rate = 1 + 1 / neurons
    return (1 + 1 / width) * rate**start * (rate**age - 1)


def own_units(associations: Associations, weights: Tensor, widths: Sequence[int]) -> Tensor:
    """Recall of each pattern through the units that its task had: this needs the task's identity, unlike section 3."""
    unborn = torch.arange(widths[-1]) >= torch.tensor(widths)[:, None]
    return (associations.features.masked_fill(unborn, 0.0) @ weights) * associations.labels


def spaced(low: int, high: int, points: int) -> list[int]:
    """At most ``points`` whole numbers from ``low`` to ``high``, evenly spaced on a logarithmic scale."""
    ratio = math.log(high / low) / max(1, points - 1)
    return sorted({round(low * math.exp(ratio * i)) for i in range(points)})


def falls_below(x: Sequence[float], y: Sequence[float], level: float) -> float:
    """The x at which y is first below ``level``, interpolated between logarithms of x; NaN if it never is."""
    if y[0] < level:
        return x[0]
    for (start, end), (above, below) in zip(itertools.pairwise(x), itertools.pairwise(y), strict=True):
        if below < level:
            return float(start * (end / start) ** ((above - level) / (above - below)))
    return math.nan
