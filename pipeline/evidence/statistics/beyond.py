"""Statistics of what goes beyond the paper: bounds, accuracy for what it costs, and plasticity."""

from pipeline.evidence.statistics import Cell, PerSeed, statistic
from pipeline.evidence.statistics.runs import final, finals, highest

CHANCE = 10.0  # percent, with ten classes


def held(cell: Cell) -> PerSeed:
    """Parameters summed over tasks, each task having as many epochs as any other."""
    return cell.groupby("seed")["params"].sum()


def per_cost(cells: tuple[Cell, ...], costs: list[PerSeed]) -> PerSeed:
    """Accuracy above chance for its cost, over that of the best rival."""
    ours, *rivals = ((final(cell, "accuracy") - CHANCE) / cost for cell, cost in zip(cells, costs, strict=True))
    return ours / highest(rivals)


@statistic("×")
def economy(*cells: Cell) -> PerSeed:
    """Final average accuracy above chance per parameter after the last task, over that of the best rival."""
    return per_cost(cells, finals(cells, "params"))


@statistic("×")
def economy_held(*cells: Cell) -> PerSeed:
    """Final average accuracy above chance per parameter held for a task, over that of the best rival."""
    return per_cost(cells, [held(cell) for cell in cells])


@statistic("%")
def share_of_gap(ours: Cell, low: Cell, high: Cell) -> PerSeed:
    """How far final average accuracy lies on the way from the first bound to the second."""
    reached, bottom, top = finals((ours, low, high), "accuracy")
    return (reached - bottom) / (top - bottom) * 100


@statistic("points")
def newest_gap(*both: Cell) -> PerSeed:
    """Accuracy on the newest task, mean over the last ten tasks, minus that of the rival."""
    ours, rival = (cell[cell["task"] > cell["task"].max() - 10].groupby("seed") for cell in both)
    return (ours["accuracy_newest"].mean() - rival["accuracy_newest"].mean()) * 100


@statistic("points")
def dormant_gap(*both: Cell) -> PerSeed:
    """Dormant share of all hidden neurons after the last task, minus that of the rival."""
    ours, rival = (dormant(cell) for cell in both)
    return (ours - rival) * 100


def dormant(cell: Cell) -> PerSeed:
    """Share of the neurons of both layers that are dormant after the last task."""
    widths = [final(cell, f"width_{layer}") for layer in (1, 2)]
    shares = [final(cell, f"dormant_{layer}") for layer in (1, 2)]
    return (widths[0] * shares[0] + widths[1] * shares[1]) / (widths[0] + widths[1])
