"""What 1000 cores would do for the experiments: reports/SCALING.md, by calculation from measured seconds.

`python -m pipeline.scaling` reads reports/timing, and the sizes of the files in the run store. `dvc` does not run it:
it is wall-clock, and about machines that were not there.
"""

import heapq
import pickle
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.files import write_text
from pipeline.params import Params, load_or_exit
from pipeline.paths import RUNS, SCALING, TIMING
from pipeline.suites import suites
from pipeline.tables import seconds_of

CORES = (1, 2, 16, 100, 1000)
START = 3.0  # seconds until a worker has loaded torch and looked at its data, measured once
DATA = 55e6  # bytes of MNIST that each worker reads once
OVERHEAD = 1e-3  # seconds of the scheduler's time a run, by Dask's own documentation


@dataclass(frozen=True)
class Stage:
    """A suite, and the seconds of its runs."""

    name: str
    seconds: tuple[float, ...]


def makespan(seconds: Sequence[float], cores: int) -> float:
    """Seconds until all runs are done, if each free core takes the longest run that is left: as the executor does."""
    busy = [0.0] * min(cores, len(seconds))
    for run in sorted(seconds, reverse=True):
        heapq.heappush(busy, heapq.heappop(busy) + run)
    return max(busy)


def enough(seconds: Sequence[float]) -> int:
    """The cores beyond which a suite gets no faster: it takes as long as its longest run."""
    return next(cores for cores in range(1, len(seconds) + 1) if makespan(seconds, cores) <= max(seconds) * 1.0001)


def stages(params: Params) -> list[Stage]:
    """Every suite that was timed, in the paper's order."""
    paths = {name: TIMING / f"{name}.csv" for name in suites(params)}
    return [Stage(name, tuple(seconds_of(pd.read_csv(path)))) for name, path in paths.items() if path.exists()]


PAGE = """# Past one machine: what 1000 cores would do

By calculation from the seconds in `reports/timing` (`python -m pipeline.scaling` writes this page): each free
core takes the longest run that is left. A run is one thread and is never divided. Runs that suites share count
in each of them.

{stages}

{cores}

**Longest single run:** {longest:.0f} s, in {slowest}. Nothing finishes sooner: the tasks of a stream follow on
each other, and so do the steps of a task.

**Where the speed-up ends:** stage after stage at {limit:.2f} h, the sum of the stages' longest runs, {gain:.0f}
times as fast as one core. All at once at {hours:.2f} h with {enough} cores, {gain_at_once:.0f} times as fast:
start `python -m pipeline.train SUITE` for every suite against one scheduler, which fills the run store, and
then `dvc repro`, which finds everything there (what suites share may then be computed twice). The other {idle}
of 1000 cores idle: there are {runs} runs. More seeds are what they are good for.

**What the scheduler sees:** {runs} tasks of {task:.1f} kB, and as many results. At {overhead:.0f} ms a task,
which is Dask's own figure, that is {total_overhead:.1f} s of its time in all; it would matter on 1000 cores
with runs of about {matters:.0f} s.

**What the disk sees:** workers write nothing. The client writes a file a run{sizes}; {runs} runs in
{minutes:.0f} minutes are {rate:.2f} files a second. Each worker reads {data:.0f} MB of data once:
{all_data:.0f} GB if 1000 workers start together from one file server, less with a copy on each node. A worker
takes about {start:.0f} s to start, and 0.4 GB of memory.
"""


def page(params: Params, found: Sequence[Stage]) -> str:
    """The arithmetic, in words."""
    rows = ["| stage | runs | core-hours | longest run | cores beyond which it gets no faster |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for stage in found:
        hours, cores = sum(stage.seconds) / 3600, enough(stage.seconds)
        rows.append(f"| {stage.name} | {len(stage.seconds)} | {hours:.2f} | {max(stage.seconds):.0f} s | {cores} |")
    everything = [second for stage in found for second in stage.seconds]
    alone, longest = sum(everything), max(everything)
    speeds = ["| cores | stage after stage, as `dvc repro` does | all stages at once |", "| --- | --- | --- |"]
    for cores in CORES:
        both = (sum(makespan(stage.seconds, cores) for stage in found), makespan(everything, cores))
        cells = (f"{seconds / 3600:.2f} h, {alone / seconds:.1f} times as fast" for seconds in both)
        speeds.append(f"| {cores} | {' | '.join(cells)} |")
    limit, sizes = sum(max(stage.seconds) for stage in found), [path.stat().st_size for path in RUNS.glob("*.json")]
    return PAGE.format(
        stages="\n".join(rows),
        cores="\n".join(speeds),
        longest=longest,
        slowest=max(found, key=lambda stage: max(stage.seconds)).name,
        limit=limit / 3600,
        gain=alone / limit,
        hours=longest / 3600,
        enough=enough(everything),
        gain_at_once=alone / longest,
        idle=max(0, 1000 - enough(everything)),
        runs=len(everything),
        task=len(pickle.dumps(next(iter(suites(params).values()))[0])) / 1e3,
        overhead=OVERHEAD * 1e3,
        total_overhead=len(everything) * OVERHEAD,
        matters=1000 * OVERHEAD,
        sizes=f", of up to {max(sizes) / 1e3:.0f} kB in this run store" if sizes else "",
        minutes=longest / 60,
        rate=len(everything) / longest,
        data=DATA / 1e6,
        all_data=1000 * DATA / 1e9,
        start=START,
    )


def main() -> None:
    """Command line."""
    params = load_or_exit()
    write_text(SCALING, page(params, stages(params)))
    print(f"scaling: {SCALING}")


if __name__ == "__main__":
    main()
