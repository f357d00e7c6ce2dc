"""Strengths that were chosen by a rule: the highest mean accuracy on held-out images after the last task.

The smaller strength counts if two are equal. One at an end of its grid is no choice yet: two more values are needed.
Strengths that give the same accuracies all along, in every seed, do nothing at all on this stream: none is chosen.
"""

import pandas as pd

from pipeline.config import Params
from pipeline.evidence.results import BEYOND
from pipeline.experiments.beyond import tried
from pipeline.paths import RESULTS

#: The suite that tries strengths, and the one that uses what it has chosen, in the same section of params.yaml.
PAIRS = {"strengths": "regularisers", "upkeep_strengths": "upkeep"}


def accuracies(suite: str) -> dict[str, pd.DataFrame]:
    """Accuracy by method: one row per seed, one column per task."""
    found = pd.read_csv(RESULTS / BEYOND / suite / "runs.csv")
    return {
        str(name): rows.pivot(index="seed", columns="task", values="accuracy") for name, rows in found.groupby("method")
    }


def chosen(suite: str, grid: dict[str, tuple[float, ...]]) -> dict[str, float]:
    """What the rule has chosen for each name of the grid."""
    known = accuracies(suite)
    return {name: best({value: known[tried(name, value)] for value in values}) for name, values in grid.items()}


def best(found: dict[float, pd.DataFrame]) -> float:
    """The strength with the highest mean after the last task, of those that do something."""
    same = {one for one in found if any(found[one].equals(found[other]) for other in found if other != one)}
    return min(set(found) - same or found, key=lambda value: (-found[value].iloc[:, -1].mean(), value))


def problems(params: Params) -> list[str]:
    """Strengths of params.yaml that are not what the rule has chosen, or that are at an end of their grid."""
    found = []
    for suite, user in PAIRS.items():
        (part, asked), (_, used) = params.question(suite), params.question(user)
        if asked is None or not (RESULTS / BEYOND / suite / "runs.csv").exists():
            continue
        if (
            missing := {tried(name, value) for name in asked.grid for value in asked.grid[name]}
            - accuracies(suite).keys()
        ):
            found.append(
                f"{part}.{suite}: {', '.join(sorted(missing))} is not computed: run `dvc repro {part}@{suite}`"
            )
            continue
        for name, value in chosen(suite, asked.grid).items():
            if value in (min(asked.grid[name]), max(asked.grid[name])):
                found.append(
                    f"{part}.{suite}.grid.{name}: {value:g} is best and an end of the grid: add two more values"
                )
            if used is not None and used.strengths.get(name) != value:
                given = used.strengths.get(name)
                found.append(f"{part}.{user}.strengths.{name} is {given}, but {part}.{suite} has chosen {value:g}")
    return found
