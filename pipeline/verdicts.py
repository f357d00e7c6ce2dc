"""The verdict counts and where to read more, for the end of `make repro` and for pull requests."""

import json

import pandas as pd

from pipeline.claims import overall
from pipeline.intervals import FAILS, HOLDS
from pipeline.paths import CLAIMS, METRICS, PAGE, TABLES

PARTS = {
    "all": "all cells",
    "held_out": "cells that played no part in choosing the configuration",
    "selected_on": "cells that helped to choose it",
}


def main() -> None:
    """Print the counts as Markdown."""
    for table, quantities in json.loads(METRICS.read_text())["verdicts"].items():
        for quantity, counts in quantities.items():
            for part, words in PARTS.items():
                match, cells = counts[part]["match"], counts[part]["cells"]
                if cells:
                    print(f"- {table}, {quantity}: {match} of {cells} match the paper ({words})")
    claims = list(overall(pd.read_csv(CLAIMS)))
    held, failed = claims.count(HOLDS), claims.count(FAILS)
    print(f"- claims: {held} of {len(claims)} hold, {failed} do not, {len(claims) - held - failed} are undecided")
    print(f"\nEvery claim and every cell, ours beside the paper's: {PAGE}; as CSV and Markdown: {TABLES}")


if __name__ == "__main__":
    main()
