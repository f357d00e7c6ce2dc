"""Statistics of what grew in ReLU networks: cells are the experiments of reports/results/transfer.

Updates are of new weights over old ones, x epochs after they grew; a change is that of the final accuracy on task x
without the neurons that grew in a task.
"""

from math import inf

from pipeline.evidence.statistics import Cell, PerSeed, declare, statistic
from pipeline.evidence.statistics.runs import highest, lowest

CHANCE = 0.1  # ten classes


def peak(updates: Cell, quantity: str) -> PerSeed:
    """A quantity in the epoch in which its mean is highest, of the epochs that every seed has."""
    by_epoch = updates[updates["quantity"] == quantity].pivot_table("value", "seed", "x")
    return highest([by_epoch[epoch] for epoch in by_epoch])


def change(silenced: Cell, nearest: float, farthest: float) -> PerSeed:
    """Mean change in points, on tasks at these distances from the one in which the neurons grew."""
    rows = silenced[(silenced["x"] - silenced["task"]).between(nearest, farthest)]
    return rows.groupby("seed")["value"].mean(skipna=False) * 100


@statistic("points")
def own_change_gap(silenced: Cell) -> PerSeed:
    """Change on the task in which the neurons grew, minus the worst at any other distance of tasks."""
    changes = silenced.assign(distance=silenced["x"] - silenced["task"]).pivot_table("value", "seed", "distance") * 100
    return changes[0] - lowest([changes[distance] for distance in changes if distance])


@statistic("%")
def own_share(silenced: Cell, final: Cell) -> PerSeed:
    """Share of the accuracy above chance on the task in which the neurons grew that is lost without them."""
    own = silenced[silenced["x"] == silenced["task"]].set_index(["seed", "x"])["value"]
    whole = final.set_index(["seed", "x"])["value"].reindex(own.index) - CHANCE
    return (-own / whole).groupby("seed").mean(skipna=False) * 100


# fmt: off
declare("peak_moved", "×",
        "Distance (norm) new weights move in an epoch over that of old ones, in the epoch after growth with the most.",
        lambda updates: peak(updates, "moved"))
declare("peak_stepped", "×",
        "Steps (norm) of new weights over those of old ones, in the epoch after growth with the most.",
        lambda updates: peak(updates, "stepped"))
declare("earlier_change", "points", "Change on tasks before the one in which the neurons grew.",
        lambda silenced: change(silenced, -inf, -1))
declare("later_change_gap", "points",
        "Change on tasks after the one in which the neurons grew, minus that on tasks before it.",
        lambda silenced: change(silenced, 1, inf) - change(silenced, -inf, -1))
declare("far_change_gap", "points", "Change on tasks later than the next, minus that on the next.",
        lambda silenced: change(silenced, 2, inf) - change(silenced, 1, 1))
# fmt: on
