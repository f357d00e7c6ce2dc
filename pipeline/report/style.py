"""One look for all figures, 6 inches wide with letters of 9 points, and how they are saved; notebooks do the rest.

A method looks the same everywhere: in Okabe and Ito's colours, for colour-blind readers, with marks and dashes besides.
"""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullLocator
from PIL import Image

from pipeline.files import write_bytes

ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
BLACK, GREY = "#000000", "#767676"
LOOKS: dict[str, dict[str, Any]] = {
    name: {"color": color, "marker": marker, "linestyle": dash}
    for color, marker, dash, *names in (
        (VERMILLION, "o", "-", "NORACL", "layer 1"),
        (SKY, "v", ":", "small"),
        (BLUE, "s", "--", "medium", "32×32", "EWC"),
        (GREEN, "^", "-.", "large", "64×64", "EWC, NORACL's final width"),
        (ORANGE, "D", (0, (5, 1, 1, 1, 1, 1)), "75×32"),
        (GREY, "X", ":", "gradient descent"),
        (BLACK, "P", (0, (1, 1)), "joint"),
        (GREY, "*", (0, (3, 1)), "naive"),
        (PURPLE, "p", (0, (4, 2)), "one per task"),
        (BLACK, "o", "-", "permuted_mnist"),
        (PURPLE, "s", "--", "rotated_mnist", "layer 2"),
        (ORANGE, "^", ":", "split_mnist"),
        (SKY, "D", "-.", "split_cifar10"),
    )
    for name in names
}
THEME = {
    **dict.fromkeys(("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9),
    **{"axes.titlesize": 8.5, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.linewidth": 0.8},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#E0E0E0"},
    **{"lines.linewidth": 1.5, "lines.markersize": 5, "legend.frameon": False, "legend.handlelength": 2.6},
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # the first draws the PNG, a browser has one of them
    **{"svg.fonttype": "none", "svg.hashsalt": "noracl"},  # text stays text, and names in the file stay the same
}


def look(name: str) -> dict[str, Any]:
    """Colour, mark and dash of a method or benchmark; one that nobody foresaw has its own too, by its name."""
    number = int.from_bytes(name.encode())
    color, marker, dash = (PURPLE, GREY, BLACK)[number % 3], "P*<>pdh"[number % 7], (0, (1 + number % 5, 1))
    return LOOKS.get(name.removeprefix("static, "), {"color": color, "marker": marker, "linestyle": dash})


def panels(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure of 6 inches' width in the common style, and its axes as an array of rows × columns."""
    matplotlib.style.use(["default", seaborn.axes_style("ticks"), seaborn.plotting_context("paper"), THEME])
    # Not by pyplot, whose figures a kernel draws once more after each cell: that moves what the layout engine places.
    figure = Figure(figsize=(6.0, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def deepest(runs: pd.DataFrame, layers: int | None) -> pd.DataFrame:
    """The runs with this number of layers; None: with the largest number on their benchmark."""
    if layers is not None and layers not in (known := sorted(set(runs["layers"]))):
        raise ValueError(f"no run has layers={layers}; there are {known}")
    return runs[runs["layers"] == (layers or runs.groupby("benchmark")["layers"].transform("max"))]


def over_seeds(runs: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Mean and standard deviation over seeds (none with one seed), and how many seeds there are."""
    means = {f"{column}_{word}": (column, how) for column in columns for word, how in (("mean", "mean"), ("sd", "std"))}
    return runs.groupby(list(by), sort=False).agg(seeds=("seed", "nunique"), **means).reset_index()


def curves(ax: Axes, runs: pd.DataFrame, x: str, y: str, by: str, **how: Any) -> None:
    """One line per value of ``by``: the mean, with about ten marks and a band of ±1 standard deviation."""
    # Make an axis logarithmic only afterwards: seaborn takes means on the scale that it finds.
    for name, rows in runs.groupby(by, sort=False):
        line = {"errorbar": "sd", "markevery": max(1, rows[x].nunique() // 10), "label": name, **look(str(name)), **how}
        seaborn.lineplot(rows, x=x, y=y, err_kws={"linewidth": 0}, legend=False, ax=ax, **line)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))


def thousands(axis: Any, log_ticks: Sequence[int] = ()) -> None:
    """12 700 as 12.7k; on a logarithmic axis with ticks at these multiples of powers of ten."""
    if log_ticks:
        axis.set(major_locator=LogLocator(subs=log_ticks), minor_locator=NullLocator())
    axis.set_major_formatter(EngFormatter(sep=""))


def finish(figure: Figure, *axes: Axes, columns: int = 4) -> None:
    """(a), (b), … before the titles if there are several, and one legend below for these axes, each name once."""
    titled = [ax for ax in figure.axes if ax.get_title("left")]
    for letter, ax in zip("abcdefghijkl", titled if len(titled) > 1 else [], strict=False):
        ax.set_title(f"({letter}) {ax.get_title('left')}")
    named = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns)


def network(ax: Axes, start: Sequence[int], end: Sequence[int]) -> None:
    """A drawing of a network that grew, with one dot per neuron; those that grew are filled."""
    across = max(4, -(-max(end) // 16))  # dots in a row of a layer
    step, heights = across + 6, [3.0, *(-(-new // across) / 2 + 0.3 for new in end), 2.0]
    sides, halves = np.add.outer(step * np.arange(len(heights)), [-0.8, across - 0.2]).ravel(), np.repeat(heights, 2)
    ax.set(aspect="equal", frame_on=False, xticks=[], yticks=[])
    ax.fill_between(sides[1:-1], -halves[1:-1], halves[1:-1], color="#EBEBEB", linewidth=0)
    for layer, (old, new) in enumerate(zip(start, end, strict=True), start=1):
        at, dot, colour = layer * step, np.arange(new), look(f"layer {layer}")["color"]
        x, y = at + dot % across, heights[layer] - 0.8 - dot // across
        ax.scatter(x, y, s=12, facecolor=np.where(dot < old, "white", colour), edgecolor=colour, linewidth=0.8)
        ax.text(at + across / 2 - 0.5, -max(heights) - 0.8, f"layer {layer}\n{old} → {new}", ha="center", va="top")
    for at, height, name in zip(sides[[1, -2]], halves[[1, -2]], ("input", "output"), strict=True):
        ax.plot([at, at], [-height, height], color=BLACK, linewidth=2.5)
        ax.text(at, -height - 0.5, name, ha="center", va="top")


def growth_row(left: Axes, right: Axes, runs: pd.DataFrame) -> pd.DataFrame:
    """Figure 3's row: the network after the last task, and neurons per layer over tasks; returns the numbers."""
    names = {f"width_{layer}": f"layer {layer}" for layer in range(1, int(runs["layers"].max()) + 1)}
    numbers = over_seeds(runs, ["benchmark", "task"], list(names))
    network(left, *([round(numbers[f"{name}_mean"].iloc[row]) for name in names] for row in (0, -1)))
    widths = runs.rename(columns=names).melt("task", list(names.values()), "layer", "neurons")
    curves(right, widths, "task", "neurons", "layer")
    return numbers


def save(figure: Figure, name: str, numbers: pd.DataFrame, folder: str) -> None:
    """reports/figures/<name>.png, .svg and .csv; the same numbers give the same bytes. SVG in tenths of points."""
    drawn, svg, png = io.BytesIO(), io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=160)
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(png, "png", optimize=True)
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    rounded = re.sub(rb"((?<=\d\d\.\d)|(?<=\d\.\d\d))\d+(?=[^<>]*>)", b"", svg.getvalue()).replace(b" \nL ", b"L")
    text = numbers.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    for kind, content in (("png", png.getvalue()), ("svg", rounded), ("csv", text.encode())):
        write_bytes(Path(folder) / f"{name}.{kind}", content)
