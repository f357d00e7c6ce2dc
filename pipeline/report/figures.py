"""Stages figure@…: run the notebook of a figure; what it saves is the output, the executed notebook is thrown away."""

import argparse
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.files import StageError
from pipeline.paths import FIGURES, NOTEBOOKS, REGISTRY
from pipeline.plain_yaml import read


@dataclass(frozen=True)
class Figure:
    """An entry of reports/figures.yaml."""

    name: str
    title: str
    paper: str
    caption: str
    reads: str
    params: str

    @property
    def notebook(self) -> Path:
        """The notebook that draws it."""
        return NOTEBOOKS / f"{self.name}.ipynb"

    @property
    def files(self) -> list[Path]:
        """What the notebook saves: the numbers and two pictures."""
        return [FIGURES / f"{self.name}.{kind}" for kind in ("csv", "png", "svg")]


def registry() -> dict[str, Figure]:
    """Every figure by name, in the order of reports/figures.yaml."""
    entries = read(REGISTRY.read_text(encoding="utf-8"), REGISTRY.name)["figures"]
    return {name: Figure(name, **entry) for name, entry in entries.items()}


def render(figure: Figure, parameters: dict[str, Any]) -> str | None:
    """Run the notebook from the project's root; what went wrong, if something did.

    The user's own kernels, profiles and settings have no say: only what the environment of this Python holds.
    """
    with tempfile.TemporaryDirectory() as folder:
        for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            os.environ[variable] = folder
        os.environ.pop("JUPYTER_PATH", None)
        import papermill

        if unknown := set(parameters) - set(allowed := papermill.inspect_notebook(figure.notebook)):
            return f"{figure.notebook} has no parameter {min(unknown)!r}; it has {', '.join(allowed)}"
        quiet = {"progress_bar": False, "extra_arguments": ["--log-level=CRITICAL"]}
        executed = Path(folder) / "executed.ipynb"
        try:
            papermill.execute_notebook(figure.notebook, executed, parameters, kernel_name="python3", **quiet)
        except papermill.PapermillExecutionError as error:
            lines = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback)).splitlines()
            return "\n".join([f"{figure.notebook}, cell {error.cell_index}:", *(f"    {line}" for line in lines[-12:])])
    return None


def main(arguments: list[str]) -> None:
    """Stages figure@…."""
    known = registry()
    parser = argparse.ArgumentParser(prog="python -m pipeline figure", description=__doc__)
    parser.add_argument("name", choices=known, metavar="NAME", help=", ".join(known))
    parser.add_argument("parameters", nargs="*", metavar="KEY=VALUE", help="of the notebook's first cell: seed=3")
    given = parser.parse_args(arguments)
    if wrong := [text for text in given.parameters if "=" not in text]:
        parser.error(f"parameters are written KEY=VALUE, not {wrong[0]!r}")
    parameters = {key: read(value, key) for key, value in (text.split("=", 1) for text in given.parameters)}
    if problem := render(known[given.name], parameters):
        raise StageError(problem)
    print(f"figure {given.name}: drawn from {known[given.name].reads}")
