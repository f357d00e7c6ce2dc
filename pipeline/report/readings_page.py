"""The readings on the page: the grid, one view per reading, and which unstated choice decides which claim."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from pipeline.config import Params
from pipeline.evidence.intervals import FAILS, HOLDS
from pipeline.evidence.readings import (
    CATEGORIES,
    DEPENDS,
    EVERY,
    MARKS,
    NOT_AFFECTED,
    OUTSIDE,
    WAITING,
    by_part,
    category,
    steps,
)
from pipeline.readings import BASE
from pipeline.report.labels import benchmark_title, reading_title, table_title
from pipeline.report.readings_table import CELLS, CLAIMS, PARTS, REPLACED, words
from pipeline.report.tables import cell_of, grid

Listed = dict[str, Any]  # what the template reads
Changes = Mapping[str, Mapping[str, object]]
Verdicts = dict[str, dict[str, str]]
#: What the paper leaves open, in words, by the key of params.yaml that decides it here.
CHOICES = {
    r"training\.init": "how the first weights are drawn",
    r"training\.optimisation\.clip_by": "whether the norm of the gradient is clipped or each of its entries",
    r"training\.fisher\.estimator": "whether Fisher information squares the gradient of each sample or of a mini-batch",
    r"training\.fisher\.labels": "which labels Fisher information is computed with",
    r"training\.ewc\.start": "where the average of Fisher information starts",
    r"training\.ewc\.half": "whether the penalty has the factor ½",
    r"noracl\.tau_start": "where the average behind the Fisher threshold starts",
    r"noracl\.ed_layers": "whether one full layer lets all layers grow",
    r"noracl\.boost": "how much higher the learning rate is after growth",
    r"heuristics\.random_scale": "how large the weights of a random initialisation are",
    r"heuristics\.(fsat|loss)_neurons": "how many neurons a rule of the ablations adds",
    r"heuristics\.loss_(window|improvement)": "what counts as a plateau of the loss",
    r"benchmarks\.(\w+)\.outputs": "how many outputs the networks have on {}",
    r"benchmarks\.(\w+)\.stream\.pairs": "which classes are paired on {}",
    r"benchmarks\.(\w+)\.stream\.interpolation": "how images are rotated on {}",
}
SIDES = (("holds", HOLDS), ("fails", FAILS))


def choice(key: str, params: Params) -> str:
    """A choice that the paper leaves open, in words."""
    for pattern, text in CHOICES.items():
        if found := re.fullmatch(pattern, key):
            return text.format(benchmark_title(found[1], params)) if "{}" in text else text
    return f"the value of {key}"


def choices(keys: Iterable[str], params: Params) -> list[str]:
    """Several choices, each once."""
    return list(dict.fromkeys(choice(key, params) for key in keys))


def changes(reading: str, params: Params) -> list[dict[str, str]]:
    """What a reading changes: key, base's value and its own."""
    data, found = params.model_dump(mode="json"), []
    for key, value in params.readings[reading].changes.items() if reading != BASE else ():
        place: Any = data
        for name in key.split("."):
            place = place[name]
        found.append({"key": key, "base": _plain(place), "own": _plain(value)})
    return found


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def tables_under(cells: pd.DataFrame, params: Params) -> list[Listed]:
    """Two-layer Table 1 and the ablations under one reading."""
    found = []
    for table in REPLACED:
        own = cells[cells["table"] == table]
        rows = [
            {"name": row, "cells": [cell_of(one, what) if one else None for one in some for what in ("params", "acc")]}
            for row, some in grid(own).items()
        ]
        names = [benchmark_title(name, params) for name in dict.fromkeys(own["benchmark"])]
        found.append({"title": table_title(table)[0], "benchmarks": names, "rows": rows})
    return found


def parts_under(rows: pd.DataFrame, listed: list[Listed]) -> dict[str, list[Listed]]:
    """The parts that are compared, by claim, with their numbers under one reading."""
    numbers, found = {row["part"]: row for row in rows.to_dict("records")}, {}
    for claim in listed:
        some = [
            {name: part[name] for name in ("id", "part", "unit", "range")}
            | {name: numbers[part["id"]][name] for name in ("value", "low", "high", "verdict", "seeds", "reason")}
            for part in claim["parts"]
            if numbers[part["id"]]["verdict"] != NOT_AFFECTED
        ]
        found[claim["claim"]] = [part | {"known": not math.isnan(part["value"])} for part in some]
    return found


