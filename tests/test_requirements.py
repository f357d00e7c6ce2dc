"""What is installed is what requirements.txt says, and pip takes nothing else."""

import ast
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

PROJECT = tomllib.loads(Path("pyproject.toml").read_text())
PIN = re.compile(
    r"^([\w.-]+)==([\w.]+)( ; sys_platform == '\w+')?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE
)


def pins(name):
    text = Path(name).read_text()
    found = {pin[1]: pin for pin in PIN.finditer(text)}
    left = [line for line in PIN.sub("", text).splitlines() if line and not line.startswith("#")]
    assert not left, f"neither comment nor pinned and hashed: {left}"
    return found


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-cuda.txt"])
def test_everything_is_pinned_and_hashed_once(name):
    text = Path(name).read_text()
    assert len(pins(name)) == text.count("==") - text.count("sys_platform ==") > 10


def test_what_is_installed_is_what_is_pinned():
    for name, pin in pins("requirements.txt").items():
        if pin[3] is None:
            assert version(name).split("+")[0] == pin[2], name


def test_make_installs_with_hashes_and_the_extra_is_the_same_release():
    makefile = Path("Makefile").read_text()
    (pip,) = re.findall(r"^PIP := .*", makefile, re.MULTILINE)
    installs = [line for line in makefile.splitlines() if "-r requirements" in line]
    assert pip.endswith(" --require-hashes")
    assert installs
    assert all(line.count("$(PIP)") == line.count("-r requirements") for line in installs)
    extra = PROJECT["project"]["optional-dependencies"]["cluster"]
    assert extra == [f"distributed=={pins('requirements.txt')['distributed'][2]}"]


def test_the_library_imports_what_it_declares_and_scikit_learn_in_one_file_alone():
    used = {"noracl"}
    for path in Path("noracl").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
        found = {name.partition(".")[0] for name in names}
        assert ("sklearn" in found) == (path == Path("noracl/estimator.py")), path
        used |= found
    declared = {re.match(r"\w+", name)[0] for name in PROJECT["project"]["dependencies"]}
    assert used - set(sys.stdlib_module_names) == declared | {"noracl", "sklearn"}
