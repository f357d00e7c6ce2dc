"""Tables of the readings: every part and every claim under each of them, and the cells that these come from."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline import markdown
from pipeline.config import Params
from pipeline.evidence import contradictions, results
from pipeline.evidence.claims import Claim, load_claims
from pipeline.evidence.readings import (
    CATEGORIES,
    MARKS,
    NOT_AFFECTED,
    OPEN,
    OUTSIDE,
    by_claim,
    category,
    cells_under,
    evaluate,
    turned,
    where_settled,
)
from pipeline.paths import PAPER, TABLES
from pipeline.readings import BASE
from pipeline.report.comparison import COLUMNS, compare
from pipeline.report.labels import reading_title

PARTS, CLAIMS, CELLS = (TABLES / f"{name}.csv" for name in ("readings", "readings_claims", "readings_cells"))
REPLACED = ("main", "ablations")  # the tables that a reading replaces, the first of them in part


def runs_under(reading: str, params: Params) -> pd.DataFrame | None:
    """What a reading replaces: the deepest networks of Table 1, and the ablations; of base, the main results."""
    if reading != BASE:
        return results.under_reading(reading)
    runs, depths = results.runs(*REPLACED), {name: max(map(len, one.start)) for name, one in params.benchmarks.items()}
    there = runs["benchmark"].isin(params.ablations.benchmarks) & (runs["layers"] == runs["benchmark"].map(depths))
    return runs[there]


def cells(params: Params) -> pd.DataFrame:
    """Every cell under every reading that is computed, beside the paper's."""
    chosen, found, frames = pd.read_csv(PAPER / "selected_on.csv"), contradictions.find(), []
    for reading in (BASE, *params.readings):
        if (runs := runs_under(reading, params)) is None:
            continue
        for table in REPLACED:
            selected = chosen[(chosen["table"] == table) & (reading == BASE)]  # no other reading chose anything
            contradicted = contradictions.concerned(found, table)
            ours, theirs = runs[runs["table"] == table], results.paper(table)
            compared = compare(ours, theirs, selected, params.tolerances, None, contradicted)
            frames.append(compared[[*COLUMNS, "infeasible"]].assign(reading=reading, table=table))
    whole = pd.concat([frame.astype(object) for frame in frames], ignore_index=True)
    return whole[["reading", "table", *COLUMNS, "infeasible"]]


def claims_table(claims: Sequence[Claim], parts: pd.DataFrame) -> pd.DataFrame:
    """One row per claim and reading: the verdict there, and what all readings together say."""
    compared = parts[parts["verdict"] != NOT_AFFECTED].groupby("claim")["part"].nunique()
    verdicts, rows = by_claim(parts), []
    for claim in claims:
        own = verdicts[claim.id]
        whole = {"claim": claim.id, "statement": claim.statement, "parts": len(claim.parts)}
        whole |= {
            "compared": int(compared.get(claim.id, 0)),
            "category": category(own),
            "where_settled": where_settled(own),
        }
        for reading, verdict in own.items():
            turns = "yes" if reading in turned(own) else "no"
            rows.append(whole | {"reading": reading, "verdict": verdict, "turns": turns})
    return pd.DataFrame(rows)


def words(claim: "pd.Series[str]") -> str:
    """What all readings together say of a claim; of an undecided one, also what those say that settle it."""
    if claim["category"] != OPEN:
        return str(claim["category"])
    return f"{OPEN}; {claim['where_settled']} where settled" if claim["where_settled"] else f"{OPEN} under all"


def to_markdown(table: pd.DataFrame, absent: Sequence[str]) -> str:
    """Claims × readings for people; claims that no reading affects are left out."""
    shown = table[table["category"] != OUTSIDE]
    readings = list(dict.fromkeys(table["reading"]))
    rows = []
    for _, own in shown.groupby("claim", sort=False):
        first, marks = own.iloc[0], [MARKS[verdict] for verdict in own["verdict"]]
        rows.append((first["statement"], *marks, words(first), f"{first['compared']} of {first['parts']}"))
    signs = ", ".join(f"{mark} {verdict}" for verdict, mark in MARKS.items() if verdict != NOT_AFFECTED)
    notes = [f"{signs}. Of each claim, only the parts on two-layer networks and ablations are compared."]
    notes += ["; ".join(f"**{name}**: {words}" for name, words in CATEGORIES.items()) + "."]
    notes += [f"Not computed yet: {', '.join(map(reading_title, absent))}."] if absent else []
    return markdown.table(("claim", *map(reading_title, readings), "all readings", "parts compared"), rows, *notes)


def build(params: Params) -> dict[Path, str]:
    """Every file, by path."""
    listed = load_claims()
    parts = evaluate(listed, cells_under(params), params)
    claims = claims_table(listed, parts)
    return {
        PARTS: parts.to_csv(index=False, lineterminator="\n", float_format="%.6g"),
        CLAIMS: claims.to_csv(index=False, lineterminator="\n"),
        CELLS: cells(params).to_csv(index=False, lineterminator="\n"),
        PARTS.with_suffix(".md"): to_markdown(claims, results.missing_readings(params.readings)),
    }
