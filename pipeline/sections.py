"""The sections of params.yaml, each checked by itself; params.yaml says what each key means.

The settings of the library are not among them: it checks its own (see ``config``).
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from noracl.analysis import upkeep
from noracl.method.initialisers import INITIALISERS
from noracl.method.regularisers import REGULARISERS
from noracl.method.triggers import TRIGGERS

STRICT = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
Many = TypeVar("Many", bound=Sequence[Any])
One = TypeVar("One")
#: Tables of their own kind: no benchmark may add columns to them.
RESERVED = ("stress", "ablations", "sensitivity", "readings", "cifar10_sizes", "beyond", "theory", "transfer")


def distinct(values: Many) -> Many:
    """The values, if none is repeated."""
    if len(set(values)) != len(values):
        raise ValueError("must not name a value twice")
    return values


def one_per_depth(shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Widths of hidden layers, if no two networks have the same depth: rows are told apart by it."""
    if len({len(shape) for shape in shapes}) != len(shapes):
        raise ValueError("must not name two networks of the same depth")
    return shapes


def without_ours(names: dict[str, Any]) -> dict[str, Any]:
    """Static networks by name, if none is called NORACL: their rows share a table with it."""
    if "NORACL" in names:
        raise ValueError("must not call a static network NORACL")
    return names


def known(names: Sequence[str], allowed: Sequence[str]) -> list[str]:
    """The names, each once, if all of them are allowed."""
    if unknown := sorted(set(names) - set(allowed)):
        raise ValueError(f"unknown {', '.join(unknown)}; there are {', '.join(allowed)}")
    return list(distinct(names))


Count = Annotated[int, Field(ge=1, le=10**4)]
Seed = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(ge=1e-6)]
Tiny = Annotated[float, Field(ge=1e-12)]
Digit = Annotated[int, Field(ge=0, le=9)]
Pair = Annotated[tuple[Digit, Digit], AfterValidator(distinct)]
Widths = Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1, max_length=10)]
Shapes = Annotated[tuple[Widths, ...], Field(min_length=1), AfterValidator(one_per_depth)]
FileName = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,40}$")]  # becomes part of one
RowName = Annotated[str, Field(pattern=r"^[^|:<>`\\]{1,60}$")]  # becomes a cell of a table
ImageSize = Annotated[int, Field(ge=32, le=512)]
Interpolation = Literal["bilinear", "bicubic"]  # of enlarged images; ``pipeline.data.encoder`` says how
Limit = Annotated[int, Field(ge=60, le=60000)] | None
Unique = Annotated[tuple[One, ...], Field(min_length=1), AfterValidator(distinct)]


class Section(BaseModel):
    """Strict: unknown keys, wrong types, NaN and infinity are errors."""

    model_config = STRICT


class Pixels(Section):
    limit: Limit
    mean: float
    deviation: Positive


class Cifar10(Section):
    limit: Limit


class Data(Section):
    mirrors: list[Annotated[str, Field(min_length=1)]]
    mnist: Pixels
    fashion_mnist: Pixels
    cifar10: Cifar10


#: The data sets whose images networks see as they are, by the names that benchmarks use; the others are features.
PIXELS = tuple(name for name, field in Data.model_fields.items() if field.annotation is Pixels)


