"""The reconstruction study's design, fixed before anything was run: configurations and what each asks for.

What the paper states has the value that it states (reports/paper/hyperparameters.csv), and every choice that it leaves
unsaid has a level (``reconstruction`` in params.yaml), whatever else params.yaml says of these keys.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pandas as pd

from pipeline.params import OpenPoint, Params
from pipeline.paths import PAPER
from pipeline.plain import ParamsError
from pipeline.runs import Run
from pipeline.suites import FAMILIES, MNIST_STREAM, ablations, cifar10, sensitivity, table1

BENCHMARKS = ("permuted_mnist", "rotated_mnist", "split_mnist")  # of Table 1
DEPTH = 2  # of the networks that are screened, and of the choosing half
BASE = "base"


def paper_table() -> pd.DataFrame:
    """The paper's Table 1."""
    return pd.read_csv(PAPER / "main.csv")


@cache
def stated() -> dict[str, Any]:
    """What the paper states of MNIST, by its key in params.yaml."""
    table = pd.read_csv(PAPER / "hyperparameters.csv", dtype=str).dropna(subset=["params_key", "mnist"])
    found: dict[str, Any] = {}
    for key, value in zip(table["params_key"], table["mnist"], strict=True):
        names = [key.replace("*", benchmark) for benchmark in BENCHMARKS] if "*" in key else [key]
        found |= dict.fromkeys(names, json.loads(value))
    return found


def changed(params: Params, name: str, changes: dict[str, Any]) -> Params:
    """Params as the paper states them, with changes; an error names the configuration or open point."""
    try:
        return params.changed({**stated(), **changes})
    except ParamsError as error:
        raise ParamsError(f"{name!r} of `reconstruction` in params.yaml cannot be run: {error}") from None


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
        changes: dict[str, Any] = {"seeds": list(seeds)}
        for choice, level in self.levels:
            changes |= params.reconstruction.choices[choice][level]
        return changed(params, self.name, changes)


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


def known(params: Params) -> dict[str, Configuration]:
    """Every configuration of the design by name."""
    return {one.name: one for one in (*one_at_a_time(params), *factorial(params))}


def runs_of(
    params: Params, configuration: Configuration, benchmark: str, seeds: Sequence[int], depths: Iterable[int]
) -> list[Run]:
    """A benchmark's columns of Table 1 under a configuration."""
    applied = configuration.applied(params, seeds)
    found = [run for family in FAMILIES for run in table1(applied, benchmark, family)]
    return [run for run in found if len(run.settings.hidden) in depths]


def screened(params: Params, configuration: Configuration, benchmark: str) -> list[Run]:
    """The two-layer networks of a benchmark, with the few seeds of a screen."""
    return runs_of(params, configuration, benchmark, params.reconstruction.seeds, [DEPTH])


def open_runs(params: Params, name: str, point: OpenPoint) -> list[Run]:
    """A row of the ablations or of the sensitivity study, on Permuted MNIST, or of CIFAR-10, under other settings."""
    applied = changed(params, name, {"seeds": list(params.reconstruction.seeds), **point.changes})
    suites: dict[str, Callable[[Params], list[Run]]] = {"sensitivity": sensitivity, "cifar10": cifar10}
    suites["ablations"] = partial(ablations, benchmark=MNIST_STREAM)
    if not (found := [run for run in suites[point.table](applied) if run.method == point.row]):
        raise ParamsError(f"{name!r} of `reconstruction.open_points` asks for {point.row!r}, which {point.table} lacks")
    return found
