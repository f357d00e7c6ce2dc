"""Stage report: everything that a reviewer needs, as one HTML file that opens from disk.

The page is made of committed files alone, so the same files give the same bytes.
"""

import base64
import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline.claims import LEGEND, MARKS, MISSING, overall
from pipeline.files import write_text
from pipeline.names import title
from pipeline.params import Params, load_or_exit
from pipeline.paths import CLAIMS, DIFFERENCES, FIGURES, PAGE, RECONSTRUCTION, REGISTRY, RESULTS, TABLES, TIMING
from pipeline.tables import EXTRA_HEADS, SAME_IN_THE_PAPER, counts, number, suites_of_tables
from pipeline.tables import MARKS as CELL_MARKS
from pipeline.words import body_of, markdown, section_of

TEMPLATES = Path(__file__).parent / "page"
#: Title, place in the paper, and the stages that compute each table.
HEADS = {
    "main": ("Table 1: NORACL and static networks", "section 5.1", "train"),
    "cifar10": ("Split CIFAR-10 on frozen features", "section 5.2", "cifar10"),
    "cifar10_sizes": ("Split CIFAR-10: image sizes that were compared", "not in the paper", "cifar10_sizes"),
    "ablations": ("Ablations: initialisation and growth triggers", "section A.6", "ablations"),
    "sensitivity": ("Sensitivity to the thresholds", "section A.8", "sensitivity"),
}
#: The same for tables that are not a row a method.
OTHER = {
    "cost": ("Computational cost", "section A.7; wall-clock, of this machine", "cost"),
    "theory": ("Random pattern association", "section 4 and A.2.1", "theory summaries@theory"),
    "transfer": ("New and old parameters in ReLU networks", "section A.2.2", "transfer summaries@transfer"),
}

STUDY = "reconstruction"  # a table and a figure


def head(name: str) -> tuple[str, str, str]:
    """What stands over a table."""
    if name.startswith("stress"):
        return (
            f"Stress test: {name.removeprefix('stress')} permuted tasks",
            "sections 5.4 and A.5",
            "stress_noracl stress_static",
        )
    return HEADS.get(name, (name, "", name))


# Numbers


def signed(value: float, unit: str) -> str:
    """Three figures with a real minus, and a plus where the number is a difference."""
    text = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    plus = "+" if value > 0 and unit in ("points", "neurons", "events per task") else ""
    return plus + text.replace("-", "−")


def whisker(part: dict[str, Any]) -> dict[str, float] | None:
    """Where things stand in a drawing 100 wide: the claimed range, the interval, its mean, the paper's number."""
    if math.isnan(part["low"]):
        return None
    names = ("low", "high", "value", "at_least", "at_most", "paper_value")
    shown = {name: part[name] for name in names if math.isfinite(part[name])}
    low, high = min(shown.values()), max(shown.values())
    pad = (high - low) * 0.12 or 1.0

    def place(value: float) -> float:
        return float(round((value - low + pad) / (high - low + 2 * pad) * 100, 1))

    ends = {"from": place(part["at_least"]) if "at_least" in shown else 0.0}
    ends["to"] = place(part["at_most"]) if "at_most" in shown else 100.0
    return {name: place(value) for name, value in shown.items()} | ends


def claims() -> list[dict[str, Any]]:
    """Every claim with its parts."""
    words = ["reason", "paper_in_range"]
    table = pd.read_csv(CLAIMS, dtype=dict.fromkeys(words, str))
    table[words] = table[words].fillna("")
    table[["range", "why"]] = table["threshold"].str.split(": ", n=1, expand=True)
    verdicts = overall(table)
    found = []
    for name, parts in table.groupby("claim", sort=False):
        rows = [{**row, "whisker": whisker(row)} for row in parts.to_dict("records")]
        stages = dict.fromkeys(stage for row in rows for stage in row["command"].split()[2:-1])
        command = f"dvc repro {' '.join(stages)} claims"
        alike = {c: rows[0][c] if parts[c].nunique() == 1 else "" for c in ("statistic", "why")}
        missing = sum(row["reason"].startswith(MISSING) for row in rows)
        whole = {"parts": rows, "overall": verdicts[name], "command": command, "alike": alike, "missing": missing}
        found.append({**rows[0], **whole})
    return found


