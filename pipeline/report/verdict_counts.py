"""The verdict counts and where to read more, for the end of `make repro` and for pull requests."""

import json

import pandas as pd

from pipeline.evidence.claims import overall
from pipeline.evidence.intervals import FAILS, HOLDS
from pipeline.evidence.readings import CATEGORIES
from pipeline.paths import CLAIMS, PAGE, TABLES, VERDICTS
from pipeline.report.readings_table import CLAIMS as READINGS

PARTS = {"all": "all cells", "held_out": "cells that chose nothing", "selected_on": "cells that helped to choose"}


def main(arguments: list[str]) -> None:
    """Print the counts as Markdown."""
    for table, quantities in json.loads(VERDICTS.read_text(encoding="utf-8")).items():
        for quantity, counts in quantities.items():
            for part, words in PARTS.items():
                match, cells = counts[part]["match"], counts[part]["cells"]
                if cells:
                    print(f"- {table}, {quantity}: {match} of {cells} match the paper ({words})")
    claims = list(overall(pd.read_csv(CLAIMS)))
    held, failed = claims.count(HOLDS), claims.count(FAILS)
    print(f"- claims: {held} of {len(claims)} hold, {failed} do not, {len(claims) - held - failed} are undecided")
    kinds = pd.read_csv(READINGS, keep_default_na=False).drop_duplicates("claim")["category"]
    shown = ", ".join(f"{(kinds == kind).sum()} “{kind}”" for kind in CATEGORIES if (kinds == kind).any())
    print(f"- claims over all readings of the paper: {shown}")
    print(f"\nEvery claim and every cell, ours beside the paper's: {PAGE}; as CSV and Markdown: {TABLES}")
