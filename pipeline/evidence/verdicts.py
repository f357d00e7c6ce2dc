"""The rule by which a cell of a table matches the paper's, and how many do."""

import math

import pandas as pd

PAPER_SEEDS = 5
MARKS = {"match": "✓", "higher": "▲", "lower": "▼", "n/a": ""}


def verdict(ours: float, sd: float, seeds: int, paper: float, paper_sd: float, tolerance: float) -> str:
    """match within max(2 standard errors of the difference, tolerance), else higher or lower; n/a without numbers."""
    if math.isnan(ours) or math.isnan(paper):
        return "n/a"
    # One seed, or a number that the paper prints alone, has no deviation.
    spread, paper_spread = (0.0 if math.isnan(s) else s for s in (sd, paper_sd))
    error = math.sqrt(spread**2 / seeds + paper_spread**2 / PAPER_SEEDS)
    if abs(ours - paper) <= max(2 * error, tolerance):
        return "match"
    return "higher" if ours > paper else "lower"


def counts(table: pd.DataFrame, column: str = "verdict") -> dict[str, dict[str, int]]:
    """Matches and cells, apart for cells that helped to choose the configuration and cells that did not."""
    judged, parts = table[table[column] != "n/a"], {"all": ("yes", "no"), "selected_on": ("yes",), "held_out": ("no",)}
    cells = {name: judged[judged["selected_on"].isin(which)][column] for name, which in parts.items()}
    return {name: {"match": int((found == "match").sum()), "cells": len(found)} for name, found in cells.items()}
