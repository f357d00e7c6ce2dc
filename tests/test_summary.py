"""The sentences at the top of the page: right and grammatical, whatever the evidence says."""

import html
import re
from itertools import product

import pytest

from pipeline.config import load
from pipeline.evidence.intervals import FAILS, HOLDS, UNDECIDED
from pipeline.evidence.readings import CATEGORIES, DEPENDS, EVERY, NONE, OPEN, WAITING
from pipeline.paths import CLAIMS
from pipeline.report import page, readings_page, tables
from pipeline.report.summary import CENTRAL, on_certainty, on_claims, on_readings, sentences

PARAMS = load()


def plain(sentence):
    return html.unescape(re.sub("<[^>]+>", "", str(sentence)))


def claim(name, verdict, where="section 5", parts=()):
    whole = {"claim": name, "statement": f"{name} <is> so", "overall": verdict, "where": where, "missing": 0}
    return whole | {"parts": [{"verdict": one} for one in parts or (verdict,)]}


def test_claims_are_counted_and_central_ones_are_quoted():
    few = [claim("A", HOLDS), claim("B", FAILS, "abstract", [HOLDS, FAILS, FAILS]), claim("C", FAILS)]
    assert plain(on_claims(few, HOLDS)) == f"1 of the paper's 3 claims holds in our runs, and it is not {CENTRAL}."
    assert plain(on_claims(few, FAILS)) == (
        f"2 of the paper's 3 claims do not hold in our runs, including one {CENTRAL}: “B <is> so” (1 of its 3 parts "
        "holds and 2 fail)."
    )
    assert plain(on_claims(few, UNDECIDED)) == "None of the paper's 3 claims is undecided in our runs."
    two = [claim("A", HOLDS, "contribution 1"), claim("B", HOLDS, "abstract", [HOLDS, HOLDS])]
    assert plain(on_claims(two, HOLDS)) == (
        f"2 of the paper's 2 claims hold in our runs, all {CENTRAL}: “A <is> so” and “B <is> so”."
    )
    open_ = claim("A", UNDECIDED, "abstract", [UNDECIDED, UNDECIDED])
    assert plain(on_claims([open_], UNDECIDED)).endswith(
        f" is undecided in our runs, {CENTRAL}: “A <is> so” (2 of its 2 parts are undecided)."
    )
    assert plain(on_claims([claim("A", HOLDS)], HOLDS)) == "1 of the paper's 1 claims holds in our runs."
    others = [claim("A", HOLDS), claim("B", HOLDS), claim("C", FAILS, "abstract")]
    assert plain(on_claims(others, HOLDS)).endswith(f", none of them {CENTRAL}.")
    assert "&lt;is&gt;" in on_claims(few, FAILS)


def readings(others, computed, **kinds):
    """Of those that depend on the reading the first depends on one choice, the others on what cannot be told."""
    names = iter(range(100))
    by_kind = {kind: [claim(f"c{next(names)}", FAILS) for _ in range(kinds.get(kind, 0))] for kind in CATEGORIES}
    turned = by_kind[DEPENDS]
    return {
        "views": [None] * (others + 1),
        "computed": ["r"] * computed,
        "missing": ["r"] * (others - computed),
        "by_kind": by_kind,
        "claims": [one for some in by_kind.values() for one in some],
        "decided": [{"choices": ["how it starts", "what is cut"], "claims": turned[:1]}],
        "unexplained": [{"claim": one["claim"], "holds": ["aa"], "fails": ["bb", "cc"]} for one in turned[1:]],
        "settled": {one["claim"]: ("", FAILS, FAILS, HOLDS)[i % 4] for i, one in enumerate(by_kind[OPEN])},
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (readings(0, 0), "is not known: no other reading of it is listed yet."),
        (readings(1, 0), "is not known: of 1 other reading of the paper none is computed yet."),
        (readings(8, 0), "is not known: of 8 other readings of the paper none is computed yet."),
        (
            readings(8, 3, **{DEPENDS: 2, EVERY: 1, NONE: 2, OPEN: 1, WAITING: 1}),
            "Of the 7 claims that our 4 of 9 readings of the paper (the others are not computed yet) could change, "
            "1 holds under all, 2 fail under all, 2 depend on the reading, 1 is undecided under some and 1 still lacks "
            "results. “c3 <is> so” depends on how it starts and what is cut; “c4 <is> so” holds under a, but not under "
            "b and c.",
        ),
        (
            readings(8, 8, **{OPEN: 12}),
            "Of the 12 claims that our 9 readings of the paper could change, none holds under all, none fails under "
            "all and 12 are undecided under some (where settled, 3 hold and 6 do not hold).",
        ),
        (
            readings(1, 1, **{DEPENDS: 1}),
            "Of the one claim that our 2 readings of the paper could change, none holds under all, none fails under "
            "all and 1 depends on the reading. “c0 <is> so” depends on how it starts and what is cut.",
        ),
        (readings(8, 8, **{DEPENDS: 7}), "“c2 <is> so” holds under a, but not under b and c; and 4 more."),
    ],
)
def test_what_depends_on_the_reading(given, expected):
    assert plain(on_readings(given)).endswith(expected)


def test_how_sure_it_is():
    def said(all_, free):
        counts = {
            "all": dict(zip(("match", "cells"), all_, strict=True)),
            "held_out": dict(zip(("match", "cells"), free, strict=True)),
        }
        return plain(on_certainty({"accuracy": counts}, PARAMS))

    assert "in 3 of 9 cells of its tables, and in 1 of the 4 that played no part" in said((3, 9), (1, 4))
    assert "in 3 of 9 cells of its tables; elsewhere" in said((3, 9), (0, 0))
    assert said((0, 0), (0, 0)).endswith("misses by chance.")


@pytest.mark.parametrize("verdicts", product((HOLDS, FAILS, UNDECIDED), repeat=3))
def test_five_answers_whatever_the_verdicts(verdicts):
    claims = [claim(name, verdict, "abstract") | {"missing": 1} for name, verdict in zip("ABC", verdicts, strict=True)]
    tally = {"accuracy": {part: {"match": 1, "cells": 2} for part in ("all", "held_out")}}
    found = [plain(sentence) for _, sentence in sentences(claims, readings(0, 0), tally, PARAMS)]
    assert len(found) == 5
    assert sum(int(re.match(r"None|\d+", one)[0].replace("None", "0")) for one in found[:3]) == 3
    for one in found:
        assert one[0].isupper() or one[0].isdigit()
        assert one.endswith(".")
        assert not re.search(r"  |\(\)|\b0 |, ,|\bnan\b", one), one
    assert "Results are still missing for 3 of all claims." in found[2]


def test_the_page_begins_with_what_the_evidence_says():
    claims = page.judged(CLAIMS)
    found = dict(
        sentences(
            claims,
            readings_page.comparison(claims, PARAMS),
            tables.tally({"main": tables.build_table("main", PARAMS)}),
            PARAMS,
        )
    )
    for verdict in (HOLDS, FAILS, UNDECIDED):
        count = sum(one["overall"] == verdict for one in claims)
        assert plain(found[verdict]).startswith(f"{count or 'None'} of the paper's {len(claims)} claims ")
    assert len(" ".join(map(plain, found.values())).split()) < 320, "a minute or so"
