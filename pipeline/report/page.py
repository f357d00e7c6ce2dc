"""Stage page: everything that a reviewer needs, as one HTML file; the same committed files give the same bytes."""

import base64
import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline.config import Params, load
from pipeline.evidence.claims import LEGEND, MISSING, overall
from pipeline.evidence.intervals import MARKS
from pipeline.evidence.readings import MARKS as ALL_MARKS
from pipeline.experiments import beyond
from pipeline.experiments.suites import suites
from pipeline.files import write_text
from pipeline.paths import (
    CLAIMS,
    DIFFERENCES,
    FIGURES,
    PAGE,
    QUESTIONS,
    RECONSTRUCTION,
    RESULTS,
    TABLES,
    TIMING,
    VERDICTS,
)
from pipeline.report import charts, readings_page, summary, tables
from pipeline.report.figures import registry
from pipeline.report.labels import benchmark_title, table_title
from pipeline.report.rendering import body_of, markdown, section_of
from pipeline.report.tables import Matches, cell_of

#: Tables that are not one row per method, with the stages that compute them.
OTHER = {"cost": "cost tables", "theory": "theory tables", "hours": "tables"}


def signed(value: float, unit: str) -> str:
    """Three figures with a real minus, and a plus where the number is a difference."""
    plus = "+" if value > 0 and unit in ("points", "neurons", "events per task") else ""
    return plus + f"{value:.{1 if abs(value) >= 10 else 2}f}".replace("-", "−").replace("inf", "∞")


def whisker(part: dict[str, Any]) -> dict[str, float] | None:
    """The places of a part's numbers in a drawing 100 wide: the claimed range, the interval, its mean, the paper's."""
    if not math.isfinite(part["low"]):
        return None
    names = ("low", "high", "value", "at_least", "at_most", "paper_value")
    shown = {name: part[name] for name in names if math.isfinite(part[name])}
    low, high = min(shown.values()), max(shown.values())
    pad = (high - low) * 0.12 or 1.0
    places = {name: round((value - low + pad) / (high - low + 2 * pad) * 100, 1) for name, value in shown.items()}
    return places | {"from": places.get("at_least", 0.0), "to": places.get("at_most", 100.0)}


def judged(path: Path) -> list[dict[str, Any]]:
    """Every claim or question of a file with its parts."""
    table = pd.read_csv(path, dtype={"reason": str, "paper_in_range": str})
    table = table.fillna({"reason": "", "paper_in_range": ""})
    table[["range", "why"]] = table["threshold"].str.split(": ", n=1, expand=True)
    verdicts, found = overall(table), []
    for name, parts in table.groupby("claim", sort=False):
        rows = parts.to_dict("records")
        rows = [row | {"whisker": whisker(row), "known": not math.isnan(row["value"])} for row in rows]
        stages = dict.fromkeys(stage for row in rows for stage in row["command"].split()[2:-1])
        alike = {column: rows[0][column] if parts[column].nunique() == 1 else "" for column in ("statistic", "why")}
        missing = int(parts["reason"].str.startswith(MISSING).sum())
        whole = {"parts": rows, "overall": verdicts[name], "alike": alike, "missing": missing}
        found.append(rows[0] | whole | {"command": f"dvc repro {' '.join(stages)} claims"})
    return found


def table_of(name: str, params: Params, matches: Matches) -> dict[str, Any]:
    """A table: benchmarks side by side, ours above the paper's in every cell."""
    frame = pd.read_csv(TABLES / f"{name}.csv", keep_default_na=False, na_values=[""])
    extra = tables.EXTRA_HEADS.get(tables.kind(name), {})
    rows = [
        {
            "name": row,
            "cells": [cell_of(cell, quantity) if cell else None for cell in cells for quantity in ("params", "acc")],
            "extras": [None if pd.isna(cells[-1][column]) else int(cells[-1][column]) for column in extra],
        }
        for row, cells in tables.grid(frame).items()
    ]
    heading, paper = table_title(name)
    stages = [suite.stage.partition("@")[0] for suite in suites(params).values() if suite.table == tables.kind(name)]
    return {
        "name": name,
        "title": heading,
        "paper": paper,
        "command": f"dvc repro {' '.join(dict.fromkeys(stages))} tables",
        "benchmarks": [benchmark_title(benchmark, params) for benchmark in dict.fromkeys(frame["benchmark"])],
        "compared": bool(frame[["paper_params", "paper_acc"]].notna().any(axis=None)),
        "extra": list(extra.values()),
        "rows": rows,
        "seeds": " or ".join(map(str, sorted(set(frame["seeds"])))),
        "matches": matches,
    }


