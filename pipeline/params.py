"""params.yaml, read and checked whole before anything runs."""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from noracl import EWCSettings, FisherSettings, GrowthSettings, OptimisationSettings, Settings
from noracl.network import INITIALISERS
from noracl.neurogenesis import INITIALISERS as NEWCOMERS
from noracl.triggers import TRIGGERS
from pipeline.paths import PARAMS
from pipeline.plain import ParamsError, read

Count = Annotated[int, Field(ge=1, le=10**4)]
Width = Annotated[int, Field(ge=1, le=4096)]
Share = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Widths = Annotated[tuple[Width, ...], Field(min_length=1, max_length=10)]
Digit = Annotated[int, Field(ge=0, le=9)]
FileName = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,40}$")]  # becomes part of one
RowName = Annotated[str, Field(pattern=r"^[^|:<>`\\]{1,60}$")]  # becomes a cell of a table
NetworkName = Annotated[str, Field(pattern=r"^[\w×.-]{1,40}$")]  # becomes both
ImageSize = Annotated[int, Field(ge=32, le=512)]
Positive = Annotated[float, Field(ge=1e-6)]
SPLIT_CIFAR10 = "split_cifar10"  # the benchmark that stands apart, in ``cifar10``

Many = TypeVar("Many", bound=Sequence[Any])


def distinct(values: Many) -> Many:
    """The values, if none stands twice."""
    if len(set(values)) != len(values):
        raise ValueError("must not name a value twice")
    return values


def without_ours(names: dict[str, Any]) -> dict[str, Any]:
    """The names of static networks, if none is NORACL's own: their rows stand in one table."""
    if "NORACL" in names:
        raise ValueError("must not call a static network NORACL")
    return names


