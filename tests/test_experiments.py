"""What people try in a clone of their own: in a file of its own, so that it runs beside the other end-to-end tests."""

import json
import re
import shutil
import sys

import pytest
import yaml

from pipeline.config import load
from pipeline.report import tables
from tests.conftest import FEW_FIGURES, ROOT, merge
from tests.test_end_to_end import BEYOND, NORACL, READERS, READINGS, ROTATED, UP_TO_DATE


def test_experiments_run_what_depends_on_a_change_and_show_what_it_did(clone, tmp_path):
    copy = clone.copy(tmp_path / "experiment")
    place = "benchmarks.rotated_mnist"
    changes = (f"{place}.training.ewc.strength=0.00001", f"{place}.start=[[5, 5]]")
    ran = copy.stages_run("dvc", "exp", "run", "page", "-S", changes[0], "-S", changes[1], "-n", "try")
    on_results = {f"figure@{name}" for name in FEW_FIGURES}
    assert ran == ROTATED | READINGS | BEYOND | on_results | READERS - {"check", "golden"} | {"canaries"}
    assert UP_TO_DATE in copy.run("dvc", "repro", "page")
    written = yaml.safe_load((copy.folder / "params.yaml").read_text(encoding="utf-8"))["benchmarks"]["rotated_mnist"]
    assert written["training"]["ewc"]["strength"] == "1e-05", "text to PyYAML, a number to DVC and to us"
    changed = json.loads(copy.run("dvc", "metrics", "diff", "--json"))
    noracl = changed["reports/metrics/main/rotated_mnist-noracl.json"]
    assert set(noracl) == {"rotated_mnist.2L_NORACL.accuracy", "rotated_mnist.2L_NORACL.params"}
    shown = copy.run("dvc", "exp", "show", "--csv")
    assert "try" in shown
    assert f"{place}.start" in shown
    plots = json.loads(copy.run("dvc", "plots", "diff", "--json", "HEAD"))
    assert "errors" not in plots
    assert len(plots["data"]) == len(list((copy.folder / "reports/plots").rglob("*.csv")))
    copy.run("dvc", "plots", "diff")
    page = (copy.folder / "dvc_plots/index.html").read_text(encoding="utf-8")
    assert page.count("vegaEmbed(") > len(plots["data"]), "called for every file, and defined in the page itself"
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page), "the page needs no network"
    assert "dvc_plots" not in copy.run("git", "status", "--porcelain")
    copy.run("git", "restore", ".")
    copy.run("dvc", "exp", "apply", "try")
    assert json.loads(copy.run("dvc", "metrics", "diff", "--json")) == changed


FIRST = "dvc exp run noracl@split_mnist -S noracl.gamma=0.8"
COMPARE = (  # make compare
    "dvc params diff --no-path HEAD",
    "dvc metrics diff HEAD | sed -E 's#^Path {16}#Path#; s#^reports/metrics/##'",
)
BACK = "git checkout HEAD -- params.yaml dvc.lock reports"
VERIFY = "python -m pipeline verify permuted_mnist '2L small' --seed 3"
#: Commands of the README and their short forms in the small clone, in turn; tests/test_readme.py sees that none is left
#: out. A gamma of 0.8 changes nothing there, so it is 0.1. One benchmark is trained; for others it is only planned.
IN_THE_CLONE = {
    "make help": "make help",
    "source .venv/bin/activate": f"source {sys.prefix}/bin/activate && command -v dvc",
    FIRST: "dvc exp run noracl@split_mnist -S noracl.gamma=0.1",
    **{command: command for command in COMPARE},
    BACK: f"{BACK} && git status --porcelain",
    "dvc exp run noracl@permuted_mnist -S noracl.gamma=0.8 -S 'seeds=[0]'": (
        "dvc exp run --dry --allow-missing noracl@permuted_mnist -S noracl.gamma=0.8 -S 'seeds=[0, 1]'"
    ),
    "dvc exp run --allow-missing -S noracl.gamma=0.8": "dvc exp run --dry --allow-missing -S noracl.gamma=0.8",
    VERIFY: VERIFY.replace("3", "0"),
    "python -m pipeline verify --sample 10": "python -m pipeline verify --sample 2",
    "dvc repro figure@pareto": "rm reports/figures/pareto* && dvc repro figure@pareto && git status --porcelain",
    "python -m pipeline figure timeline seed=3 folder=drawn": (
        "python -m pipeline figure timeline seed=0 folder=drawn && ls drawn"
    ),
    "dvc stage list": "dvc stage list",
    "python -m pipeline --help": "python -m pipeline --help",
    "dvc repro --force": "dvc repro --force --single-item noracl@split_mnist",
    "pip install git+<URL of this repository>": (
        "pip install --no-deps --no-build-isolation --target ../installed git+file://$PWD && ls ../installed"
    ),
    "make clean": "make clean && ls -A",
}


