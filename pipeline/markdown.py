"""The one writer of Markdown tables."""

import math
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *notes: str) -> str:
    """A table, and paragraphs below it."""
    lines = [heads, ["---"] * len(heads), *rows]
    text = "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)
    return "\n\n".join([text, *notes]) + "\n"


def number(value: float, digits: int = 3) -> str:
    """At most this many significant digits, all of a whole number's; a real minus; – for a number that there is not."""
    if math.isnan(value):
        return "–"
    whole = 10**digits <= round(abs(value)) < 10**6
    return (f"{value:.0f}" if whole else f"{value:.{digits}g}").replace("-", "−")


def thousands(value: float, sd: float = math.nan) -> str:
    """A number of parameters: 42 720 as 42.7k; with its deviation, if there is one."""
    text = f"{value / 1000:.1f}k"
    return text if math.isnan(sd) or sd == 0 else f"{text} ± {sd / 1000:.1f}k"


def with_bounds(mean: float, low: float, high: float) -> str:
    """A number and the interval around it, if there is one."""
    return number(mean) if math.isnan(low) else f"{number(mean)} [{number(low)}, {number(high)}]"


def once(rows: list[list[object]]) -> list[list[object]]:
    """The rows, whose first cell is left empty where it repeats the one above."""
    first = ["", *(row[0] for row in rows)]
    return [["" if row[0] == above else row[0], *row[1:]] for row, above in zip(rows, first, strict=False)]
