"""The answer in five sentences, each of which a reviewer can quote; all that they say comes from the evidence."""

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
#: The same over all readings.
OVER_ALL = {
    DEPENDS: ("depends on the reading", "depend on the reading"),
    EVERY: ("holds under every reading", "hold under every reading"),
    NONE: ("holds under no reading", "hold under no reading"),
    OPEN: ("is undecided under some reading", "are undecided under some reading"),
    WAITING: ("still lacks results", "still lack results"),
}
CENTRAL = "in its abstract and its list of contributions"


def central(claim: Listed) -> bool:
    """Whether the paper has a claim in its abstract or in its list of contributions."""
    return "abstract" in claim["where"] or "contribution" in claim["where"]


def said(count: int, kind: str) -> str:
    """A number of claims and what all readings together say of them."""
    return f"{count or 'none'} {OVER_ALL[kind][count > 1]}"


def joined(texts: Iterable[str]) -> Markup:
    """One, two, or several things in a row."""
    *first, last = map(Markup.escape, texts)
    return Markup(", ").join(first) + " and " + last if first else last


def counted(count: int, verb: str) -> str:
    """A number of parts and what they do."""
    return f"{count or 'none'} {verb}{'' if count > 1 else 's'}"


def quoted(claim: Listed) -> Markup:
    """A claim in its own words; if it does not hold as a whole, how many of its parts hold and fail."""
    verdicts = [part["verdict"] for part in claim["parts"]]
    text = Markup('“<a href="#claim-{}">{}</a>”').format(claim["claim"], claim["statement"])
    if len(verdicts) == 1 or claim["overall"] == HOLDS:
        return text
    held, failed = counted(verdicts.count(HOLDS), "hold"), counted(verdicts.count(FAILS), "fail")
    return text + f" (of its {len(verdicts)} parts {held}, {failed})"


def on_claims(claims: list[Listed], verdict: str) -> Markup:
    """How many claims have a verdict, and which of them are central to the paper."""
    own = [claim for claim in claims if claim["overall"] == verdict]
    start = f"{len(own) or 'None'} of the paper's {len(claims)} claims {VERBS[verdict][len(own) > 1]} in our runs"
    if not own or not any(map(central, claims)):
        return Markup.escape(f"{start}.")
    chosen = [quoted(claim) for claim in own if central(claim)]
    which = ("these: " if chosen[1:] else "this one: ") + joined(chosen) if chosen else "none"
    return Markup("{}; of those {}, {}.").format(start, CENTRAL, which)


def on_readings(readings: Listed) -> Markup:
    """Which claims depend on how one reads the paper, as far as other readings are computed."""
    others, computed, by_kind = len(readings["views"]) - 1, len(readings["computed"]), readings["by_kind"]
    total = f"{others} other reading{'s' if others > 1 else ''}"
    if not computed:
        why = f"of {total} of the paper none is computed yet" if others else "no other reading of it is listed yet"
        return Markup.escape(f"Which claims depend on how one reads the paper is not known: {why}.")
    links = [Markup('<a href="#claim-{0}">{0}</a>').format(claim["claim"]) for claim in by_kind[DEPENDS]]
    which = Markup(" ({})").format(joined(links)) if links else ""
    rest = [said(len(by_kind[kind]), kind) for kind in (EVERY, NONE, OPEN, WAITING) if by_kind[kind]]
    start = f"Of the {len(readings['claims'])} claims that another reading of the paper could change, "
    far = f"so far, with {computed} of {total} computed" if readings["missing"] else f"with {total} computed"
    return Markup.escape(start) + joined([said(len(links), DEPENDS) + which, *rest]) + f", {far}."


def on_certainty(tally: Listed, params: Params) -> Markup:
    """What the verdicts rest on, and how like the authors' networks ours are."""
    seeds, cells, free = len(params.seeds), tally["accuracy"]["all"], tally["accuracy"]["held_out"]
    text = f"Verdicts are by 95 % intervals over {seeds} seed{'s' if seeds > 1 else ''}"
    text += ", and one in twenty of such intervals misses by chance"
    if not cells["cells"]:
        return Markup.escape(f"{text}.")
    text += f"; our accuracies match the paper's in {cells['match']} of {cells['cells']} cells"
    if free["cells"] not in (0, cells["cells"]):
        text += f", and in {free['match']} of the {free['cells']} that had no say in what we chose where it is silent"
    return Markup.escape(f"{text}: as far as they do not, our networks may not be the authors'.")


def sentences(claims: list[Listed], readings: Listed, tally: Listed, params: Params) -> list[tuple[str, Markup]]:
    """What holds, what does not, what is undecided, what depends on the reading, and how sure that is."""
    found = [(verdict, on_claims(claims, verdict)) for verdict in VERBS]
    if missing := [claim["claim"] for claim in claims if claim["missing"]]:
        found[-1] = (UNDECIDED, found[-1][1] + f" Results are still missing for {len(missing)} of all claims.")
    return [*found, ("reading", on_readings(readings)), ("how sure", on_certainty(tally, params))]
