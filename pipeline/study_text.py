"""The reconstruction study for people: what was chosen, how near everything came, and what papers should say."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import yaml

from pipeline.names import TITLES
from pipeline.params import Params
from pipeline.paths import SENTENCES
from pipeline.study_design import BASE, known, one_at_a_time
from pipeline.tables import number, provenance_line

HALVES = ("choosing", "held_back")
SHOWN = 12  # configurations, of those nearest on the factorial's benchmark
TOLD = 3  # sentences
LEGEND = (
    "A distance is the root mean square, over cells of Table 1, of the difference between ours and the paper's in "
    "standard errors of that difference, with the paper's deviations for both: about 1 if nothing but seeds differed. "
    "± is what seeds do to it, one left out at a time. Distances over different numbers of seeds do not compare: the "
    "same difference is more standard errors with more seeds."
)
EFFECTS = (
    "Means over all combinations with a level, then the share of their variance that each choice explains alone; the "
    "rest are interactions and seeds."
)


def listed(words: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 2 else words)


def quoted(names: Sequence[str]) -> str:
    """The same for names of configurations, which hold commas."""
    return listed([f"“{name}”" for name in names])


def grid(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " --- |" * (len(heads) - 1)]
    return [*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)]


def reached(row: dict[str, Any], half: str) -> str:
    """A distance, and what seeds do to it."""
    value, error = row[f"distance_{half}"], row[f"error_{half}"]
    if math.isnan(value):
        return "diverged"
    return f"{value:.1f} ± {error:.1f}" if math.isfinite(error) else f"{value:.1f}"


def choice_lines(final: pd.DataFrame, alone: pd.DataFrame) -> list[str]:
    """What was chosen, what could as well have been, and what seeds alone do."""
    (chosen,) = final[final["decision"] == "chosen"].to_dict("records")
    equal = final.loc[final["decision"] == "not told apart", "configuration"].tolist()
    lines = [
        f"Chosen, by the choosing half alone: **{chosen['configuration']}**, at a distance of "
        f"{reached(chosen, 'choosing')} there ({chosen['cells_choosing']} cells) and of {reached(chosen, 'held_back')} "
        f"on the half that was held back ({chosen['cells_held_back']} cells)."
    ]
    if equal:
        nearest = final.loc[final["distance_choosing"].idxmin()].to_dict()
        lines.append(
            f"The choosing half does not tell it from {quoted(equal)}: “{nearest['configuration']}”, the nearest, is "
            f"at {reached(nearest, 'choosing')}, and two such errors reach as far. The paper does not decide between "
            "them, and the simplest is kept."
        )
    else:
        lines.append("No other finalist comes as near, beyond what seeds do.")
    ranges = [f"from {alone[f'distance_{half}'].min():.1f} to {alone[f'distance_{half}'].max():.1f}" for half in HALVES]
    lines.append(
        f"Seeds alone: screened with each of {len(alone)} draws of seeds, the base itself comes out at distances "
        f"{ranges[0]} on the choosing half and {ranges[1]} on the other."
    )
    return lines


def undecided_lines(single: pd.DataFrame, alone: pd.DataFrame) -> list[str]:
    """Choices on which the paper says nothing, not even by its numbers: changed alone, they do no more than seeds."""
    seeds, others = alone["distance_choosing"], single[single["configuration"] != BASE]
    names = others.loc[others["distance_choosing"].between(seeds.min(), seeds.max()), "configuration"].tolist()
    if not names:
        return ["Every choice, changed alone, moves the choosing half beyond what seeds do to the base."]
    return [
        "Each of these, changed alone, does no more to the choosing half than seeds do to the base, so that the paper "
        f"does not decide on it: {quoted(names)}."
    ]


def diverged_lines(table: pd.DataFrame) -> list[str]:
    """Configurations that have no distance."""
    names = table.loc[table["diverged"] > 0, "configuration"].drop_duplicates().tolist()
    return [f"Training diverged, so that there is no distance, with {quoted(names)}."] if names else []


def finalist_lines(final: pd.DataFrame) -> list[str]:
    """The finalists and what became of them."""
    heads = ["configuration", "seeds", "choosing half", "held-back half", "decision"]
    rows = final.to_dict("records")
    return grid(
        heads, ([r["configuration"], r["seeds"], *(reached(r, h) for h in HALVES), r["decision"]] for r in rows)
    )


def cell_lines(final: pd.DataFrame, paper: pd.DataFrame) -> list[str]:
    """Table 1 under each finalist, with deviations over seeds, which do not choose."""
    finalists = final.to_dict("records")
    lines = []
    for cell in paper.to_dict("records"):
        place, row = cell["benchmark"], cell["row"]
        if f"{place} {row} accuracy" not in final:
            continue
        for quantity, theirs in (("accuracy", "acc"), *([("params", "params")] if "NORACL" in row else [])):
            column, thousands = f"{place} {row} {quantity}", quantity == "params"
            ours = [number(one[column], one[f"{column} deviation"], thousands) for one in finalists]
            shown = number(cell[theirs], cell[f"{theirs}_sd"], thousands)
            lines.append([f"{TITLES[place]}, {row}, {'params' if thousands else 'accuracy %'}", shown, *ours])
    return grid(["", "the paper", *final["configuration"]], lines)


def screen_lines(rows: pd.DataFrame, cells: int) -> list[str]:
    """Configurations as they were screened; a half stands where it is whole, that is, has so many choosing cells."""
    places = {c: TITLES[c.removeprefix("distance_choosing ")] for c in rows if c.startswith("distance_choosing ")}
    heads = ["configuration", "choosing half", "held-back half", *(f"choosing, {title}" for title in places.values())]
    lines = []
    for row in rows.to_dict("records"):
        whole = [reached(row, half) if row["cells_choosing"] == cells else "–" for half in HALVES]
        lines.append([row["configuration"], *whole, *("–" if pd.isna(row[p]) else f"{row[p]:.1f}" for p in places)])
    return grid(heads, lines)


def effect_lines(effects: pd.DataFrame) -> list[str]:
    """The factorial: means over all combinations with a level, and what each choice explains of their variance."""
    columns = [column.removeprefix("share of ") for column in effects if column.startswith("share of ")]
    heads = ["distance" if "distance" in c else re.sub(r"^\w+ \dL ", "", c).replace(" accuracy", " %") for c in columns]
    rows = []
    for level in effects.to_dict("records"):
        numbers = (f"{level[c] / 1000:.1f}k" if c.endswith("params") else f"{level[c]:.1f}" for c in columns)
        rows.append([f"{level['choice']}: {level['level']}", *numbers])
    for choice in effects.drop_duplicates("choice").to_dict("records"):
        shares = (100 * choice[f"share of {column}"] for column in columns)
        shown = ("–" if math.isnan(share) else f"{share:.0f} %" for share in shares)  # nothing varied
        rows.append([f"*share of {choice['choice']}*", *shown])
    return grid(["", *heads], rows)


def point_lines(points: pd.DataFrame) -> list[str]:
    """Open points: ours, how far that is from the paper's, as the tables have it, and the paper's."""
    lines = []
    for row in points.to_dict("records"):
        line = [row["reading"]]
        for quantity, unit, mark in (("acc", 1, ""), ("params", 1000, "k")):
            ours, usual, paper = (row[name] / unit for name in (quantity, f"usual_{quantity}", f"paper_{quantity}"))
            off = row[f"errors_{quantity}"]
            line.append("diverged" if math.isnan(ours) else f"{ours:.1f}{mark}")
            line.append("–" if math.isnan(off) else f"{round(off, 1) + 0.0:+.1f}".replace("-", "−"))
            line += [f"{usual:.1f}{mark}", f"{paper:.1f}{mark}"]
        lines.append(line)
    heads = ["standard errors off", "as in the tables", "the paper"]
    return grid(["reading", "accuracy %", *heads, "params", *heads], lines)


def advice_lines(params: Params, table: pd.DataFrame, moves: pd.DataFrame) -> list[str]:
    """For people who write papers: the sentences that would have told most."""
    sentences = yaml.safe_load(SENTENCES.read_text())
    (chosen,) = table.loc[table["decision"] == "chosen", "configuration"]
    levels = dict(known(params)[chosen].levels)
    most, rest = moves.head(TOLD), moves.iloc[TOLD:]
    lines = [
        "Changed alone, these choices move the distance over all screened cells most: "
        f"{listed([f'{m.choice} (from {m.least:.1f} to {m.greatest:.1f})' for m in most.itertuples()])}. A sentence on "
        "each would have gone far to make the paper reproducible. Here they are for the chosen configuration; what the "
        "authors did, only they can say.",
        "",
        *(f"{i}. “{sentences[choice][levels[choice]]}”" for i, choice in enumerate(most["choice"], start=1)),
    ]
    steady, wild = rest[~rest["diverged"]], moves.loc[moves["diverged"], "choice"].tolist()
    if len(steady):
        lines += ["", f"The others move it by {listed([f'{m.moves:.1f} ({m.choice})' for m in steady.itertuples()])}."]
    if wild:
        lines.append(f"With other levels of {listed(wild)} training diverges.")
    return lines


def to_markdown(
    params: Params,
    paper: pd.DataFrame,
    table: pd.DataFrame,
    moves: pd.DataFrame,
    effects: pd.DataFrame,
    alone: pd.DataFrame,
    points: pd.DataFrame,
    machines: list[dict[str, str]],
) -> str:
    """The choice, finalists, single changes, the factorial and the nearest on its benchmark, open points, advice."""
    screened, final = table[table["part"] == "screen"], table[table["part"] == "finalist"]
    small, cells = params.reconstruction.factorial.benchmark, screened["cells_choosing"].max()
    single = screened[screened["configuration"].isin([one.name for one in one_at_a_time(params)])]
    nearest = screened.sort_values(f"distance_choosing {small}", kind="stable").head(SHOWN)
    few, near = f"two layers, {screened['seeds'].max()} seeds", f"The {len(nearest)} nearest on {TITLES[small]}"
    told = [*choice_lines(final, alone), *undecided_lines(single, alone), *diverged_lines(table)]
    lines = [
        f"{len(screened)} configurations were run; reconstruction.csv has them all. {LEGEND}",
        "",
        *(f"- {line}" for line in told),
        *("", "## Finalists: all of Table 1, all seeds", *finalist_lines(final), "", *cell_lines(final, paper)),
        *("", f"## One choice at a time: {few}", *screen_lines(single, cells)),
        *("", f"## The factorial on {TITLES[small]}: {few}", "", EFFECTS, "", *effect_lines(effects)),
        *("", f"## {near}: {few}", *screen_lines(nearest, cells)),
        *(
            "",
            f"## Open points on Permuted MNIST and Split CIFAR-10: {few}",
            *point_lines(points),
        ),
        *("", "## For people who write papers", *advice_lines(params, table, moves)),
        *("", provenance_line(machines)),
    ]
    return "\n".join(lines) + "\n"
