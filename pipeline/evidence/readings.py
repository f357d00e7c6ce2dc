"""Every claim under every reading of the paper: which hold under all of them, and which choice decides the rest.

A reading replaces two-layer Table 1 and the ablations. A part of a claim is compared if it needs nothing else; all
other parts are left out, for params.yaml as it is ("base") too, so that like is compared with like.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from pipeline.config import Params
from pipeline.evidence.claims import MISSING, Claim, Part, judge
from pipeline.evidence.intervals import FAILS, HOLDS, UNDECIDED, of_parts
from pipeline.evidence.results import Cells, by_cell, paper_numbers, results_by_cell, under_reading
from pipeline.readings import BASE

NOT_AFFECTED, NOT_COMPUTED = "n.a.", MISSING
DECIDED = (HOLDS, FAILS)
MARKS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?", NOT_AFFECTED: "–", NOT_COMPUTED: "…"}
EVERY, NONE, DEPENDS = "holds under every reading", "holds under none", "depends on the reading"
OPEN, WAITING, OUTSIDE = "undecided", "not compared yet", "not affected"
#: The only definition of what the readings together say of a claim, or of one of its parts.
CATEGORIES = {
    EVERY: "it holds under base and under every other reading that is computed",
    NONE: "it does not hold under base, nor under any other reading that is computed: all of them refute it",
    DEPENDS: "it holds under at least one reading and does not hold under at least one other",
    OPEN: "at least one reading does not settle it, and those that do agree with each other",
    WAITING: "base, or every other reading, is still to be computed",
    OUTSIDE: "it needs results that no reading replaces, such as one-layer networks, other benchmarks or the theory",
}
COLUMNS = ["claim", "part", "reading", "value", "low", "high", "verdict", "seeds", "reason"]


def compared(part: Part, params: Params) -> bool:
    """Whether the results under a reading are all that a part needs."""
    benchmarks = params.ablations.benchmarks

    def replaced(table: str, benchmark: str, row: str) -> bool:
        if benchmark not in benchmarks:
            return False
        depth = max(map(len, params.benchmarks[benchmark].start))
        return table == "ablations" or (table == "main" and row.startswith(f"{depth}L "))

    return all(replaced(*key) for key in part.keys)


def cells_under(params: Params) -> dict[str, Cells]:
    """The results of every reading, base first; none where they are not computed."""
    found = {BASE: results_by_cell()}
    for name in params.readings:
        runs = under_reading(name)
        found[name] = {} if runs is None else by_cell(runs)
    return found


def evaluate(claims: Iterable[Claim], results: Mapping[str, Cells], params: Params) -> pd.DataFrame:
    """One row per part and reading, judged by the ranges and intervals of the claims table."""
    paper, rows = paper_numbers(), []
    for claim in claims:
        for name, part in claim.parts.items():
            wanted, affected = part.range(paper, params.tolerances), compared(part, params)
            for reading, ours in results.items():
                found, verdict = judge(part, wanted, ours if affected else {})
                if not affected:
                    numbers = {"verdict": NOT_AFFECTED, "seeds": 0, "reason": ""}
                else:
                    verdict = NOT_COMPUTED if found.reason.startswith(MISSING) else verdict
                    numbers = {"verdict": verdict, "seeds": found.seeds, "reason": found.reason}
                bounds = {"value": found.mean, "low": found.low, "high": found.high}
                rows.append({"claim": claim.id, "part": name, "reading": reading, **bounds, **numbers})
    return pd.DataFrame(rows, columns=COLUMNS)


def of_claim(verdicts: Iterable[str]) -> str:
    """A claim's verdict under a reading, from those on its parts that are compared, by the rule of the claims table."""
    known = [verdict for verdict in verdicts if verdict != NOT_AFFECTED]
    if not known:
        return NOT_AFFECTED
    if NOT_COMPUTED in known and FAILS not in known:
        return NOT_COMPUTED
    return of_parts(known)


def category(verdicts: Mapping[str, str]) -> str:
    """What all readings together say of a claim or a part, by CATEGORIES; ``verdicts`` are by reading, with base."""
    known = {reading: verdict for reading, verdict in verdicts.items() if verdict != NOT_COMPUTED}
    found = set(known.values())
    if NOT_AFFECTED in found:
        return OUTSIDE
    if {HOLDS, FAILS} <= found:
        return DEPENDS
    if BASE not in known or len(known) < 2:
        return WAITING
    return EVERY if found == {HOLDS} else NONE if found == {FAILS} else OPEN


def where_settled(verdicts: Mapping[str, str]) -> str:
    """The one verdict of all readings that settle a claim; empty if none does, or if they contradict each other."""
    found = set(verdicts.values()) & set(DECIDED)
    return found.pop() if len(found) == 1 else ""


def turned(verdicts: Mapping[str, str]) -> list[str]:
    """The readings that turn base's verdict round; if base does not decide, those that do."""
    base = verdicts[BASE]
    return [name for name, verdict in verdicts.items() if verdict in DECIDED and verdict != base and name != BASE]


def by_claim(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """The verdict on every claim under every reading."""
    groups = table.groupby(["claim", "reading"], sort=False)["verdict"]
    found = dict[str, dict[str, str]]()
    for (claim, reading), verdicts in groups:
        found.setdefault(str(claim), {})[str(reading)] = of_claim(verdicts)
    return found


def by_part(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """The verdict on every part under every reading."""
    parts = table.groupby("part", sort=False)
    return {str(part): dict(zip(rows["reading"], rows["verdict"], strict=True)) for part, rows in parts}


@dataclass(frozen=True)
class Step:
    """From one reading to another that changes more: the keys in which they differ, and the claims that turn round."""

    reading: str
    against: str
    keys: tuple[str, ...]
    claims: tuple[str, ...]


def steps(changes: Mapping[str, Mapping[str, object]], verdicts: Mapping[str, Mapping[str, str]]) -> list[Step]:
    """Which choice turns which claims round.

    Each reading is put beside the nearest one that makes only some of its changes (base makes none) and decides the
    claim: their verdicts differ because of the changes that only the first one makes, alone or together.
    """
    items = {BASE: set[str]()} | {
        name: {f"{key}={value}" for key, value in own.items()} for name, own in changes.items()
    }
    found = dict[tuple[str, str], list[str]]()
    for claim, row in verdicts.items():
        for name in changes:
            nearer = [one for one in items if items[one] < items[name] and row.get(one) in DECIDED]
            nearest = max(nearer, key=lambda one: len(items[one]), default=name)
            if row.get(name) in DECIDED and row.get(nearest) != row[name]:
                found.setdefault((name, nearest), []).append(claim)
    return [
        Step(name, nearest, tuple(item.partition("=")[0] for item in sorted(items[name] - items[nearest])), tuple(own))
        for (name, nearest), own in found.items()
    ]
