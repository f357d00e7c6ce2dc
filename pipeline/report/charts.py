"""The numbers of the figures that a reader can ask: what to choose from, panels, and series in the looks of style.py.

templates/charts.js draws them. A series is a line, a stepped line ("step") or dots; ``names`` say what a dot is.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from pipeline.config import Params
from pipeline.evidence import results
from pipeline.experiments.beyond import BOUNDS
from pipeline.paths import FIGURES
from pipeline.report import style
from pipeline.report.labels import benchmark_title

Chart = dict[str, Any]
TIMELINE = "permuted_mnist"
DASHES = {"-": "", "--": "7 4", ":": "2 4", "-.": "8 3 2 3"}
SIGNALS = (
    ("phi", "threshold", "effective dimension φ, threshold γ times its reference"),
    ("percentile", "tau", "Fisher information, percentile p, threshold τ"),
)


def colour(hexadecimal: str) -> str:
    """Black is the colour of the text, which is light on a dark page."""
    return "currentColor" if hexadecimal == style.BLACK else hexadecimal


def dashes(line: str | tuple[int, Sequence[int]]) -> str:
    """A line style of matplotlib's as one of SVG."""
    return DASHES[line] if isinstance(line, str) else " ".join(str(2 * length) for length in line[1])


def short(values: "pd.Series[float]") -> list[float]:
    """Four digits are enough for a screen."""
    return [float(f"{value:.4g}") for value in values]


def series(name: str, x: "pd.Series[Any]", y: "pd.Series[float]", **look: Any) -> Chart:
    """A line or dots; None leaves a setting out."""
    known = {key: value for key, value in look.items() if value not in (None, "")}
    return {"name": name, "x": [int(value) for value in x], "y": short(y), **known}


def accuracy(params: Params) -> Chart:
    """Accuracy and parameters over tasks, one benchmark at a time."""
    table, options = pd.read_csv(FIGURES / "fig2.csv"), []
    for benchmark, rows in table.groupby("benchmark", sort=False):
        panels: list[Chart] = []
        for column, title in (("accuracy", "mean accuracy on the tasks so far (%)"), ("params", "parameters")):
            lines = []
            for method, own in rows.groupby("method", sort=False):
                look = style.look(str(method))
                how = {"color": look["color"], "dash": dashes(look["linestyle"]), "shape": look["marker"]}
                sd = short(own[f"{column}_sd"]) if own[f"{column}_sd"].any() else None
                name = str(method) if method in ("NORACL", *BOUNDS) else f"static, {method}"
                lines.append(series(name, own["task"], own[f"{column}_mean"], sd=sd, **how))
            panels.append({"title": title, "x": "task", "series": lines})
        options.append({"name": benchmark_title(str(benchmark), params), "panels": panels})
    return {"label": "Benchmark", "options": options}


def timeline(params: Params) -> Chart:
    """Both signals of every layer with their thresholds, one seed at a time."""
    rule = {**params.noracl, **params.benchmarks[TIMELINE].noracl}
    signals = style.deepest(results.signals(f"main/{TIMELINE}-noracl"), None).dropna(subset=["phi", "percentile"])
    tasks, length = sorted(signals["task"].unique()), signals["epoch"].max() + 1  # epoch 0 parts the tasks
    signals = signals.assign(
        threshold=rule["gamma"] * signals["reference"],
        moment=signals["task"].map(tasks.index) * length + signals["epoch"],
    )
    options = []
    for seed, run in signals.groupby("seed"):
        panels: list[Chart] = []
        for layer, rows in run.groupby("layer"):
            for signal, limit, title in SIGNALS:
                limits = rows.groupby("task")[limit].transform("max")
                ends = ~(rows["task"].duplicated() & rows["task"].duplicated(keep="last"))
                above, grown = rows[rows[signal] > limits], rows[rows["neurons"] > 0]
                names = [f"layer {layer} grows by {neurons}" for neurons in grown["neurons"]]
                lines = [
                    series("signal", rows["moment"], rows[signal], color=style.BLUE),
                    series(
                        "threshold",
                        rows[ends]["moment"],
                        limits[ends],
                        color="currentColor",
                        dash=DASHES["--"],
                        whole=True,
                    ),
                    series(
                        "signal above its threshold", above["moment"], above[signal], color=style.VERMILLION, width=4
                    ),
                    series("growth", grown["moment"], grown[signal], color=style.VERMILLION, shape="^", size=6)
                    | {"names": names, "line": False},
                ]
                period = {"length": int(length), "names": [int(task) for task in tasks]}
                panels.append({"title": f"layer {layer}: {title}", "x": "task", "period": period, "series": lines})
        options.append({"name": str(seed), "panels": panels})
    return {"label": "Seed", "options": options}


def kind(method: str) -> tuple[str, dict[str, Any]]:
    """The entry of the legend that a method belongs to, and its look."""
    if method == "NORACL":
        return method, style.look(method)
    if method.startswith("init "):
        return "other initialisation", {"color": style.PURPLE, "marker": "P"}
    if method.startswith("trigger "):
        return "other trigger", {"color": style.BLACK, "marker": "*"}
    return "static network", {"color": style.BLUE, "marker": "s"}


def pareto(params: Params) -> Chart:
    """Accuracy against parameters, with the name of every run and mean."""
    table, options = pd.read_csv(FIGURES / "pareto.csv", dtype={"seed": str}), []
    table["kind"] = [kind(method)[0] for method in table["method"]]
    for benchmark, rows in table.groupby("benchmark", sort=False):
        means = rows[rows["seed"] == "mean"]
        static = means[means["kind"] == "static network"].sort_values("params")
        ends = pd.concat([static["params"], pd.Series([1.3 * rows["params"].max()])])
        best = static["accuracy"].cummax()
        steps = pd.concat([best, best.tail(1)])
        lines = [
            series("best static network of at most this size", ends[: len(steps)], steps, color=style.GREY, step=True)
        ]
        for which, some in (("run", rows[rows["seed"] != "mean"]), ("mean", means)):
            for (name, layers), own in some.groupby(["kind", "layers"], sort=False):
                _, look = kind(own["method"].iloc[0])
                seeds = ["mean over seeds" if seed == "mean" else f"seed {seed}" for seed in own["seed"]]
                names = [f"{method}, {layers}L, {seed}" for method, seed in zip(own["method"], seeds, strict=True)]
                how = {"color": colour(look["color"]), "shape": look["marker"], "size": 7 if which == "mean" else 3}
                how |= {"hollow": layers == 1, "faint": which == "run", "line": False, "names": names}
                lines.append(series(str(name), own["params"], own["accuracy"]) | how)
        panel = {"title": "accuracy (%)", "x": "parameters", "log": True, "series": lines}
        options.append({"name": benchmark_title(str(benchmark), params), "panels": [panel]})
    return {"label": "Benchmark", "options": options}


#: By the name of the figure that a chart takes the place of.
CHARTS: dict[str, Callable[[Params], Chart]] = {"fig2": accuracy, "pareto": pareto, "timeline": timeline}


def embedded(names: list[str], params: Params) -> Markup:
    """The charts of these figures as JSON that can stand in a page."""
    found = {name: CHARTS[name](params) for name in names if name in CHARTS}
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))
