"""The figures: what they may read, that they are what the results give, and that they always look the same."""

import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.collections import PathCollection

from noracl.method.network import count
from pipeline.config import load
from pipeline.data.manifests import placeholder
from pipeline.experiments.suites import suites
from pipeline.report import style
from pipeline.report.figures import registry
from pipeline.report.tables import build_table
from tests.conftest import ROOT

FIGURES = registry()
OPENED: set[str] = set()


def _note(event, arguments):
    """Python tells of every file that it opens."""
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        OPENED.add(os.path.relpath(arguments[0], ROOT))


sys.addaudithook(_note)


def notebook(name):
    return json.loads((ROOT / FIGURES[name].notebook).read_text(encoding="utf-8"))["cells"]


def draw(name, folder, **parameters):
    """The notebook's code, run here: quicker than a kernel. Returns its variables."""
    space = {}
    for cell in notebook(name)[1:]:
        exec("".join(cell["source"]), space)
        if cell["id"] == "parameters":
            space.update(parameters, folder=str(folder))
    return space


def results(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_notebook_and_every_picture_is_in_the_list():
    assert {path.stem for path in Path("reports/notebooks").iterdir()} == set(FIGURES)
    assert set(Path("reports/figures").iterdir()) == {path for figure in FIGURES.values() for path in figure.files}


@pytest.mark.parametrize("name", FIGURES)
def test_notebooks_are_clean(name):
    cells = notebook(name)
    assert [cell["id"] for cell in cells] == ["title", "parameters", "load", "plot", "save"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "code", "code", "code"]
    assert [cell["metadata"] for cell in cells] == [{}, {"tags": ["parameters"]}, {}, {}, {}]
    for cell in cells[1:]:
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert f'name = "{name}"\n' in cells[1]["source"]


@pytest.mark.parametrize("name", FIGURES)
def test_committed_figures_are_what_the_committed_results_give(name, tmp_path):
    OPENED.clear()
    draw(name, tmp_path)
    read = {path for path in OPENED if path.startswith(("reports", "data", ".runs", "params"))}
    own = {path for path in read if Path(path).is_relative_to(FIGURES[name].reads)}
    others = {path for path in read - own if not Path(path).is_relative_to("reports/paper")} - {"params.yaml"}
    assert own
    assert others <= {str(FIGURES[name].notebook)}, "the stage depends on no other file"
    assert not plt.get_fignums(), "a kernel would draw it once more, and move things"
    assert (tmp_path / f"{name}.csv").read_text(encoding="utf-8") == Path(f"reports/figures/{name}.csv").read_text(
        encoding="utf-8"
    )
    for kind, limit in (("png", 100_000), ("svg", 150_000)):
        assert Path(f"reports/figures/{name}.{kind}").stat().st_size < limit, "git holds every version"


def test_the_same_numbers_give_the_same_bytes_in_another_process(tmp_path):
    """A kernel with another hash seed, with a matplotlibrc and a kernel of the user's that would change everything."""
    draw("rotated", tmp_path / "here")
    unwelcome = tmp_path / "share/jupyter/kernels/python3"
    unwelcome.mkdir(parents=True)
    (unwelcome / "kernel.json").write_text(
        '{"argv": ["false"], "display_name": "Python 3", "language": "python"}', encoding="utf-8"
    )
    (tmp_path / "matplotlibrc").write_text(
        "font.size: 30\nlines.linewidth: 9\nlines.markeredgewidth: 5\n", encoding="utf-8"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(tmp_path / "matplotlibrc")}
    environment |= {"JUPYTER_PATH": str(tmp_path / "share/jupyter")}
    command = [sys.executable, "-m", "pipeline", "figure", "rotated", f"folder={tmp_path / 'there'}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout) == (0, "figure rotated: drawn from reports/results/main\n"), done.stderr
    for kind in ("csv", "png", "svg"):
        here, there = ((tmp_path / place / f"rotated.{kind}").read_bytes() for place in ("here", "there"))
        assert here == there
    assert b"<dc:date>" not in here, "an SVG without a date"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["timeline", "seed=77"], "reports/notebooks/timeline.ipynb, cell 3:"),
        (["timeline", "sed=1"], "has no parameter 'sed'; it has name, folder, seed, layers"),
        (["timeline", "1"], "parameters are written KEY=VALUE, not '1'"),
    ],
)
def test_errors_say_what_is_wrong(arguments, message):
    command = [sys.executable, "-m", "pipeline", "figure", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode
    assert message in done.stderr
    assert "no run has seed=77; there are" in done.stderr or "seed=77" not in arguments
    assert len(done.stderr.splitlines()) < 20


def test_a_depth_that_was_not_run_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"no run has layers=7; there are \[1, 2\]"):
        draw("fig2", tmp_path, layers=7)


