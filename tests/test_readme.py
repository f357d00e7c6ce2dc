"""What README.md and the documents beside it say that can be checked."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.__main__ import STAGES
from pipeline.evidence.claims import overall
from pipeline.experiments.beyond import BOUNDS
from pipeline.report.figures import registry
from tests.helpers import toy_task
from tests.test_experiments import IN_THE_CLONE
from tests.test_requirements import ready

README = Path("README.md").read_text(encoding="utf-8")
DOCUMENTS = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").rglob("*.md"))]
WORDS = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)


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
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []
    folders = re.findall(r"`([\w/]+/)`", text)
    assert [name for name in folders if not (Path(name).exists() or Path("reports", name).exists())] == []


def test_every_command_is_real():
    targets = set(re.findall(r"^(\w+):", Path("Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {"repro", "test", "help"} <= targets
    assert set(re.findall(r"(?m)(?:^|`)make (\w+)", WORDS)) <= targets
    for command in re.findall(r"python -m pipeline ([a-z].*)", WORDS):
        stage, *arguments = re.match(r"[\w ./=-]+", command)[0].split()
        assert stage in STAGES
        assert stage != "figure" or arguments[0] in registry()
    assert not re.search(r"python -m pipeline\.", WORDS), "there is one entry point"
    listed = subprocess.run(
        [sys.executable, "-m", "dvc", "stage", "list", "--name-only"], capture_output=True, encoding="utf-8", check=True
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
    "python -m pipeline check --quick": (
        "tests/test_check.py::test_a_reading_that_is_not_computed_is_told_of",
        'check.main(["--quick"])',
    ),
    "dvc repro STAGE": (
        "tests/test_extending.py::test_a_benchmark_is_one_entry_in_params_yaml",
        '"dvc", "repro", "page"',
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
TARGETS = set(re.findall(r"^([a-z]+):.*##", Path("Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


def commands(text):
    """What a document says to type, in its blocks and between its lines."""
    blocks = re.findall(r"^```\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    found = {re.split(r"\s+#", line)[0] for line in "".join(blocks).splitlines()}
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    words = {" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)}
    return found | {span for span in words if re.match(r"(make|dvc|python|pip|git|source|rm|bash|sh) ", span)}


def steps(target, folder):
    """What a make target runs where everything is installed."""
    (folder / ".venv/bench").mkdir(parents=True, exist_ok=True)
    for name in (ready(folder), ".venv/bench/.ready"):
        (folder / name).touch()
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "-n", "--no-print-directory", target]
    done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, encoding="utf-8", check=True)
    return {re.sub(r"^(\w+=\S+ )+", "", line).strip() for line in done.stdout.splitlines()}


def test_every_command_runs_in_ci_in_full_or_in_short(tmp_path):
    named = commands(README) | {f"make {target}" for target in TARGETS}
    for target in TARGETS - {"help", "clean", "test"}:
        named = named - {f"make {target}"} | steps(target, tmp_path)
    assert named == {*IN_THE_CLONE, *ELSEWHERE, BY_CI}, "a command without a short form, or a short form of no command"
    assert Path(".ci/run").read_text(encoding="utf-8").splitlines()[-1] == BY_CI
    assert f"run: {BY_CI}\n" in Path(".github/workflows/test.yml").read_text(encoding="utf-8")
    for test, words in ELSEWHERE.values():
        path, name = test.split("::")
        text = Path(path).read_text(encoding="utf-8")
        (function,) = [node for node in ast.parse(text).body if getattr(node, "name", "") == name]
        assert words in ast.get_source_segment(text, function), f"{test} does not run {words}"


def closure(edges):
    """Every pair of nodes with a way from the first to the second."""
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


def drawn(text):
    """The picture of the pipeline in a document: the group of each stage, and which groups depend on which."""
    groups = re.findall(r"^ +(\w+)\[([^\]]+)\]$", text, flags=re.MULTILINE)
    node = {stage: group for group, stages in groups for stage in re.split(r"[^\w]+", stages)}
    return node, closure(re.findall(r"^ +(\w+) --> (\w+)$", text, flags=re.MULTILINE))


def test_the_picture_of_the_pipeline_is_what_dvc_draws():
    node, ways = drawn(Path("docs/experiments.md").read_text(encoding="utf-8"))
    assert set(node) == set(yaml.safe_load(Path("dvc.yaml").read_text(encoding="utf-8"))["stages"])
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "dag", "--md"], capture_output=True, encoding="utf-8", check=True
    )
    stage = dict(re.findall(r'(node\d+)\["([^"@]+)', done.stdout))
    edges = [(node[stage[a]], node[stage[b]]) for a, b in re.findall(r"(node\d+)-->(node\d+)", done.stdout)]
    assert len(edges) > 100
    assert ways == closure({(a, b) for a, b in edges if a != b})


def test_a_new_command_is_noticed():
    added = "```\ndvc repro new   # comment\n```\n`python -m\nnew`, but not `new`, nor\n```python\nnew\n```\n"
    assert commands(added) == {"dvc repro new", "python -m new"}


def test_every_promise_names_a_test_that_exists():
    (rows,) = re.findall(
        r"\| promise \| test \|\n\| --- \| --- \|\n((?:\|.*\n)+)", Path("docs/promises.md").read_text(encoding="utf-8")
    )
    assert len(rows.splitlines()) > 10
    for row in rows.splitlines():
        named = re.findall(r"`(tests/\w+\.py)::(\w+)`", row)
        assert named, f"no test: {row}"
        for path, name in named:
            tree = ast.parse(Path(path).read_text(encoding="utf-8"))
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
    every = pd.read_csv("reports/tables/cifar10.csv").set_index("row")
    heads = every.loc["NORACL"]
    assert set(every["verdict"].drop(["NORACL", *BOUNDS])) == {"match"}, "static heads are as accurate as the paper's"
    assert heads["verdict"] == "lower"
