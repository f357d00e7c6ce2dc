"""Ours beside the paper's: every cell of a table, with its verdicts."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pipeline.evidence import results
from pipeline.evidence.verdicts import verdict
from pipeline.sections import Tolerances

COLUMNS = [
    *("row", "benchmark", "seeds", "params_mean", "params_sd", "acc_mean", "acc_sd"),
    *("paper_params", "paper_params_sd", "paper_acc", "paper_acc_sd", "verdict", "params_verdict", "selected_on"),
    *("contradicted", "released_params", "released_params_sd", "released_acc", "released_acc_sd", "released_source"),
]


def compare(
    runs: pd.DataFrame,
    paper: pd.DataFrame,
    selected: pd.DataFrame,
    limits: Tolerances,
    released: pd.DataFrame | None = None,
    contradicted: Mapping[tuple[str, str], set[str]] | None = None,
) -> pd.DataFrame:
    """One row per cell in the paper's order: mean and deviation over seeds after the last task, and the verdicts.

    Accuracies keep four decimals: whoever shows one rounds it, once. A cell with a run that could not go on has no
    mean, as in the paper; ``infeasible`` counts such runs. ``contradicted`` names the quantities that the
    paper itself contradicts.
    """
    cells = results.last_task(runs).groupby(["row", "benchmark"], sort=False)
    seeds = cells["accuracy"].count()
    infeasible = cells.size() - seeds
    numbers = cells[["params", "plastic", "accuracy"]].agg(["mean", "std"]).where(infeasible == 0)
    numbers.columns = ["params_mean", "params_sd", "plastic_mean", "plastic_sd", "acc_mean", "acc_sd"]
    whole, percent = numbers.iloc[:, :4].round(), (numbers.iloc[:, 4:] * 100).round(4)
    theirs = paper.assign(place=range(len(paper))).set_index(["row", "benchmark"]).add_prefix("paper_")
    table = whole.join(percent).assign(seeds=seeds, infeasible=infeasible).join(theirs)
    table = table.sort_values("paper_place", kind="stable")
    chosen = table.index.isin(selected.set_index(["row", "benchmark"]).index)
    table["selected_on"] = np.where(chosen, "yes", "no")
    marked = contradicted or {}
    table["contradicted"] = [" ".join(sorted(marked.get(key, ()))) or "no" for key in table.index]
    known = pd.DataFrame(columns=results.RELEASED) if released is None else released
    table = table.join(known.set_index(["row", "benchmark"]).add_prefix("released_"))
    share, points = limits.params_share * table["paper_params"], limits.accuracy_points
    for name, ours, tolerance in (("verdict", "acc", points), ("params_verdict", "params", share)):
        columns = [f"{ours}_mean", f"{ours}_sd", "seeds", f"paper_{ours}", f"paper_{ours}_sd"]
        numbers = table[columns].assign(tolerance=tolerance)
        table[name] = [verdict(*cell) for cell in numbers.itertuples(index=False)]
    theirs_too = [f"{whose}_params{sd}" for whose in ("paper", "released") for sd in ("", "_sd")]
    return table.reset_index().astype(dict.fromkeys([*whole, *theirs_too], "Int64"))