def test_figure_2_by_hand():
    """Mean and deviation over seeds of every curve and bar, without pandas."""
    found = defaultdict(list)
    drawn_from = [*Path("reports/results/main").glob("*/runs.csv"), Path("reports/results/beyond/bounds/runs.csv")]
    for path in drawn_from:
        for row in results(path):
            if row["layers"] == "2" and row["benchmark"] != "split_cifar10":
                cell = (row["benchmark"], row["method"], int(row["task"]))
                found[cell].append((100 * float(row["accuracy"]), float(row["params"])))
    drawn = pd.read_csv("reports/figures/fig2.csv").set_index(["benchmark", "method", "task"])
    assert len(drawn) == len(found)
    for cell, values in found.items():
        row = drawn.loc[cell]
        assert row["seeds"] == len(values)
        for column, numbers in zip(("accuracy", "params"), zip(*values, strict=True), strict=True):
            assert row[f"{column}_mean"] == pytest.approx(statistics.mean(numbers), rel=1e-5)
            assert row[f"{column}_sd"] == pytest.approx(statistics.stdev(numbers), rel=1e-4, abs=1e-9)


ELSEWHERE = ("stress", "sensitivity", "cifar10_128", "cifar10_sizes", "readings", "beyond")


def test_pareto_by_hand():
    """Every run's last task, and the mean of every method."""
    drawn = pd.read_csv("reports/figures/pareto.csv", dtype={"seed": str})
    expected = {}
    for path in Path("reports/results").glob("*/*/runs.csv"):
        if path.parent.parent.name not in ELSEWHERE:
            for row in results(path):  # tasks come in order: the last one stays
                if row["method"] != "full" and row["task"] != "0":  # which says that a run could not go on
                    cell = (row["benchmark"], row["method"], int(row["layers"]), row["seed"])
                    expected[cell] = (float(row["params"]), 100 * float(row["accuracy"]))
    keys = ["benchmark", "method", "layers", "seed"]
    shown = {tuple(row[key] for key in keys): (row["params"], row["accuracy"]) for row in drawn.to_dict("records")}
    runs = {cell: numbers for cell, numbers in shown.items() if cell[3] != "mean"}
    assert set(runs) == set(expected)
    groups = defaultdict(list)
    for cell, numbers in expected.items():
        assert runs[cell] == pytest.approx(numbers, rel=1e-5)
        groups[cell[:3]].append(numbers)
    for cell, numbers in groups.items():
        means = [statistics.mean(column) for column in zip(*numbers, strict=True)]
        assert shown[(*cell, "mean")] == pytest.approx(means, rel=1e-5)
    assert len(shown) == len(expected) + len(groups)


def test_agreement_by_hand():
    """Every cell with a number of the paper's; NORACL of Table 1 is not drawn again for other tables that print it."""
    with_paper = defaultdict(int)
    for table in ("main", "cifar10", "stress50", "stress100", "ablations", "sensitivity"):
        for row in results(f"reports/tables/{table}.csv"):
            for quantity in ("acc", "params"):
                if row[f"paper_{quantity}"] and row[f"{quantity}_mean"] and row["row"] not in ("full", "default"):
                    with_paper[table, quantity] += 1
    drawn = pd.read_csv("reports/figures/agreement.csv")
    assert drawn.groupby(["table", "quantity"]).size().to_dict() == with_paper
    verdicts = json.loads(Path("reports/tables/verdicts.json").read_text(encoding="utf-8"))
    for quantity, name in (("acc", "accuracy"), ("params", "params")):
        own = drawn[drawn["quantity"] == quantity]["verdict"]
        everywhere = {"match": (own == "match").sum(), "cells": len(own)}
        assert verdicts["all tables"][name]["all"] == everywhere, "the figure counts as the page and the tables do"
        each = [one[name]["all"]["cells"] for table, one in verdicts.items() if table != "all tables"]
        assert sum(each) == len(own), "and the tables add up"


def test_lines_are_the_means_of_the_table_on_a_logarithmic_axis_too(tmp_path):
    space = draw("fig4", tmp_path)
    numbers = pd.read_csv(tmp_path / "fig4.csv")
    for ax, quantity in ((space["accuracy"], "accuracy"), (space["plastic"], "plastic")):
        lines = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
        assert set(lines) == set(numbers["method"])
        for method, rows in numbers.groupby("method"):
            assert lines[method] == pytest.approx(rows[f"{quantity}_mean"].to_numpy(), rel=1e-5)


