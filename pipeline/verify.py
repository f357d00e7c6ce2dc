"""Recompute runs from scratch and compare them with the committed ones, wherever they stand.

A forged result from which everything else was made again passes every other check. Who recomputes runs that nobody
could foresee finds it, with a probability that this command prints.
"""

import argparse
import json
import math
import random
import secrets
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.config import Params, load
from pipeline.evidence.results import is_missing, row_name
from pipeline.experiments.suites import suites
from pipeline.experiments.train import LABELS, result_rows
from pipeline.files import StageError
from pipeline.paths import RESULTS, TIMING
from pipeline.runs.crews import workers
from pipeline.runs.executor import run_all
from pipeline.runs.fingerprint import fingerprint
from pipeline.runs.run import Run

Rows = list[dict[str, str]]
DIGITS = "the same digits"


@dataclass(frozen=True)
class Repeat:
    """A committed run beside a fresh one: how they compare, or what is wrong."""

    run: Run
    committed: Rows
    fresh: Rows
    machine: dict[str, str]
    same_kind: bool  # whether this kind of machine, and no other, computed the committed results of the suite
    params: Params

    @property
    def problems(self) -> list[str]:
        """None if the run repeats: to the digit on the same kind of machine, within tolerances.golden_… elsewhere."""
        if self.fresh == self.committed:
            return []
        if not self.same_kind and _numbers(self.fresh) and _numbers(self.committed):
            return far_apart(self.fresh, self.committed, self.params)
        pairs = zip(self.fresh, self.committed, strict=False)
        lines = [f"task {new['task']}: {_differing(new, old)}" for new, old in pairs if new != old]
        return lines or [f"{len(self.fresh)} tasks, {len(self.committed)} are committed"]

    @property
    def words(self) -> str:
        """How it was compared, and that it repeats."""
        if self.fresh == self.committed:
            return DIGITS
        return "within tolerances.golden_… of params.yaml, because another kind of CPU computed the committed ones"


def _numbers(rows: Rows) -> bool:
    """Whether the method could go on."""
    return all(row["accuracy"] for row in rows)


def _differing(new: dict[str, str], old: dict[str, str]) -> str:
    return ", ".join(f"{name} {new[name]}, committed {old.get(name)}" for name in new if new[name] != old.get(name))


def far_apart(fresh: Rows, committed: Rows, params: Params) -> list[str]:
    """Where two histories of one run differ by more than another CPU's rounding explains."""
    if len(fresh) != len(committed):
        return [f"{len(fresh)} tasks, {len(committed)} are committed"]
    problems, limits = [], params.tolerances
    for new, old in zip(fresh, committed, strict=True):
        accuracy = abs(float(new["accuracy"]) - float(old["accuracy"]))
        if accuracy > limits.golden_accuracy or abs(int(new["params"]) / int(old["params"]) - 1) > limits.golden_params:
            problems.append(
                f"task {new['task']}: accuracy {new['accuracy']}, params {new['params']}; "
                f"committed {old['accuracy']}, {old['params']}"
            )
    return problems


def repeat(params: Params, runs: Sequence[Run], title: str) -> Iterator[Repeat]:
    """Runs computed from scratch, each beside the committed one."""
    for run, record in zip(runs, run_all(runs, params.compute, title, fresh=True), strict=True):
        table = pd.read_csv(RESULTS / run.suite / "runs.csv", dtype=str, keep_default_na=False)
        name = pd.Series({label: str(getattr(run, label)) for label in LABELS})
        committed = table[(table[name.index] == name).all(axis=1)].to_dict("records")
        rows = result_rows(run, record, sum(table.columns.str.startswith("width_")))
        machines = json.loads((RESULTS / run.suite / "provenance.json").read_text(encoding="utf-8"))
        fresh = [{key: str(row[key]) for key in row} for row in rows]
        yield Repeat(run, committed, fresh, record.machine, machines == [record.machine | run.encoder], params)


def row_of(run: Run) -> str:
    """The row of the table that a run is in."""
    return row_name(run.suite.partition("/")[0], run.layers, run.method)


def command(run: Run) -> str:
    """What recomputes this run alone."""
    words = [run.benchmark, row_of(run), "--seed", str(run.seed), "--suite", run.suite]
    return shlex.join(["python", "-m", "pipeline", "verify", *words])


def committed_runs(params: Params) -> list[Run]:
    """Every run of every table that is computed."""
    return [run for suite in suites(params).values() if not is_missing(suite.name) for run in suite.runs()]


def seconds(runs: Sequence[Run]) -> dict[Run, float]:
    """What the timing files say that each run took on one core; a rough estimate where they say nothing."""
    known: dict[tuple[str, ...], float] = {}
    for suite in {run.suite for run in runs}:
        if (path := TIMING / f"{suite}.csv").exists():
            table = pd.read_csv(path, dtype=dict.fromkeys(LABELS, str), keep_default_na=False)
            spent = table.get("cpu", table["total"]).astype(float)
            names = table[list(LABELS)].itertuples(index=False, name=None)
            known |= {(suite, *name): one for name, one in zip(names, spent, strict=True)}
    return {run: known.get((run.suite, *(str(getattr(run, one)) for one in LABELS)), run.cost) for run in runs}


