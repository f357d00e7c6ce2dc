"""What `dvc metrics diff`, `dvc exp show` and `dvc plots diff` compare: means over seeds, one file of each per suite.

Every training stage writes its own, so that an experiment with one stage shows what it changed. They hold nothing that
reports/results does not hold: `python -m pipeline metrics` makes all of them from there.
"""

import json
import re
from pathlib import Path

import pandas as pd

from pipeline.config import Params, load
from pipeline.experiments.suites import suites
from pipeline.files import write_text
from pipeline.paths import METRICS, PLOTS, RESULTS

LONGEST, CUT = 23, 6  # letters of a method in a metric's name; what the words of a longer one are cut to


def metrics(runs: pd.DataFrame) -> dict[str, dict[str, dict[str, float]]]:
    """Accuracy in percent and parameters after the last task, by benchmark and method; none where no run went on."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    last = runs.groupby(["benchmark", "layers", "method", "seed"], sort=False).tail(1).dropna(subset="accuracy")
    for (benchmark, layers, method), rows in last.groupby(["benchmark", "layers", "method"], sort=False):
        means = {"accuracy": round(100 * rows["accuracy"].mean(), 2), "params": round(rows["params"].mean())}
        found.setdefault(benchmark, {})[f"{layers}L_{short(method)}"] = means
    return found


def short(method: str) -> str:
    """A method as a name; the words of one that is too long for `make compare` are cut."""
    words = re.sub(r"[^\w×=-]+", "_", method).split("_")
    return "_".join(words if len(method) <= LONGEST else [word[:CUT] for word in words])


def curves(runs: pd.DataFrame) -> pd.DataFrame:
    """Accuracy and widths after each task, one line per method."""
    row = runs["benchmark"] + " " + runs["layers"].astype(str) + "L " + runs["method"]
    names = ["accuracy", *(name for name in runs if name.startswith("width_"))]
    means = runs.dropna(subset="accuracy").groupby([row.rename("row"), "task"], sort=False)[names].mean()
    return means.round(4).reset_index()


def of_suite(suite: str) -> dict[Path, str]:
    """Both files of a suite, by path."""
    runs = pd.read_csv(RESULTS / suite / "runs.csv")
    return {
        METRICS / f"{suite}.json": json.dumps(metrics(runs), indent=1, ensure_ascii=False) + "\n",
        PLOTS / f"{suite}.csv": curves(runs).to_csv(index=False, lineterminator="\n"),
    }


def computed(params: Params) -> dict[str, str]:
    """The suites that have results, each with its stage."""
    return {name: suite.stage for name, suite in suites(params).items() if (RESULTS / name / "runs.csv").exists()}


def write(suite: str) -> None:
    """Both files of a suite."""
    for path, content in of_suite(suite).items():
        write_text(path, content)


def main(arguments: list[str]) -> None:
    """The files of all suites, from their results; then `dvc commit -f STAGE` tells DVC of them."""
    for suite in (found := computed(load())):
        write(suite)
    print(f"metrics: {METRICS} and {PLOTS} hold the means of {len(found)} suites")
