"""The figures: what they may read, that they are what the results give, and that they always look the same."""

import csv
import json
import os
import re
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

from pipeline import style
from pipeline.figures import registry
from tests.conftest import ROOT

FIGURES = registry()
STAGES = yaml.safe_load(Path("dvc.yaml").read_text())["stages"]


def notebook(name):
    return json.loads(FIGURES[name].notebook.read_text())["cells"]


def draw(name, folder, **parameters):
    """The notebook's code, run here: quicker than a kernel."""
    space = {}
    for cell in notebook(name)[1:]:
        exec("".join(cell["source"]), space)
        if cell["id"] == "parameters":
            space.update(parameters, folder=str(folder))


def results(path):
    with open(f"reports/results/{path}.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", FIGURES)
def test_the_stage_is_what_the_list_of_figures_says(name):
    figure, stage = FIGURES[name], STAGES[f"figure-{name}"]
    assert stage["desc"] == figure.title
    assert stage["cmd"] == f"python -m pipeline.figures {name}"
    assert stage["deps"] == ["pipeline/style.py", str(figure.notebook), *figure.reads]
    assert stage["outs"] == [{str(path): {"cache": False}} for path in figure.files]


def test_every_stage_and_every_notebook_is_in_the_list():
    assert {stage.removeprefix("figure-") for stage in STAGES if stage.startswith("figure-")} == set(FIGURES)
    assert {path.stem for path in Path("reports/notebooks").iterdir()} == set(FIGURES)
    assert {path.stem for path in Path("reports/figures").iterdir()} <= set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_notebooks_are_clean_and_read_only_what_they_may(name):
    cells = notebook(name)
    assert [cell["id"] for cell in cells] == ["title", "parameters", "load", "plot", "save"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "code", "code", "code"]
    assert [cell["metadata"] for cell in cells] == [{}, {"tags": ["parameters"]}, {}, {}, {}]
    for cell in cells[1:]:
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
    code = "".join(line for cell in cells[1:] for line in cell["source"])
    assert set(re.findall(r"reports/\w+", code)) == {"reports/figures"}, "use style.read: it keeps to the list"
    assert not re.search(r"read_csv|open\(|read_text", code)
    assert f'name = "{name}"' in code


@pytest.mark.parametrize("name", FIGURES)
def test_committed_figures_are_what_the_committed_results_give(name, tmp_path):
    draw(name, tmp_path)
    assert not plt.get_fignums(), "a kernel would draw it once more, and move things"
    assert (tmp_path / f"{name}.csv").read_text() == Path(f"reports/figures/{name}.csv").read_text()
    for kind, limit in (("png", 100_000), ("svg", 150_000)):
        assert Path(f"reports/figures/{name}.{kind}").stat().st_size < limit, "git holds every version"


