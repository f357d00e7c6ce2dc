"""Groups: runs that see the same mini-batches in the same order, so that a worker computes them in lock-step.

A run's numbers do not depend on the group that it is in. A group is what a worker is asked for, so it is also what is
lost when a worker is killed: hence its limits.
"""

from collections.abc import Hashable, Sequence

from noracl.method.network import count
from pipeline.runs import ways
from pipeline.runs.run import Run

MOST = 12  # runs in a group: all ablations of a seed, some of which are the same run for a while
PARAMETERS = 4_000_000  # of all networks of a group, when they start: about 36 bytes each
LONGEST = 1800.0  # estimated seconds of a group; a run that takes longer is a group of its own

Group = tuple[Run, ...]


def company(run: Run) -> Hashable:
    """What runs must have in common to see the same mini-batches."""
    by = run.settings.optimisation
    own = run if ways.alone(run.how) else ways.company(run.how, run.settings)
    return run.data, run.stream, run.outputs, run.seed, by.batch_size, by.epochs_first, by.epochs_later, own


def cost(group: Sequence[Run]) -> float:
    """Rough seconds on one core."""
    return sum(run.cost for run in group)


def grouped(runs: Sequence[Run], workers: int) -> list[Group]:
    """All runs in groups, the dearest first, so that every worker gets the same number of groups if that can be."""
    together: dict[Hashable, list[Run]] = {}
    for run in sorted(runs, key=lambda run: -run.cost):
        together.setdefault(company(run), []).append(run)
    groups = [tuple(part) for members in together.values() for part in _small(members)]
    while len(dearest := max(groups, key=lambda group: (len(group) > 1, cost(group)), default=())) > 1:
        if cost(dearest) <= LONGEST and len(groups) % workers == 0:
            break
        groups.remove(dearest)
        groups += [dearest[::2], dearest[1::2]]
    return sorted(groups, key=lambda group: -cost(group))


def _small(members: Sequence[Run]) -> list[Sequence[Run]]:
    """In as few parts as the limits allow, neighbours together, as they may be the same run for a while."""
    sizes = [count((run.inputs, *run.settings.hidden, run.outputs)) for run in members]
    parts = max(-(-len(members) // MOST), min(len(members), -(-sum(sizes) // PARAMETERS)))
    size = -(-len(members) // parts)
    return [members[start : start + size] for start in range(0, len(members), size)]
