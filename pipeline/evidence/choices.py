"""Strengths that were chosen by a rule: the highest mean accuracy on held-out images after the last task.

The smaller strength counts if two are equal. One at an end of its grid is no choice yet: two more values are needed.
"""

import pandas as pd

from pipeline.config import Params
from pipeline.evidence.results import BEYOND, last_task
from pipeline.experiments.beyond import tried
from pipeline.paths import RESULTS

#: The suite that tries strengths, and the section of params.yaml that uses what it has chosen.
PAIRS = {"strengths": "regularisers", "upkeep_strengths": "upkeep"}


def accuracies(suite: str) -> "pd.Series[float]":
    """Mean accuracy after the last task, by method."""
    found = pd.read_csv(RESULTS / BEYOND / suite / "runs.csv").assign(suite=suite)
    return last_task(found.assign(row=found["method"])).groupby("method")["accuracy"].mean()


def chosen(suite: str, grid: dict[str, tuple[float, ...]]) -> dict[str, float]:
    """What the rule has chosen for each name of the grid."""
    known = accuracies(suite)
    return {name: min(values, key=lambda value: (-known[tried(name, value)], value)) for name, values in grid.items()}


def problems(params: Params) -> list[str]:
    """Strengths of params.yaml that are not what the rule has chosen, or that are at an end of their grid."""
    found = []
    for suite, user in PAIRS.items():
        asked, used = getattr(params.beyond, suite), getattr(params.beyond, user)
        if asked is None or not (RESULTS / BEYOND / suite / "runs.csv").exists():
            continue
        for name, value in chosen(suite, asked.grid).items():
            if value in (min(asked.grid[name]), max(asked.grid[name])):
                found.append(
                    f"beyond.{suite}.grid.{name}: {value:g} is best and an end of the grid: add two more values"
                )
            if used is not None and used.strengths.get(name) != value:
                given = used.strengths.get(name)
                found.append(f"beyond.{user}.strengths.{name} is {given}, but beyond.{suite} has chosen {value:g}")
    return found
