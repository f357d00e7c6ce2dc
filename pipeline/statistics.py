"""What is computed for a claim: small pure functions of results, each one number per seed.

A function takes one frame per cell, in the order in which reports/claims.yaml lists them. A cell is a method's runs in
a table: a row per seed and task, accuracies in percent. Where several rivals are given, the one that is hardest on the
claim counts, by its mean over seeds; a rival with a run that could not go on has no mean and is left out, as in the
tables. The docstrings are the words of the claims table, so they say just what is computed.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

Cell: TypeAlias = pd.DataFrame
PerSeed: TypeAlias = "pd.Series[float]"


@dataclass(frozen=True)
class Statistic:
    """A function of cells, with its unit and its words."""

    function: Callable[..., PerSeed]
    unit: str

    @property
    def words(self) -> str:
        """The docstring, on one line."""
        return " ".join((self.function.__doc__ or "").split())


STATISTICS: dict[str, Statistic] = {}


def statistic(unit: str) -> Callable[[Callable[..., PerSeed]], Callable[..., PerSeed]]:
    """Makes a function known to reports/claims.yaml by its name."""

    def register(function: Callable[..., PerSeed]) -> Callable[..., PerSeed]:
        STATISTICS[function.__name__] = Statistic(function, unit)
        return function

    return register


def final(cell: Cell, column: str) -> PerSeed:
    """A column after the last task, by seed."""
    return cell.sort_values("task", kind="stable").groupby("seed").tail(1).set_index("seed")[column]


def first(cell: Cell, column: str) -> PerSeed:
    """A column after the first task, by seed."""
    return cell.sort_values("task", kind="stable").groupby("seed").head(1).set_index("seed")[column]


def highest(rivals: list[PerSeed]) -> PerSeed:
    """Of several methods the one with the highest mean."""
    complete = [rival for rival in rivals if rival.notna().all()]
    return max(complete, key=lambda rival: float(rival.mean())) if complete else rivals[0] * np.nan


def lowest(rivals: list[PerSeed]) -> PerSeed:
    """Of several methods the one with the lowest mean."""
    return -highest([-rival for rival in rivals])


def mean_of(parts: list[PerSeed]) -> PerSeed:
    """The mean over parts, seed by seed; none where a part is missing."""
    return pd.concat(parts, axis=1).mean(axis=1, skipna=False)


# Accuracy


@statistic("points")
def accuracy_gap(ours: Cell, *rivals: Cell) -> PerSeed:
    """Final average accuracy minus that of the most accurate rival."""
    return final(ours, "accuracy") - highest([final(rival, "accuracy") for rival in rivals])


@statistic("points")
def mean_accuracy_gap(*pairs: Cell) -> PerSeed:
    """Final average accuracy of the full model minus that of the variant, mean over benchmarks."""
    return mean_of([accuracy_gap(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)])


@statistic("points")
def accuracy_range(*cells: Cell) -> PerSeed:
    """Final average accuracy of the most accurate minus that of the least accurate."""
    found = [final(cell, "accuracy") for cell in cells]
    return highest(found) - lowest(found)


@statistic("points")
def smallest_accuracy_step(*cells: Cell) -> PerSeed:
    """Final average accuracy of a setting minus that of the next, smallest such step."""
    found = [final(cell, "accuracy") for cell in cells]
    return lowest([a - b for a, b in itertools.pairwise(found)])


@statistic("points")
def accuracy_fall(ours: Cell, *rivals: Cell) -> PerSeed:
    """Fall of average accuracy from the first to the last task, minus the largest fall of the others."""

    def fall(cell: Cell) -> PerSeed:
        return first(cell, "accuracy") - final(cell, "accuracy")

    return fall(ours) - highest([fall(rival) for rival in rivals])


# Parameters and where they grow


@statistic("%")
def parameters_saved(ours: Cell, rival: Cell) -> PerSeed:
    """Parameters saved after the last task, in % of the rival's."""
    return (1 - final(ours, "params") / final(rival, "params")) * 100


