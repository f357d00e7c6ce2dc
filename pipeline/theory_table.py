"""Stage summaries@theory: what section 4 and appendix A.2.1 say, beside what the closed form gives."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from noracl import theory
from pipeline.files import write_text
from pipeline.params import Params, load_or_exit
from pipeline.paths import RESULTS, TABLES
from pipeline.tables import MARKS as NUMBER_MARKS
from pipeline.tables import machines_of, provenance_line
from pipeline.theory import WINDOWS

MARKS = {**NUMBER_MARKS, "holds": "✓", "does not hold": "✗", "undecided": "?"}
LEGEND = (
    "Ours, its 95% interval over seeds, then in brackets what the paper, or a calculation for independent features, "
    "says; ✓ matches or holds, ▲ is higher, ▼ is lower, ✗ does not hold. A number matches when "
    "the interval has it in it; – was not reached in the tasks that were computed."
)
ZERO = 1e-6  # less than this, at the smallest ε, is taken for 0
NAMES = {
    "gd": "no penalty",
    "ewc": "EWC",
    "ewc full Fisher": "EWC with the full Fisher",
    "ewc final width": "EWC at NORACL's final width",
    "noracl": "NORACL, ε → 0",
    "noracl ε=1": "NORACL, ε = 1",
}
NONE = theory.Fit(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Line:
    """One quantity at one width."""

    quantity: str
    source: str  #: who says what is expected: the paper, a calculation, or nobody
    width: int
    ours: float
    low: float
    high: float
    expected: str
    verdict: str


def mean_interval(values: Sequence[float]) -> theory.Fit:
    """Mean and 95% interval; no interval from fewer than 4 values."""
    if len(values) >= 4:
        return theory.mean_fit(values)
    return theory.Fit(sum(values) / len(values), math.nan, math.nan) if len(values) else NONE


def against(fit: theory.Fit, expected: float) -> str:
    """match if the interval has the number in it, else higher or lower; n/a without an interval."""
    if math.isnan(fit.low) or math.isnan(expected):
        return "n/a"
    return "match" if fit.low <= expected <= fit.high else "higher" if fit.low > expected else "lower"


def holds(truth: bool) -> str:
    """The verdict on a statement."""
    return "holds" if truth else "does not hold"


def number(quantity: str, source: str, width: int, fit: theory.Fit, expected: float = math.nan) -> Line:
    """A quantity of which somebody says a number, or nobody anything."""
    said = "" if math.isnan(expected) else f"{expected:.3g}"
    return Line(quantity, source if said else "", width, fit.exponent, fit.low, fit.high, said, against(fit, expected))


class Results:
    """theory.csv, looked into by column."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table.assign(seed=table["seed"].astype(str))

    def find(self, **where: object) -> pd.DataFrame:
        """Rows in which these columns have these values."""
        found = self.table
        for column, value in where.items():
            found = found[found[column] == value]
        return found

    def fit(self, **where: object) -> theory.Fit:
        """A fitted exponent with its interval."""
        values = self.find(**where).set_index("quantity")["value"]
        return theory.Fit(values["exponent"], values["low"], values["high"]) if len(values) else NONE

    def pooled(self, **where: object) -> float:
        """The one value that is of no seed; NaN if there is none."""
        values = self.find(seed="all", **where)["value"].tolist()
        return float(values[0]) if values else math.nan


def share_lines(results: Results, params: Params) -> Iterator[Line]:
    """EWC's plasticity, and its retention, as power laws."""
    for low, high in WINDOWS:
        for width in params.theory.widths:
            fit = results.fit(experiment="share exponent", method="ewc", width=width, x=low)
            yield number(f"EWC: exponent of the stored share, t/M⁰ = {low} to {high}", "paper", width, fit, -1.0)
    for width in params.theory.widths:
        fit, calculated = (
            results.fit(experiment="snr exponent", method=m, width=width) for m in ("ewc", "ewc expected")
        )
        yield number("EWC: exponent of signal-to-noise, t ≥ 2M⁰", "calculation", width, fit, calculated.exponent)


def retention_lines(results: Results, params: Params) -> Iterator[Line]:
    """Where the recall of all patterns so far breaks, signal-to-noise falling below 1."""
    for method, name in {**NAMES, f"ewc d={params.theory.few_inputs}": f"EWC, d = {params.theory.few_inputs}"}.items():
        for width in params.theory.widths:
            where = {"experiment": "break", "quantity": "snr", "width": width}
            by_seed = results.find(method=method, **where)
            values = by_seed[by_seed["seed"] != "all"]["value"].tolist()
            mean = results.pooled(method=method, **where)
            fit = theory.Fit(mean, math.nan, math.nan)
            if len(values) >= 4 and not any(map(math.isnan, values)):
                fit = mean_interval(values)
            quantity = f"{name}: t/M⁰ at which retention breaks"
            if method == "noracl":
                verdict = holds(math.isnan(mean))
                yield Line(quantity, "paper", width, fit.exponent, fit.low, fit.high, "never", verdict)
            elif method == "ewc":
                yield number(quantity, "paper", width, fit, 1.0)
            else:
                yield number(quantity, "calculation", width, fit, results.pooled(method=f"{method} expected", **where))


