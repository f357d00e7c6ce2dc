"""The README's promises that can be run."""

import ast
import re
from pathlib import Path

import pytest

from tests.helpers import toy_task

README = Path("README.md").read_text()


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(code.strip().splitlines()) <= 10
    tasks = [toy_task(seed, classes=10, rows=400) for seed in range(2)]
    exec(code, {"my_arrays": [(t.x.numpy(), t.y.numpy(), t.x_test.numpy(), t.y_test.numpy()) for t in tasks]})
    assert "(32, 32)" in capsys.readouterr().out


@pytest.mark.parametrize("path", re.findall(r"\]\((?!http)([^)]+)\)|`([\w/]+/)`", README))
def test_what_it_points_to_exists(path):
    (name,) = filter(None, path)
    assert Path(name).exists() or (Path("reports") / name).exists() or name.startswith((".runs", ".venv"))


def test_every_command_of_the_makefile_is_real():
    targets = set(re.findall(r"^(\w+):", Path("Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"\bmake (\w+)", README)) <= targets


def test_every_promise_names_a_test_that_exists():
    rows = re.search(r"\| promise \| test \|\n\| --- \| --- \|\n((?:\|.*\n)+)", README)[1].splitlines()
    for row in rows:
        named = re.findall(r"`(tests/\w+\.py)::(\w+)`", row)
        assert named, f"no test: {row}"
        for path, name in named:
            tree = ast.parse(Path(path).read_text())
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"
    assert len(rows) > 10
