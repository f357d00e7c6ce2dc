"""What computing runs in groups saves: one seed of all that the paper does with Permuted MNIST, at a reduced size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.config import PERMUTED, load
from pipeline.experiments.suites import suites
from pipeline.runs.groups import grouped
from pipeline.runs.records import Record
from pipeline.runs.run import Run, compute, compute_together, finished
from pipeline.tools.rounds import Line, at_least, compare, in_turns, timed

#: Table 1, the ablations and the sensitivity study.
SUITES = (f"main/{PERMUTED}-static", f"main/{PERMUTED}-noracl", f"ablations/{PERMUTED}", f"sensitivity/{PERMUTED}")


@dataclass(frozen=True)
class Size:
    """How much of every run is computed."""

    tasks: int
    epochs: tuple[int, int]  #: of the first task and of later ones
    images: int | None  #: None: all of MNIST
    looks: tuple[int, ...]  #: numbers of rounds after which the line may be decided


def reduced(run: Run, size: Size) -> Run:
    """The run with fewer tasks, epochs and images."""
    first, later = size.epochs
    by = replace(run.settings.optimisation, epochs_first=first, epochs_later=later)
    return replace(
        run,
        settings=replace(run.settings, optimisation=by),
        stream=run.stream.model_copy(update={"tasks": size.tasks}),
        data=run.data.model_copy(update={"limit": size.images}),
    )


def one_seed(size: Size) -> list[Run]:
    """The runs of the first seed, each once, though suites share some."""
    params = load()
    every, seed = suites(params), params.seeds[0]
    runs = [run for name in SUITES for run in every[name].runs() if run.seed == seed]
    return [reduced(run, size) for run in {run.key: run for run in runs}.values()]


def one_by_one(runs: Sequence[Run]) -> list[Record]:
    """Every run by itself."""
    return [compute(run) for run in runs]


def in_groups(runs: Sequence[Run]) -> list[Record]:
    """Runs that see the same mini-batches in lock-step, in the groups that a worker would be asked for."""
    found: dict[Run, Record | Exception] = {}
    for group in grouped(runs, 1):
        found |= zip(group, compute_together(group), strict=True)
    return [finished(found[run]) for run in runs]


def suites_line(size: Size) -> Line:
    """All runs of one seed, one by one against in groups."""
    runs = one_seed(size)
    rounds = in_turns(timed(lambda: one_by_one(runs)), timed(lambda: in_groups(runs)))
    what = "one seed of Permuted MNIST: Table 1, ablations and sensitivity, one by one against in groups"
    detail = f"{len(runs)} runs, {{:.1f}} against {{:.1f}} s"
    return compare(what, at_least(1.3), rounds, size.looks, detail.format)
