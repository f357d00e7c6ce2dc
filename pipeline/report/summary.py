"""The answer in a few sentences that a reviewer can quote; all that they say comes from the evidence."""

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from pipeline.config import Params
from pipeline.evidence.intervals import FAILS, HOLDS, UNDECIDED
from pipeline.evidence.readings import DEPENDS, EVERY, NONE, OPEN, WAITING

Listed = dict[str, Any]  # what readings_page and page make for the template
#: What is said of one claim, and of several.
VERBS = {
    HOLDS: ("holds", "hold"),
    FAILS: ("does not hold", "do not hold"),
    UNDECIDED: ("is undecided", "are undecided"),
}
#: The same of parts, in short.
OF_PARTS = VERBS | {FAILS: ("fails", "fail")}
#: The same over all readings.
OVER_ALL = {
    EVERY: ("holds under all", "hold under all"),
    NONE: ("fails under all", "fail under all"),
    DEPENDS: ("depends on the reading", "depend on the reading"),
    OPEN: ("is undecided under some", "are undecided under some"),
    WAITING: ("still lacks results", "still lack results"),
}
CENTRAL = "from its abstract or contributions"
NAMED = 3  # so many claims that depend on the reading are quoted at the top


def central(claim: Listed) -> bool:
    """Whether the paper has a claim in its abstract or in its list of contributions."""
    return "abstract" in claim["where"] or "contribution" in claim["where"]


def said(count: int, verbs: tuple[str, str]) -> str:
    """A number of claims and what they do."""
    return f"{count or 'none'} {verbs[count > 1]}"


def joined(texts: Iterable[str]) -> Markup:
    """One, two, or several things in a row."""
    *first, last = map(Markup.escape, texts)
    return Markup(", ").join(first) + " and " + last if first else last


def linked(claim: Listed) -> Markup:
    """A claim in its own words."""
    return Markup('“<a href="#claim-{}">{}</a>”').format(claim["claim"], claim["statement"])


def quoted(claim: Listed) -> Markup:
    """A claim in its own words; if it does not hold as a whole, what becomes of its parts."""
    verdicts = [part["verdict"] for part in claim["parts"]]
    if len(verdicts) == 1 or claim["overall"] == HOLDS:
        return linked(claim)
    first, *rest = [(verdicts.count(one), verbs) for one, verbs in OF_PARTS.items() if one in verdicts]
    start = f"{first[0]} of its {len(verdicts)} parts {first[1][first[0] > 1]}"
    return linked(claim) + f" ({joined([start, *(said(*one) for one in rest)])})"


def on_claims(claims: list[Listed], verdict: str) -> Markup:
    """How many claims have a verdict, and which of them are central to the paper."""
    own = [claim for claim in claims if claim["overall"] == verdict]
    start = f"{len(own) or 'None'} of the paper's {len(claims)} claims {VERBS[verdict][len(own) > 1]} in our runs"
    if not own or not any(map(central, claims)):
        return Markup.escape(f"{start}.")
    chosen = [quoted(claim) for claim in own if central(claim)]
    if not chosen:
        return Markup.escape(f"{start}, {'none of them' if own[1:] else 'and it is not'} {CENTRAL}.")
    some, all_ = f"including {len(chosen) if chosen[1:] else 'one'} ", "all " if own[1:] else ""
    which = some if len(chosen) < len(own) else all_
    return Markup("{}, {}{}: {}.").format(start, which, CENTRAL, joined(chosen))


def dependence(claim: Listed, readings: Listed) -> Markup:
    """What a claim depends on: a choice, if one could be named, or else under which readings it holds and does not."""
    for one in readings["decided"]:
        if claim["claim"] in [turned["claim"] for turned in one["claims"]]:
            return linked(claim) + f" depends on {joined(one['choices'])}"
    (sides,) = (one for one in readings["unexplained"] if one["claim"] == claim["claim"])
    link = Markup('<a href="#reading-{}">{}</a>')
    holds, fails = (joined(link.format(*one) for one in sides[side]) for side in ("holds", "fails"))
    return linked(claim) + " holds under " + holds + ", but not under " + fails


def on_readings(readings: Listed) -> Markup:
    """Which claims depend on how one reads the paper, as far as other readings are computed."""
    others, computed, by_kind = len(readings["views"]) - 1, len(readings["computed"]), readings["by_kind"]
    if not computed:
        total = f"{others} other reading{'s' if others > 1 else ''}"
        why = f"of {total} of the paper none is computed yet" if others else "no other reading of it is listed yet"
        return Markup.escape(f"Which claims depend on how one reads the paper is not known: {why}.")
    count, depending, open_ = len(readings["claims"]), by_kind[DEPENDS], by_kind[OPEN]
    far = (f"{computed + 1} of ", " (the others are not computed yet)") if readings["missing"] else ("", "")
    text = Markup.escape(f"Of the {f'{count} claims' if count > 1 else 'one claim'} that our ")
    text += Markup('<a href="#readings">{}{} readings</a> of the paper{} could change, ').format(
        far[0], others + 1, far[1]
    )
    parts = [said(len(by_kind[kind]), OVER_ALL[kind]) for kind in OVER_ALL if by_kind[kind] or kind in (EVERY, NONE)]
    text += joined(parts)
    settled = [readings["settled"][claim["claim"]] for claim in open_]
    if found := [said(settled.count(one), VERBS[one]) for one in (HOLDS, FAILS) if one in settled]:
        text += f" (where settled, {joined(found)})"
    if not depending:
        return text + "."
    named = sorted(depending, key=lambda claim: not central(claim))[:NAMED]
    more = f"; and {len(depending) - len(named)} more" if depending[NAMED:] else ""
    return text + ". " + Markup("; ").join(dependence(claim, readings) for claim in named) + f"{more}."


def on_certainty(tally: Listed, params: Params) -> Markup:
    """What the verdicts rest on, and how like the authors' networks ours are."""
    seeds, cells, free = len(params.seeds), tally["accuracy"]["all"], tally["accuracy"]["held_out"]
    text = f"Verdicts rest on 95 % intervals over {seeds} seed{'s' if seeds > 1 else ''}"
    text += ", of which about one in twenty misses by chance."
    if not cells["cells"]:
        return Markup.escape(text)
    text += f" Our accuracies match the paper's in {cells['match']} of {cells['cells']} cells of its tables"
    if free["cells"] not in (0, cells["cells"]):
        text += f", and in {free['match']} of the {free['cells']} that played no part in our choices where it is silent"
    return Markup.escape(f"{text}; elsewhere our networks may differ from the authors'.")


def sentences(claims: list[Listed], readings: Listed, tally: Listed, params: Params) -> list[tuple[str, Markup]]:
    """What holds, what does not, what is undecided, what depends on the reading, and how sure that is."""
    found = [(verdict, on_claims(claims, verdict)) for verdict in VERBS]
    if missing := [claim["claim"] for claim in claims if claim["missing"]]:
        found[-1] = (UNDECIDED, found[-1][1] + f" Results are still missing for {len(missing)} of all claims.")
    return [*found, ("by reading", on_readings(readings)), ("how sure", on_certainty(tally, params))]
