"""Beyond the paper: the runs that answer what it asserts without showing, and what its reviewers would ask.

One function per question, by the name that it has under ``beyond`` or ``beyond_stress`` in params.yaml.
"""

from collections.abc import Callable
from dataclasses import replace

from noracl import Settings
from noracl.analysis import controls
from pipeline.config import PERMUTED, Params
from pipeline.experiments.builder import STATIC, Builder
from pipeline.runs import ways
from pipeline.runs.run import Run

UNPROTECTED = "none"  # the regulariser that has no strength
BOUNDS = {"naive": ways.LEARN, "joint": ways.JOINT, "one per task": ways.SEPARATE}  # by name, how each is computed
FASHION = "fashion_"  # in front of the name of a benchmark on MNIST: the same on Fashion-MNIST


def deepest(params: Params, benchmark: str, network: str) -> tuple[int, ...]:
    """The widths of a static network of a benchmark with the most layers."""
    return max(params.networks[params.benchmarks[benchmark].networks][network], key=len)


def protected(settings: Settings, regulariser: str, strength: float) -> Settings:
    """The same with another regulariser."""
    return replace(settings, regulariser=regulariser, ewc=replace(settings.ewc, strength=strength))


def tried(name: str, strength: float) -> str:
    """How a run with a strength is called."""
    return f"{name} {strength:g}"


def strengths(make: Builder, suite: str) -> list[Run]:
    """By which λ each regulariser is chosen: a static network on Permuted MNIST, tested on held-out training images."""
    params, asked = make.params, make.params.beyond.strengths
    assert asked is not None
    base = params.settings(PERMUTED, deepest(params, PERMUTED, asked.network), **STATIC)
    return [
        replace(
            make.run(suite, PERMUTED, tried(name, value), seed, protected(base, name, value)),
            how=ways.VALIDATE,
        )
        for name, values in asked.grid.items()
        for value in values
        for seed in asked.seeds
    ]


def regularisers(make: Builder, suite: str) -> list[Run]:
    """NORACL and the static networks, two layers, under each regulariser and under none (section 3)."""
    params, asked, found = make.params, make.params.beyond.regularisers, list[Run]()
    assert asked is not None
    for benchmark in params.ablations.benchmarks:
        networks = params.networks[params.benchmarks[benchmark].networks]
        shapes = {name: (deepest(params, benchmark, name), STATIC) for name in networks}
        shapes |= {"NORACL": (max(params.benchmarks[benchmark].start, key=len), {})}
        for regulariser, strength in (asked.strengths | {UNPROTECTED: 0.0}).items():
            for name, (hidden, rule) in shapes.items():
                settings = protected(params.settings(benchmark, hidden, **rule), regulariser, strength)
                method = f"{regulariser} {name}"
                found += [make.run(suite, benchmark, method, seed, settings) for seed in params.seeds]
    return found


def oracle(make: Builder, suite: str) -> list[Run]:
    """Static networks far larger than NORACL on the short stress test (section 5.4)."""
    params, asked = make.params, make.params.beyond_stress.oracle
    assert asked is not None
    stream = params.benchmarks[PERMUTED].stream.model_copy(update={"tasks": params.stress.short})
    return [
        replace(make.run(suite, PERMUTED, name, seed, params.settings(PERMUTED, widths, **STATIC)), stream=stream)
        for name, widths in asked.networks.items()
        for seed in asked.seeds
    ]


def bounds(make: Builder, suite: str) -> list[Run]:
    """A static network without protection, with all data at once, and one network for each task."""
    params, asked, found = make.params, make.params.beyond.bounds, list[Run]()
    assert asked is not None
    for benchmark, network in asked.networks.items():
        hidden = deepest(params, benchmark, network)
        settings = protected(params.settings(benchmark, hidden, **STATIC), UNPROTECTED, 0.0)
        for method, how in BOUNDS.items():
            runs = [make.run(suite, benchmark, method, seed, settings) for seed in params.seeds]
            found += [replace(run, how=how) for run in runs]
    return found


def equal_growth(make: Builder, suite: str) -> list[Run]:
    """NORACL's own neurons, seed by seed, at other times, in other layers, all at once, or with other weights."""
    params, asked = make.params, make.params.beyond.controls
    assert asked is not None
    names = [*controls.MOVES, controls.AT_ONCE, *(f"{controls.REPLAYED}{name}" for name in asked.init)]
    return [
        replace(make.run(suite, benchmark, name, seed, settings), how=f"{ways.CONTROL}{name}")
        for benchmark in asked.benchmarks
        for settings in [params.settings(benchmark, max(params.benchmarks[benchmark].start, key=len))]
        for seed in params.seeds
        for name in names
    ]


def upkeep_strengths(make: Builder, suite: str) -> list[Run]:
    """By which the strength of each way to keep a network plastic is chosen, as the strengths above are."""
    params, asked = make.params, make.params.beyond_stress.upkeep_strengths
    assert asked is not None
    settings = params.settings(PERMUTED, params.stress.static[asked.network], **STATIC)
    return [
        replace(
            make.run(suite, PERMUTED, tried(kind, value), seed, settings),
            how=ways.TRIED + tried(kind, value),
        )
        for kind, values in asked.grid.items()
        for value in values
        for seed in asked.seeds
    ]


def upkeep(make: Builder, suite: str) -> list[Run]:
    """Ways to keep a static network plastic on the long stress test, beside the network without them, and NORACL."""
    params, asked = make.params, make.params.beyond_stress.upkeep
    assert asked is not None
    stream = params.benchmarks[PERMUTED].stream.model_copy(update={"tasks": params.stress.long})
    static = params.settings(PERMUTED, params.stress.static[asked.network], **STATIC)
    grown = params.settings(PERMUTED, params.stress.noracl)
    methods = [(asked.network.replace("x", "×"), static, "none", 1.0), ("NORACL", grown, "none", 1.0)]
    methods += [(kind, static, kind, strength) for kind, strength in asked.strengths.items()]
    return [
        replace(make.run(suite, PERMUTED, method, seed, settings), stream=stream, how=ways.UPKEEP + tried(kind, value))
        for method, settings, kind, value in methods
        for seed in asked.seeds
    ]


def fashion(make: Builder, suite: str) -> list[Run]:
    """NORACL and the static networks, two layers, on benchmarks of MNIST with Fashion-MNIST's images (section 5.3)."""
    asked, data = make.params.beyond.fashion, make.manifest_of("fashion_mnist")
    assert asked is not None
    runs = [run for name in asked.benchmarks for run in (*make.static(suite, name), *make.noracl(suite, name))]
    layers = max(run.layers for run in runs)
    return [replace(run, benchmark=f"{FASHION}{run.benchmark}", data=data) for run in runs if run.layers == layers]


QUESTIONS: dict[str, Callable[[Builder, str], list[Run]]] = {
    "strengths": strengths,
    "regularisers": regularisers,
    "oracle": oracle,
    "bounds": bounds,
    "controls": equal_growth,
    "upkeep_strengths": upkeep_strengths,
    "upkeep": upkeep,
    "fashion": fashion,
}