def test_a_new_benchmark_simply_appears(tmp_path, monkeypatch):
    """Heads on features as part of Table 1, and another stream in a table of its own."""
    for folder in ("reports/results", "reports/paper"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    for name, like, table in (("new_heads", "split_cifar10", "main"), ("new_stream", "permuted_mnist", "another")):
        params["benchmarks"][name] = {**params["benchmarks"][like], "title": f"The {name}", "table": table}
        old = params["benchmarks"][like]["table"]
        for family in ("static", "noracl"):
            to = tmp_path / f"reports/results/{table}/{name}-{family}"
            shutil.copytree(ROOT / f"reports/results/{old}/{like}-{family}", to)
            runs = (to / "runs.csv").read_text(encoding="utf-8")
            (to / "runs.csv").write_text(runs.replace(f"\n{like},", f"\n{name},"), encoding="utf-8")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(params))), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for figure, new in (("fig2", {"new_heads"}), ("pareto", {"new_heads", "new_stream"}), ("rotated", set())):
        axes = draw(figure, tmp_path)["figure"].axes
        titles = " ".join(ax.get_title("left") for ax in axes)
        before = set(pd.read_csv(ROOT / f"reports/figures/{figure}.csv")["benchmark"])
        assert set(pd.read_csv(f"{figure}.csv")["benchmark"]) == before | new
        assert all(f"The {name}" in titles for name in new)


def test_the_drawing_of_a_network_has_a_dot_for_each_neuron():
    figure, ax = plt.subplots()
    style.network(ax, (3, 5), (9, 5))
    layers = [artist for artist in ax.collections if isinstance(artist, PathCollection)]
    filled = [int((layer.get_facecolors()[:, :3] < 1).any(axis=1).sum()) for layer in layers]
    plt.close(figure)
    assert [len(layer.get_offsets()) for layer in layers] == [9, 5]
    assert filled == [6, 0]


def test_letters_and_a_legend_with_each_name_once():
    figure, axes = style.panels(1, 3, 2)
    for ax, title in zip(axes[0], ("first", "", "second"), strict=True):
        ax.plot([0], [0], label="line")
        ax.set_title(title)
    style.finish(figure, *axes[0])
    assert [ax.get_title("left") for ax in axes[0]] == ["(a) first", "", "(b) second"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["line"]


@pytest.mark.parametrize(
    "together",
    [
        *(("NORACL", "small", "medium", "large"), ("NORACL", "32×32", "75×32", "64×64"), ("layer 1", "layer 2")),
        ("permuted_mnist", "rotated_mnist", "split_mnist", "split_cifar10"),
        ("gradient descent", "EWC", "EWC, NORACL's final width", "NORACL"),
    ],
)
def test_methods_can_be_told_apart_without_colour(together):
    looks = [style.look(method) for method in together]
    for aspect in ("color", "marker", "linestyle"):
        assert len({str(look[aspect]) for look in looks}) == len(together)


def test_a_method_that_nobody_foresaw_has_a_look_of_its_own():
    assert style.look("128×128") == style.look("128×128")
    assert {"color", "marker", "linestyle"} <= set(style.look("128×128"))
    names = ("128×128", "256×256", "512×512", "1024×1024", "172×134")
    looks = [tuple(map(str, style.look(name).values())) for name in (*names, *style.LOOKS)]
    assert len(set(looks[: len(names)])) == len(names)
    assert not set(looks[: len(names)]) & set(looks[len(names) :])
    assert style.look("static, small") == style.look("small")


def test_one_seed_has_no_deviation_and_no_band():
    runs = pd.DataFrame({"method": ["a", "a"], "task": [1, 2], "seed": [0, 0], "accuracy": [0.9, 0.8]})
    numbers = style.over_seeds(runs, ["method", "task"], ["accuracy"])
    assert numbers["accuracy_mean"].tolist() == [0.9, 0.8]
    assert numbers["accuracy_sd"].isna().all()
    figure, ax = plt.subplots()
    style.curves(ax, runs, "task", "accuracy", "method")
    (band,) = ax.collections
    assert not np.isfinite(band.get_datalim(ax.transData).width)
    plt.close(figure)


#: Beyond the paper, with two seeds and little of everything.
ASKED = {
    "regularisers": {"strengths": {"online_ewc": 300.0, "si": 0.1}},
    "bounds": {"networks": {"permuted_mnist": "large", "split_cifar10": "512×512"}},
    "controls": {"benchmarks": ["permuted_mnist", "split_mnist"], "init": ["qr", "he", "zero"]},
    "fashion": {"benchmarks": ["permuted_mnist", "split_mnist"]},
}
STRESSED = {
    "oracle": {"seeds": [0, 1], "networks": {"128×128": [128, 128], "512×512": [512, 512]}},
    "upkeep": {"seeds": [0, 1], "network": "75x32", "strengths": {"shrink and perturb": 0.8}},
}


@pytest.fixture
def beyond(tmp_path, monkeypatch):
    """A copy of the reports with made-up results of all that goes beyond the paper, in which NORACL grows."""
    for folder in ("reports/results", "reports/paper"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.rmtree(tmp_path / "reports/results/beyond", ignore_errors=True)
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params |= {"beyond": ASKED, "beyond_stress": STRESSED, "seeds": [0, 1]}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(params))), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, suite in suites(load(), placeholder).items():
        if name.startswith("beyond/"):
            rows = [row for run in suite.runs() for row in made_up(run, dormant=name == "beyond/upkeep")]
            folder = tmp_path / "reports/results" / name
            folder.mkdir(parents=True)
            pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
    return tmp_path