def here(runs: Sequence[Run]) -> tuple[list[Run], str]:
    """The runs whose data are here, and why the first of the others is not among them."""
    lacking: dict[object, str] = {}
    for data, run in {run.data: run for run in runs}.items():
        try:
            fingerprint(run)
        except OSError as error:
            lacking[data] = str(error)
    return [run for run in runs if run.data not in lacking], next(iter(lacking.values()), "")


def found_with(forged: int, sample: int, runs: int) -> float:
    """How probable it is that at least one of the forged runs is in a sample."""
    return 1 - math.comb(runs - forged, sample) / math.comb(runs, sample)


def odds(sample: int, runs: int) -> str:
    """The same for some numbers of forged runs, in words."""
    cases = {"1 run is": 1, "10 % of the runs are": math.ceil(runs / 10), "half are": math.ceil(runs / 2)}
    parts = [f"{found_with(forged, sample, runs):.1%} if {words} forged" for words, forged in cases.items()]
    return (
        f"{sample} of {runs} runs are drawn. Such a draw finds a forgery among these {runs} "
        f"with probability {', '.join(parts)}."
    )


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pipeline verify", description=__doc__)
    parser.add_argument("benchmark", nargs="?", help="such as permuted_mnist")
    parser.add_argument("row", nargs="*", help="as the table calls it, such as '2L small', 'init he' or 'gamma=0.80'")
    parser.add_argument("--seed", type=int, help="one seed of that row; all of them otherwise")
    parser.add_argument("--suite", help="only this suite, such as main/split_mnist-noracl")
    parser.add_argument("--seconds", type=float, help="only runs that took at most this long on one core")
    parser.add_argument("--sample", type=int, metavar="N", help="draw N of the runs")
    parser.add_argument("--draw", type=int, help="repeats an earlier draw; a new one otherwise")
    given = parser.parse_intermixed_args(arguments)
    given.row = " ".join(given.row) or None
    if not (given.benchmark or given.suite) and given.sample is None:
        parser.error("name a run, such as `permuted_mnist '2L small' --seed 3`, a suite, or a --sample")
    if given.sample is not None and given.sample < 1:
        parser.error(f"--sample must be at least 1, got {given.sample}")
    return given


def chosen(runs: Sequence[Run], given: argparse.Namespace) -> list[Run]:
    """The runs that the arguments name; StageError with what there is if they name none."""
    found = list(runs)
    for name in ("suite", "benchmark", "row", "seed"):
        if (wanted := getattr(given, name)) is not None:
            known = {run: row_of(run) if name == "row" else getattr(run, name) for run in found}
            found = [run for run in found if str(known[run]).replace("×", "x") == str(wanted).replace("×", "x")]
            if not found:
                others = ", ".join(dict.fromkeys(map(str, known.values())))
                raise StageError(f"there is no {name} {wanted!r}, only {others}")
    return found


def main(arguments: list[str]) -> None:
    """Recompute what is named or drawn, and say how it compares."""
    given, params = _arguments(arguments), load()
    every = chosen(committed_runs(params), given)
    runs, why = here(every)
    if len(runs) < len(every):
        print(f"{len(every) - len(runs)} of {len(every)} runs cannot be recomputed here: {why}")
    took = seconds(runs)
    if given.seconds is not None:
        runs = [run for run in runs if took[run] <= given.seconds]
        print(f"{len(runs)} of {len(took)} runs took at most {given.seconds:g} s; the others are left out")
    if not runs:
        raise StageError("there is nothing to recompute")
    again = ""
    if given.sample is not None:
        draw, total = secrets.randbelow(10**6) if given.draw is None else given.draw, len(runs)
        runs = random.Random(draw).sample(runs, min(given.sample, total))
        print(odds(len(runs), total))
        again = f" --draw {draw}" if given.draw is None else ""
        print(f"The same draw again: python -m pipeline verify {shlex.join(arguments)}{again}")
    for run in runs:
        print(f"  {run.suite}: {run.label}, about {took[run]:.0f} s")
    cores = workers(params.compute)
    print(
        f"about {max(sum(took[run] for run in runs) / cores, max(took[run] for run in runs)):.0f} s in all", flush=True
    )
    wrong = 0
    for one in repeat(params, runs, "verify"):
        problems, name = one.problems, f"{one.run.suite}: {one.run.label}"
        wrong += bool(problems)
        print(f"verify {name}: {'DIFFERENT' if problems else one.words}", flush=True)
        if problems:
            shown = [*problems[:5], *([f"… and {len(problems) - 5} more lines"] if len(problems) > 5 else [])]
            print("\n".join(f"    {line}" for line in shown), file=sys.stderr)
            print(f"    repeat it: {command(one.run)}", file=sys.stderr)
    if wrong:
        sys.exit(f"verify: {wrong} of {len(runs)} recomputed runs differ from the committed ones")