def theorem_lines(results: Results, params: Params) -> Iterator[Line]:
    """Theorem 1 and corollary 1 at the smallest ε, the largest of all seeds; the error's exponent in ε."""
    least = min(params.theory.epsilons)
    at = {"experiment": "theorem", "x": least}
    quantities: list[tuple[str, str, dict[str, object]]] = [
        (f"Theorem 1: relative change of old weights, ε = {least:g}", "paper", {"quantity": "old", **at}),
        (f"Corollary 1: share of the residual that is left, ε = {least:g}", "paper", {"quantity": "unlearnt", **at}),
        ("Corollary 1 as printed (new units fit y): error on the new task", "paper", {"quantity": "printed", **at}),
        ("Corollary 1: new weights against the residual's least squares", "calculation", {"quantity": "new", **at}),
        ("Recall error through just the units of a pattern's time", "calculation", {"experiment": "own units"}),
    ]
    for name, source, where in quantities:
        for width in params.theory.widths:
            worst = float(results.find(width=width, **where)["value"].max())
            yield Line(name, source, width, worst, math.nan, math.nan, "0", holds(worst < ZERO))
    for width in params.theory.widths:
        fit = results.fit(experiment="theorem exponent", width=width)
        name = "Theorem 1: exponent in ε of the change of old weights"
        yield Line(name, "paper", width, fit.exponent, fit.low, fit.high, "above 0", holds(fit.low > 0))


def growth_lines(results: Results, params: Params) -> Iterator[Line]:
    """Neurons a task: the approximation against whole neurons. There is nothing random in either."""
    said = 1 - params.noracl.gamma
    for method, kind in (("fractional", "with fractions of neurons"), ("whole", "with whole neurons, Eq. 4")):
        for width in params.theory.widths:
            slope = results.pooled(experiment="growth", method=method, quantity="slope", width=width)
            verdict = "match" if abs(slope - said) < ZERO else "higher" if slope > said else "lower"
            name = f"Growth: neurons a task, {kind}"
            yield Line(name, "paper", width, slope, math.nan, math.nan, f"{said:.3g}", verdict)


def gate_lines(results: Results, params: Params) -> Iterator[Line]:
    """Share of tasks in which Eq. 5 lets growth through, at the percentile in use and at the one that lets most."""
    for method in ("averaged", "summed"):
        for p in sorted({params.noracl.percentile, 100.0}):
            for width in params.theory.widths:
                values = results.find(experiment="gate", method=method, x=p, width=width)["value"].tolist()
                fit = mean_interval(values)
                name = f"Gate: share of tasks that open it, p = {p:g}, Fishers {method}"
                yield Line(name, "paper", width, fit.exponent, fit.low, fit.high, "1", holds(fit.exponent == 1))


def crosstalk_lines(results: Results, params: Params) -> Iterator[Line]:
    """Further tasks until new units have drowned an old pattern (signal-to-noise below 1)."""
    width = params.theory.widths[0]
    for k in params.theory.neurons:
        where = {"experiment": "lifetime", "quantity": "snr", "width": width}
        ours = results.pooled(method=f"noracl k={k}", **where)
        calculated = results.pooled(method=f"noracl k={k} expected", **where)
        name = f"NORACL, {k} new units a task: tasks until a pattern is lost (calculated: {calculated:.3g})"
        yield Line(name, "paper", width, ours, math.nan, math.nan, "never", holds(math.isnan(ours)))


def lines(results: Results, params: Params) -> list[Line]:
    """The whole table."""
    parts = (share_lines, retention_lines, theorem_lines, growth_lines, gate_lines, crosstalk_lines)
    return [line for part in parts for line in part(results, params)]


def cell(line: Line) -> str:
    """Ours, interval, mark, what is said."""
    ours = "–" if math.isnan(line.ours) else f"{line.ours:.3g}"
    interval = "" if math.isnan(line.low) else f"[{line.low:.3g}, {line.high:.3g}]"
    said = f"({line.expected})" if line.expected else ""
    return " ".join(part for part in (ours, interval, MARKS[line.verdict], said) if part)


def to_markdown(table: Sequence[Line], widths: Sequence[int], machines: list[dict[str, str]]) -> str:
    """The table for people, a row a quantity, widths side by side."""
    rows = [f"| | says | {' | '.join(f'M⁰ = {width}' for width in widths)} |", "| --- |" + " --- |" * (len(widths) + 1)]
    for quantity in dict.fromkeys(line.quantity for line in table):
        found = {line.width: line for line in table if line.quantity == quantity}
        source = next((line.source for line in found.values() if line.source), "")
        cells = [cell(found[width]) if width in found else "" for width in widths]
        rows.append(f"| {quantity} | {source} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", f"{LEGEND} {provenance_line(machines)}"]) + "\n"


def build(params: Params) -> dict[Path, str]:
    """Both files of the stage, by path."""
    table = lines(Results(pd.read_csv(RESULTS / "theory.csv")), params)
    content = pd.DataFrame([asdict(line) for line in table]).to_csv(
        index=False, lineterminator="\n", float_format="%.6g"
    )
    text = to_markdown(table, params.theory.widths, machines_of("theory"))
    return {TABLES / "theory.csv": content, TABLES / "theory.md": text}


def main() -> None:
    """Command line of the stage."""
    for path, content in build(load_or_exit()).items():
        write_text(path, content)


if __name__ == "__main__":
    main()