def test_the_commands_of_the_readme_run(clone, tmp_path):
    copy = clone.copy(tmp_path / "copy")
    registry = copy.folder / "reports/figures.yaml"
    timeline = yaml.safe_load((ROOT / "reports/figures.yaml").read_text(encoding="utf-8"))["figures"]["timeline"]
    registry.write_text(
        yaml.safe_dump(
            merge(yaml.safe_load(registry.read_text(encoding="utf-8")), {"figures": {"timeline": timeline}})
        ),
        encoding="utf-8",
    )
    copy.commit("timeline")
    said = {command: copy.run("bash", "-c", short) for command, short in IN_THE_CLONE.items()}
    (exp, planned, all_planned) = (text for command, text in said.items() if command.startswith("dvc exp run"))
    assert {"repro", "test", "bench", "chaos"} <= {line.split()[0] for line in said["make help"].splitlines()}
    assert said["source .venv/bin/activate"].strip() == f"{sys.prefix}/bin/dvc"
    assert "  split_mnist 2L NORACL: " in exp, "the new accuracies and sizes"
    parameters, metrics = (said[command].splitlines() for command in COMPARE)
    assert any(line.split() == ["noracl.gamma", "0.9", "0.1"] for line in parameters)
    assert any(line.startswith("main/split_mnist-noracl.json  split_mnist.2L_NORACL.params ") for line in metrics)
    assert len({line.index("split_mnist.") for line in metrics[1:]} | {metrics[0].index("Metric")}) == 1, "aligned"
    assert max(map(len, parameters + metrics)) <= 120
    assert said[BACK] == "", "back to where you started"
    assert "Running stage 'noracl@permuted_mnist'" in planned
    assert "Running stage 'noracl@rotated_mnist'" not in planned
    assert all(f"Running stage '{stage}'" in all_planned for stage in NORACL | {"stress_noracl", "sensitivity"})
    assert "static@" not in "".join(line for line in all_planned.splitlines() if line.startswith("Running"))
    assert "permuted_mnist 2L small seed 0: the same digits" in said[VERIFY]
    assert said["python -m pipeline verify --sample 10"].count(": the same digits") == 2
    assert said["dvc repro figure@pareto"].count("Running stage") == 1
    assert "\n M " not in said["dvc repro figure@pareto"], "the same figure as before"
    assert "timeline.png" in said["python -m pipeline figure timeline seed=3 folder=drawn"]
    assert "figure@timeline" in said["dvc stage list"]
    assert "portability" in said["python -m pipeline --help"]
    assert "1 of 1 runs are in the run store .runs, 0 to compute" in said["dvc repro --force"]
    installed = said["pip install git+<URL of this repository>"].splitlines()
    assert "noracl" in installed
    assert "pipeline" not in installed
    left = said["make clean"].splitlines()
    assert {".runs", "reports", "README.md"} <= set(left)
    assert not {".venv", "data"} & set(left)


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """A copy of what tables are made of, in which tests may change things."""
    for name in ("README.md", "params.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "reports", tmp_path / "reports", ignore=shutil.ignore_patterns("figures"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tables_alone_can_be_made_again_after_a_change(reports):
    params = yaml.safe_load((reports / "params.yaml").read_text(encoding="utf-8"))

    def counted(**changes):
        (reports / "params.yaml").write_text(yaml.safe_dump(params | changes), encoding="utf-8")
        tables.main([])
        (runs,) = re.findall(
            r"^\| all \| (\d+) ", (reports / "reports/tables/hours.md").read_text(encoding="utf-8"), re.MULTILINE
        )
        return int(runs)

    everything = counted()
    assert 0 < counted(seeds=[0]) < everything
    assert counted(seeds=[*range(9)]) == everything, "of the new seeds nothing is known yet"
    benchmarks = {name: entry for name, entry in params["benchmarks"].items() if name != "rotated_mnist"}
    ablations = params["ablations"] | {"benchmarks": ["permuted_mnist"]}
    assert 0 < counted(benchmarks=benchmarks, ablations=ablations, beyond={}) < everything


@pytest.mark.parametrize(("name", "stage"), [("main/split_mnist-noracl", "noracl@split_mnist"), ("cost/cost", "cost")])
def test_tables_without_a_timing_file_say_which_stage_makes_it(name, stage, reports):
    (reports / f"reports/timing/{name}.csv").unlink()
    with pytest.raises(FileNotFoundError, match=rf"^reports/timing/{name}.csv is missing: run `dvc repro {stage}`$"):
        tables.build(load())
