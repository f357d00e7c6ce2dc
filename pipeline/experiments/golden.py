"""Stage golden: the beginnings of the golden runs, on real data with real settings.

A whole run amplifies the rounding of another CPU, so that only loose bounds hold for it. Its beginning does not: every
CPU repeats these numbers to four digits, and a change of data, settings or numerics shows.
"""

import json
from dataclasses import replace

from noracl import learn
from pipeline.config import Params, load
from pipeline.data.manifests import Pixels
from pipeline.data.streams import build_stream
from pipeline.experiments.suites import suites
from pipeline.files import write_text
from pipeline.paths import GOLDEN
from pipeline.runs import canaries
from pipeline.runs.canaries import Numbers
from pipeline.runs.run import Run
from pipeline.sections import PermutedStream, RotatedStream, SplitStream, StreamSection

IMAGES, TASKS, EPOCHS_FIRST, EPOCHS_LATER = 2000, 3, 2, 3
RELATIVE = 1e-4  # CPUs differ by less than a tenth of this


def golden_runs(params: Params) -> list[Run]:
    """One run per benchmark on MNIST: NORACL at the largest depth with the first seed."""
    mnist = [f"{one.table}/{name}-noracl" for name, one in params.benchmarks.items() if one.data == "mnist"]
    first = [[run for run in suites(params)[name].runs() if run.seed == params.seeds[0]] for name in mnist]
    return [max(runs, key=lambda run: run.layers) for runs in first]


def first_tasks(stream: StreamSection) -> StreamSection:
    """The beginning of a stream."""
    if isinstance(stream, PermutedStream):
        return stream.model_copy(update={"tasks": min(stream.tasks, TASKS)})
    field = "angles" if isinstance(stream, RotatedStream) else "pairs"
    assert isinstance(stream, RotatedStream | SplitStream)
    return stream.model_copy(update={field: getattr(stream, field)[:TASKS]})


def beginning(run: Run) -> Run:
    """A run with few images, tasks and epochs; all else as it is."""
    assert isinstance(run.data, Pixels)
    images = min(run.data.limit or IMAGES, IMAGES)
    by = run.settings.optimisation
    short = replace(
        by, epochs_first=min(by.epochs_first, EPOCHS_FIRST), epochs_later=min(by.epochs_later, EPOCHS_LATER)
    )
    return replace(
        run,
        stream=first_tasks(run.stream),
        data=run.data.model_copy(update={"limit": images}),
        settings=replace(run.settings, optimisation=short),
    )


def compute(params: Params) -> Numbers:
    """The numbers of all beginnings, by benchmark."""
    found = {}
    for run in map(beginning, golden_runs(params)):
        stream = build_stream(run.data, run.stream, run.outputs, run.seed)
        found[run.benchmark] = canaries.numbers_of(learn(stream, run.settings, run.seed))
    return found


def committed() -> Numbers:
    """What is committed; FileNotFoundError if nothing is."""
    if not GOLDEN.exists():
        raise FileNotFoundError(f"{GOLDEN} is missing: run `dvc repro golden`")
    found: Numbers = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


def agree(found: object, known: object) -> bool:
    """Whether two sets of beginnings are the same but for what two CPUs may differ in."""
    return canaries.agree(found, known, RELATIVE)


def main(arguments: list[str]) -> None:
    """Write the numbers, unless those that are there still agree."""
    found = compute(load())
    same = GOLDEN.exists() and agree(found, committed())
    if not same:
        write_text(GOLDEN, json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"golden: the beginnings of {len(found)} runs, {'unchanged' if same else 'changed'}")
