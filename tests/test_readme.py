"""What README.md and the documents beside it say that can be checked."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from pipeline.__main__ import STAGES
from pipeline.evidence.claims import overall
from pipeline.report.figures import registry
from tests.helpers import toy_task
from tests.test_experiments import IN_THE_CLONE

README = Path("README.md").read_text()
DOCUMENTS = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").rglob("*.md"))]
WORDS = "\n".join(path.read_text() for path in DOCUMENTS)


def test_it_is_short():
    assert len(README.splitlines()) <= 150


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(code.strip().splitlines()) <= 10
    tasks = [toy_task(seed, classes=10, rows=400) for seed in range(2)]
    space = {"my_arrays": [(t.x.numpy(), t.y.numpy(), t.x_test.numpy(), t.y_test.numpy()) for t in tasks]}
    exec(code, space)
    assert capsys.readouterr().out.startswith("(32, 32) ")
    assert space["outcome"].history == space["learner"].history


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
    named = {stage for stage in " ".join(commands).split() if "@my_" not in stage}
    assert {"noracl@split_mnist", "claims"} <= named
    assert named - stages == {"figure@NAME"}, "which stands for any"


FRESH = "tests/test_end_to_end.py::test_a_fresh_clone_trains_nothing"
#: Commands that another test runs, in full or in short, and the words of that test that do so.
ELSEWHERE = {
    "dvc repro --allow-missing": (FRESH, '"dvc", "repro", "--allow-missing"'),
    "dvc repro download@mnist": (FRESH, '"dvc", "repro", "--keep-going", "encoder", "download@mnist"'),
    "python -m pipeline check": (FRESH, '"python", "-m", "pipeline", "check"'),
    "dvc repro STAGE": (
        "tests/test_extending.py::test_a_benchmark_is_one_entry_in_params_yaml",
        '"dvc", "repro", "page"',
    ),
    "dvc metrics diff": (
        "tests/test_experiments.py::test_experiments_run_what_depends_on_a_change_and_show_what_it_did",
        '"dvc", "metrics", "diff"',
    ),
    "python -m pipeline bench": (
        "tests/test_bench.py::test_the_short_form_measures_every_line",
        '"-m", "pipeline", "bench", "--short"',
    ),
    "timeout 600 python -m tests.chaos": (
        "tests/test_chaos.py::test_faults_lose_nothing_and_repeat_nothing",
        "Chaos.prepare(",
    ),
}
BY_CI = "make test"
TARGETS = set(re.findall(r"^([a-z]+):.*##", Path("Makefile").read_text(), flags=re.MULTILINE))


def commands(text):
    """What a document says to type, in its blocks and between its lines."""
    blocks = re.findall(r"^```\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    found = {re.split(r"\s+#", line)[0] for line in "".join(blocks).splitlines()}
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    words = {" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)}
    return found | {span for span in words if re.match(r"(make|dvc|python|pip|git|source|rm|bash|sh) ", span)}


def steps(target, folder):
    """What a make target runs where everything is installed."""
    for name in ("Makefile", "requirements.txt", "requirements-bench.txt"):
        shutil.copy(name, folder)
    checksum = subprocess.run(["cksum"], input=Path("requirements.txt").read_bytes(), capture_output=True, check=True)
    (folder / ".venv/bench").mkdir(parents=True, exist_ok=True)
    for name in (f".ready-{checksum.stdout.decode().split()[0]}", "bench/.ready"):
        (folder / ".venv" / name).touch()
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "-n", "--no-print-directory", target]
    done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, check=True)
    return {re.sub(r"^(\w+=\S+ )+", "", line) for line in done.stdout.splitlines()}


def test_every_command_runs_in_ci_in_full_or_in_short(tmp_path):
    named = commands(README) | {f"make {target}" for target in TARGETS}
    for target in TARGETS - {"help", "clean", "test"}:
        named = named - {f"make {target}"} | steps(target, tmp_path)
    assert named == {*IN_THE_CLONE, *ELSEWHERE, BY_CI}, "a command without a short form, or a short form of no command"
    assert Path(".ci/run").read_text().splitlines()[-1] == BY_CI
    assert f"run: {BY_CI}\n" in Path(".github/workflows/test.yml").read_text()
    for test, words in ELSEWHERE.values():
        path, name = test.split("::")
        text = Path(path).read_text()
        (function,) = [node for node in ast.parse(text).body if getattr(node, "name", "") == name]
        assert words in ast.get_source_segment(text, function), f"{test} does not run {words}"


def test_a_new_command_is_noticed():
    added = "```\ndvc repro new   # comment\n```\n`python -m\nnew`, but not `new`, nor\n```python\nnew\n```\n"
    assert commands(added) == {"dvc repro new", "python -m new"}


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
    words = r"Of the (\d+) claims that we tested, (\d+) hold, (\d+) do not hold and (\d+) are undecided"
    (found,) = re.findall(words, " ".join(README.split()))
    verdicts = overall(pd.read_csv("reports/claims.csv")).value_counts()
    assert tuple(map(int, found)) == (verdicts.sum(), *verdicts[["holds", "does not hold", "undecided"]])


def test_the_summary_is_what_the_claims_say():
    claims = pd.read_csv("reports/claims.csv").groupby("claim")["verdict"].value_counts()
    assert claims["fewer"].to_dict() == {"holds": 5, "undecided": 1}, "smaller in five of the six settings"
    assert claims["par"].to_dict() == {"holds": 1, "undecided": 5}, "and as accurate in one"
    heads = pd.read_csv("reports/tables/cifar10.csv").set_index("row").loc["NORACL"]
    assert heads["params_mean"] > 1.5 * heads["paper_params"]
