"""Statistics of random pattern association: cells are an experiment and a method of reports/results/theory.

Widths M⁰ are averaged, seed by seed; rows without a seed give one number without an interval.
"""

import numpy as np

from pipeline.evidence.results import EXACT
from pipeline.evidence.statistics import Cell, PerSeed, declare, statistic


def power(cell: Cell, quantity: str) -> PerSeed:
    """The exponent in x, fitted by least squares on logarithms for each seed and width, mean over widths."""

    def fit(rows: Cell) -> float:
        good = np.log(rows[(rows > 0).all(axis=1)])
        return float(np.polyfit(good["x"], good["value"], 1)[0]) if good["x"].nunique() > 1 else np.nan

    rows = cell[cell["quantity"] == quantity]
    return rows.groupby(["seed", "width"])[["x", "value"]].apply(fit).groupby("seed").mean(skipna=False)


def mean(cell: Cell, quantity: str, at: str = "") -> PerSeed:
    """The mean value by seed, at the smallest or largest x where ``at`` is "min" or "max"."""
    rows = cell[cell["quantity"] == quantity]
    rows = rows[rows["x"] == rows["x"].agg(at)] if at else rows
    return rows.groupby("seed")["value"].mean(skipna=False)


@statistic("%")
def gate_best(cell: Cell) -> PerSeed:
    """Share of tasks in which Eq. 5 opens at the percentile at which it opens most often."""
    by_percentile = cell.pivot_table("value", "seed", "x")
    return by_percentile[by_percentile.mean().idxmax()] * 100


# fmt: off
declare("share_exponent_late", "exponent",
        "Exponent in t of the share of a new association that is stored, over t ≥ 100 M⁰.",
        lambda cell: power(cell[cell["x"] >= 100 * cell["width"]], "share"))
declare("share_exponent_early", "exponent",
        "Exponent in t of the share of a new association that is stored, over t ≤ M⁰.",
        lambda cell: power(cell[cell["x"] <= cell["width"]], "share"))
declare("retention_break_snr", "× M⁰",
        "Number of tasks after which the signal-to-noise ratio of what is recalled of all patterns is below 1, "
        "over M⁰.",
        lambda cell: mean(cell[cell["seed"] != EXACT].fillna(np.inf), "snr"))
declare("retention_break_right", "× M⁰",
        "Number of tasks after which fewer than 95 % of all patterns are recalled with the right sign, over M⁰.",
        lambda cell: mean(cell[cell["seed"] != EXACT].fillna(np.inf), "right"))
declare("old_exponent", "exponent", "Exponent in ε of the relative change of the old weights, over ε ≤ 10⁻⁶.",
        lambda cell: power(cell[cell["x"] <= 1e-6], "old"))
declare("new_exponent", "exponent",
        "Exponent in ε of the distance between the new weights and the residual's fit by new units, over ε ≤ 10⁻⁶.",
        lambda cell: power(cell[cell["x"] <= 1e-6], "new"))
declare("printed_solves", "%", "Share of widths at which the corollary's weights as printed answer y to within 10 %.",
        lambda cell: mean(cell.assign(value=cell["value"] <= 0.1), "printed", "min") * 100)
declare("newborn_share", "%", "Share of a new association that NORACL stores at the smallest ε.",
        lambda cell: (1 - mean(cell, "unlearnt", "min")) * 100)
declare("balanced_share", "%",
        "Share of a new association that EWC would store in the last task at the width to which NORACL has grown.",
        lambda cell: mean(cell, "share", "max") * 100)
declare("width_exponent", "exponent", "Exponent in t of the width gained.",
        lambda cell: power(cell.assign(value=cell["value"] - cell["width"]), "width"))
declare("width_slope", "neurons per task", "Width gained per task, with whole neurons.",
        lambda cell: mean(cell, "slope"))
declare("gate_default", "%", "Share of tasks in which Eq. 5 opens at p = 25, as in the experiments.",
        lambda cell: mean(cell[cell["x"] == 25], "opens") * 100)
declare("recall_gap", "points",
        "Share of all patterns recalled with the right sign after the last task, minus the rival's.",
        lambda ours, rival: (mean(ours, "right", "max") - mean(rival, "right", "max")) * 100)
# fmt: on
