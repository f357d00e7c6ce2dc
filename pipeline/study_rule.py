"""The reconstruction study's rule: how near a configuration comes to the paper, what is run next, what is chosen.

The half of the paper's cells by which a configuration is chosen was fixed before anything was run: the two-layer static
baselines. NORACL, one-layer networks, ablations and the sensitivity study are held back.

``results`` are rows of ``pipeline.study.read``, one a run; ``paper`` is the paper's Table 1.
"""

import math
from collections.abc import Sequence

import pandas as pd

from pipeline.params import Params
from pipeline.runs import Run
from pipeline.study_design import BASE, DEPTH, Configuration, known, screened
from pipeline.tables import PAPER_SEEDS


def distances(results: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """Per cell and configuration, how far ours is from the paper's in standard errors of the difference.

    The deviation over seeds is the paper's own for both sides, so that the yardstick is the same for every
    configuration. NORACL's parameters are a cell of their own; a static network's are given. A cell with a run that
    diverged has no distance.
    """
    groups = results.groupby(["configuration", "benchmark", "row"], sort=False)
    cells = groups.agg(seeds=("seed", "nunique"))
    cells["acc"] = groups["accuracy"].mean(skipna=False) * 100
    cells["params"] = groups["params"].mean(skipna=False)
    both = cells.reset_index().merge(paper, on=["benchmark", "row"], suffixes=("", "_paper"))
    both["choosing"] = both["row"].str.startswith(f"{DEPTH}L") & ~both["row"].str.contains("NORACL")
    parts = []
    for quantity in ("acc", "params"):
        part = both[["configuration", "benchmark", "row", "seeds", "choosing"]].copy()
        part["quantity"], part["ours"], part["paper"] = quantity, both[quantity], both[f"{quantity}_paper"]
        part["error"] = both[f"{quantity}_sd"] * (1 / both["seeds"] + 1 / PAPER_SEEDS) ** 0.5
        part["errors"] = (part["ours"] - part["paper"]) / part["error"]
        parts.append(part)
    return pd.concat(parts).dropna(subset=["error"]).reset_index(drop=True)


def distance(cells: pd.DataFrame) -> pd.Series:
    """By configuration, the root mean square of the cells' distances; about 1 if nothing but seeds differed."""
    return (cells["errors"] ** 2).groupby(cells["configuration"], sort=False).mean(skipna=False) ** 0.5


def ranking(results: pd.DataFrame, paper: pd.DataFrame, benchmarks: Sequence[str]) -> pd.Series:
    """Distance on the choosing half of each configuration that has all cells of these benchmarks, nearest first."""
    cells = distances(results, paper)
    cells = cells[cells["choosing"] & cells["benchmark"].isin(benchmarks)]
    wanted = len(cells[["benchmark", "row"]].drop_duplicates())
    whole = cells.groupby("configuration", sort=False).size() == wanted
    return distance(cells)[whole].dropna().sort_values(kind="stable")


def promoted(params: Params, results: pd.DataFrame, paper: pd.DataFrame) -> list[Configuration]:
    """The nearest on the factorial's benchmark, as long as they ask for few different runs on the other benchmarks."""
    small = params.reconstruction.factorial.benchmark
    others = [benchmark for benchmark in dict.fromkeys(paper["benchmark"]) if benchmark != small]
    design = known(params)
    found: list[Configuration] = []
    asked: set[frozenset[Run]] = set()
    for name in ranking(results, paper, [small]).index:
        runs = frozenset(run for benchmark in others for run in screened(params, design[name], benchmark))
        if len(asked | {runs}) > params.reconstruction.promoted:
            break
        asked.add(runs)
        found.append(design[name])
    return found


def finalists(params: Params, results: pd.DataFrame, paper: pd.DataFrame) -> list[Configuration]:
    """The base, and the nearest others over the whole choosing half; one of those that are the same there."""
    design, benchmarks = known(params), list(dict.fromkeys(paper["benchmark"]))
    found: dict[frozenset[str], Configuration] = {}
    for name in (BASE, *ranking(results, paper, benchmarks).index):
        runs = [run for benchmark in benchmarks for run in screened(params, design[name], benchmark)]
        found.setdefault(frozenset(run.key for run in runs if run.settings.growth.trigger == "none"), design[name])
    return list(found.values())[: 1 + params.reconstruction.finalists]


def jackknife(without: Sequence[float]) -> float:
    """Standard error of a number from its values with one seed left out at a time; one seed says nothing."""
    if len(without) < 2:
        return math.nan
    mean = sum(without) / len(without)
    return math.sqrt(sum((value - mean) ** 2 for value in without) * (len(without) - 1) / len(without))


def equals(results: pd.DataFrame, paper: pd.DataFrame, finalists: Sequence[Configuration]) -> list[Configuration]:
    """The finalists that the choosing half cannot tell from the nearest one, the simplest first.

    Simple is few departures from the base; two distances cannot be told apart within two standard errors of the
    nearest one's, by leaving out one seed at a time.
    """
    benchmarks = list(dict.fromkeys(results["benchmark"]))
    names = [finalist.name for finalist in finalists]
    near = ranking(results, paper, benchmarks).reindex(names).dropna().sort_values(kind="stable")
    best, seeds = near.index[0], sorted(set(results["seed"]))
    limit = math.inf
    if len(seeds) > 1:
        without = [ranking(results[results["seed"] != seed], paper, benchmarks)[best] for seed in seeds]
        limit = near[best] + 2 * jackknife(without)
    equal = [finalist for finalist in finalists if near.get(finalist.name, math.nan) <= limit]
    return sorted(equal, key=lambda finalist: (finalist.departures, near[finalist.name]))