class Weights(Section):
    url: str | None
    file: Annotated[str, Field(min_length=1)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Image(Section):
    size: ImageSize
    interpolation: Interpolation


class Encoder(Section):
    weights: Annotated[dict[RowName, Weights], Field(min_length=1)]
    images: Annotated[dict[FileName, Image], Field(min_length=1)]
    mean: tuple[float, float, float]
    deviation: tuple[Positive, Positive, Positive]


class PermutedStream(Section):
    kind: Literal["permuted"]
    tasks: Count


class RotatedStream(Section):
    kind: Literal["rotated"]
    angles: Annotated[tuple[Annotated[float, Field(ge=-360, le=360)], ...], Field(min_length=1, max_length=100)]
    interpolation: Literal["nearest", "bilinear"]

    @property
    def tasks(self) -> int:
        """Length of the stream."""
        return len(self.angles)


class SplitStream(Section):
    kind: Literal["split"]
    pairs: Annotated[tuple[Pair, ...], Field(min_length=1, max_length=100)]

    @property
    def tasks(self) -> int:
        """Length of the stream."""
        return len(self.pairs)


StreamSection = Annotated[PermutedStream | RotatedStream | SplitStream, Field(discriminator="kind")]


class Benchmark(Section):
    title: RowName
    table: FileName
    data: FileName
    stream: StreamSection
    outputs: Annotated[int, Field(ge=2, le=1000)]
    networks: FileName
    start: Shapes
    training: dict[str, Any]
    noracl: dict[str, Any]

    @model_validator(mode="after")
    def _fits(self) -> "Benchmark":
        needed = 2 if self.stream.kind == "split" else 10
        if self.outputs < needed:
            raise ValueError(f"outputs must be at least {needed} on this stream, got {self.outputs}")
        if self.stream.kind == "rotated" and self.data.startswith("cifar10_"):
            raise ValueError(f"stream: only images can be rotated, and {self.data} are features")
        if self.table in RESERVED:
            raise ValueError(f"table must not be one of {', '.join(RESERVED)}, got {self.table}")
        return self


class ImageSizes(Section):
    images: Annotated[Unique[FileName], Field(min_length=3, max_length=3)]  # dvc.yaml names the manifests of three
    seed: Seed
    heads: Unique[RowName]


class Stress(Section):
    short: Count
    long: Count
    noracl: Widths
    static: Annotated[dict[FileName, Widths], Field(min_length=1)]
    long_only: list[str]

    @model_validator(mode="after")
    def _fits(self) -> "Stress":
        if self.short >= self.long:
            raise ValueError(f"short must be below long, got {self.short} and {self.long}")
        if unknown := set(self.long_only) - set(self.static):
            raise ValueError(f"long_only names {', '.join(sorted(unknown))}, which static does not have")
        if "noracl" in self.static:
            raise ValueError("static must not call a network noracl")
        distinct(list(self.static.values()))
        return self


class Ablations(Section):
    benchmarks: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    init: Annotated[list[str], AfterValidator(lambda names: known(names, list(INITIALISERS)))]
    trigger: Annotated[list[str], AfterValidator(lambda names: known(names, list(TRIGGERS)))]


def two_decimals(values: list[float]) -> list[float]:
    """Values, each once, that two decimals name."""
    if finer := [value for value in distinct(values) if round(value, 2) != value]:
        raise ValueError(f"rows are named by two decimals, got {finer[0]}")
    return values


class Reading(Section):
    why: Annotated[str, Field(min_length=20, max_length=400)]
    changes: Annotated[dict[str, Any], Field(min_length=1)]


class Sensitivity(Section):
    gamma: Annotated[list[Annotated[float, Field(gt=0, le=1)]], AfterValidator(two_decimals)]
    percentile: Annotated[list[Annotated[float, Field(ge=0, le=100)]], AfterValidator(two_decimals)]
    epsilon: Annotated[list[Annotated[float, Field(gt=0)]], AfterValidator(two_decimals)]


Upkeeps = AfterValidator(lambda given: known(list(given), [kind for kind in upkeep.KINDS if kind != "none"]) and given)
Regularisers = AfterValidator(lambda given: known(list(given), list(REGULARISERS)) and given)


class Strengths(Section):
    seeds: Unique[Seed]
    network: RowName
    grid: Annotated[dict[str, Unique[Positive]], Field(min_length=1), Regularisers]


class Regularised(Section):
    strengths: Annotated[dict[str, NotNegative], Field(min_length=1), Regularisers]


class Oracle(Section):
    seeds: Unique[Seed]
    networks: Annotated[dict[RowName, Widths], Field(min_length=1)]


class Bounds(Section):
    networks: Annotated[dict[FileName, RowName], Field(min_length=1)]


class Fashion(Section):
    benchmarks: Unique[FileName]


class Controls(Fashion):
    init: Annotated[list[str], AfterValidator(lambda names: known(names, list(INITIALISERS)))]


class UpkeepStrengths(Strengths):
    grid: Annotated[dict[str, Unique[Tiny]], Field(min_length=1), Upkeeps]


class Upkeep(Section):
    seeds: Unique[Seed]
    network: FileName  # one of stress.static
    strengths: Annotated[dict[str, Tiny], Field(min_length=1), Upkeeps]


class Beyond(Section):
    strengths: Strengths | None = None
    regularisers: Regularised | None = None
    bounds: Bounds | None = None
    controls: Controls | None = None
    fashion: Fashion | None = None


class BeyondStress(Section):
    oracle: Oracle | None = None
    upkeep_strengths: UpkeepStrengths | None = None
    upkeep: Upkeep | None = None


class Theory(Section):
    widths: Unique[Annotated[int, Field(ge=8, le=4096)]]
    tasks: Annotated[int, Field(ge=16, le=10**4)]
    inputs: Count
    few_inputs: Count
    neurons: Unique[Annotated[int, Field(ge=1, le=1000)]]
    epsilons: Annotated[Unique[Annotated[float, Field(ge=1e-14, le=1)]], Field(min_length=5)]

    @model_validator(mode="after")
    def _long_enough(self) -> "Theory":
        if self.tasks < max(self.widths):
            raise ValueError(f"tasks must be at least the largest of widths, {max(self.widths)}, got {self.tasks}")
        return self


class Official(Section):
    url: Annotated[str, Field(pattern=r"^(https://|file:///|/|\./|\.\./)[^\s\x00-\x1f]{1,400}$")]
    revision: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
    seeds: Unique[Seed]


class Tolerances(Section):
    accuracy_points: NotNegative
    params_share: Share
    golden_accuracy: Share
    golden_params: Share


class Compute(Section):
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)]
    scheduler: Annotated[str, Field(pattern=r"^(tcp|tls)://[^\s/]+:[0-9]{1,5}$")] | None
