"""The paper against itself: printed numbers that no single configuration gives, computed from reports/paper alone."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from noracl.method.network import count
from pipeline.evidence.results import MEAN, SAME_IN_THE_PAPER, Key, paper_numbers
from pipeline.evidence.verdicts import PAPER_SEEDS, verdict
from pipeline.markdown import thousands
from pipeline.paths import PAPER

INPUTS, TEN = 784, 10
#: Thresholds of the sensitivity study: their names in rows, their symbols, and what section A.8 says of growth.
THRESHOLDS = {
    "gamma": ("γ", "parameters vary smoothly and monotonically with γ"),
    "p": ("p", "parameters grow as p increases"),
    "eps": ("ε", "parameters differ only modestly over ε"),
}
#: The static network that has the size with which NORACL starts, where Table 1 prints one.
START = {"permuted_mnist": "2L medium", "rotated_mnist": "2L medium"}
MORE = {"lower": "fewer", "higher": "more"}
#: Rules that give both layers the same width.
EQUAL = ("trigger fixed", "trigger scheduled")


@dataclass(frozen=True)
class Contradiction:
    """Printed numbers that contradict each other, and the cells whose parameters or accuracy they are."""

    what: str
    benchmark: str
    where: str
    printed: str
    expected: str
    quantity: str  # params or acc
    cells: tuple[Key, ...]


def percent(cell: "pd.Series[float]") -> str:
    """An accuracy as the paper prints it."""
    return f"{cell['acc']:.1f} ± {cell['acc_sd']:.1f} %"


def apart(one: "pd.Series[float]", other: "pd.Series[float]", quantity: str) -> str:
    """Whether the first is lower or higher than the other by more than two standard errors, else match."""
    sides = [(float(cell[quantity]), float(cell[f"{quantity}_sd"])) for cell in (one, other)]
    return verdict(*sides[0], PAPER_SEEDS, *sides[1], tolerance=0.0)


def everywhere(benchmark: str, numbers: pd.DataFrame) -> list[Key]:
    """Every cell in which the paper prints two-layer NORACL on a benchmark."""
    keys = [(table, benchmark, row) for table, row in SAME_IN_THE_PAPER]
    return [key for key in keys if key in numbers.index]


def neighbours(rows: Iterable[str], name: str, default: float) -> tuple[str, str]:
    """The rows of a threshold whose values are next to the default's, below and above."""
    values = {row: float(row.partition("=")[2]) for row in rows if row.startswith(f"{name}=")}
    below = max((row for row in values if values[row] < default), key=lambda row: values[row])
    return below, min((row for row in values if values[row] > default), key=lambda row: values[row])


def of_thresholds(numbers: pd.DataFrame, defaults: dict[str, float]) -> list[Contradiction]:
    """A default that is smaller, or larger, than both neighbours of a threshold on which growth depends steadily."""
    study = numbers.loc[("sensitivity", "permuted_mnist")]
    default, variants = study.loc["default"], study.drop("default")
    smaller = int((default["params"] < variants["params"]).sum())
    found = []
    for name, (symbol, says) in THRESHOLDS.items():
        rows = neighbours(variants.index, name, defaults[symbol])
        sides = {apart(default, variants.loc[row], "params") for row in rows}
        if len(sides) > 1 or "match" in sides:
            continue
        low, high = sorted(float(variants.loc[row, "params"]) for row in rows)
        values = [row.replace(f"{name}=", f"{symbol} = ") for row in rows]
        sizes = [thousands(variants.loc[row, "params"], variants.loc[row, "params_sd"]) for row in rows]
        printed = "; ".join(f"{value}: {size}" for value, size in zip(values, sizes, strict=True))
        found.append(
            Contradiction(
                f"The default ({symbol} = {defaults[symbol]:g}) has {MORE[sides.pop()]} parameters than both of its "
                f"neighbours in {symbol}, although {says}; {smaller} of all {len(variants)} variants have more",
                "permuted_mnist",
                "section A.8 and its table; Table 1",
                f"default: {thousands(default['params'], default['params_sd'])}; {printed}",
                f"default: between {thousands(low)} and {thousands(high)}",
                "params",
                (
                    *everywhere("permuted_mnist", numbers),
                    *(("sensitivity", "permuted_mnist", row) for row in rows),
                ),
            )
        )
    return found


def widths_of(text: str) -> tuple[int, ...]:
    """Widths of hidden layers."""
    return tuple(map(int, text.split("×")))


def of_widths(numbers: pd.DataFrame, prose: pd.DataFrame) -> list[Contradiction]:
    """Widths in the text, off by at most one neuron each, that do not give the parameters of the table."""
    found = []
    for said in prose[(prose["quantity"] == "widths") & (prose["exact"] == "no")].itertuples():
        cell, widths = numbers.loc[("main", said.benchmark, said.row)], widths_of(said.value)
        heads = sorted({TEN, *_outputs(prose, said.benchmark)})
        low = count((INPUTS, *(width - 1 for width in widths), heads[0]))
        high = count((INPUTS, *(width + 1 for width in widths), heads[-1]))
        if low <= cell["params"] <= high:
            continue
        sizes = dict.fromkeys(thousands(count((INPUTS, *widths, head))) for head in heads)
        needed = (cell["params"] - widths[1] * TEN) / (INPUTS + widths[1])
        found.append(
            Contradiction(
                "The widths in the text do not give the parameters in the table",
                said.benchmark,
                f"{said.where}; Table 1",
                f"about {said.value} neurons; {thousands(cell['params'], cell['params_sd'])}",
                f"{' or '.join(sizes)} for these widths, or about {needed:.0f} neurons in layer 1",
                "params",
                tuple(everywhere(said.benchmark, numbers)),
            )
        )
    return found