@statistic("%")
def parameters_excess(ours: Cell, *rivals: Cell) -> PerSeed:
    """Parameters after the last task, in % more than those of the most compact rival."""
    return (final(ours, "params") / lowest([final(rival, "params") for rival in rivals]) - 1) * 100


@statistic("×")
def parameters_ratio(many: Cell, few: Cell) -> PerSeed:
    """Parameters of the first over those of the second, after the last task."""
    return final(many, "params") / final(few, "params")


@statistic("thousand")
def mean_parameters_gap(*pairs: Cell) -> PerSeed:
    """Parameters of the variant minus those of the full model after the last task, mean over benchmarks."""
    gaps = [final(b, "params") - final(a, "params") for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    return mean_of(gaps) / 1000


@statistic("thousand")
def smallest_parameters_step(*cells: Cell) -> PerSeed:
    """Parameters of a setting minus those of the next after the last task, smallest such step."""
    found = [final(cell, "params") for cell in cells]
    return lowest([a - b for a, b in itertools.pairwise(found)]) / 1000


def grown(cell: Cell, layer: int) -> PerSeed:
    """Neurons that a layer gained; growth begins with the second task."""
    return final(cell, f"width_{layer}") - first(cell, f"width_{layer}")


@statistic("neurons")
def bottom_heaviness(cell: Cell) -> PerSeed:
    """Neurons gained by layer 1 minus neurons gained by layer 2."""
    return grown(cell, 1) - grown(cell, 2)


@statistic("neurons")
def growth_of_layer_2(cell: Cell) -> PerSeed:
    """Neurons gained by layer 2."""
    return grown(cell, 2)


@statistic("%")
def bottom_share_gap(ours: Cell, other: Cell) -> PerSeed:
    """Share of new neurons that joined layer 1, minus that of the other benchmark (seeds in which both grew)."""
    shares = [grown(cell, 1) / (grown(cell, 1) + grown(cell, 2)) for cell in (ours, other)]
    return (shares[0] - shares[1]) * 100


@statistic("events per task")
def growth_events_gap(ours: Cell, other: Cell) -> PerSeed:
    """Growth events per task after the first, minus those of the other benchmark."""
    rates = [final(cell, "growth_events") / (final(cell, "task") - 1) for cell in (ours, other)]
    return rates[0] - rates[1]


# Plasticity


@statistic("%")
def plastic_excess(ours: Cell, *rivals: Cell) -> PerSeed:
    """Effective plastic parameters after the last task, in % more than the rival's with the most."""
    return (final(ours, "plastic") / highest([final(rival, "plastic") for rival in rivals]) - 1) * 100


@statistic("points")
def plastic_kept_gap(ours: Cell, *rivals: Cell) -> PerSeed:
    """Effective plastic parameters after the last task in % of those after the first, minus the highest rival's."""

    def kept(cell: Cell) -> PerSeed:
        return final(cell, "plastic") / first(cell, "plastic") * 100

    return kept(ours) - highest([kept(rival) for rival in rivals])


@statistic("points")
def locked_gap_1(ours: Cell, *rivals: Cell) -> PerSeed:
    """Locked share of layer 1 after the last task minus that of the rival with the lowest."""
    return (final(ours, "locked_1") - lowest([final(rival, "locked_1") for rival in rivals])) * 100


@statistic("points")
def locked_gap_2(ours: Cell, *rivals: Cell) -> PerSeed:
    """Locked share of layer 2 after the last task minus the mean over the rivals."""
    return (final(ours, "locked_2") - mean_of([final(rival, "locked_2") for rival in rivals])) * 100


@statistic("%")
def value(cell: Cell) -> PerSeed:
    """The number in the table of costs; wall-clock, a mean over runs without a deviation, judged as it stands."""
    return cell.set_index("seed")["value"]
