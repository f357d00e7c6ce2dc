"""What is computed for a claim: small pure functions of results, each giving one number per seed.

A function takes one frame per cell of reports/claims.yaml: a method's runs in a table, one row per seed and task,
accuracies in percent. Infinity is a number; NaN says that in this seed there is none. Of several rivals, the one that
is hardest on the claim counts, by its mean over seeds; a rival with a run that could not go on has no mean and is left
out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pandas as pd

from noracl.method.registry import load_folder

Cell: TypeAlias = pd.DataFrame
PerSeed: TypeAlias = "pd.Series[float]"
Function: TypeAlias = Callable[..., PerSeed]


@dataclass(frozen=True)
class Statistic:
    """A function of cells, with its unit and its words."""

    function: Function
    unit: str
    words: str


STATISTICS: dict[str, Statistic] = {}


def declare(name: str, unit: str, words: str, function: Function) -> None:
    """Make a formula known to reports/claims.yaml; the words appear in the claims table."""
    STATISTICS[name] = Statistic(function, unit, words)


def statistic(unit: str) -> Callable[[Function], Function]:
    """The same as a decorator, for formulas of several lines: its words are the docstring."""

    def register(function: Function) -> Function:
        declare(function.__name__, unit, function.__doc__ or "", function)
        return function

    return register


load_folder(__name__, __path__)
