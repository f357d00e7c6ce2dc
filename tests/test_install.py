"""`pip install .` in an environment that has numpy and torch alone, then the quick start in it, from another folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import noracl
from tests.conftest import ROOT

FACTS = """
import importlib.util, json
from importlib.metadata import distribution
import noracl
try:
    import noracl.estimator
except ImportError as error:
    refusal = str(error)
names = ("numpy", "pandas", "pipeline", "scipy", "sklearn", "tests", "torch")
found = [name for name in names if importlib.util.find_spec(name)]
facts = {"found": found, "place": noracl.__file__, "refusal": refusal, "version": noracl.__version__}
print(json.dumps(facts | {"declared": distribution("noracl").version}))
"""
ARRAYS = """
import numpy as np
draw = np.random.default_rng(0)
parts = [part for rows in (400, 60) for part in (draw.normal(size=(rows, 9)), draw.integers(0, 10, rows))]
my_arrays = [parts, parts]
"""


def needed(name, extras=()):
    """A package and all that it needs itself."""
    yield distribution(name)
    for one in map(Requirement, distribution(name).requires or []):
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield from needed(one.name, one.extras)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where packages are, in a new environment in which pip has installed this repository and found all it asks for."""
    folder = tmp_path_factory.mktemp("install")
    for name in ("noracl", "pipeline", "tests"):
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / "source")
    venv.create(folder / "env", symlinks=True)
    (packages,) = (folder / "env/lib").glob("python*/site-packages")
    found = [*needed("numpy"), *needed("torch")]  # and setuptools, which torch needs
    for top in {one.locate_file(file.parts[0]) for one in found for file in one.files}:
        if top.name not in ("..", "__pycache__"):
            (packages / top.name).symlink_to(top.resolve())
    pip = [sys.executable, "-m", "pip", "--python", folder / "env/bin/python", "--disable-pip-version-check"]
    asked = ["install", "--no-index", "--no-build-isolation", folder / "source"]
    here = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    nowhere = {"PIP_CONFIG_FILE": os.devnull}  # or pip could find packages in the folders that people configure
    done = subprocess.run([*pip, *asked], env=here | nowhere, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return packages


def run(place, code):
    """Alone: with nothing of this environment, of the folder, or of PYTHONPATH."""
    python = place.parents[2] / "bin/python"
    done = subprocess.run([python, "-I", "-c", code], cwd=place.parents[3], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_installed_whole_and_nothing_else_with_it(place):
    files = {path.relative_to(ROOT) for path in (ROOT / "noracl").rglob("*") if "__pycache__" not in path.parts}
    found = {path.relative_to(place) for path in (place / "noracl").rglob("*") if "__pycache__" not in path.parts}
    assert found == files
    assert Path("noracl/py.typed") in found
    listed = (place / f"noracl-{noracl.__version__}.dist-info/RECORD").read_text(encoding="utf-8")
    assert {line.split("/")[0] for line in listed.splitlines()} == {"noracl", f"noracl-{noracl.__version__}.dist-info"}


def test_it_needs_numpy_and_torch_alone(place):
    facts = json.loads(run(place, FACTS))
    assert facts["found"] == ["numpy", "torch"]
    assert facts["place"] == str(place / "noracl/__init__.py")
    assert facts["version"] == facts["declared"] == noracl.__version__
    assert facts["refusal"].startswith(
        "noracl.estimator needs scikit-learn 1.6 or newer: pip install 'noracl[sklearn]'"
    )


def test_the_quick_start_runs_there(place):
    (code,) = re.findall(
        r"```python\n(.*?)```", Path("docs/library/quick-start.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    assert "task 3: widths (" in run(place, code)
    (code,) = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "(32, 32)" in run(place, ARRAYS + code)
