"""Which runs make a suite: the experiments of the paper, section by section."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pipeline.cifar10 import Manifest, read_manifest
from pipeline.params import SPLIT_CIFAR10, Params
from pipeline.runs import Run

FAMILIES = ("static", "noracl")
MNIST_STREAM = "permuted_mnist"  # of the stress tests and of the sensitivity study


def table1_names(params: Params) -> list[str]:
    """The suites of Table 1."""
    return [f"{benchmark}-{family}" for benchmark in params.benchmarks for family in FAMILIES]


def table1(params: Params, benchmark: str, family: str) -> list[Run]:
    """One benchmark's columns of Table 1 (section 5.1): static baselines, or NORACL."""
    suite = f"{benchmark}-{family}"
    methods = params.static.widths if family == "static" else {"NORACL": params.benchmarks[benchmark].start}
    rule = {"trigger": "none"} if family == "static" else {}
    return [
        Run.of(params, suite, benchmark, method, seed, params.settings(benchmark, (width,) * depth, **rule))
        for depth in params.depths
        for method, width in methods.items()
        for seed in params.seeds
    ]


def stress_names(params: Params) -> list[str]:
    """The suites of the stress tests, a network each."""
    return [*(f"stress-{name}" for name in params.stress.static), "stress-noracl"]


def stress(params: Params, suite: str) -> list[Run]:
    """A network on the long stream (sections 5.4 and A.5), whose beginning is the short one."""
    name, chosen = suite.removeprefix("stress-"), params.stress
    stream = params.benchmarks[MNIST_STREAM].stream.model_copy(update={"tasks": chosen.long})
    settings = params.settings(MNIST_STREAM, chosen.noracl)
    if name in chosen.static:
        settings = params.settings(MNIST_STREAM, chosen.static[name], trigger="none")
    method = name if name in chosen.static else "NORACL"
    return [Run.of(params, suite, MNIST_STREAM, method, seed, settings, stream) for seed in params.seeds]


def _variants(params: Params, suite: str, benchmark: str, variants: Iterable[tuple[str, dict[str, Any]]]) -> list[Run]:
    """The two-layer model of Table 1 and variants of its growth rule."""
    hidden = (params.benchmarks[benchmark].start,) * 2
    return [
        Run.of(params, suite, benchmark, name, seed, params.settings(benchmark, hidden, **rule))
        for name, rule in variants
        for seed in params.seeds
    ]


def ablations(params: Params, benchmark: str) -> list[Run]:
    """Other initialisations and triggers (section A.6)."""
    variants: list[tuple[str, dict[str, Any]]] = [("full", {})]
    variants += [(f"init {name}", {"init": name}) for name in params.ablations.init]
    variants += [(f"trigger {name}", {"trigger": name}) for name in params.ablations.trigger]
    return _variants(params, f"ablations-{benchmark}", benchmark, variants)


def sensitivity(params: Params) -> list[Run]:
    """One threshold at a time (section A.8)."""
    chosen = params.sensitivity
    variants: list[tuple[str, dict[str, Any]]] = [("default", {})]
    variants += [(f"gamma={value:.2f}", {"gamma": value}) for value in chosen.gamma]
    variants += [(f"p={value:g}", {"percentile": value}) for value in chosen.percentile]
    variants += [(f"eps={value:.2f}", {"epsilon": value}) for value in chosen.epsilon]
    return _variants(params, "sensitivity", MNIST_STREAM, variants)


def heads(params: Params, suite: str, names: Iterable[str], seeds: Iterable[int], features: Manifest) -> list[Run]:
    """Heads on frozen features: static ones by their names, or NORACL."""
    chosen = params.cifar10
    wanted = [(name, chosen.static.get(name, chosen.start)) for name in names]
    return [
        Run.of(
            params,
            suite,
            SPLIT_CIFAR10,
            name,
            seed,
            params.settings(SPLIT_CIFAR10, widths, **({"trigger": "none"} if name in chosen.static else {})),
            features=features,
        )
        for name, widths in wanted
        for seed in seeds
    ]


def cifar10(params: Params) -> list[Run]:
    """Binary Split CIFAR-10 (section 5.2)."""
    names = (*params.cifar10.static, "NORACL")
    return heads(params, "cifar10", names, params.seeds, read_manifest(params.features.size))


def cifar10_sizes(params: Params) -> list[Run]:
    """Heads at other image sizes, each of which counts as a benchmark; the static ones chose the size."""
    chosen = params.cifar10
    names = (*chosen.compared_heads, "NORACL")
    return [
        replace(run, benchmark=f"size_{size}")
        for size in params.features.compared
        for run in heads(params, "cifar10_sizes", names, [chosen.compared_seed], read_manifest(size))
    ]


#: Suites that need the manifests of features.
ON_FEATURES: dict[str, Callable[[Params], list[Run]]] = {"cifar10": cifar10, "cifar10_sizes": cifar10_sizes}


def suites(params: Params) -> dict[str, list[Run]]:
    """Every suite on MNIST by name, in the paper's order."""
    found = {f"{b}-{f}": table1(params, b, f) for b in params.benchmarks for f in FAMILIES}
    found |= {name: stress(params, name) for name in stress_names(params)}
    found |= {f"ablations-{b}": ablations(params, b) for b in params.ablations.benchmarks}
    found["sensitivity"] = sensitivity(params)
    return found


def runs_of_suite(params: Params, suite: str) -> list[Run]:
    """The runs of any suite; those on features need a manifest of them."""
    return ON_FEATURES[suite](params) if suite in ON_FEATURES else suites(params)[suite]
