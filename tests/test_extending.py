"""What CONTRIBUTING.md promises: each addition is one entry or one file.

Each is added to a copy of the small clone as a newcomer would, and the files that had to be touched are counted.
"""

import json

import pandas as pd
import pytest

from tests.conftest import ROOT, train_stages

ENTRY = {
    "data": "mnist",
    "table": "main",
    "outputs": 10,
    "networks": "mlp",
    "start": [[4, 4]],
    "training": {},
    "noracl": {},
}
ADDED = {
    "permuted_again": {"title": "Permuted again", "stream": {"kind": "permuted", "tasks": 2}},
    "turned_far": {"title": "Turned far", "stream": {"kind": "rotated", "angles": [0, 90], "interpolation": "nearest"}},
    "odd_pairs": {"title": "Odd pairs", "stream": {"kind": "split", "pairs": [[1, 3], [5, 7]]}},
    "permuted_features": {
        **{"title": "Permuted features", "stream": {"kind": "permuted", "tasks": 2}},
        **{"data": "cifar10_64", "table": "cifar10", "networks": "heads"},
    },
}


@pytest.fixture
def copy(clone, tmp_path):
    return clone.copy(tmp_path / "copy")


def touched(copy):
    """The files that were changed or added by hand: all but what stages write."""
    lines = copy.run("git", "status", "--porcelain", "-uall").splitlines()
    names = [line[3:] for line in lines]
    return {name for name in names if not name.startswith("reports/") or name.startswith("reports/notebooks/")} | {
        name for name in names if name == "reports/figures.yaml"
    }


def test_a_benchmark_is_one_entry_in_params_yaml(copy):
    copy.change(benchmarks={name: {**ENTRY, **entry} for name, entry in ADDED.items()})
    assert touched(copy) == {"params.yaml"}
    ran = copy.stages_run("dvc", "repro", "page")
    assert {f"{family}@{name}" for name in ADDED for family in ("static", "noracl")} <= ran
    assert not {stage for stage in ran if stage.endswith(("_mnist", "split_cifar10", "cifar10_128", "x32"))}, (
        "the others are fresh"
    )
    assert touched(copy) - {"README.md", "dvc.lock"} == {"params.yaml"}
    tables = copy.folder / "reports/tables"
    for name, entry in ADDED.items():
        table = entry.get("table", "main")
        rows = pd.read_csv(tables / f"{table}.csv", keep_default_na=False)
        rows = rows[rows["benchmark"] == name]
        assert len(rows) >= 3
        assert set(rows["verdict"]) == {"n/a"}
        for text in (tables / f"{table}.md", copy.folder / "reports/index.html"):
            assert entry["title"] in text.read_text(encoding="utf-8")
        assert (copy.folder / f"reports/metrics/{table}/{name}-noracl.json").exists()
        figure = pd.read_csv(copy.folder / "reports/figures/pareto.csv")
        assert name in set(figure["benchmark"])
    assert {"permuted_again", "turned_far", "odd_pairs"} <= set(
        pd.read_csv(copy.folder / "reports/figures/fig2.csv")["benchmark"]
    )
    assert "Odd pairs" in (copy.folder / "README.md").read_text(encoding="utf-8")


def test_a_figure_is_one_notebook_and_one_entry(copy):
    folder = copy.folder / "reports"
    notebook = json.loads((folder / "notebooks/rotated.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = [line.replace('name = "rotated"', 'name = "mine"') for line in cell["source"]]
    (folder / "notebooks/mine.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    entry = (
        "  mine:\n    title: A figure of mine\n    paper: not in the paper\n    caption: Drawn in a test.\n"
        "    reads: reports/results/main\n    params: seeds\n"
    )
    (folder / "figures.yaml").write_text(
        (folder / "figures.yaml").read_text(encoding="utf-8") + "\n" + entry, encoding="utf-8"
    )
    assert touched(copy) == {"reports/figures.yaml", "reports/notebooks/mine.ipynb"}
    assert copy.stages_run("dvc", "repro", "page") == {"figure@mine", "page"}
    assert "A figure of mine" in (folder / "index.html").read_text(encoding="utf-8")


RECIPES = {
    "regulariser": (
        "noracl/method/regularisers/pull.py",
        {"training": {"regulariser": "pull"}},
        "static@split_mnist",
    ),
    "trigger": ("noracl/method/triggers/late.py", {"ablations": {"trigger": ["late"]}}, "ablations@split_mnist"),
    "initialiser": (
        "noracl/method/initialisers/small.py",
        {"ablations": {"init": ["small"]}},
        "ablations@split_mnist",
    ),
}


def recipe(kind):
    """The code block of CONTRIBUTING.md that registers such a part, whatever it is called there."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    (found,) = [block for block in blocks if f"noracl.method.{kind}s import" in block]
    name = found.split('@register("')[1].split('"')[0]
    return found, name


@pytest.mark.parametrize("kind", RECIPES)
def test_a_part_of_the_method_is_one_file_that_registers_itself(copy, kind):
    path, change, stage = RECIPES[kind]
    code, name = recipe(kind)
    wanted = path.rsplit("/", 1)[1].removesuffix(".py")
    (copy.folder / path).write_text(code.replace(f'"{name}"', f'"{wanted}"'), encoding="utf-8")
    assert touched(copy) == {path}
    assert train_stages(copy.stages_run("dvc", "repro")) == set(), "a part that nobody uses changes no number"
    copy.commit("a part")
    copy.change(**change)
    output = copy.run("dvc", "repro", stage)
    assert touched(copy) - {"dvc.lock"} == {"params.yaml"}
    assert f"Running stage '{stage}'" in output
    if kind != "regulariser":
        assert f"2L {'trigger' if kind == 'trigger' else 'init'} {wanted}: " in output