def tally(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Matching cells of all tables, by quantity; a cell that several tables print counts once."""
    repeated = set(SAME_IN_THE_PAPER[1:])
    frames = []
    for name in names:
        frame = pd.read_csv(TABLES / f"{name}.csv", keep_default_na=False)
        frames.append(frame[[(name, row) not in repeated for row in frame["row"]]])
    cells = pd.concat(frames, ignore_index=True)
    return {"accuracy": counts(cells), "params": counts(cells, "params_verdict")}


# Tables


def table_of(name: str) -> dict[str, Any]:
    """A table: benchmarks side by side, ours above the paper's in every cell."""
    frame = pd.read_csv(TABLES / f"{name}.csv", keep_default_na=False, na_values=[""])
    benchmarks = list(dict.fromkeys(frame["benchmark"]))
    extra = EXTRA_HEADS.get("stress" if name.startswith("stress") else name, {})
    rows = []
    for row in dict.fromkeys(frame["row"]):
        cells: list[dict[str, Any] | None] = []
        for benchmark in benchmarks:
            found = frame[(frame["row"] == row) & (frame["benchmark"] == benchmark)].to_dict("records")
            cells += [cell_of(found[0], "params"), cell_of(found[0], "acc")] if found else [None, None]
        extras = [None if pd.isna(found[0][column]) else int(found[0][column]) for column in extra]
        rows.append({"name": row, "cells": cells, "extras": extras})
    heading, paper, stage = head(name)
    return {
        "name": name,
        "title": heading,
        "paper": paper,
        "command": f"dvc repro {stage} tables",
        "benchmarks": [title(benchmark) for benchmark in benchmarks],
        "extra": list(extra.values()),
        "rows": rows,
        "seeds": ", ".join(str(n) for n in sorted(set(frame["seeds"]))),
        "selected": "yes" in set(frame["selected_on"]),
        "accuracy": counts(frame),
        "params": counts(frame, "params_verdict"),
    }


def cell_of(cell: dict[str, Any], quantity: str) -> dict[str, Any]:
    """One number of ours and the paper's, with its verdict."""
    thousands = quantity == "params"
    verdict = cell["params_verdict" if thousands else "verdict"]
    infeasible = int(cell.get("infeasible") or 0)
    mine = number(cell[f"{quantity}_mean"], cell[f"{quantity}_sd"], thousands)
    return {
        "ours": f"infeasible in {infeasible} of {infeasible + cell['seeds']} seeds" if infeasible else mine,
        "paper": number(cell[f"paper_{quantity}"], cell[f"paper_{quantity}_sd"], thousands),
        "value": "" if pd.isna(cell[f"{quantity}_mean"]) else cell[f"{quantity}_mean"],
        "verdict": verdict,
        "mark": CELL_MARKS[verdict],
        "selected": cell["selected_on"] == "yes",
    }


def other_tables(parts: dict[str, str]) -> list[dict[str, Any]]:
    """Tables of another shape, as their stages write them for people; those that have been computed."""
    found = []
    for name, (heading, paper, stage) in OTHER.items():
        if (path := TABLES / f"{name}.md").exists():
            body = markdown(path.read_text(), parts)
            found.append(
                {"name": name, "title": heading, "paper": paper, "command": f"dvc repro {stage}", "body": body}
            )
    return found


def study(parts: dict[str, str]) -> dict[str, Any]:
    """The reconstruction study, which has a section of its own, once it has been computed."""
    path = TABLES / f"{STUDY}.md"
    return {"name": STUDY, "body": markdown(path.read_text(), parts) if path.exists() else ""}


# Figures


def figures() -> list[dict[str, str]]:
    """Every figure of the registry, embedded."""
    if not REGISTRY.exists():
        return []
    found = []
    for figure in yaml.safe_load(REGISTRY.read_text()) or []:
        data = base64.b64encode((FIGURES / f"{figure['name']}.svg").read_bytes()).decode()
        found.append({**figure, "source": f"data:image/svg+xml;base64,{data}"})
    return found


# Provenance


def digest(folder: Path) -> str:
    """What `cat <folder>/* | sha256sum` prints (LC_ALL=C)."""
    content = hashlib.sha256()
    for path in sorted(folder.iterdir(), key=lambda one: one.name.encode()):
        content.update(path.read_bytes())
    return content.hexdigest()


def provenance() -> list[dict[str, Any]]:
    """Every suite: runs, seconds, and the machines that computed it."""
    found = []
    for path in sorted(RESULTS.glob("*.provenance.json")):
        name = path.name.removesuffix(".provenance.json")
        timing = TIMING / f"{name}.csv"
        seconds = pd.read_csv(timing)["total"] if timing.exists() else pd.Series(dtype=float)
        machines = json.loads(path.read_text())
        made = [", ".join(f"{key} {value}" for key, value in machine.items()) for machine in machines]
        found.append({"suite": name, "runs": len(seconds), "seconds": float(seconds.sum()), "machines": made})
    return found


def build(params: Params) -> str:
    """The page."""
    found = claims()
    parts = {part["id"]: part["verdict"] for claim in found for part in claim["parts"]}
    names = list(suites_of_tables(params))
    verdicts = [claim["overall"] for claim in found]
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["signed"] = signed
    return environment.get_template("index.html.jinja").render(
        claims=found,
        held={verdict: verdicts.count(verdict) for verdict in MARKS},
        marks=MARKS,
        legend=LEGEND,
        tally=tally(names),
        tables=[table_of(name) for name in names],
        others=other_tables(parts),
        figures=figures(),
        study=study(parts),
        chosen=markdown(section_of(RECONSTRUCTION, "Chosen by comparing with the paper's accuracies"), parts),
        reconstruction=markdown(body_of(RECONSTRUCTION), parts),
        differences=markdown(body_of(DIFFERENCES), parts),
        provenance=provenance(),
        digest=digest(RESULTS),
        params=params,
    )


def main() -> None:
    """Command line of the stage."""
    write_text(PAGE, build(load_or_exit()))
    print(f"report: {PAGE}, {PAGE.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
