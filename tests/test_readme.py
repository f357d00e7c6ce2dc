"""What README.md and the documents beside it say that can be checked."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from pipeline.__main__ import STAGES
from pipeline.evidence.claims import overall
from pipeline.report.figures import registry
from tests.helpers import toy_task

README = Path("README.md").read_text()
DOCUMENTS = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").glob("*.md"))]
WORDS = "\n".join(path.read_text() for path in DOCUMENTS)


def test_it_is_short():
    assert len(README.splitlines()) <= 150


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(code.strip().splitlines()) <= 10
    tasks = [toy_task(seed, classes=10, rows=400) for seed in range(2)]
    exec(code, {"my_arrays": [(t.x.numpy(), t.y.numpy(), t.x_test.numpy(), t.y_test.numpy()) for t in tasks]})
    assert "(32, 32)" in capsys.readouterr().out


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_what_it_points_to_exists(document):
    text = document.read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []
    folders = re.findall(r"`([\w/]+/)`", text)
    assert [name for name in folders if not (Path(name).exists() or Path("reports", name).exists())] == []


def test_every_command_is_real():
    targets = set(re.findall(r"^(\w+):", Path("Makefile").read_text(), flags=re.MULTILINE))
    assert {"repro", "test", "help"} <= targets
    assert set(re.findall(r"(?m)(?:^|`)make (\w+)", WORDS)) <= targets
    for command in re.findall(r"python -m pipeline ([a-z].*)", WORDS):
        stage, *arguments = re.match(r"[\w ./=-]+", command)[0].split()
        assert stage in STAGES
        assert stage != "figure" or arguments[0] in registry()
    assert not re.search(r"python -m pipeline\.", WORDS), "there is one entry point"
    listed = subprocess.run(
        [sys.executable, "-m", "dvc", "stage", "list", "--name-only"], capture_output=True, text=True, check=True
    )
    stages = set(listed.stdout.split())
    commands = re.findall(r"dvc (?:repro|exp run)((?: +[a-z][\w@]*)*)", WORDS)
    named = {stage for stage in " ".join(commands).split() if not stage.endswith("@my_benchmark")}
    assert {"noracl@split_mnist", "claims"} <= named
    assert named - stages == {"figure@NAME"}, "which stands for any"


def test_every_promise_names_a_test_that_exists():
    (rows,) = re.findall(
        r"\| promise \| test \|\n\| --- \| --- \|\n((?:\|.*\n)+)", Path("docs/promises.md").read_text()
    )
    assert len(rows.splitlines()) > 10
    for row in rows.splitlines():
        named = re.findall(r"`(tests/\w+\.py)::(\w+)`", row)
        assert named, f"no test: {row}"
        for path, name in named:
            tree = ast.parse(Path(path).read_text())
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"


def test_the_counts_of_claims_are_those_of_the_verdicts():
    (found,) = re.findall(
        r"Of the (\d+) claims that\s+we tested, (\d+) hold, (\d+) do not hold and (\d+) are undecided", README
    )
    verdicts = overall(pd.read_csv("reports/claims.csv")).value_counts()
    assert tuple(map(int, found)) == (verdicts.sum(), *verdicts[["holds", "does not hold", "undecided"]])


def test_the_summary_is_what_the_tables_say():
    main = pd.read_csv("reports/tables/main.csv").set_index(["benchmark", "row"])[["acc_mean", "params_mean"]]
    gaps = {
        (benchmark, depth): main.loc[benchmark, f"{depth} NORACL"] - main.loc[benchmark, f"{depth} large"]
        for benchmark in main.index.unique(level="benchmark")
        for depth in ("1L", "2L")
    }
    assert sum(gap["acc_mean"] >= 0 for gap in gaps.values()) > len(gaps) / 2, "at least as accurate in most settings"
    assert sum(gap["params_mean"] < 0 for gap in gaps.values()) > len(gaps) / 2, "and usually smaller"
    assert gaps["rotated_mnist", "2L"]["acc_mean"] < -3, "but several points worse"
    heads = pd.read_csv("reports/tables/cifar10.csv").set_index("row")
    assert heads.loc["NORACL", "params_mean"] > 1.5 * heads.loc["NORACL", "paper_params"]
    assert heads.loc["NORACL", "acc_mean"] < heads.drop("NORACL")["acc_mean"].max()
