"""Statistics of runs: accuracy, parameters, growth and plasticity."""

from itertools import pairwise

import numpy as np
import pandas as pd

from pipeline.evidence.statistics import Cell, PerSeed, declare, statistic


def final(cell: Cell, column: str) -> PerSeed:
    """A column after the last task, by seed."""
    return cell.sort_values("task", kind="stable").groupby("seed").tail(1).set_index("seed")[column]


def first(cell: Cell, column: str) -> PerSeed:
    """A column after the first task, by seed."""
    return cell.sort_values("task", kind="stable").groupby("seed").head(1).set_index("seed")[column]


def finals(cells: tuple[Cell, ...], column: str) -> list[PerSeed]:
    """A column of each cell after the last task, by seed."""
    return [final(cell, column) for cell in cells]


def grown(cell: Cell, layer: int) -> PerSeed:
    """Neurons that a layer gained; growth begins with the second task."""
    return final(cell, f"width_{layer}") - first(cell, f"width_{layer}")


def in_pairs(parts: list[PerSeed]) -> list[tuple[PerSeed, PerSeed]]:
    """The first with the second, the third with the fourth, and so on."""
    return list(zip(parts[::2], parts[1::2], strict=True))


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


@statistic("points")
def accuracy_fall(ours: Cell, *rivals: Cell) -> PerSeed:
    """Fall of average accuracy from the first to the last task, minus the largest fall of the others."""
    fall, *others = (first(cell, "accuracy") - final(cell, "accuracy") for cell in (ours, *rivals))
    return fall - highest(others)


@statistic("%")
def bottom_share_gap(*both: Cell) -> PerSeed:
    """Share of new neurons that joined layer 1, minus that of the other benchmark; none where one did not grow."""
    ours, other = (grown(cell, 1) / (grown(cell, 1) + grown(cell, 2)) for cell in both)
    return (ours - other) * 100


@statistic("events per task")
def growth_events_gap(*both: Cell) -> PerSeed:
    """Growth events per task after the first, minus those of the other benchmark."""
    ours, other = (final(cell, "growth_events") / (final(cell, "task") - 1) for cell in both)
    return ours - other


@statistic("points")
def plastic_kept_gap(ours: Cell, *rivals: Cell) -> PerSeed:
    """Effective plastic parameters after the last task in % of those after the first, minus the highest rival's."""
    kept, *others = (final(cell, "plastic") / first(cell, "plastic") * 100 for cell in (ours, *rivals))
    return kept - highest(others)


# fmt: off
declare("accuracy_gap", "points", "Final average accuracy minus that of the most accurate rival.",
        lambda ours, *rivals: final(ours, "accuracy") - highest(finals(rivals, "accuracy")))
declare("mean_accuracy_gap", "points",
        "Final average accuracy of the full model minus that of the variant, mean over benchmarks.",
        lambda *pairs: mean_of([full - highest([variant]) for full, variant in in_pairs(finals(pairs, "accuracy"))]))
declare("accuracy_range", "points", "Final average accuracy of the most accurate minus that of the least accurate.",
        lambda *cells: highest(finals(cells, "accuracy")) - lowest(finals(cells, "accuracy")))
declare("smallest_accuracy_step", "points",
        "Final average accuracy of a setting minus that of the next, smallest such step.",
        lambda *cells: lowest([a - b for a, b in pairwise(finals(cells, "accuracy"))]))
declare("parameters_saved", "%", "Parameters saved after the last task, in % of the rival's.",
        lambda ours, rival: (1 - final(ours, "params") / final(rival, "params")) * 100)
declare("parameters_excess", "%", "Parameters after the last task, in % more than those of the most compact rival.",
        lambda ours, *rivals: (final(ours, "params") / lowest(finals(rivals, "params")) - 1) * 100)
declare("parameters_ratio", "×", "Parameters of the first over those of the second, after the last task.",
        lambda many, few: final(many, "params") / final(few, "params"))
declare("mean_parameters_gap", "thousand",
        "Parameters of the variant minus those of the full model after the last task, mean over benchmarks.",
        lambda *pairs: mean_of([variant - full for full, variant in in_pairs(finals(pairs, "params"))]) / 1000)
declare("smallest_parameters_step", "thousand",
        "Parameters of a setting minus those of the next after the last task, smallest such step.",
        lambda *cells: lowest([a - b for a, b in pairwise(finals(cells, "params"))]) / 1000)
declare("bottom_heaviness", "neurons", "Neurons gained by layer 1 minus neurons gained by layer 2.",
        lambda cell: grown(cell, 1) - grown(cell, 2))
declare("growth_of_layer_2", "neurons", "Neurons gained by layer 2.",
        lambda cell: grown(cell, 2))
declare("plastic_excess", "%",
        "Effective plastic parameters after the last task, in % more than the rival's with the most.",
        lambda ours, *rivals: (final(ours, "plastic") / highest(finals(rivals, "plastic")) - 1) * 100)
declare("locked_gap_1", "points",
        "Locked share of layer 1 after the last task minus that of the rival with the lowest.",
        lambda ours, *rivals: (final(ours, "locked_1") - lowest(finals(rivals, "locked_1"))) * 100)
declare("locked_gap_2", "points", "Locked share of layer 2 after the last task minus the mean over the rivals.",
        lambda ours, *rivals: (final(ours, "locked_2") - mean_of(finals(rivals, "locked_2"))) * 100)
declare("value", "%",
        "The number in the table of costs; wall-clock, a mean over runs without a deviation, judged as it is.",
        lambda cell: cell.set_index("seed")["value"])
# fmt: on