def test_the_same_numbers_give_the_same_bytes_in_another_process(tmp_path):
    """A kernel with another hash seed, with a matplotlibrc and a kernel of the user's that would change everything."""
    draw("rotated", tmp_path / "here")
    unwelcome = tmp_path / "share/jupyter/kernels/python3"
    unwelcome.mkdir(parents=True)
    (unwelcome / "kernel.json").write_text('{"argv": ["false"], "display_name": "Python 3", "language": "python"}')
    (tmp_path / "matplotlibrc").write_text("font.size: 30\nlines.linewidth: 9\n")
    environment = os.environ | {"PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(tmp_path / "matplotlibrc")}
    environment |= {"JUPYTER_PATH": str(tmp_path / "share/jupyter")}
    command = [sys.executable, "-m", "pipeline.figures", "rotated", f"folder={tmp_path / 'there'}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "figure rotated: drawn from 1 files\n"), done.stderr
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
def test_errors_say_what_is_wrong(arguments, message, tmp_path):
    command = [sys.executable, "-m", "pipeline.figures", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode
    assert message in done.stderr
    assert "no run has seed=77; there are" in done.stderr or "seed=77" not in arguments
    assert len(done.stderr.splitlines()) < 20


def test_figure_2_by_hand():
    """Mean and deviation over seeds of every curve and bar, without pandas."""
    found = defaultdict(list)
    for benchmark in ("permuted_mnist", "rotated_mnist", "split_mnist"):
        for family in ("static", "noracl"):
            for row in results(f"{benchmark}-{family}"):
                if row["layers"] == "2":
                    cell = (benchmark, row["method"], int(row["task"]))
                    found[cell].append((100 * float(row["accuracy"]), float(row["params"])))
    drawn = pd.read_csv("reports/figures/fig2.csv").set_index(["benchmark", "method", "task"])
    assert len(drawn) == len(found)
    for cell, values in found.items():
        row = drawn.loc[cell]
        assert row["seeds"] == len(values)
        for column, numbers in zip(("accuracy", "params"), zip(*values, strict=True), strict=True):
            assert row[f"{column}_mean"] == pytest.approx(statistics.mean(numbers), rel=1e-5)
            assert row[f"{column}_sd"] == pytest.approx(statistics.stdev(numbers), rel=1e-4, abs=1e-9)


def test_pareto_by_hand():
    """Every run's last task, and the mean of every method."""
    drawn = pd.read_csv("reports/figures/pareto.csv", dtype={"seed": str})
    expected = {}
    for path in FIGURES["pareto"].reads:
        for row in results(Path(path).stem):  # tasks come in order: the last one stays
            if row["method"] != "full":
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


def test_the_reconstruction_study_by_hand():
    """Every dot is the table's, and the band is where the base comes out with other seeds."""
    with open("reports/tables/reconstruction.csv", newline="") as file:
        table = {(row["part"], row["configuration"]): row for row in csv.DictReader(file)}
    with open("reports/tables/reconstruction-seeds.csv", newline="") as file:
        alone = list(csv.DictReader(file))
    with open("reports/figures/reconstruction.csv", newline="") as file:
        drawn = list(csv.DictReader(file))
    for dot in drawn:
        column = f"distance_{dot['half']} {dot['benchmark']}".strip()
        if dot["part"] == "base, other seeds":
            end = min if dot["configuration"] == "least" else max
            assert float(dot["distance"]) == pytest.approx(end(float(row[column]) for row in alone))
        else:
            assert dot["distance"] == table[dot["part"], dot["configuration"]][column]
    shown = {(dot["part"], dot["configuration"]) for dot in drawn}
    levels = yaml.safe_load(Path("params.yaml").read_text())["reconstruction"]
    single = sum(len(levels["choices"][choice]) - 1 for choice in levels["one_at_a_time"])
    assert sum(part == "screen" and name.count(": ") <= 1 for part, name in shown) == 1 + single
    assert {one for one in shown if one[0] == "finalist"} == {one for one in table if one[0] == "finalist"}
    assert {name for part, name in shown if part == "base, other seeds"} == {"least", "greatest"}


def test_the_drawing_of_a_network_has_a_dot_a_neuron():
    figure, ax = plt.subplots()
    style.network(ax, (3, 5), (9, 5))
    dots = [len(layer.get_offsets()) for layer in ax.collections]
    filled = [int((layer.get_facecolors()[:, :3] < 1).any(axis=1).sum()) for layer in ax.collections]
    plt.close(figure)
    assert dots == [9, 5]
    assert filled == [6, 0]


@pytest.mark.parametrize(
    "together",
    [
        *(("NORACL", "small", "medium", "large"), ("NORACL", "32×32", "75×32", "64×64"), ("layer 1", "layer 2")),
        ("permuted_mnist", "rotated_mnist", "split_mnist", "split_cifar10"),
    ],
)
def test_methods_can_be_told_apart_without_colour(together):
    looks = [style.look(method) for method in together]
    for aspect in ("color", "marker", "linestyle"):
        assert len({str(look[aspect]) for look in looks}) == len(together)


def test_a_method_that_nobody_foresaw_has_a_look():
    assert style.look("128×128") == style.look("128×128")
    assert {"color", "marker", "linestyle"} <= set(style.look("128×128"))


def test_one_seed_has_no_deviation_and_no_band():
    runs = pd.DataFrame({"method": ["a", "a"], "task": [1, 2], "seed": [0, 0], "accuracy": [0.9, 0.8]})
    numbers = style.over_seeds(runs, ["method", "task"], ["accuracy"])
    assert numbers["accuracy_mean"].tolist() == [0.9, 0.8]
    assert numbers["accuracy_sd"].isna().all()
    figure, ax = plt.subplots()
    style.method_curves(ax, numbers, "accuracy")
    (band,) = ax.collections
    assert not np.isfinite(band.get_datalim(ax.transData).width)
    plt.close(figure)
