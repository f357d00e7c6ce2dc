"""The same for what grew in ReLU networks: cells are the experiments of reports/results/transfer.csv.

Updates are of new weights over old ones, x epochs after they grew; a change is that of the final accuracy on task x
without the neurons that grew in a task.
"""

from pipeline.statistics import Cell, PerSeed, highest, statistic

CHANCE = 0.1  # ten classes


def _mean(rows: Cell) -> PerSeed:
    return rows.groupby("seed")["value"].mean()


def _peak(cell: Cell, quantity: str) -> PerSeed:
    rows = cell[cell["quantity"] == quantity]
    return highest([_mean(at) for _, at in rows.groupby("x")])


@statistic("×")
def peak_moved(updates: Cell) -> PerSeed:
    """Distance (norm) new weights move in an epoch over that of old ones, in the epoch after growth with the most."""
    return _peak(updates, "moved")


@statistic("×")
def peak_stepped(updates: Cell) -> PerSeed:
    """Steps (norm) of new weights over those of old ones, in the epoch after growth with the most."""
    return _peak(updates, "stepped")


def _changes(silenced: Cell) -> Cell:
    """Changes in points with the distance of the tasks."""
    return silenced.assign(value=silenced["value"] * 100, offset=silenced["x"] - silenced["task"])


@statistic("points")
def own_change_gap(silenced: Cell) -> PerSeed:
    """Change on the task in which the neurons grew, minus the worst at any other distance of tasks."""
    changes = _changes(silenced)
    seeds = changes["seed"].nunique()
    others = [_mean(at) for offset, at in changes.groupby("offset") if offset and at["seed"].nunique() == seeds]
    return _mean(changes[changes["offset"] == 0]) + highest([-other for other in others])


@statistic("points")
def earlier_change(silenced: Cell) -> PerSeed:
    """Change on tasks before the one in which the neurons grew."""
    changes = _changes(silenced)
    return _mean(changes[changes["offset"] < 0])


@statistic("points")
def later_change_gap(silenced: Cell) -> PerSeed:
    """Change on tasks after the one in which the neurons grew, minus that on tasks before it."""
    changes = _changes(silenced)
    return _mean(changes[changes["offset"] > 0]) - _mean(changes[changes["offset"] < 0])


@statistic("points")
def far_change_gap(silenced: Cell) -> PerSeed:
    """Change on tasks later than the next, minus that on the next."""
    changes = _changes(silenced)
    return _mean(changes[changes["offset"] > 1]) - _mean(changes[changes["offset"] == 1])


@statistic("%")
def own_share(silenced: Cell, final: Cell) -> PerSeed:
    """Share of the accuracy above chance on the task in which the neurons grew that is lost without them."""
    own = silenced[silenced["x"] == silenced["task"]].set_index(["seed", "x"])["value"]
    whole = final.set_index(["seed", "x"])["value"] - CHANCE
    return (-own / whole).dropna().groupby("seed").mean() * 100
