"""The same for random pattern association: cells are an experiment and a method of reports/results/theory.csv.

Widths M⁰ are averaged, seed by seed; rows of no seed give one number without an interval.
"""

import numpy as np

from pipeline.intervals import EXACT
from pipeline.statistics import Cell, PerSeed, statistic


def power(cell: Cell, x: str = "x", y: str = "value") -> PerSeed:
    """The exponent of y against x, fitted by least squares on logarithms for each seed and width, mean over widths."""

    def fit(rows: Cell) -> float:
        good = rows[(rows[x] > 0) & (rows[y] > 0)]
        if good[x].nunique() < 2:
            return float("nan")
        return float(np.polyfit(np.log(good[x]), np.log(good[y]), 1)[0])

    return cell.groupby(["seed", "width"])[[x, y]].apply(fit).groupby("seed").mean()


def _only(cell: Cell, quantity: str) -> Cell:
    return cell[cell["quantity"] == quantity]


def _smallest(rows: Cell) -> Cell:
    """Rows at the smallest x."""
    return rows[rows["x"] == rows["x"].min()]


def _largest(rows: Cell) -> Cell:
    """Rows at the largest x."""
    return rows[rows["x"] == rows["x"].max()]


def _mean(cell: Cell) -> PerSeed:
    return cell.groupby("seed")["value"].mean()


@statistic("exponent")
def share_exponent_late(cell: Cell) -> PerSeed:
    """Exponent in t of the share of a new association that is stored, over t ≥ 100 M⁰."""
    return power(cell[cell["x"] >= 100 * cell["width"]])


@statistic("exponent")
def share_exponent_early(cell: Cell) -> PerSeed:
    """Exponent in t of the share of a new association that is stored, over t ≤ M⁰."""
    return power(cell[cell["x"] <= cell["width"]])


def _break(cell: Cell, quantity: str) -> PerSeed:
    rows = _only(cell[cell["seed"] != EXACT], quantity)
    return _mean(rows.fillna(np.inf))  # empty where it never comes to that


@statistic("× M⁰")
def retention_break_snr(cell: Cell) -> PerSeed:
    """Number of tasks after which the signal-to-noise ratio of what is recalled of all patterns is below 1, over M⁰."""
    return _break(cell, "snr")


@statistic("× M⁰")
def retention_break_right(cell: Cell) -> PerSeed:
    """Number of tasks after which fewer than 95 % of all patterns are recalled with the right sign, over M⁰."""
    return _break(cell, "right")


@statistic("exponent")
def old_exponent(cell: Cell) -> PerSeed:
    """Exponent in ε of the relative change of the old weights, over ε ≤ 10⁻⁶."""
    return power(_only(cell[cell["x"] <= 1e-6], "old"))


@statistic("exponent")
def new_exponent(cell: Cell) -> PerSeed:
    """Exponent in ε of the distance between the new weights and the residual's fit by new units, over ε ≤ 10⁻⁶."""
    return power(_only(cell[cell["x"] <= 1e-6], "new"))


@statistic("%")
def printed_solves(cell: Cell) -> PerSeed:
    """Share of widths at which the corollary's weights as printed answer y to within 10 %."""
    return _mean(_smallest(_only(cell, "printed")).assign(value=lambda rows: (rows["value"] <= 0.1) * 100.0))


@statistic("%")
def newborn_share(cell: Cell) -> PerSeed:
    """Share of a new association that NORACL stores at the smallest ε."""
    return _mean(_smallest(_only(cell, "unlearnt")).assign(value=lambda rows: (1 - rows["value"]) * 100))


@statistic("%")
def balanced_share(cell: Cell) -> PerSeed:
    """Share of a new association that EWC would store in the last task at the width to which NORACL has grown."""
    return _mean(_largest(_only(cell, "share"))) * 100


@statistic("exponent")
def width_exponent(cell: Cell) -> PerSeed:
    """Exponent in t of the width gained."""
    return power(_only(cell, "width").assign(gained=lambda rows: rows["value"] - rows["width"]), y="gained")


@statistic("neurons per task")
def width_slope(cell: Cell) -> PerSeed:
    """Width gained per task, with whole neurons."""
    return _mean(_only(cell, "slope"))


@statistic("%")
def gate_default(cell: Cell) -> PerSeed:
    """Share of tasks in which Eq. 5 opens at p = 25, as in the experiments."""
    return _mean(cell[cell["x"] == 25]) * 100


@statistic("%")
def gate_best(cell: Cell) -> PerSeed:
    """Share of tasks in which Eq. 5 opens at the percentile at which it opens most often."""
    by_percentile = cell.groupby(["seed", "x"])["value"].mean().unstack()
    return by_percentile[by_percentile.mean().idxmax()] * 100


@statistic("points")
def recall_gap(ours: Cell, rival: Cell) -> PerSeed:
    """Share of all patterns recalled with the right sign after the last task, minus the rival's."""

    def right(cell: Cell) -> PerSeed:
        return _mean(_largest(_only(cell, "right"))) * 100

    return right(ours) - right(rival)
