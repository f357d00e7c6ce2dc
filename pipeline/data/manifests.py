"""Manifests: what decides the inputs of training, in a small committed file per data set that training depends on."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from pipeline.files import json_digest
from pipeline.paths import MANIFESTS
from pipeline.sections import PIXELS, Interpolation, Section


class Pixels(Section):
    """MNIST or Fashion-MNIST: a hash of its files' names and hashes, how many images are used, and their scale."""

    kind: Literal["pixels"] = "pixels"
    data: str
    limit: int | None
    mean: float
    deviation: float


class Features(Section):
    """What decides features of CIFAR-10, but for their last digits, in which CPUs differ, and their recipe's name."""

    kind: Literal["features"] = "features"
    name: str
    canary: str
    data: str
    weights: str
    weights_sha256: str
    size: int
    interpolation: Interpolation
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    images: int
    test_images: int
    torch: str
    torchvision: str


Manifest = Pixels | Features
_ANY: TypeAdapter[Manifest] = TypeAdapter(Annotated[Manifest, Field(discriminator="kind")])


def digest(manifest: Manifest) -> str:
    """Hash of all of it."""
    return json_digest(manifest.model_dump())


def placeholder(name: str) -> Manifest:
    """A manifest that says no more than the kind of a data set; nothing can be trained on it."""
    if name in PIXELS:
        return Pixels(data="", limit=None, mean=0.0, deviation=1.0)
    known = {"size": 40, "interpolation": "bilinear", "mean": (0.4,) * 3, "deviation": (0.2,) * 3}
    unknown = dict.fromkeys(("canary", "data", "weights", "weights_sha256", "torch", "torchvision"), "")
    return Features.model_validate(
        {"name": name.removeprefix("cifar10_"), **known, **unknown, "images": 0, "test_images": 0}
    )


def read_manifest(name: str) -> Manifest:
    """The manifest of a data set, by the name that benchmarks use."""
    path = MANIFESTS / f"{name}.json"
    if not path.exists():
        stage = f"pixels@{name}" if name in PIXELS else f"features@{name.removeprefix('cifar10_')}"
        raise FileNotFoundError(f"{path} is missing: run `dvc repro {stage}`")
    return _ANY.validate_json(path.read_text(encoding="utf-8"))
