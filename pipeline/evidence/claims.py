"""Stage claims: a verdict on every claim of the paper that reports/claims.yaml lists, computed from the results."""

import math
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import BaseModel, BeforeValidator, field_validator

from pipeline import markdown
from pipeline.config import Params, load
from pipeline.evidence.intervals import MARKS, UNDECIDED, Interval, Range, interval, of_parts
from pipeline.evidence.results import EXACT, Cells, Key, paper_by_cell, paper_numbers, results_by_cell
from pipeline.evidence.statistics import STATISTICS
from pipeline.experiments.suites import suites
from pipeline.files import write_text
from pipeline.paths import CLAIMS, CLAIMS_LIST, PAPER, QUESTIONS, QUESTIONS_LIST
from pipeline.plain_yaml import read
from pipeline.sections import Tolerances

MISSING = "not computed"
LEGEND = (
    "A part holds if the 95 % interval over seeds lies in the claimed range, does not hold if it lies outside, and is "
    "undecided otherwise; a claim holds if all its parts hold, and does not hold if one of them does not. Every seed "
    "counts: a statistic that is not defined in a seed, or infinite in some seeds but not in all, decides nothing."
)


class Part(BaseModel, extra="forbid", frozen=True):
    """A claim, or one part of it, that one number decides."""

    what: str
    statistic: str
    cells: list[str]
    under: Annotated[list[str], BeforeValidator(lambda one: [one] if isinstance(one, str) else one)] = []
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    about: float | None = None
    allow: Literal["error", "points", "share"] | None = None
    why: str
    task: int | None = None
    seeds: list[str] | None = None

    @field_validator("statistic")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in STATISTICS:
            raise ValueError(f"{name} is no statistic; there are {', '.join(STATISTICS)}")
        return name

    @property
    def keys(self) -> list[Key]:
        """Its cells, in the statistic's order."""
        paths = [f"{prefix}/{cell}" for prefix in self.under for cell in self.cells] or self.cells
        return [(table, group, row) for table, group, row in (path.split("/", 2) for path in paths)]

    def range(self, paper: pd.DataFrame, limits: Tolerances) -> Range:
        """The range in which the claim puts the statistic."""
        low = next((x for x in (self.at_least, self.above, self.about) if x is not None), -math.inf)
        high = next((x for x in (self.at_most, self.below, self.about) if x is not None), math.inf)
        slack = 0.0
        if self.allow == "error":
            first, *others = (paper.loc[key] for key in self.keys)
            slack = math.hypot(first["acc_sd"], max(others, key=lambda cell: float(cell["acc"]))["acc_sd"])
        elif self.allow == "points":
            slack = limits.accuracy_points
        elif self.allow == "share":
            slack = limits.params_share * abs(low if math.isfinite(low) else high)
        return Range(low - slack, high + slack, strict=self.above is not None or self.below is not None)


class Claim(BaseModel, extra="forbid", frozen=True):
    """A claim of the paper, where it is in the paper, and the parts in which it is tested."""

    id: str
    statement: str
    where: str
    quote: str
    parts: dict[str, Part]


def load_claims(path: Path = CLAIMS_LIST) -> list[Claim]:
    """The list; a key that a claim has beside its own fields is shared by all its parts."""
    found = []
    for entry in read(path.read_text(encoding="utf-8"), path.name):
        own = {name: entry[name] for name in Claim.model_fields}
        shared = {name: value for name, value in entry.items() if name not in own}
        found.append(Claim(**own | {"parts": {name: shared | part for name, part in own["parts"].items()}}))
    return found


def seeds_behind(part: Part, cells: Cells) -> list[str]:
    """Every seed of the suites behind a part, also one in which the suite has nothing that the part is about."""
    suites = {cells[key]["suite"].iloc[0] for key in part.keys}
    seeds = {seed for cell in cells.values() if cell["suite"].iloc[0] in suites for seed in cell["seed"]}
    return sorted(seeds - {EXACT})


def compute(part: Part, cells: Cells) -> "pd.Series[float]":
    """The statistic, one number for every seed: NaN where it is not defined."""
    frames = [cells[key] for key in part.keys]
    if part.task is not None:
        frames = [frame[frame["task"] <= part.task] for frame in frames]
    if part.seeds is not None:
        frames = [frame[frame["seed"].isin(part.seeds)] for frame in frames]
    values = STATISTICS[part.statistic].function(*frames).astype(float).round(6)
    return values if list(values.index) == [EXACT] else values.reindex(part.seeds or seeds_behind(part, cells))