def view(name: str, parts: pd.DataFrame, cells: pd.DataFrame, listed: list[Listed], params: Params) -> Listed:
    """Everything that the page shows of one reading."""
    return {
        "name": name,
        "title": reading_title(name),
        "computed": name in set(cells["reading"]),
        "why": params.readings[name].why if name != BASE else "",
        "changes": changes(name, params),
        "seeds": len(params.seeds if name == BASE else params.reading_seeds),
        "tables": tables_under(cells[cells["reading"] == name], params),
        "parts": parts_under(parts[parts["reading"] == name], listed),
    }


def decisions(own: Changes, verdicts: Verdicts, statements: dict[str, str], params: Params) -> list[Listed]:
    """Which choice turns which claims round, in words; ``statements`` are those of the claims that depend on it."""
    found = []
    for step in steps(own, verdicts):
        turned = [
            {"claim": claim, "statement": statements[claim]}
            | {"before": verdicts[claim][step.against], "after": verdicts[claim][step.reading]}
            for claim in step.claims
            if claim in statements
        ]
        names = {"title": reading_title(step.reading), "against": reading_title(step.against)}
        found += [names | {"choices": choices(step.keys, params), "claims": turned}] if turned else []
    return found


def authors(claims: pd.DataFrame, own: Changes, params: Params) -> Listed:
    """Which readings turn which claims round, which choices do it, and which do nothing; ``own`` are computed."""
    depending = claims[claims["category"] == DEPENDS]
    statements = dict(zip(depending["claim"], depending["statement"], strict=True))
    turning = depending[depending["turns"] == "yes"].groupby("reading", sort=False)["claim"]
    decided = decisions(own, verdicts_of(claims), statements, params)
    explained, verdicts = {claim["claim"] for one in decided for claim in one["claims"]}, verdicts_of(claims)
    idle = [name for name in own if name not in turning.groups]
    return {
        "turned": {str(name): list(which) for name, which in turning},
        "decided": decided,
        "unexplained": [
            {"claim": claim, "statement": statement}
            | {
                side: [(name, reading_title(name)) for name in own if verdicts[claim][name] == one]
                for side, one in SIDES
            }
            for claim, statement in statements.items()
            if claim not in explained
        ],
        "idle": {
            "readings": list(map(reading_title, idle)),
            "choices": choices((key for name in idle for key in own[name]), params),
        },
    }


def kept_parts(parts: pd.DataFrame, listed: list[Listed]) -> list[Listed]:
    """The claims of which some part holds under every reading, with these parts."""
    kinds = {part: category(verdicts) for part, verdicts in by_part(parts).items()}
    found = [
        one | {"kept": [f"{part['part']} ({part['range']})" for part in one["parts"] if kinds[part["id"]] == EVERY]}
        for one in listed
    ]
    return [one for one in found if one["kept"]]


def verdicts_of(claims: pd.DataFrame) -> Verdicts:
    """The verdict on every claim under every reading."""
    groups = claims.groupby("claim", sort=False)
    return {str(claim): dict(zip(rows["reading"], rows["verdict"], strict=True)) for claim, rows in groups}


def comparison(listed: list[Listed], params: Params) -> Listed:
    """Everything that the page says about readings; ``listed`` are the page's claims."""
    claims = pd.read_csv(CLAIMS, keep_default_na=False)
    parts = pd.read_csv(PARTS, dtype={"reason": str}).fillna({"reason": ""})
    cells = pd.read_csv(CELLS, keep_default_na=False, na_values=[""])
    kinds = dict(zip(claims["claim"], claims["category"], strict=True))
    compared = [claim for claim in listed if kinds[claim["claim"]] != OUTSIDE]
    views = [view(name, parts, cells, compared, params) for name in (BASE, *params.readings)]
    own = {one["name"]: params.readings[one["name"]].changes for one in views[1:] if one["computed"]}
    settled = claims.groupby("claim", sort=False)["where_settled"].first()
    by_kind = {kind: [one for one in compared if kinds[one["claim"]] == kind] for kind in CATEGORIES}
    return authors(claims, own, params) | {
        "views": views,
        "other_seeds": len(params.reading_seeds),
        "computed": [one["title"] for one in views[1:] if one["computed"]],
        "missing": [one["title"] for one in views if not one["computed"]],
        "claims": compared,
        "verdicts": verdicts_of(claims),
        "known": set(claims["verdict"]) - {NOT_AFFECTED},
        "words": {str(claim): words(rows.iloc[0]) for claim, rows in claims.groupby("claim", sort=False)},
        "by_kind": by_kind,
        "settled": {str(claim): str(verdict) for claim, verdict in settled.items()},
        "shown": [kind for kind in CATEGORIES if by_kind[kind] or kind not in (OUTSIDE, WAITING)],
        "definitions": CATEGORIES,
        "kept": kept_parts(parts, [one for one in compared if kinds[one["claim"]] != EVERY]),
        "holds": HOLDS,
        "marks": MARKS,
    }
