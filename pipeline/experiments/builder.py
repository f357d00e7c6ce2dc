"""Makes the runs of params.yaml, section by section of the paper."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from noracl import Settings
from pipeline.config import ON_FEATURES, PERMUTED, Params
from pipeline.data.manifests import Manifest, read_manifest
from pipeline.runs.run import Run

STATIC = {"trigger": "none"}


@dataclass(frozen=True)
class Builder:
    """Makes runs of params.yaml; ``manifest_of`` finds the manifest of a data set."""

    params: Params
    manifest_of: Callable[[str], Manifest] = read_manifest

    def run(self, suite: str, benchmark: str, method: str, seed: int, settings: Settings) -> Run:
        """One run on a benchmark."""
        chosen = self.params.benchmarks[benchmark]
        data = self.manifest_of(chosen.data)
        return Run(suite, benchmark, method, seed, chosen.stream, chosen.outputs, data, settings)

    def static(self, suite: str, benchmark: str) -> list[Run]:
        """The static networks of a benchmark (sections 5.1 and 5.2)."""
        networks = self.params.networks[self.params.benchmarks[benchmark].networks]
        return self._by_depth(suite, benchmark, networks, STATIC)

    def noracl(self, suite: str, benchmark: str) -> list[Run]:
        """NORACL on a benchmark (sections 5.1 and 5.2)."""
        return self._by_depth(suite, benchmark, {"NORACL": self.params.benchmarks[benchmark].start}, {})

    def _by_depth(
        self, suite: str, benchmark: str, methods: dict[str, tuple[tuple[int, ...], ...]], rule: dict[str, Any]
    ) -> list[Run]:
        return [
            self.run(suite, benchmark, method, seed, self.params.settings(benchmark, shape, **rule))
            for depth in sorted({len(shape) for shapes in methods.values() for shape in shapes})
            for method, shapes in methods.items()
            for shape in shapes
            if len(shape) == depth
            for seed in self.params.seeds
        ]

    def image_sizes(self, suite: str) -> list[Run]:
        """Some heads at the image sizes that were compared, each size as a benchmark of its own."""
        chosen = self.params.image_sizes
        everything = self.static(suite, ON_FEATURES) + self.noracl(suite, ON_FEATURES)
        some = [run for run in everything if run.seed == chosen.seed and run.method in (*chosen.heads, "NORACL")]
        return [
            replace(run, benchmark=f"size_{name}", data=self.manifest_of(f"cifar10_{name}"))
            for name in chosen.images
            for run in some
        ]

    def stress(self, suite: str, method: str, settings: Settings) -> list[Run]:
        """A network on the long stream (sections 5.4 and A.5), whose beginning is the short one."""
        stream = self.params.benchmarks[PERMUTED].stream.model_copy(update={"tasks": self.params.stress.long})
        runs = [self.run(suite, PERMUTED, method, seed, settings) for seed in self.params.seeds]
        return [replace(run, stream=stream) for run in runs]

    def _variants(self, suite: str, benchmark: str, variants: Iterable[tuple[str, dict[str, Any]]]) -> list[Run]:
        """The deepest NORACL of a benchmark, and variants of its growth rule."""
        hidden = max(self.params.benchmarks[benchmark].start, key=len)
        return [
            self.run(suite, benchmark, name, seed, self.params.settings(benchmark, hidden, **rule))
            for name, rule in variants
            for seed in self.params.seeds
        ]

    def ablations(self, suite: str, benchmark: str) -> list[Run]:
        """Other initialisations and triggers (section A.6)."""
        variants: list[tuple[str, dict[str, Any]]] = [("full", {})]
        variants += [(f"init {name}", {"init": name}) for name in self.params.ablations.init]
        variants += [(f"trigger {name}", {"trigger": name}) for name in self.params.ablations.trigger]
        return self._variants(suite, benchmark, variants)

    def reading(self, suite: str) -> list[Run]:
        """The deepest networks of Table 1 and the ablations, on every benchmark that has ablations."""
        found = []
        for benchmark in self.params.ablations.benchmarks:
            static = self.static(suite, benchmark)
            found += [run for run in static if run.layers == max(one.layers for one in static)]
            found += self.ablations(suite, benchmark)
        return found

    def sensitivity(self, suite: str) -> list[Run]:
        """One threshold at a time (section A.8)."""
        chosen = self.params.sensitivity
        variants: list[tuple[str, dict[str, Any]]] = [("default", {})]
        variants += [(f"gamma={value:.2f}", {"gamma": value}) for value in chosen.gamma]
        variants += [(f"p={value:g}", {"percentile": value}) for value in chosen.percentile]
        variants += [(f"eps={value:.2f}", {"epsilon": value}) for value in chosen.epsilon]
        return self._variants(suite, PERMUTED, variants)