class Section(BaseModel):
    """Strict: unknown keys, wrong types, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Data(Section):
    """Where data may come from, and how much of it is used."""

    mirrors: list[Annotated[str, Field(min_length=1)]]
    limit: Annotated[int, Field(ge=60, le=60000)] | None
    held_out: Annotated[int, Field(ge=0, le=50000)]

    @model_validator(mode="after")
    def _something_is_left(self) -> "Data":
        if self.limit is not None and self.held_out > self.limit - 60:
            raise ValueError(f"held_out must leave 60 of the {self.limit} images of limit, got {self.held_out}")
        return self


class Inputs(Section):
    """Scaling of pixels."""

    mean: float
    deviation: Annotated[float, Field(ge=1e-6)]


class NetworkSection(Section):
    """How weights begin."""

    init: str

    @field_validator("init")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in INITIALISERS:
            raise ValueError(f"must be one of {', '.join(INITIALISERS)}")
        return value


class Optimisation(Section):
    """SGD, apart from the number of epochs, which stands with each benchmark."""

    batch_size: int
    rate_first: float
    rate_later: float
    clip: float | None
    clip_penalty: bool


class Fisher(Section):
    """How the Fisher information is estimated."""

    estimator: str
    labels: str
    batches: int
    order: str


class EWC(Section):
    """Online EWC, apart from λ, which stands with each benchmark."""

    decay: float
    start: str


class Static(Section):
    """Widths of the baselines by name."""

    widths: Annotated[dict[RowName, Width], Field(min_length=1)]

    @field_validator("widths")
    @classmethod
    def _not_ours(cls, value: dict[str, int]) -> dict[str, int]:
        return without_ours(value)


class Growth(Section):
    """The growth rule."""

    trigger: str
    init: str
    gamma: float
    epsilon: float
    percentile: float
    cooldown: int
    scale: float
    tau_start: str


class Heuristics(Section):
    """What the rules of the ablation study need."""

    random_scale: float
    fsat_neurons: Width | None
    fixed_neurons: Width
    schedule: tuple[int, ...]
    scheduled_neurons: Width
    loss_window: int
    loss_improvement: float
    loss_neurons: Width


class PermutedStream(Section):
    """Permuted MNIST."""

    kind: Literal["permuted"]
    tasks: Count


class RotatedStream(Section):
    """Rotated MNIST."""

    kind: Literal["rotated"]
    angles: Annotated[tuple[Annotated[float, Field(ge=-360, le=360)], ...], Field(min_length=1, max_length=100)]
    interpolation: Literal["nearest", "bilinear"]


class SplitStream(Section):
    """Binary Split MNIST."""

    kind: Literal["split"]
    pairs: Annotated[tuple[tuple[Digit, Digit], ...], Field(min_length=1, max_length=100)]
    drawn: tuple[Literal["digits", "order", "labels"], ...]

    @field_validator("pairs")
    @classmethod
    def _different(cls, value: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        for a, b in value:
            if a == b:
                raise ValueError(f"a pair needs two different digits, got {a} twice")
        return value

    @model_validator(mode="after")
    def _can_be_drawn(self) -> "SplitStream":
        digits = [digit for pair in self.pairs for digit in pair]
        if "digits" in self.drawn and len(set(digits)) != len(digits):
            raise ValueError("drawn names digits, so pairs must not name a digit twice")
        return self


StreamSection = Annotated[PermutedStream | RotatedStream | SplitStream, Field(discriminator="kind")]


class Benchmark(Section):
    """One task stream with its training."""

    stream: StreamSection
    outputs: Annotated[int, Field(ge=2, le=1000)]
    strength: NotNegative
    epochs_first: Count
    epochs_later: Count
    start: Width

    @model_validator(mode="after")
    def _head_holds_the_labels(self) -> "Benchmark":
        needed = 2 if self.stream.kind == "split" else 10
        if self.outputs < needed:
            raise ValueError(f"outputs must be at least {needed} on this stream, got {self.outputs}")
        return self


class Weights(Section):
    """Weights of ResNet18: where they can be had and what they must be."""

    url: str | None
    file: Annotated[str, Field(min_length=1)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Features(Section):
    """What a frozen ResNet18 is shown."""

    weights: Annotated[dict[RowName, Weights], Field(min_length=1)]
    size: ImageSize
    compared: Annotated[tuple[ImageSize, ...], Field(min_length=1)]
    mean: tuple[float, float, float]
    deviation: tuple[Positive, Positive, Positive]

    @model_validator(mode="after")
    def _size_is_compared(self) -> "Features":
        distinct(self.compared)
        if self.size not in self.compared:
            raise ValueError(f"size must be one of compared, {', '.join(map(str, self.compared))}, got {self.size}")
        return self


Scaling = Literal["none", "standardised", "unit length"]


class Heads(Section):
    """Binary Split CIFAR-10: heads on frozen features, with thresholds of their own."""

    stream: SplitStream
    scaling: Scaling
    outputs: Annotated[int, Field(ge=2, le=1000)]
    strength: NotNegative
    epochs_first: Count
    epochs_later: Count
    static: Annotated[dict[RowName, Widths], Field(min_length=1)]
    start: Widths
    gamma: float
    percentile: float
    compared_heads: Annotated[tuple[str, ...], Field(min_length=1)]
    compared_seed: Annotated[int, Field(ge=0)]

    @field_validator("static")
    @classmethod
    def _not_ours(cls, value: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return without_ours(value)

    @model_validator(mode="after")
    def _compared_heads_exist(self) -> "Heads":
        if unknown := set(self.compared_heads) - set(self.static):
            raise ValueError(f"compared_heads names {', '.join(sorted(unknown))}, which static does not have")
        return self


class Stress(Section):
    """The long streams."""

    short: Count
    long: Count
    noracl: Widths
    static: Annotated[dict[NetworkName, Widths], Field(min_length=1)]
    long_only: list[str]

    @field_validator("static")
    @classmethod
    def _not_ours(cls, value: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return without_ours(value)

    @model_validator(mode="after")
    def _fits(self) -> "Stress":
        if self.short >= self.long:
            raise ValueError(f"short must be below long, got {self.short} and {self.long}")
        if unknown := set(self.long_only) - set(self.static):
            raise ValueError(f"long_only names {', '.join(sorted(unknown))}, which static does not have")
        return self


class Ablations(Section):
    """Other ways to start new neurons, and to decide when to add them."""

    benchmarks: list[str]
    init: list[str]
    trigger: list[str]

    @model_validator(mode="after")
    def _known(self) -> "Ablations":
        for field, allowed in (("init", NEWCOMERS), ("trigger", TRIGGERS)):
            if unknown := set(getattr(self, field)) - set(allowed):
                raise ValueError(f"{field}: unknown {', '.join(sorted(unknown))}; there are {', '.join(allowed)}")
        return self

    @field_validator("benchmarks", "init", "trigger")
    @classmethod
    def _distinct(cls, value: list[str]) -> list[str]:
        return distinct(value)


class Sensitivity(Section):
    """Values of the growth rule's thresholds, one at a time."""

    gamma: list[Annotated[float, Field(gt=0, le=1)]]
    percentile: list[Annotated[float, Field(ge=0, le=100)]]
    epsilon: list[Annotated[float, Field(gt=0)]]

    @model_validator(mode="after")
    def _named_by_two_decimals(self) -> "Sensitivity":
        for field in ("gamma", "percentile", "epsilon"):
            if finer := [value for value in distinct(getattr(self, field)) if round(value, 2) != value]:
                raise ValueError(f"{field}: rows are named by two decimals, got {finer[0]}")
        return self


