"""Stage reconstruction: which of the choices that the paper leaves unsaid make its numbers.

What is run was fixed before anything was run (``reconstruction`` in params.yaml), and so was the half of the paper's
cells by which a configuration is chosen: the two-layer static baselines. NORACL, one-layer networks, ablations and the
sensitivity study are held back.

1. One choice at a time around the base configuration, on the benchmarks named there.
2. A factorial design on one benchmark, where a run takes seconds.
3. The factorial's nearest configurations are promoted: they are run on the other benchmarks as well.
4. The configurations nearest to the paper over the whole choosing half become finalists: all of Table 1, all seeds.
5. Open points: rows of the ablations and of the sensitivity study under other readings of the paper.
"""

import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.executor import RunFailed, run_all
from pipeline.files import write_json
from pipeline.params import OpenPoint, Params, load_or_exit
from pipeline.paths import PAPER, RESULTS
from pipeline.runs import Record, Run
from pipeline.suites import FAMILIES, MNIST_STREAM, ablations, sensitivity, table1
from pipeline.tables import PAPER_SEEDS
from pipeline.train import write_csv

COLUMNS = ("part", "configuration", "benchmark", "row", "seed", "accuracy", "params")
DEPTH = 2  # of the networks that are screened, and of the choosing half
BASE = "base"


@dataclass(frozen=True)
class Configuration:
    """A level for every choice; ``name`` says where it departs from the base."""

    levels: tuple[tuple[str, str], ...]
    name: str

    @classmethod
    def of(cls, params: Params, **departures: str) -> "Configuration":
        """The base configuration with other levels for some choices."""
        base = params.reconstruction.base
        changed = {choice: level for choice, level in departures.items() if base[choice] != level}
        name = ", ".join(f"{choice}: {level}" for choice, level in changed.items()) or BASE
        return cls(tuple({**base, **changed}.items()), name)

    @property
    def departures(self) -> int:
        """In how many choices it differs from the base."""
        return 0 if self.name == BASE else self.name.count(": ")

    def applied(self, params: Params, seeds: Sequence[int]) -> Params:
        """Params with this configuration."""
        changes = {"seeds": list(seeds)}
        for choice, level in self.levels:
            changes |= params.reconstruction.choices[choice][level]
        return params.changed(changes)


def one_at_a_time(params: Params) -> list[Configuration]:
    """The base, and every other level of every choice that is screened so."""
    study = params.reconstruction
    others = [
        Configuration.of(params, **{choice: level}) for choice in study.one_at_a_time for level in study.choices[choice]
    ]
    return list(dict.fromkeys([Configuration.of(params), *others]))


def factorial(params: Params) -> list[Configuration]:
    """Every combination of the levels named for the factorial."""
    design = params.reconstruction.factorial.levels
    return [
        Configuration.of(params, **dict(zip(design, levels, strict=True)))
        for levels in itertools.product(*design.values())
    ]


def runs_of(
    params: Params, configuration: Configuration, benchmark: str, seeds: Sequence[int], depths: Iterable[int]
) -> list[Run]:
    """A benchmark's columns of Table 1 under a configuration."""
    changed = configuration.applied(params, seeds)
    found = [run for family in FAMILIES for run in table1(changed, benchmark, family)]
    return [run for run in found if len(run.settings.hidden) in depths]


def open_runs(params: Params, point: OpenPoint) -> list[Run]:
    """A row of the ablations or of the sensitivity study, on Permuted MNIST, under other settings."""
    changed = params.changed({"seeds": list(params.reconstruction.seeds), **point.changes})
    suite = sensitivity(changed) if point.table == "sensitivity" else ablations(changed, MNIST_STREAM)
    return [run for run in suite if run.method == point.row]


def result_row(part: str, name: str, run: Run, record: Record) -> dict[str, object]:
    """What a run ended with."""
    assert record.history is not None
    row = f"{len(run.settings.hidden)}L {run.method}" if part != "open point" else run.method
    values = (part, name, run.benchmark, row, run.seed, f"{record.history.average_accuracy():.6f}")
    return dict(zip(COLUMNS, (*values, record.history.parameters[-1]), strict=True))


