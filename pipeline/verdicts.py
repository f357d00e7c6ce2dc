"""The verdict counts and where to read more, for the end of `make repro` and for pull requests."""

import json

from pipeline.paths import METRICS, TABLES

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
    print(f"\nEvery cell, ours beside the paper's: {TABLES}")


if __name__ == "__main__":
    main()
