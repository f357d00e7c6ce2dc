"""The house: one entry point, folders that use each other in one direction, files that stay short."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.__main__ import STAGES

PACKAGES = [path for top in ("noracl", "pipeline") for path in Path(top).rglob("*.py")]
#: From data to verdict: a folder may use itself, those before it, and the modules beside the folders.
ORDER = ["data", "runs", "experiments", "evidence", "report", "verify", "check", "tools"]


def imported(path):
    """Every module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", PACKAGES, ids=str)
def test_files_are_short_and_say_what_they_hold(path):
    text = path.read_text(encoding="utf-8")
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


def unspoken(tree):
    """Calls that read or write text in whatever encoding the machine prefers."""
    for call in ast.walk(tree):
        name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
        given = {word.arg for word in call.keywords} if name else set()
        if name in ("read_text", "write_text", "run", "Popen") and "encoding" not in given:
            if name in ("run", "Popen") and "text" not in given:
                continue
            yield call.lineno


@pytest.mark.parametrize("path", [*PACKAGES, *Path("tests").rglob("*.py")], ids=str)
def test_text_is_utf_8_on_every_machine(path):
    """As for ``open``, ruff sees to it."""
    assert list(unspoken(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_an_encoding_that_is_left_to_the_machine_is_noticed():
    code = 'path.read_text()\npath.write_text("×")\nsubprocess.run(["git"], text=True)\nsubprocess.run(["git"])\n'
    assert list(unspoken(ast.parse(code + 'path.read_text(encoding="utf-8")'))) == [1, 2, 3]


def test_file_names_are_ascii():
    names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout
    assert names.isascii()
    assert not set(b'<>:"|?*\\') & set(names), "Windows refuses them"


def test_dvc_yaml_is_short():
    assert len(Path("dvc.yaml").read_text(encoding="utf-8").splitlines()) <= 350


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "pipeline", *arguments], capture_output=True, encoding="utf-8")


def test_help_lists_every_stage_and_what_it_makes():
    done = run("--help")
    assert done.returncode == 0
    for name, (module, words) in STAGES.items():
        assert f"  {name:12} {words}" in done.stdout
        assert Path("pipeline", *module.split(".")).with_suffix(".py").exists()
    listed = subprocess.run(["dvc", "stage", "list"], capture_output=True, encoding="utf-8", check=True).stdout
    commands = Path("dvc.yaml").read_text(encoding="utf-8").split("python -m pipeline ")[1:]
    tools = {"metrics", "verify", "verdicts", "bench", "portability", "reference", "share"}
    assert {command.split()[0] for command in commands} == set(STAGES) - tools
    assert len(listed.splitlines()) > 30
    assert listed.isascii(), "DVC shortens a long desc with a character that an ASCII terminal cannot show"


@pytest.mark.parametrize(
    "settings", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}], ids=lambda one: next(iter(one))
)
def test_a_terminal_that_knows_ascii_alone_gets_a_question_mark(settings):
    command = [sys.executable, "-m", "pipeline", "--help"]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"STAGE [-h] ?\n" in done.stdout


def test_an_unknown_stage_is_refused_with_the_list():
    done = run("tarin", "main/split_mnist-noracl")
    assert done.returncode == 1
    assert done.stderr.startswith("there is no stage 'tarin'")
    assert "train" in done.stderr
    done = run("train", "main/nothing")
    assert done.returncode == 2
    assert "main/split_mnist-noracl" in done.stderr
    assert "Traceback" not in done.stderr
