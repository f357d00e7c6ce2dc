"""Stages of the reconstruction study: which of the choices that the paper leaves unsaid make its numbers.

1. screen: one choice at a time around the base configuration, a benchmark a part.
2. factorial: every combination of some levels on one benchmark, where a run takes seconds, in two parts.
3. promoted: the configurations that are nearest to the paper on that benchmark are run on the others as well.
4. finalists: the configurations nearest over the whole choosing half get all of Table 1 and all seeds.
5. open_points: rows of the ablations and of the sensitivity study under other readings of the paper;
   open_points_cifar10: heads under other readings.

A part reads the results of those before it, so that it can be computed on another machine.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable
from functools import partial

import pandas as pd

from pipeline.executor import RunFailed, run_all
from pipeline.files import write_json
from pipeline.params import Params, load_or_exit
from pipeline.paths import RESULTS, TIMING
from pipeline.plain import ParamsError
from pipeline.runs import Record, Run
from pipeline.study_design import (
    BENCHMARKS,
    Configuration,
    factorial,
    one_at_a_time,
    open_runs,
    paper_table,
    runs_of,
    screened,
)
from pipeline.study_rule import finalists, promoted
from pipeline.train import write_csv

COLUMNS = ("configuration", "benchmark", "method", "layers", "seed", "accuracy", "params")
Asked = tuple[str, Run]  # a run, and the configuration or open point that asks for it
SCREENS = [f"screen-{benchmark}" for benchmark in BENCHMARKS]
FACTORIAL = ["factorial-1", "factorial-2"]
SCREENED = [*SCREENS, *FACTORIAL, "promoted"]
FINALISTS = [f"finalists-{benchmark}" for benchmark in BENCHMARKS]
OPEN_POINTS = {"open_points": {"ablations", "sensitivity"}, "open_points_cifar10": {"cifar10"}}  # tables, by part


def screen(params: Params, configurations: Iterable[Configuration], where: Iterable[str]) -> list[Asked]:
    """Configurations on benchmarks, with few seeds."""
    return [
        (one.name, run) for one in configurations for benchmark in where for run in screened(params, one, benchmark)
    ]


def further(params: Params) -> list[Asked]:
    """What was promoted, on the benchmarks on which it has not been run."""
    nearest = promoted(params, read([*SCREENS, *FACTORIAL]), paper_table())
    others = [benchmark for benchmark in BENCHMARKS if benchmark != params.reconstruction.factorial.benchmark]
    return screen(params, nearest, others)


def last(params: Params, benchmark: str) -> list[Asked]:
    """The finalists on a benchmark."""
    nearest = finalists(params, read(SCREENED), paper_table())
    return [(one.name, run) for one in nearest for run in runs_of(params, one, benchmark, params.seeds, params.depths)]


def readings(params: Params, tables: Iterable[str]) -> list[Asked]:
    """The open points of some tables."""
    points = {name: point for name, point in params.reconstruction.open_points.items() if point.table in tables}
    return [(name, run) for name, point in points.items() for run in open_runs(params, name, point)]


def parts(params: Params) -> dict[str, Callable[[], list[Asked]]]:
    """Every part in order, as a function that tells what it runs."""
    single, crossed = one_at_a_time(params), factorial(params)
    half, small = math.ceil(len(crossed) / 2), [params.reconstruction.factorial.benchmark]
    found: dict[str, Callable[[], list[Asked]]] = {
        f"screen-{benchmark}": partial(screen, params, single, [benchmark]) for benchmark in BENCHMARKS
    }
    for part, some in zip(FACTORIAL, (crossed[:half], crossed[half:]), strict=True):
        found[part] = partial(screen, params, some, small)
    found["promoted"] = partial(further, params)
    found |= {f"finalists-{benchmark}": partial(last, params, benchmark) for benchmark in BENCHMARKS}
    return found | {part: partial(readings, params, tables) for part, tables in OPEN_POINTS.items()}


def stage(part: str) -> str:
    """The DVC stage of a part."""
    return part.replace("-", "@", 1)


def read(names: Iterable[str]) -> pd.DataFrame:
    """Results of parts, a row a run, with the row of Table 1; what several parts ask for counts once."""
    frames = []
    for part in names:
        path = RESULTS / f"reconstruction-{part}.csv"
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: run `dvc repro {stage(part)}`")
        frames.append(pd.read_csv(path, keep_default_na=False, na_values=[""]))
    found = pd.concat(frames, ignore_index=True)
    found["row"] = found["layers"].astype(str) + "L " + found["method"]
    return found.drop_duplicates(["configuration", "benchmark", "row", "seed"], ignore_index=True)


def labels(name: str, run: Run) -> tuple[str, str, str, int, int]:
    """What a row of results is known by."""
    return name, run.benchmark, run.method, len(run.settings.hidden), run.seed


def result_row(name: str, run: Run, record: Record) -> dict[str, object]:
    """What a run ended with; one that diverged has no numbers."""
    history = record.history
    numbers = ("", "") if history is None else (f"{history.average_accuracy():.6f}", history.parameters[-1])
    return dict(zip(COLUMNS, (*labels(name, run), *numbers), strict=True))


def seconds(record: Record) -> dict[str, str]:
    """How long a run took, by the clock and on the processor."""
    return {name: f"{record.seconds[name]:.2f}" for name in ("total", "cpu")}


def compute(params: Params, part: str, asked: list[Asked]) -> None:
    """Run what a part asks for, and write what came out, where, and apart from it how long it took."""
    once = {run.key: run for _, run in asked}  # configurations that differ in what a run does not read share it
    computed = run_all(list(once.values()), params.compute, f"reconstruction, {part}", diverging=True)
    records = dict(zip(once, computed, strict=True))
    write_csv(
        RESULTS / f"reconstruction-{part}.csv",
        [result_row(name, run, records[run.key]) for name, run in asked],
        COLUMNS,
    )
    machines = [record.machine | run.encoder for run, record in zip(once.values(), computed, strict=True)]
    found = [one for i, one in enumerate(machines) if one not in machines[:i]]
    write_json(RESULTS / f"reconstruction-{part}.provenance.json", found)
    timing: list[dict[str, object]] = [
        {**dict(zip(COLUMNS[1:5], labels("", run)[1:], strict=True)), **seconds(record)}
        for run, record in zip(once.values(), computed, strict=True)
        if record.history is not None
    ]
    write_csv(TIMING / f"reconstruction-{part}.csv", timing, (*COLUMNS[1:5], "total", "cpu"))


def unexpected(params: Params) -> list[str]:
    """Where the results are not those of the runs that the design and the rule ask for."""
    problems = []
    for part, plan in parts(params).items():
        wanted = {labels(name, run) for name, run in plan()}
        found = set(read([part])[list(COLUMNS[:5])].itertuples(index=False, name=None))
        for runs, what in ((wanted - found, "lacks"), (found - wanted, "has, unasked,")):
            if runs:
                first = " ".join(str(word) for word in min(runs))
                problem = f"reconstruction-{part}.csv {what} {len(runs)} runs, such as {first}"
                problems.append(f"{problem}: run `dvc repro {stage(part)}`")
    return problems


def main() -> None:
    """Command line of the stages."""
    params = load_or_exit()
    known = parts(params)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=known)
    part = parser.parse_args().part
    try:
        compute(params, part, known[part]())
    except (RunFailed, FileNotFoundError, ParamsError) as error:
        sys.exit(f"reconstruction, {part}: {error}")


if __name__ == "__main__":
    main()
