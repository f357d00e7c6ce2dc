"""Stages figure-…: run the notebook of a figure; what it saves is the output, the executed notebook is thrown away."""

import argparse
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.paths import FIGURES, NOTEBOOKS, REGISTRY


@dataclass(frozen=True)
class Figure:
    """An entry of reports/figures.yaml."""

    name: str
    title: str
    paper: str
    caption: str
    reads: list[str]

    @property
    def notebook(self) -> Path:
        """The notebook that draws it."""
        return NOTEBOOKS / f"{self.name}.ipynb"

    @property
    def files(self) -> list[Path]:
        """What the notebook saves: the numbers and two pictures."""
        return [FIGURES / f"{self.name}.{kind}" for kind in ("csv", "png", "svg")]

    @property
    def command(self) -> str:
        """How to make it again."""
        return f"dvc repro figure-{self.name}"


def registry() -> dict[str, Figure]:
    """Every figure by name, in the order of reports/figures.yaml."""
    return {entry["name"]: Figure(**entry) for entry in yaml.safe_load(REGISTRY.read_text())}


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


def main() -> None:
    """Command line of the stages."""
    known = registry()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=known, metavar="NAME", help=", ".join(known))
    parser.add_argument("parameters", nargs="*", metavar="KEY=VALUE", help="of the notebook's first cell: seed=3")
    given = parser.parse_args()
    if wrong := [text for text in given.parameters if "=" not in text]:
        parser.error(f"parameters are written KEY=VALUE, not {wrong[0]!r}")
    parameters = {key: yaml.safe_load(value) for key, value in (text.split("=", 1) for text in given.parameters)}
    if problem := render(known[given.name], parameters):
        sys.exit(f"figure {given.name}: {problem}")
    print(f"figure {given.name}: drawn from {len(known[given.name].reads)} files")


if __name__ == "__main__":
    main()
