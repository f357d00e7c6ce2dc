"""What is installed is what the requirements say, and pip takes nothing else."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
PIN = re.compile(
    r"^([\w.-]+)==([\w.+]+)( ; sys_platform [!=]= '\w+')?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE
)
#: What make installs from, with the lines that are neither comments nor pins.
FILES = {
    "requirements.txt": ["-r requirements-common.txt"],
    "requirements-common.txt": [],
    "requirements-cpu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu"],
}
ON_LINUX, ELSEWHERE = " ; sys_platform == 'linux'", " ; sys_platform != 'linux'"


def pins(name):
    text = Path(name).read_text(encoding="utf-8")
    found = {pin[1]: pin for pin in PIN.finditer(text)}
    left = [line for line in PIN.sub("", text).splitlines() if line and not line.startswith("#")]
    assert left == FILES.get(name, []), f"neither comment nor pinned and hashed: {left}"
    return found


def ready(folder):
    """The file by which make knows that everything is installed, in a folder that gets what make installs from."""
    for name in ("Makefile", "requirements-bench.txt", *FILES):
        shutil.copy(name, folder)
    content = b"".join(Path(name).read_bytes() for name in FILES)
    checksum = subprocess.run(["cksum"], input=content, capture_output=True, check=True).stdout.decode().split()[0]
    return f".venv/.ready-{checksum}"


@pytest.mark.parametrize("name", FILES)
def test_everything_is_pinned_and_hashed_once(name):
    text = Path(name).read_text(encoding="utf-8")
    assert len(pins(name)) == text.count("==") - text.count("sys_platform ==") > 0


def test_what_is_installed_is_what_is_pinned():
    for name, pin in pins("requirements-common.txt").items():
        if pin[3] is None:
            assert version(name) == pin[2], name
    expected = pins("requirements-common.txt")["torch"][2]
    assert version("torch").split("+")[0] == expected


def test_torch_is_one_release_with_cuda_on_linux_alone_and_pinned_once_for_each_system():
    plain, common, cpu = map(pins, FILES)
    assert set(plain) & set(common) == set(cpu) == {"torch"}
    assert {pin[3] for pin in (*plain.values(), cpu["torch"])} == {ON_LINUX}
    assert common["torch"][3] == ELSEWHERE
    assert {plain["torch"][2], cpu["torch"][2].removesuffix("+cpu")} == {common["torch"][2]}
    hashes = [re.findall(r"[0-9a-f]{64}", one["torch"][4]) for one in (plain, common, cpu)]
    assert len(set().union(*hashes)) == sum(map(len, hashes))
    assert len(hashes[2]) == 6, "Python 3.11, 3.12 and 3.13 on two kinds of processor"


def test_the_extra_is_the_same_release():
    extra = PROJECT["project"]["optional-dependencies"]["cluster"]
    assert extra == [f"distributed=={pins('requirements-common.txt')['distributed'][2]}"]


#: Python for make: it makes environments whose pip writes down what it is asked, and finds a CPU build or does not.
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip"*) echo "$*" >> asked
    case "$*" in *-cpu.txt) echo "ERROR: alarming" >&2; exit $NO_CPU_BUILD ;; esac ;;
esac
"""


@pytest.mark.parametrize(
    ("found", "files"), [(True, ["-cpu.txt", "-common.txt"]), (False, ["-cpu.txt", ".txt"])], ids=["CPU", "CUDA"]
)
def test_make_installs_with_hashes_and_falls_back_without_alarm(found, files, tmp_path):
    folder = tmp_path / "a path with spaces"
    folder.mkdir()
    (folder / "python").write_text(PYTHON, encoding="utf-8")
    (folder / "python").chmod(0o755)
    here = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "PYTHON=./python", ready(folder)],
        cwd=folder,
        env=here | {"NO_CPU_BUILD": str(int(not found))},
        capture_output=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("torch is installed with CUDA" in done.stdout) != found
    asked = (folder / "asked").read_text(encoding="utf-8").splitlines()
    assert [re.search(r"-r requirements(\S+)$", line)[1] for line in asked] == files
    assert all(" --require-hashes " in line for line in asked)
    assert not any(" -q " in line for line in asked), "an installation takes minutes: pip shows what it does"


def make_ready(folder, python):
    """What make says that is asked to install with a Python of the test's own."""
    (folder / "python").write_text(python, encoding="utf-8")
    (folder / "python").chmod(0o755)
    here = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "PYTHON=./python", ready(folder)]
    return subprocess.run(command, cwd=folder, env=here, capture_output=True, encoding="utf-8")


@pytest.mark.parametrize("version", ["3.10.13", "3.14.0"])
def test_another_python_is_refused_by_its_version_before_anything_is_installed(version, tmp_path):
    numbers = tuple(map(int, version.split(".")))
    pretend = f"import sys; sys.version_info = {numbers}; sys.version = '{version} (test)'; exec(sys.argv[1])"
    done = make_ready(tmp_path, f'#!/bin/sh\nexec "{sys.executable}" -c "{pretend}" "$2"\n')
    assert done.returncode != 0
    assert f"Python 3.11, 3.12 or 3.13 is needed, this is {version}" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_an_environment_that_is_a_link_is_left_alone(tmp_path):
    folder, shared = tmp_path / "clone", tmp_path / "shared"
    folder.mkdir()
    shared.mkdir()
    (shared / ".ready-1").touch()
    (folder / ".venv").symlink_to(shared)
    done = make_ready(folder, PYTHON)
    assert done.returncode != 0
    assert ".venv is a link" in done.stderr
    assert [path.name for path in shared.iterdir()] == [".ready-1"]


def test_the_library_imports_what_it_declares_and_scikit_learn_in_one_file_alone():
    used = {"noracl"}
    for path in Path("noracl").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
        found = {name.partition(".")[0] for name in names}
        assert ("sklearn" in found) == (path == Path("noracl/estimator.py")), path
        used |= found
    declared = {re.match(r"\w+", name)[0] for name in PROJECT["project"]["dependencies"]}
    assert used - set(sys.stdlib_module_names) == declared | {"noracl", "sklearn"}
