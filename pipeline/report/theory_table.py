"""What random pattern association gives (section 4, appendix A.2.1), by width; the claims judge it."""

import math
from pathlib import Path

import pandas as pd

from pipeline import markdown
from pipeline.config import Params
from pipeline.evidence import results as reader
from pipeline.evidence.intervals import Interval, interval
from pipeline.paths import TABLES
from pipeline.report.labels import provenance_line

#: What each experiment of the results measures; x is the third column.
EXPERIMENTS = {
    "share exponent": "exponent in t of the stored share, in the window from t = x·M⁰",
    "snr exponent": "exponent in t of signal-to-noise, t ≥ 2M⁰",
    "break": "t/M⁰ at which the recall of all patterns falls below x",
    "lifetime": "further tasks after which the recall of a pattern falls below x",
    "theorem": "one update at ε = x: change of old weights, distance of new ones, what is left to learn",
    "theorem exponent": "exponent in ε of the change of old weights",
    "own units": "recall error through just the units of a pattern's time",
    "growth": "neurons gained per task",
    "gate": "share of tasks in which Eq. 5 opens at percentile x",
}
LEGEND = (
    "Means with 95 % intervals over seeds; a number without an interval belongs to no seed, or is that of all seeds "
    "together where some of them did not reach it; – was not reached in the tasks that were computed. “expected” is "
    "calculated for independent features. reports/claims.md says what the paper claims of these numbers, and whether "
    "it holds."
)
COLUMNS = ["experiment", "method", "x", "quantity"]


def measured(rows: pd.DataFrame) -> Interval:
    """A fit with its interval, or an interval over seeds, or one number without an interval."""
    if "low" in set(rows["part"]):
        fit = rows.set_index("part")["value"]
        return Interval(fit["exponent"], fit["low"], fit["high"], 0)
    by_seed = rows[rows["seed"] != reader.EXACT]
    if len(by_seed) and by_seed["value"].notna().all():
        return interval(by_seed.set_index("seed")["value"])
    pooled = rows[rows["seed"] == reader.EXACT]["value"]
    return Interval(float(pooled.mean()), math.nan, math.nan, 0)


def table(results: pd.DataFrame) -> pd.DataFrame:
    """One row per experiment, method, x, quantity and width: of the theorem the smallest ε, of growth the slope."""
    least = results.loc[results["experiment"] == "theorem", "x"].min()
    left_out = (results["experiment"] == "theorem") & (results["x"] > least)
    left_out |= (results["experiment"] == "growth") & (results["quantity"] != "slope")
    kept = results[results["experiment"].isin(EXPERIMENTS) & ~left_out].rename(columns={"quantity": "part"})
    kept["quantity"] = kept["part"].replace({"low": "exponent", "high": "exponent"})
    found = [(*key, measured(rows)) for key, rows in kept.groupby([*COLUMNS, "width"], sort=False)]
    lines = [(*key, one.mean, one.low, one.high) for *key, one in found]
    order = {name: place for place, name in enumerate(EXPERIMENTS)}
    lines.sort(key=lambda line: order[line[0]])
    return pd.DataFrame(lines, columns=[*COLUMNS, "width", "ours", "low", "high"])


def to_markdown(lines: pd.DataFrame, note: str) -> str:
    """The table for people: widths side by side."""
    shown = lines.assign(cell=[markdown.with_bounds(*values) for values in lines[["ours", "low", "high"]].to_numpy()])
    wide = shown.pivot(index=COLUMNS, columns="width", values="cell").fillna("")
    rows = [
        [EXPERIMENTS[key[0]], key[1], markdown.number(key[2]), key[3], *wide.loc[key]]
        for key in dict.fromkeys(lines[COLUMNS].itertuples(index=False, name=None))
    ]
    return markdown.table(
        ["", "method", "x", "quantity", *(f"M⁰ = {width}" for width in wide)], markdown.once(rows), note
    )


def build(params: Params) -> dict[Path, str]:
    """Both files of the table, by path."""
    lines = table(reader.other("theory").astype({"seed": str}))
    content = lines.to_csv(index=False, lineterminator="\n", float_format="%.6g")
    note = f"{LEGEND} {provenance_line(reader.machines('theory'))}"
    return {TABLES / "theory.csv": content, TABLES / "theory.md": to_markdown(lines, note)}
