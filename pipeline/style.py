"""One look for all figures: colours, marks, sizes, how files are read and saved. Notebooks do the rest.

A method has one colour, mark and dash everywhere: Okabe and Ito's colours, which colour-blind readers can tell apart,
and marks and dashes that do without colour. Figures are 6 inches wide with letters of 9 points, to be read in print and
on a phone.
"""

import io
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from PIL import Image

from pipeline.figures import registry
from pipeline.files import write_bytes, write_text
from pipeline.names import TITLES

WIDTH = 6.0  # inches
DPI = 160
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE, BLACK, GREY = "#0072B2", "#D55E00", "#CC79A7", "#000000", "#767676"

Look = dict[str, Any]
_STATIC: dict[str, Look] = {
    "small": {"color": SKY, "marker": "v", "linestyle": ":"},
    "medium": {"color": BLUE, "marker": "s", "linestyle": "--"},
    "large": {"color": GREEN, "marker": "^", "linestyle": "-."},
}
LOOKS: dict[str, Look] = {
    "NORACL": {"color": VERMILLION, "marker": "o", "linestyle": "-"},
    **_STATIC,
    "32×32": _STATIC["medium"],
    "64×64": _STATIC["large"],
    "head": {"color": BLUE, "marker": "D", "linestyle": "--"},
    "75×32": {"color": ORANGE, "marker": "D", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
    "gradient descent": {"color": GREY, "marker": "x", "linestyle": ":"},
    "EWC": _STATIC["medium"],
    "EWC, NORACL's final width": _STATIC["large"],
    "other init": {"color": PURPLE, "marker": "P", "linestyle": ":"},
    "other trigger": {"color": BLACK, "marker": "*", "linestyle": ":"},
    "layer 1": {"color": VERMILLION, "marker": "o", "linestyle": "-"},
    "layer 2": {"color": PURPLE, "marker": "s", "linestyle": "--"},
    "permuted_mnist": {"color": BLACK, "marker": "o", "linestyle": "-"},
    "rotated_mnist": {"color": PURPLE, "marker": "s", "linestyle": "--"},
    "split_mnist": {"color": ORANGE, "marker": "^", "linestyle": ":"},
    "split_cifar10": {"color": SKY, "marker": "D", "linestyle": "-."},
    "the paper's": {"color": BLACK, "marker": "D", "linestyle": ":", "markerfacecolor": "white"},
}
_OTHERS: list[Look] = [
    {"color": PURPLE, "marker": "P", "linestyle": (0, (3, 1))},
    {"color": GREY, "marker": "X", "linestyle": (0, (1, 1))},
    {"color": BLACK, "marker": "*", "linestyle": (0, (5, 3))},
]
SETTINGS: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # the first draws the PNG, a browser has one of them
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E0E0E0",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "svg.fonttype": "none",  # text stays text: smaller, and can be searched and read aloud
    "svg.hashsalt": "noracl",
}


def look(method: str) -> Look:
    """Colour, mark and dash of a method; one that nobody foresaw has its own too, by its name."""
    return LOOKS.get(method) or _OTHERS[sum(method.encode()) % len(_OTHERS)]


def panels(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure of the common width in the common style, and its axes as an array of rows × columns.

    Without pyplot, whose figures a kernel draws once more after each cell: that moves what the layout engine places.
    """
    matplotlib.style.use(["default", SETTINGS])
    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def read(name: str) -> dict[str, pd.DataFrame]:
    """The files that the figure may read, by their path under reports/ without ending: ``results/sensitivity``."""
    paths = [Path(path) for path in registry()[name].reads]
    return {str(path.relative_to("reports").with_suffix("")): pd.read_csv(path) for path in paths}


def read_runs(name: str) -> pd.DataFrame:
    """The results that the figure may read, a row a run and task; runs that could not go on are left out."""
    runs = pd.concat([frame for path, frame in read(name).items() if path.startswith("results/")], ignore_index=True)
    return runs.dropna(subset=["accuracy"])


def last_task(runs: pd.DataFrame) -> pd.DataFrame:
    """The rows of each run's last task."""
    latest = runs.groupby(["suite", "benchmark", "method", "layers", "seed"])["task"].transform("max")
    return runs[runs["task"] == latest]


def deepest(runs: pd.DataFrame, layers: int | None) -> pd.DataFrame:
    """The runs with so many layers; None: as many as there are."""
    known = sorted(runs["layers"].unique())
    if layers is not None and layers not in known:
        raise ValueError(f"no run has layers={layers}; there are {known}")
    return runs[runs["layers"] == (layers or max(known, default=0))]


def over_seeds(runs: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Mean and standard deviation over seeds (none with one seed), and how many seeds there are."""
    groups = runs.groupby(list(by), sort=False)
    parts = [groups["seed"].nunique().rename("seeds")]
    for column in columns:
        parts += [groups[column].mean().rename(f"{column}_mean"), groups[column].std().rename(f"{column}_sd")]
    return pd.concat(parts, axis=1).reset_index()


def curve(ax: Axes, x: Any, mean: Any, sd: Any = None, **how: Any) -> None:
    """A line with about ten marks and a band of ±1 standard deviation."""
    x, mean = np.asarray(x, float), np.asarray(mean, float)
    ax.plot(x, mean, markevery=max(1, len(x) // 10), **how)
    if sd is not None:
        sd = np.asarray(sd, float)
        every = slice((len(x) - 1) % max(1, len(x) // 25), None, max(1, len(x) // 25))  # corners make files large
        ax.fill_between(x[every], (mean - sd)[every], (mean + sd)[every], color=how["color"], alpha=0.2, linewidth=0)


def method_curves(ax: Axes, numbers: pd.DataFrame, quantity: str) -> None:
    """A quantity over tasks, a curve a method, from a table of ``over_seeds``."""
    for method, rows in numbers.groupby("method", sort=False):
        curve(ax, rows["task"], rows[f"{quantity}_mean"], rows[f"{quantity}_sd"], label=method, **look(str(method)))
    ax.set_xlabel("task")
    whole_ticks(ax)


def whole_ticks(ax: Axes) -> None:
    """Tasks are counted."""
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))


def thousands(axis: Any) -> None:
    """12 700 as 12.7k."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}k" if value else "0"))