class Theory(Section):
    """Random pattern association."""

    widths: Annotated[tuple[Annotated[int, Field(ge=8, le=4096)], ...], Field(min_length=1)]
    tasks: Annotated[int, Field(ge=16, le=10**4)]
    inputs: Annotated[int, Field(ge=1, le=10**4)]
    few_inputs: Annotated[int, Field(ge=1, le=10**4)]
    neurons: Annotated[tuple[Annotated[int, Field(ge=1, le=1000)], ...], Field(min_length=1)]
    epsilons: Annotated[tuple[Annotated[float, Field(ge=1e-14, le=1)], ...], Field(min_length=5)]

    @field_validator("widths", "neurons", "epsilons")
    @classmethod
    def _distinct(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return distinct(value)

    @model_validator(mode="after")
    def _long_enough(self) -> "Theory":
        if self.tasks < max(self.widths):
            raise ValueError(f"tasks must be at least the largest of widths, {max(self.widths)}, got {self.tasks}")
        return self


class Factorial(Section):
    """Every combination of these levels, on one benchmark."""

    benchmark: str
    levels: dict[str, Annotated[list[str], Field(min_length=1)]]

    @field_validator("levels")
    @classmethod
    def _can_be_crossed(cls, value: dict[str, list[str]]) -> dict[str, list[str]]:
        if (number := math.prod(len(distinct(levels)) for levels in value.values())) > 10**4:
            raise ValueError(f"asks for {number} combinations; 10000 are the most")
        return value


class OpenPoint(Section):
    """A row of another table under another reading of the paper."""

    table: Literal["ablations", "sensitivity", "cifar10"]
    row: str
    changes: dict[str, Any]


class Reconstruction(Section):
    """The study of what the paper leaves unsaid: choices, their levels as changes of params.yaml, and what is run."""

    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    choices: dict[RowName, dict[RowName, dict[str, Any]]]
    base: dict[str, str]
    one_at_a_time: list[str]
    factorial: Factorial
    promoted: Count
    finalists: Count
    open_points: dict[RowName, OpenPoint]

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return distinct(value)

    @model_validator(mode="after")
    def _levels_exist(self) -> "Reconstruction":
        if set(self.base) != set(self.choices):
            raise ValueError("base must name a level for each of choices, and for nothing else")
        for place, choices in (("one_at_a_time", self.one_at_a_time), ("factorial.levels", self.factorial.levels)):
            if unknown := sorted(set(choices) - set(self.choices)):
                raise ValueError(f"{place}: {', '.join(unknown)} is not among choices")
        named = [(f"factorial.levels.{c}", c, level) for c, levels in self.factorial.levels.items() for level in levels]
        for place, choice, level in (*((f"base.{c}", c, level) for c, level in self.base.items()), *named):
            if level not in self.choices[choice]:
                raise ValueError(f"{place}: choices.{choice} has no level {level!r}")
        return self


class Tolerances(Section):
    """When two numbers count as the same."""

    accuracy_points: NotNegative
    params_share: Share
    golden_accuracy: Share
    golden_params: Share


class Compute(Section):
    """Where and how fast, never what."""

    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)]
    scheduler: Annotated[str, Field(pattern=r"^(tcp|tls)://[^\s/]+:[0-9]{1,5}$")] | None