def distances(results: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """Per cell and configuration, how far ours is from the paper's in standard errors of the difference.

    The deviation over seeds is the paper's own for both sides, so that the yardstick is the same for every
    configuration. NORACL's parameters are a cell of their own; a static network's are given.
    """
    cells = results.groupby(["configuration", "benchmark", "row"], sort=False).agg(
        seeds=("seed", "nunique"), acc=("accuracy", "mean"), params=("params", "mean")
    )
    cells["acc"] *= 100
    both = cells.reset_index().merge(paper, on=["benchmark", "row"], suffixes=("", "_paper"))
    both["choosing"] = both["row"].str.startswith(f"{DEPTH}L") & ~both["row"].str.contains("NORACL")
    scale = (1 / both["seeds"] + 1 / PAPER_SEEDS) ** 0.5
    parts = []
    for quantity in ("acc", "params"):
        part = both[["configuration", "benchmark", "row", "seeds", "choosing"]].copy()
        part["quantity"], part["ours"], part["paper"] = quantity, both[quantity], both[f"{quantity}_paper"]
        part["errors"] = (both[quantity] - both[f"{quantity}_paper"]) / (both[f"{quantity}_sd"] * scale)
        parts.append(part)
    return pd.concat(parts).dropna(subset=["errors"]).reset_index(drop=True)


def distance(cells: pd.DataFrame) -> float:
    """Root mean square of the cells' distances, in standard errors; about 1 if nothing but seeds differed."""
    return math.sqrt((cells["errors"] ** 2).mean()) if len(cells) else math.nan


def ranking(results: pd.DataFrame, paper: pd.DataFrame, benchmarks: Sequence[str]) -> pd.Series:
    """Distance on the choosing half of each configuration that has all cells of these benchmarks, nearest first."""
    cells = distances(results, paper)
    cells = cells[cells["choosing"] & cells["benchmark"].isin(benchmarks)]
    wanted = len(cells[["benchmark", "row"]].drop_duplicates())
    found = {name: distance(part) for name, part in cells.groupby("configuration", sort=False) if len(part) == wanted}
    return pd.Series(found, dtype=float).sort_values(kind="stable")


def chosen(results: pd.DataFrame, paper: pd.DataFrame, finalists: Sequence[Configuration]) -> Configuration:
    """The simplest finalist among those that the choosing half cannot tell from the nearest one.

    Simple is few departures from the base; two distances cannot be told apart within two standard errors of the
    nearest one's, by leaving out one seed at a time.
    """
    benchmarks = list(dict.fromkeys(results["benchmark"]))
    names = [finalist.name for finalist in finalists]
    near = ranking(results, paper, benchmarks)[names].sort_values(kind="stable")
    best, seeds = near.index[0], sorted(set(results["seed"]))
    without = [ranking(results[results["seed"] != seed], paper, benchmarks)[best] for seed in seeds]
    spread = sum((value - sum(without) / len(seeds)) ** 2 for value in without)
    error = math.sqrt(spread * (len(seeds) - 1) / len(seeds))
    equal = [finalist for finalist in finalists if near[finalist.name] <= near[best] + 2 * error]
    return min(equal, key=lambda finalist: (finalist.departures, near[finalist.name]))


class Study:
    """The parts of the study one after the other; what was run is kept in ``rows``."""

    def __init__(self, params: Params) -> None:
        self.params, self.paper = params, pd.read_csv(PAPER / "main.csv")
        self.small = params.reconstruction.factorial.benchmark
        self.others = [benchmark for benchmark in params.benchmarks if benchmark != self.small]
        self.rows: list[dict[str, object]] = []
        self.machines: list[dict[str, str]] = []

    def results(self, part: str | None = None) -> pd.DataFrame:
        """What was run so far, or in one part; a run that several parts ask for counts once."""
        frame = pd.DataFrame(self.rows, columns=list(COLUMNS)).astype({"accuracy": float, "params": float})
        if part is not None:
            frame = frame[frame["part"] == part]
        return frame.drop_duplicates(["configuration", "benchmark", "row", "seed"])

    def run(self, part: str, wanted: Sequence[tuple[str, list[Run]]]) -> None:
        """Compute the runs of each configuration."""
        everything = list(dict.fromkeys(run for _, runs in wanted for run in runs))
        computed = run_all(everything, self.params.compute, f"reconstruction, {part}")
        records = dict(zip(everything, computed, strict=True))
        for name, runs in wanted:
            self.rows += [result_row(part, name, run, records[run]) for run in runs]
        self.machines += [m for i, r in enumerate(computed) if (m := r.machine) not in self.machines]

    def screened(self, configuration: Configuration, benchmark: str) -> tuple[str, list[Run]]:
        """The two-layer networks of a benchmark, with the few seeds of a screen."""
        seeds = self.params.reconstruction.seeds
        return configuration.name, runs_of(self.params, configuration, benchmark, seeds, [DEPTH])

    def promoted(self, nearest: Iterable[Configuration]) -> list[Configuration]:
        """The nearest configurations, as long as they ask for few different runs on the other benchmarks."""
        found: list[Configuration] = []
        asked: set[frozenset[Run]] = set()
        for configuration in nearest:
            runs = frozenset(run for benchmark in self.others for run in self.screened(configuration, benchmark)[1])
            if len(asked | {runs}) > self.params.reconstruction.promoted:
                break
            asked.add(runs)
            found.append(configuration)
        return found

    def all_parts(self) -> None:
        """The study as the module's docstring tells it."""
        params, study = self.params, self.params.reconstruction
        single, crossed = one_at_a_time(params), factorial(params)
        known = {configuration.name: configuration for configuration in (*single, *crossed)}
        self.run("one at a time", [self.screened(c, b) for c in single for b in params.benchmarks])
        self.run("factorial", [self.screened(c, self.small) for c in crossed])
        nearest = ranking(self.results(), self.paper, [self.small]).index
        promoted = self.promoted(known[name] for name in nearest)
        self.run("promoted", [self.screened(c, b) for c in promoted for b in self.others])
        near = [n for n in ranking(self.results(), self.paper, list(params.benchmarks)).index if n != BASE]
        finalists = [Configuration.of(params), *(known[name] for name in near[: study.finalists])]
        tables = [(c, b) for c in finalists for b in params.benchmarks]
        self.run("finalist", [(c.name, runs_of(params, c, b, params.seeds, params.depths)) for c, b in tables])
        self.run("open point", [(name, open_runs(params, point)) for name, point in study.open_points.items()])
        print(f"reconstruction: chosen: {chosen(self.results('finalist'), self.paper, finalists).name}")


def write(study: Study) -> None:
    """Everything that was run, and where."""
    write_csv(RESULTS / "reconstruction.csv", study.rows, COLUMNS)
    write_json(RESULTS / "reconstruction.provenance.json", study.machines)


def main() -> None:
    """Command line of the stage."""
    study = Study(load_or_exit())
    try:
        study.all_parts()
    except (RunFailed, FileNotFoundError) as error:
        sys.exit(f"reconstruction: {error}")
    write(study)


if __name__ == "__main__":
    main()