def log_thousands(axis: Any, subs: Sequence[int] = (1, 2, 5)) -> None:
    """The same on a logarithmic scale."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    thousands(axis)


def letters(axes: Iterable[Axes]) -> None:
    """(a), (b), … before the panels' titles."""
    for letter, ax in zip("abcdefghijkl", axes, strict=False):
        ax.set_title(f"({letter}) {ax.get_title()}", loc="left")
        ax.set_title("")


def legend(figure: Figure, *axes: Axes, columns: int = 4, **how: Any) -> None:
    """One legend under all panels, each name once."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, **how)


def network(ax: Axes, start: Sequence[int], end: Sequence[int]) -> None:
    """A drawing of a network that grew: a dot a neuron; those that grew are filled."""
    across, gap = max(4, math.ceil(max(end) / 16)), 6.0  # dots in a row of a layer, and room between layers
    floor = -math.ceil(max(end) / across) / 2
    ax.set_axis_off()
    ax.set_aspect("equal")
    sides = [(0.0, 0.0, 3.0)]  # of each layer: left, right, half the height
    for layer, (old, new) in enumerate(zip(start, end, strict=True), start=1):
        left, rows, place = sides[-1][1] + gap, math.ceil(new / across), np.arange(new)
        x, y = left + place % across, (rows - 1) / 2 - place // across
        colour = look(f"layer {layer}")["color"]
        fill = np.where(place < old, "white", colour)
        ax.scatter(x, y, s=12, facecolor=fill, edgecolor=colour, linewidth=0.8, zorder=3)
        middle = left + (across - 1) / 2
        ax.text(middle, floor - 0.8, f"layer {layer}\n{old} → {new}", ha="center", va="top")
        sides.append((left - 0.8, left + across - 0.2, rows / 2))
    end_of_all = sides[-1][1] + gap
    sides.append((end_of_all, end_of_all, 2.0))
    for (_, right, height), (left, _, next_height) in itertools.pairwise(sides):
        ax.fill([right, left, left, right], [height, next_height, -next_height, -height], color="#EBEBEB", zorder=1)
    for (at, _, height), name in ((sides[0], "input"), (sides[-1], "output")):
        ax.plot([at, at], [-height, height], color=BLACK, linewidth=2.5)
        ax.text(at, -height - 0.5, name, ha="center", va="top")
    ax.set_xlim(-4, end_of_all + 4)


def growth_row(left: Axes, right: Axes, runs: pd.DataFrame) -> pd.DataFrame:
    """Figure 3's row: the network after the last task, and neurons per layer over tasks; returns the numbers."""
    names = [f"width_{layer}" for layer in range(1, int(runs["layers"].max()) + 1)]
    numbers = over_seeds(runs, ["benchmark", "task"], names)
    start, end = ([round(numbers[f"{name}_mean"].iloc[row]) for name in names] for row in (0, -1))
    network(left, start, end)
    for layer, name in enumerate(names, start=1):
        label = f"layer {layer}"
        curve(right, numbers["task"], numbers[f"{name}_mean"], numbers[f"{name}_sd"], label=label, **look(label))
    whole_ticks(right)
    benchmark = runs["benchmark"].iloc[0]
    right.set(xlabel="task", ylabel="neurons", title=TITLES.get(benchmark, benchmark))
    right.set_ylim(0)
    return numbers


def _in_hundredths(tag: re.Match[bytes]) -> bytes:
    """An SVG tag without the digits of its coordinates that nobody sees."""
    return re.sub(rb"(\d\.\d\d)\d+", rb"\1", tag[0])


def save(figure: Figure, name: str, numbers: pd.DataFrame, folder: str) -> None:
    """reports/figures/<name>.png, .svg and .csv; the same numbers give the same bytes."""
    drawn, svg, png = io.BytesIO(), io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(png, "png", optimize=True)
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    write_bytes(Path(folder) / f"{name}.png", png.getvalue())
    write_bytes(Path(folder) / f"{name}.svg", re.sub(rb"<[^>]*>", _in_hundredths, svg.getvalue()))
    write_text(Path(folder) / f"{name}.csv", numbers.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
