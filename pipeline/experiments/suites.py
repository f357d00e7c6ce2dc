"""The suites: which runs each stage computes, and which table they belong to, section by section.

A suite is named by its place, table/name: its results are in reports/results/table/name.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipeline.config import PERMUTED, Params
from pipeline.data.manifests import Manifest, read_manifest
from pipeline.experiments.beyond import QUESTIONS
from pipeline.experiments.builder import STATIC, Builder
from pipeline.plain_yaml import ParamsError
from pipeline.runs.run import Run


@dataclass(frozen=True)
class Suite:
    """The runs that one stage computes. They are made on demand: runs on features need a manifest."""

    name: str
    stage: str
    runs: Callable[[], list[Run]]
    signals: bool = False  # whether the signals behind growth are kept beside the results

    @property
    def table(self) -> str:
        """The table that its results are in."""
        return self.name.partition("/")[0]


def suites(params: Params, manifest_of: Callable[[str], Manifest] = read_manifest) -> dict[str, Suite]:
    """Every suite by name, in the order of the paper."""
    make, found = Builder(params, manifest_of), list[Suite]()

    def add(name: str, stage: str, runs: Callable[..., list[Run]], *how: Any, signals: bool = False) -> None:
        found.append(Suite(name, stage, lambda: runs(name, *how), signals))

    for name, benchmark in params.benchmarks.items():
        add(f"{benchmark.table}/{name}-static", f"static@{name}", make.static, name)
        add(f"{benchmark.table}/{name}-noracl", f"noracl@{name}", make.noracl, name, signals=benchmark.table == "main")
    add("cifar10_sizes/split_cifar10", "image_sizes", make.image_sizes)
    for name, widths in params.stress.static.items():
        settings = params.settings(PERMUTED, widths, **STATIC)
        add(f"stress/{name}", f"stress_static@{name}", make.stress, "×".join(map(str, widths)), settings)
    add("stress/noracl", "stress_noracl", make.stress, "NORACL", params.settings(PERMUTED, params.stress.noracl))
    for name in params.ablations.benchmarks:
        add(f"ablations/{name}", f"ablations@{name}", make.ablations, name)
    add(f"sensitivity/{PERMUTED}", "sensitivity", make.sensitivity)
    for name in params.readings:
        with suppress(ParamsError):  # with other values elsewhere a reading may not be possible
            read = params.under(name).model_copy(update={"seeds": params.reading_seeds})
            add(f"readings/{name}", f"reading@{name}", Builder(read, manifest_of).reading)
    for name, question in QUESTIONS.items():
        stage, asked = params.question(name)
        if asked is not None:
            add(f"beyond/{name}", f"{stage}@{name}", partial(question, make))
    return {suite.name: suite for suite in found}