def of_inert_neurons(numbers: pd.DataFrame, prose: pd.DataFrame) -> list[Contradiction]:
    """New neurons that never act, and an accuracy that is not that of the network without them."""
    (said,) = prose[prose["quantity"] == "acting new neurons"].itertuples()
    found = []
    for benchmark, row in START.items():
        keys = ("ablations", benchmark, said.row), ("main", benchmark, row)
        zero, static = (numbers.loc[key] for key in keys)
        if apart(zero, static, "acc") != "match":
            found.append(
                Contradiction(
                    "With zero initialisation new neurons never act (their fan-in and fan-out stay zero), "
                    "but the accuracy is not that of the network with which growth starts",
                    benchmark,
                    f"{said.where} and the table of A.6; Table 1",
                    f"{percent(zero)} with zero initialisation; {percent(static)} for {row}",
                    f"the same within the error: {percent(static)}",
                    "acc",
                    keys,
                )
            )
    return found


def printable(size: int) -> set[int]:
    """A count in hundreds: cut, as in Table 1, or rounded."""
    return {size // 100 * 100, (size + 50) // 100 * 100}


def equal_layers(printed: float, outputs: int) -> tuple[int, int]:
    """The widths of two equal layers that give a printed count."""
    fit = [width for width in range(1, 500) if count((INPUTS, width, width, outputs)) // 100 * 100 == printed]
    (width,) = fit
    return width, width


def _outputs(prose: pd.DataFrame, benchmark: str) -> list[int]:
    """How many outputs the text gives to networks on a benchmark, if it says so."""
    return [int(x) for x in prose[(prose["quantity"] == "outputs") & (prose["benchmark"] == benchmark)]["value"]]


def known_widths(numbers: pd.DataFrame, prose: pd.DataFrame, benchmark: str) -> dict[Key, tuple[int, ...]]:
    """Cells whose widths the text says, or whose count tells them because both layers are equal."""
    said = prose[(prose["benchmark"] == benchmark) & (prose["quantity"] == "widths") & (prose["exact"] == "yes")]
    stated: dict[Key, tuple[int, ...]] = {
        ("main", benchmark, row): widths_of(value) for row, value in zip(said["row"], said["value"], strict=True)
    }
    keys = [("ablations", benchmark, row) for row in EQUAL]
    return stated | {key: equal_layers(numbers.loc[key, "params"], TEN) for key in keys}


def also_released(released: pd.DataFrame, benchmark: str, outputs: int) -> str:
    """Released networks that do have these outputs."""
    means = released[(released["benchmark"] == benchmark) & (released["seed"] == MEAN)]
    known = means.dropna(subset=["widths", "params"]).itertuples()
    agree = [one for one in known if count((INPUTS, *widths_of(one.widths), outputs)) == one.params]
    return "".join(f"; the released network {one.widths} has {one.params:.0f} parameters" for one in agree)


def of_outputs(numbers: pd.DataFrame, prose: pd.DataFrame, released: pd.DataFrame) -> list[Contradiction]:
    """Counts that need ten outputs where the text, and what the authors released, has fewer."""
    found = []
    for said in prose[prose["quantity"] == "outputs"].itertuples():
        outputs, known = int(said.value), known_widths(numbers, prose, said.benchmark)
        sizes = {key: count((INPUTS, *widths, outputs)) for key, widths in known.items()}
        wrong = [key for key in known if numbers.loc[key, "params"] not in printable(sizes[key])]
        if wrong:
            also = also_released(released, said.benchmark, outputs)
            found.append(
                Contradiction(
                    f"Parameters are those of networks with {TEN} outputs, although the text has as many outputs as "
                    f"classes, {outputs}",
                    said.benchmark,
                    f"{said.where}; Table 1 and the table of A.6{also}",
                    "; ".join(f"{key[2]}: {thousands(numbers.loc[key, 'params'])}" for key in wrong),
                    "; ".join(f"{key[2]}: {thousands(sizes[key] // 100 * 100)}" for key in wrong),
                    "params",
                    tuple(wrong),
                )
            )
    return found


def find() -> list[Contradiction]:
    """All that reports/paper holds."""
    numbers, prose = paper_numbers(), pd.read_csv(PAPER / "prose.csv", dtype=str)
    symbols = pd.read_csv(PAPER / "hyperparameters.csv").dropna(subset="mnist").set_index("symbol")["mnist"]
    defaults = {symbol: float(symbols[symbol]) for symbol, _ in THRESHOLDS.values()}
    released = pd.read_csv(PAPER / "released.csv", dtype={"seed": str})
    return [
        *of_thresholds(numbers, defaults),
        *of_widths(numbers, prose),
        *of_inert_neurons(numbers, prose),
        *of_outputs(numbers, prose, released),
    ]


def concerned(found: Iterable[Contradiction], table: str) -> dict[tuple[str, str], set[str]]:
    """By row and benchmark of a table, the quantities that stand in a contradiction."""
    marked: dict[tuple[str, str], set[str]] = {}
    for one in found:
        for name, benchmark, row in one.cells:
            if name == table:
                marked.setdefault((row, benchmark), set()).add(one.quantity)
    return marked