def made_up(run, dormant):
    """Rows of a run: accuracy falls by a tenth of a point per task, both layers gain a neuron per task if it grows."""
    grows, draws = run.settings.growth.trigger != "none", np.random.default_rng(run.seed)
    for task in range(1, run.tasks + 1):
        widths = [width + (task - 1) * grows for width in run.settings.hidden]
        row = {"benchmark": run.benchmark, "method": run.method, "layers": run.layers, "seed": run.seed, "task": task}
        row |= {"accuracy": 0.9 - task / 1000 + draws.normal() / 100, "accuracy_first": 0.5, "accuracy_newest": 0.8}
        row |= {"params": count((run.inputs, *widths, run.outputs)), "width_1": widths[0], "width_2": widths[1]}
        row |= {"growth_events": task - 1, "locked_1": 0.1, "locked_2": 0.2, "plastic": 100.0}
        yield row | ({"dormant_1": 0.25, "dormant_2": 0.5} if dormant else {})


def test_figures_beyond_the_paper_by_hand(beyond):
    draw("controls", beyond)
    gaps = pd.read_csv(beyond / "controls.csv")
    assert set(gaps["method"]) == {"random times", "random layers", "from the start", "init he", "init zero"}
    assert gaps["gap"].abs().max() < 1e-9, "all of one seed are equally accurate"
    draw("oracle", beyond)
    sizes = pd.read_csv(beyond / "oracle.csv").set_index("method")
    assert sizes.loc["128×128", "held_mean"] == sizes.loc["128×128", "params_mean"] == count((784, 128, 128, 10))
    assert sizes.loc["NORACL", "held_mean"] < sizes.loc["NORACL", "params_mean"], "it grew on the way"
    draw("upkeep", beyond)
    idle = pd.read_csv(beyond / "upkeep.csv").set_index(["method", "task"])["dormant_mean"]
    assert idle["75×32", 1] == pytest.approx(100 * (75 * 0.25 + 32 * 0.5) / 107, rel=1e-5)
    draw("regularisers", beyond)
    grown = pd.read_csv(beyond / "regularisers.csv").set_index(["benchmark", "regulariser", "network"])
    assert grown.loc[("rotated_mnist", "si", "NORACL"), ["grown_1_mean", "grown_2_mean"]].tolist() == [4, 4]
    assert grown.loc[("rotated_mnist", "si", "large"), "grown_1_mean"] == 0


def test_bounds_are_lines_of_figure_2_and_rows_of_tables(beyond):
    space = draw("fig2", beyond)
    first = space["axes"][0, 0]
    labels = {line.get_label() for line in first.get_lines()}
    assert {"naive", "joint", "one per task", "NORACL", "static, large"} <= labels
    assert "naive" not in {line.get_label() for line in space["axes"][0, 1].get_lines()}, "computed on the first alone"
    for table, rows in (("main", {"2L naive", "2L joint", "2L one per task"}), ("cifar10", {"naive", "joint"})):
        found = build_table(table, load())
        assert rows <= set(found["row"])
        assert set(found[found["row"].isin(rows)]["verdict"]) == {"n/a"}
        assert found["row"].iloc[0] not in rows, "after the paper's own rows"
    assert not set(build_table("ablations", load())["row"]) & {"naive", "joint"}
