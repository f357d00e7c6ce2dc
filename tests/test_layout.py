"""The house: one entry point, folders that use each other in one direction, files that stay short."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.__main__ import STAGES

PACKAGES = [path for top in ("noracl", "pipeline") for path in Path(top).rglob("*.py")]
#: From data to verdict: a folder may use itself, those before it, and the modules beside the folders.
ORDER = ["data", "runs", "experiments", "evidence", "report", "check", "tools"]


def imported(path):
    """Every module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", PACKAGES, ids=str)
def test_files_are_short_and_say_what_they_hold(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    assert ast.get_docstring(ast.parse(text)), "a module says what it holds, a package what may not be in it"


def test_folders_use_those_before_them_and_never_those_after():
    for path in Path("pipeline").rglob("*.py"):
        place = path.relative_to("pipeline").parts[0].removesuffix(".py")
        if place not in ORDER:
            continue
        for name in imported(path):
            used = name.split(".")[1] if name.startswith("pipeline.") else ""
            assert used not in ORDER or ORDER.index(used) <= ORDER.index(place), f"{path} uses {name}"


def test_the_library_knows_neither_the_pipeline_nor_configuration_files():
    for path in Path("noracl").rglob("*.py"):
        for name in imported(path):
            assert name.split(".")[0] not in ("pipeline", "yaml", "dvc", "pandas", "pydantic"), f"{path} uses {name}"
            if path.parts[1] == "method":
                assert not name.startswith("noracl.analysis"), f"{path} uses {name}"


def test_dvc_yaml_is_short():
    assert len(Path("dvc.yaml").read_text().splitlines()) <= 350


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "pipeline", *arguments], capture_output=True, text=True)


def test_help_lists_every_stage_and_what_it_makes():
    done = run("--help")
    assert done.returncode == 0
    for name, (module, words) in STAGES.items():
        assert f"  {name:12} {words}" in done.stdout
        assert Path("pipeline", *module.split(".")).with_suffix(".py").exists()
    listed = subprocess.run(["dvc", "stage", "list"], capture_output=True, text=True, check=True).stdout
    commands = Path("dvc.yaml").read_text().split("python -m pipeline ")[1:]
    tools = {"verdicts", "bench", "portability", "reference"}
    assert {command.split()[0] for command in commands} == set(STAGES) - tools
    assert len(listed.splitlines()) > 30


def test_an_unknown_stage_is_refused_with_the_list():
    done = run("tarin", "main/split_mnist-noracl")
    assert done.returncode == 1
    assert done.stderr.startswith("there is no stage 'tarin'")
    assert "train" in done.stderr
    done = run("train", "main/nothing")
    assert done.returncode == 2
    assert "main/split_mnist-noracl" in done.stderr
    assert "Traceback" not in done.stderr
