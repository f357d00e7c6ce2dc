"""Stage claims: a verdict on every claim of the paper that reports/claims.yaml lists, computed from the results."""

import math
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, field_validator

from pipeline import theory_statistics, transfer_statistics  # noqa: F401  (makes their statistics known)
from pipeline.cells import Cells, Key, paper_by_cell, paper_numbers, results_by_cell
from pipeline.files import write_text
from pipeline.intervals import FAILS, HOLDS, UNDECIDED, Interval, Range, interval, of_parts
from pipeline.params import Params, Tolerances, load_or_exit
from pipeline.paths import CLAIMS, CLAIMS_LIST, PAPER, TABLES
from pipeline.statistics import STATISTICS
from pipeline.tables import refresh_readme

MARKS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?"}
MISSING = "not computed"
LEGEND = (
    "A part holds if the 95 % interval over seeds lies in the claimed range, does not hold if it lies outside, and is "
    "undecided otherwise; a claim holds if all its parts hold, and does not hold if one of them does not."
)


class Part(BaseModel):
    """A claim, or one part of it, that one number decides."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    what: str
    statistic: str
    cells: list[str]
    under: list[str] = []
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    about: float | None = None
    allow: Literal["error", "points", "share"] | None = None
    why: str
    task: int | None = None

    @field_validator("under", mode="before")
    @classmethod
    def _one_or_several(cls, value: str | list[str]) -> list[str]:
        return [value] if isinstance(value, str) else value

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


class Claim(BaseModel):
    """A claim of the paper, with where it stands and the parts in which it is tested."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str
    statement: str
    where: str
    quote: str
    parts: dict[str, Part]


def load_claims(path: Path = CLAIMS_LIST) -> list[Claim]:
    """The list; what stands at a claim is the same for all its parts."""
    found = []
    for entry in yaml.safe_load(path.read_text()):
        own = {name: entry[name] for name in ("id", "statement", "where", "quote")}
        shared = {name: value for name, value in entry.items() if name not in {*own, "parts"}}
        found.append(Claim(**own, parts={name: Part(**{**shared, **part}) for name, part in entry["parts"].items()}))
    return found


def compute(part: Part, cells: Cells) -> "pd.Series[float]":
    """The statistic, one finite number per seed."""
    frames = [cells[key] for key in part.keys]
    if part.task is not None:
        frames = [frame[frame["task"] <= part.task] for frame in frames]
    values = STATISTICS[part.statistic].function(*frames).astype(float)
    return values[values.abs() < math.inf].dropna().round(6)


def judge(part: Part, wanted: Range, ours: Cells) -> tuple[Interval | None, str, str]:
    """The interval, the verdict, and why there is none."""
    missing: dict[str, list[str]] = {}
    for table, group, row in part.keys:
        if (table, group, row) not in ours:
            missing.setdefault(f"{table}/{group}", []).append(row)
    if missing:
        lacking = "; ".join(f"{place}: {', '.join(rows)}" for place, rows in missing.items())
        return None, UNDECIDED, f"{MISSING}: no results of {lacking}"
    values = compute(part, ours)
    if values.empty:
        return None, UNDECIDED, "not defined for these results"
    found = interval(values)
    if math.isnan(found.low):
        return found, UNDECIDED, "one seed gives no interval"
    return found, wanted.verdict(found), ""


def stages_of(keys: list[Key]) -> str:
    """The command that computes the cells and then the verdict."""
    stages = []
    for table, group, row in keys:
        name = {
            "main": f"train@{group}-{'noracl' if row.endswith('NORACL') else 'static'}",
            "ablations": f"ablations@{group}",
            "stress": "stress_noracl" if row == "NORACL" else f"stress_static@{row}",
        }.get(table, table)
        stages.append(name)
    return f"dvc repro {' '.join(dict.fromkeys(stages))} claims"


def evaluate(claims: list[Claim], ours: Cells, params: Params) -> pd.DataFrame:
    """A row per part."""
    paper = paper_numbers()
    theirs = paper_by_cell(paper)
    selected = set(
        pd.read_csv(PAPER / "selected_on.csv")[["table", "benchmark", "row"]].itertuples(index=False, name=None)
    )
    rows: list[dict[str, Any]] = []
    for claim in claims:
        for name, part in claim.parts.items():
            wanted = part.range(paper, params.tolerances)
            found, verdict, reason = judge(part, wanted, ours)
            number = found or Interval(math.nan, math.nan, math.nan, 0)
            known = all(key in theirs for key in part.keys) and len(printed := compute(part, theirs))
            paper_value = float(printed.iloc[0]) if known else math.nan
            rows.append(
                {
                    "claim": claim.id,
                    "id": name,
                    "statement": claim.statement,
                    "part": part.what,
                    "where": claim.where,
                    "quote": claim.quote,
                    "statistic": STATISTICS[part.statistic].words,
                    "value": number.mean,
                    "low": number.low,
                    "high": number.high,
                    "unit": STATISTICS[part.statistic].unit,
                    "seeds": number.seeds,
                    "at_least": wanted.low,
                    "at_most": wanted.high,
                    "threshold": f"{wanted.words()} {STATISTICS[part.statistic].unit}: {part.why}",
                    "paper_value": paper_value,
                    "paper_in_range": "" if math.isnan(paper_value) else "yes" if paper_value in wanted else "no",
                    "verdict": verdict,
                    "reason": reason,
                    "selected_on": "yes" if selected & set(part.keys) else "no",
                    "command": stages_of(part.keys),
                }
            )
    return pd.DataFrame(rows)


def overall(table: pd.DataFrame) -> "pd.Series[str]":
    """The verdict on each claim from those on its parts."""
    return table.groupby("claim", sort=False)["verdict"].agg(lambda verdicts: of_parts(list(verdicts)))


def to_markdown(table: pd.DataFrame) -> str:
    """A row per claim, for people."""
    lines = ["| verdict | claim | in the paper | parts |", "| --- | --- | --- | --- |"]
    verdicts = overall(table)
    for name, parts in table.groupby("claim", sort=False):
        claim = parts.iloc[0]
        counts = parts["verdict"].value_counts()
        marks = ", ".join(f"{counts[one]} {mark}" for one, mark in MARKS.items() if one in counts)
        if missing := int(parts["reason"].str.startswith(MISSING).sum()):
            marks += f" ({missing} not computed)"
        verdict = verdicts[name]
        lines.append(f"| {MARKS[verdict]} {verdict} | {claim.statement} | {claim['where']} | {marks} |")
    return "\n".join(lines) + f"\n\n{LEGEND}\n"


def build(params: Params) -> dict[Path, str]:
    """Every file of the stage, by path."""
    table = evaluate(load_claims(), results_by_cell(), params)
    return {
        CLAIMS: table.to_csv(index=False, lineterminator="\n", float_format="%.6g"),
        TABLES / "claims.md": to_markdown(table),
    }


def main() -> None:
    """Command line of the stage."""
    for path, content in build(load_or_exit()).items():
        write_text(path, content)
    refresh_readme()


if __name__ == "__main__":
    main()