def other_tables(parts: dict[str, str]) -> list[dict[str, Any]]:
    """Tables of another shape, as they are written for people."""
    found = []
    for name, stages in OTHER.items():
        heading, paper = table_title(name)
        body = markdown((TABLES / f"{name}.md").read_text(encoding="utf-8"), parts)
        found.append({"name": name, "title": heading, "paper": paper, "command": f"dvc repro {stages}", "body": body})
    return found


def released_notes(names: Iterable[str]) -> list[str]:
    """Whence we know the authors' released numbers in these tables."""
    frames = [pd.read_csv(TABLES / f"{name}.csv", usecols=["released_source"], dtype=str) for name in names]
    return [tables.RELEASED[source] for source in sorted(set(pd.concat(frames)["released_source"].dropna()))]


def figures() -> list[dict[str, str]]:
    """Every figure of the registry, embedded."""
    found = []
    for name, figure in registry().items():
        data = base64.b64encode((FIGURES / f"{name}.svg").read_bytes()).decode()
        found.append(asdict(figure) | {"source": f"data:image/svg+xml;base64,{data}"})
    return found


def digest(folder: Path) -> str:
    """What `find <folder> -type f | sort | xargs cat | sha256sum` prints (LC_ALL=C)."""
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.as_posix().encode())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def provenance() -> list[dict[str, Any]]:
    """What computed the suites: one row for all suites that the same machines computed, with runs and wall-clock."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(RESULTS.rglob("provenance.json")):
        table, _, suite = path.parent.relative_to(RESULTS).as_posix().partition("/")
        timing = TIMING / table / f"{suite}.csv"
        seconds = pd.read_csv(timing)["total"] if timing.exists() else pd.Series(dtype=float)
        machines = json.loads(path.read_text(encoding="utf-8"))
        made = "; ".join(", ".join(f"{key} {value}" for key, value in machine.items()) for machine in machines)
        row = found.setdefault(made, {"machines": made, "suites": {}, "runs": 0, "hours": 0.0})
        row["suites"].setdefault(table, []).append(suite)
        row["runs"] += len(seconds)
        row["hours"] += float(seconds.sum()) / 3600
    return list(found.values())


def build(params: Params) -> str:
    """The page."""
    found, questions, names = judged(CLAIMS), judged(QUESTIONS), tables.names(params)
    parts = {part["id"]: part["verdict"] for claim in found for part in claim["parts"]}
    verdicts = [claim["overall"] for claim in found]
    computed = [one["overall"] for one in questions if one["missing"] < len(one["parts"])]
    answers = [(computed.count(verdict), verbs) for verdict, verbs in summary.VERBS.items()]
    readings, drawings = readings_page.comparison(found, params), figures()
    matches: dict[str, Matches] = json.loads(VERDICTS.read_text(encoding="utf-8"))
    tally = matches[tables.ALL]
    templates = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(
        loader=templates, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["signed"] = signed
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    return environment.get_template("index.html.jinja").render(
        claims=found,
        held={verdict: verdicts.count(verdict) for verdict in MARKS},
        marks=ALL_MARKS,
        summary=summary.sentences(found, readings, tally, params),
        readings=readings,
        questions=questions,
        asked=list(beyond.QUESTIONS),
        answered=len(computed),
        answers=[summary.said(count, verbs) for count, verbs in answers if count],
        legend=LEGEND,
        tally=tally,
        tables=[table_of(name, params, matches[name]) for name in names],
        others=other_tables(parts),
        released=released_notes(names),
        contradictions=markdown((TABLES / "contradictions.md").read_text(encoding="utf-8"), parts),
        figures=drawings,
        charts=charts.embedded([figure["name"] for figure in drawings], params),
        chosen=markdown(section_of(RECONSTRUCTION, "Chosen by comparing with the paper's accuracies"), parts),
        reconstruction=markdown(body_of(RECONSTRUCTION), parts),
        differences=markdown(body_of(DIFFERENCES), parts),
        provenance=provenance(),
        digest=digest(RESULTS),
        params=params,
    )


def main(arguments: list[str]) -> None:
    """Stage page."""
    write_text(PAGE, build(load()))
    print(f"page: {PAGE}, {PAGE.stat().st_size / 1e6:.1f} MB")
