"""Exponents of power laws, with 95 % intervals by Student's t."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Fit:
    """An exponent and its 95 % interval."""

    exponent: float
    low: float
    high: float


def half_width(error: float, freedom: int) -> float:
    """Half of the interval around a mean or slope with this standard error."""
    return float(stats.t.ppf((1 + LEVEL) / 2, freedom) * error)


def fit_exponent(x: ArrayLike, y: ArrayLike) -> Fit:
    """b of y = c·xᵇ by least squares of log y on log x; the interval takes the errors for independent."""
    across, up = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(across) < 5 or (across <= 0).any() or (up <= 0).any():
        raise ValueError("x and y must hold at least 5 values, all above 0")
    line = stats.linregress(np.log(across), np.log(up))
    half = half_width(float(np.nan_to_num(line.stderr)), len(across) - 2)
    return Fit(float(line.slope), float(line.slope) - half, float(line.slope) + half)


def mean_fit(exponents: Sequence[float]) -> Fit:
    """Mean and interval of exponents that were fitted separately, because errors within one fit are correlated."""
    mean = float(np.mean(exponents))
    half = half_width(float(stats.sem(exponents)), len(exponents) - 1)
    return Fit(mean, mean - half, mean + half)
