"""The paper against itself, as a table: which of its printed numbers contradict each other."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline import markdown
from pipeline.config import Params
from pipeline.evidence.contradictions import Contradiction, find
from pipeline.paths import TABLES
from pipeline.report.labels import benchmark_title

COLUMNS = ["what", "benchmark", "where", "printed", "expected", "quantity", "cells"]
HEADS = ("what", "benchmark", "in the paper", "printed", "would have to be", "cells")
NOTE = (
    "Computed from the numbers in `reports/paper` alone. Numbers contradict each other if they differ by more than two "
    "standard errors; widths that the text gives with ∼ may be off by one neuron, and are taken to be of the runs in "
    "the table. Nobody can match both sides of such a row. In the tables of results, † marks a miss in one of these "
    "cells."
)


def paths(one: Contradiction) -> list[str]:
    """Its cells, written as in claims.yaml."""
    return ["/".join(key) for key in one.cells]


def to_csv(found: Sequence[Contradiction]) -> str:
    """One line per contradiction."""
    rows = [vars(one) | {"cells": "; ".join(paths(one))} for one in found]
    return str(pd.DataFrame(rows, columns=COLUMNS).to_csv(index=False, lineterminator="\n"))


def to_markdown(found: Sequence[Contradiction], params: Params) -> str:
    """The same for people."""
    quantities = {"params": "parameters", "acc": "accuracy"}
    rows = [
        (
            *(one.what, benchmark_title(one.benchmark, params), one.where, one.printed, one.expected),
            f"{quantities[one.quantity]} of {', '.join(f'`{path}`' for path in paths(one))}",
        )
        for one in found
    ]
    return markdown.table(HEADS, rows, NOTE)


def build(params: Params) -> dict[Path, str]:
    """Both files, by path."""
    found = find()
    return {TABLES / "contradictions.csv": to_csv(found), TABLES / "contradictions.md": to_markdown(found, params)}
