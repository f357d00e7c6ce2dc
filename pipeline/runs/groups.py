"""Groups: runs that see the same mini-batches in the same order, so that a worker computes them in lock-step.

A run's numbers do not depend on the group that it is in. A group is what a worker is asked for, so it is also what is
lost when a worker is killed: hence its limits.
"""

from collections.abc import Hashable, Sequence

from noracl.method.network import count
from pipeline.runs.run import Run

MOST = 8  # runs in a group: more save hardly anything
PARAMETERS = 4_000_000  # of all networks of a group, when they start: about 36 bytes each

Group = tuple[Run, ...]


def company(run: Run) -> Hashable:
    """What runs must have in common to see the same mini-batches; an observed run stays alone."""
    by = run.settings.optimisation
    alone = run if run.observed else None
    return run.data, run.stream, run.outputs, run.seed, by.batch_size, by.epochs_first, by.epochs_later, alone


def cost(group: Sequence[Run]) -> float:
    """Rough seconds on one core."""
    return sum(run.cost for run in group)


def grouped(runs: Sequence[Run], workers: int) -> list[Group]:
    """All runs in groups, the dearest first, so that every worker gets the same number of groups if that can be."""
    together: dict[Hashable, list[Run]] = {}
    for run in sorted(runs, key=lambda run: -run.cost):
        together.setdefault(company(run), []).append(run)
    groups = [tuple(part) for members in together.values() for part in _small(members)]
    while len(groups) % workers and len(dearest := max(groups, key=lambda group: (len(group) > 1, cost(group)))) > 1:
        groups.remove(dearest)
        groups += [dearest[::2], dearest[1::2]]
    return sorted(groups, key=lambda group: -cost(group))


def _small(members: Sequence[Run]) -> list[Sequence[Run]]:
    """In as few parts as the limits allow, all about as dear."""
    sizes = [count((run.inputs, *run.settings.hidden, run.outputs)) for run in members]
    parts = max(-(-len(members) // MOST), min(len(members), -(-sum(sizes) // PARAMETERS)))
    return [members[start::parts] for start in range(parts)]