class Params(Section):
    """All of params.yaml."""

    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    depths: Annotated[tuple[Annotated[int, Field(ge=1, le=10)], ...], Field(min_length=1)]
    data: Data
    inputs: Inputs
    network: NetworkSection
    optimisation: Optimisation
    fisher: Fisher
    ewc: EWC
    static: Static
    noracl: Growth
    heuristics: Heuristics
    benchmarks: Annotated[dict[FileName, Benchmark], Field(min_length=1)]
    features: Features
    cifar10: Heads
    stress: Stress
    ablations: Ablations
    sensitivity: Sensitivity
    theory: Theory
    reconstruction: Reconstruction
    tolerances: Tolerances
    compute: Compute

    @field_validator("seeds", "depths")
    @classmethod
    def _distinct(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return distinct(value)

    @model_validator(mode="after")
    def _benchmarks_exist(self) -> "Params":
        if unknown := set(self.ablations.benchmarks) - set(self.benchmarks):
            raise ValueError(f"ablations.benchmarks names {', '.join(sorted(unknown))}, which benchmarks does not have")
        if (name := self.reconstruction.factorial.benchmark) not in self.benchmarks:
            raise ValueError(f"reconstruction.factorial.benchmark names {name}, which benchmarks does not have")
        needed = self.benchmarks.get("permuted_mnist")
        if needed is None or needed.stream.kind != "permuted":
            raise ValueError(
                "benchmarks.permuted_mnist must be a permuted stream: stress and sensitivity are its variants"
            )
        if clash := {f"ablations-{b}" for b in self.ablations.benchmarks} & {f"{b}-static" for b in self.benchmarks}:
            raise ValueError(f"benchmarks: two suites would be called {clash.pop()}")
        return self

    def changed(self, changes: dict[str, Any]) -> "Params":
        """The same with other values, named as `dvc exp run -S` names them."""
        data = self.model_dump(mode="json")
        for key, value in changes.items():
            *path, last = key.split(".")
            place = data
            for part in path:
                place = place[part]
            if last not in place:
                raise ParamsError(f"{key} is no key of params.yaml")
            place[last] = value
        return _validated(data)

    def benchmark(self, name: str) -> Benchmark | Heads:
        """A task stream with its training."""
        return self.cifar10 if name == SPLIT_CIFAR10 else self.benchmarks[name]

    def settings(self, benchmark: str, hidden: tuple[int, ...], **growth: Any) -> Settings:
        """The library's settings for a run; ``growth`` overrides parts of the growth rule."""
        chosen = self.benchmark(benchmark)
        if isinstance(chosen, Heads):
            growth = {"gamma": chosen.gamma, "percentile": chosen.percentile, **growth}
        return Settings(
            hidden=hidden,
            init=self.network.init,
            optimisation=OptimisationSettings(
                epochs_first=chosen.epochs_first, epochs_later=chosen.epochs_later, **dict(self.optimisation)
            ),
            fisher=FisherSettings(**dict(self.fisher)),
            ewc=EWCSettings(strength=chosen.strength, **dict(self.ewc)),
            growth=GrowthSettings(**{**dict(self.noracl), **dict(self.heuristics), **growth}),
        )


def parse(text: str) -> Params:
    """Params from the text of params.yaml; ParamsError with every wrong key otherwise."""
    data = read(text)
    if not isinstance(data, dict):
        raise ParamsError("params.yaml must hold keys and values, as in the committed version")
    if isinstance(data.get("fisher"), dict) and data["fisher"].get("labels") is True:
        data["fisher"]["labels"] = "true"  # YAML reads an unquoted true as a truth value
    params = _validated(data)
    _check_ranges(params)
    _check_study(params)
    return params


def _validated(data: dict[str, Any]) -> Params:
    try:
        return Params.model_validate_json(json.dumps(data))
    except ValidationError as error:
        problems = [_explain(problem, data) for problem in error.errors(include_url=False)]
        raise ParamsError("params.yaml cannot be used:\n" + "\n".join(problems[:30])) from None


def _explain(problem: Any, data: Any) -> str:
    """A line about one problem; of pydantic's path only what is a key here, not the names of the kinds it tried."""
    place = []
    for part in problem["loc"]:
        if part in (data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()):
            place.append(str(part))
            data = data[part]
    if problem["type"] == "missing":
        return f"  {'.'.join([*place, str(problem['loc'][-1])])}: this key is missing"
    if problem["type"] == "extra_forbidden":
        return f"  {'.'.join(place)}: unknown key"
    given = "" if isinstance(problem["input"], dict) else f" (got {str(problem['input'])[:80]!r})"
    return f"  {'.'.join(place) or 'top level'}: {problem['msg'].removeprefix('Value error, ')}{given}"


def _check_ranges(params: Params) -> None:
    """The library checks its own ranges: build every settings object once."""
    _named("optimisation", OptimisationSettings, **dict(params.optimisation))
    _named("fisher", FisherSettings, **dict(params.fisher))
    _named("ewc", EWCSettings, **dict(params.ewc))
    _named("noracl", GrowthSettings, **dict(params.noracl))
    _named("heuristics", GrowthSettings, **dict(params.heuristics))
    _named("cifar10", GrowthSettings, gamma=params.cifar10.gamma, percentile=params.cifar10.percentile)


def _check_study(params: Params) -> None:
    """Every level of the reconstruction study is a valid change of this file."""
    study = params.reconstruction
    levels = {f"choices.{c}.{name}": level for c, levels in study.choices.items() for name, level in levels.items()}
    for place, changes in (levels | {f"open_points.{n}": p.changes for n, p in study.open_points.items()}).items():
        try:
            _check_ranges(params.changed({"data.limit": None, **changes}))
        except (ParamsError, KeyError, TypeError) as error:
            raise ParamsError(f"params.yaml cannot be used:\n  reconstruction.{place}: {error}") from None


def _named(place: str, kind: Any, **values: Any) -> None:
    try:
        kind(**values)
    except ValueError as error:
        raise ParamsError(f"params.yaml cannot be used:\n  {place}.{error}") from None


def load(path: Path = PARAMS) -> Params:
    """Params from the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path.name} cannot be read: {error}") from None
    return parse(text)


def load_or_exit() -> Params:
    """For command lines: one clear message and exit code 1 instead of a traceback."""
    try:
        return load()
    except ParamsError as error:
        sys.exit(f"{error}\nNothing was run. Mend params.yaml and start again.")