def judge(part: Part, wanted: Range, ours: Cells) -> tuple[Interval, str]:
    """The interval, which says why if there is none, and the verdict."""
    missing: dict[str, list[str]] = {}
    for table, group, row in part.keys:
        if (table, group, row) not in ours:
            missing.setdefault(f"{table}/{group}", []).append(row)
    if missing:
        lacking = "; ".join(f"{place}: {', '.join(rows)}" for place, rows in missing.items())
        return Interval(math.nan, math.nan, math.nan, 0, f"{MISSING}: no results of {lacking}"), UNDECIDED
    found = interval(compute(part, ours))
    return found, wanted.verdict(found)


def evaluate(claims: list[Claim], ours: Cells, params: Params) -> pd.DataFrame:
    """One row per part."""
    paper = paper_numbers()
    theirs = paper_by_cell(paper)
    stages = {suite.name: suite.stage for suite in suites(params).values()}
    selected = pd.MultiIndex.from_frame(pd.read_csv(PAPER / "selected_on.csv")[["table", "benchmark", "row"]])
    rows = []
    for claim in claims:
        for name, part in claim.parts.items():
            statistic, wanted = STATISTICS[part.statistic], part.range(paper, params.tolerances)
            (found, verdict), (printed, _) = judge(part, wanted, ours), judge(part, wanted, theirs)
            in_range = "" if math.isnan(printed.mean) else "yes" if printed.mean in wanted else "no"
            behind = [ours[key]["suite"].iloc[0] for key in part.keys if key in ours]
            needed = dict.fromkeys(stages.get(suite, suite) for suite in behind)
            rows.append(
                {"claim": claim.id, "id": name, "statement": claim.statement, "part": part.what}
                | {"where": claim.where, "quote": claim.quote, "statistic": statistic.words}
                | {"value": found.mean, "low": found.low, "high": found.high}
                | {"unit": statistic.unit, "seeds": found.seeds, "at_least": wanted.low, "at_most": wanted.high}
                | {"threshold": f"{wanted.words()} {statistic.unit}: {part.why}"}
                | {"paper_value": printed.mean, "paper_in_range": in_range, "verdict": verdict, "reason": found.reason}
                | {"selected_on": "yes" if selected.isin(part.keys).any() else "no"}
                | {"command": f"dvc repro {' '.join(needed)} claims"}
            )
    return pd.DataFrame(rows)


def overall(table: pd.DataFrame) -> "pd.Series[str]":
    """The verdict on each claim from those on its parts."""
    return table.groupby("claim", sort=False)["verdict"].agg(lambda verdicts: of_parts(list(verdicts)))


def to_markdown(table: pd.DataFrame) -> str:
    """One row per claim, for people."""
    rows, verdicts = [], overall(table)
    for name, parts in table.groupby("claim", sort=False):
        counts = parts["verdict"].value_counts()
        marks = ", ".join(f"{counts[one]} {mark}" for one, mark in MARKS.items() if one in counts)
        if missing := int(parts["reason"].str.startswith(MISSING).sum()):
            marks += f" ({missing} not computed)"
        claim, verdict = parts.iloc[0], verdicts[name]
        rows.append((f"{MARKS[verdict]} {verdict}", claim["statement"], claim["where"], marks))
    return markdown.table(("verdict", "claim", "in the paper", "parts"), rows, LEGEND)


def build(params: Params) -> dict[Path, str]:
    """Every file of the stage, by path."""
    files, cells = dict[Path, str](), results_by_cell()
    for asked, path in ((CLAIMS_LIST, CLAIMS), (QUESTIONS_LIST, QUESTIONS)):
        table = evaluate(load_claims(asked), cells, params)
        files[path] = table.to_csv(index=False, lineterminator="\n", float_format="%.6g")
        files[path.with_suffix(".md")] = to_markdown(table)
    return files


def main(arguments: list[str]) -> None:
    """Stage claims."""
    for path, content in build(load()).items():
        write_text(path, content)
