"""CIFAR-10's images, and the features of them that heads are trained on."""

import hashlib
import io
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noracl import Stream, Task, split
from pipeline.download import CIFAR10_FILES
from pipeline.files import write_bytes
from pipeline.params import Scaling, Section, SplitStream
from pipeline.paths import CIFAR10, FEATURES, MANIFESTS
from pipeline.streams import drawn_pairs

WIDTH = 512  # features of an image
CHUNK = 1000  # images whose features share a file


@dataclass(frozen=True)
class Chunk:
    """Training or test images from ``start`` to ``stop``, and the file that holds their features."""

    path: Path
    part: Literal["train", "test"]
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def of(self, data: Task) -> tuple[Tensor, Tensor]:
        """Its rows and labels of a data set."""
        x, y = (data.x, data.y) if self.part == "train" else (data.x_test, data.y_test)
        return x[self.start : self.stop], y[self.start : self.stop]

    def save(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        """Keep features and labels."""
        content = io.BytesIO()
        np.savez(content, x=x, y=y)
        write_bytes(self.path, content.getvalue())

    def read(self) -> tuple[Tensor, Tensor] | None:
        """The features and labels; None if the file is missing or damaged."""
        try:
            with np.load(io.BytesIO(self.path.read_bytes())) as content:
                x, y = torch.from_numpy(content["x"]), torch.from_numpy(content["y"])
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None
        return (x, y) if x.shape == (len(self), WIDTH) and y.shape == (len(self),) else None


class Manifest(Section):
    """What decides features, but for their last digits, in which CPUs differ."""

    version: int
    data: str
    weights: str
    weights_sha256: str
    size: int
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    images: int
    test_images: int
    torch: str
    torchvision: str

    @property
    def digest(self) -> str:
        """One hash of it all."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()

    @property
    def folder(self) -> Path:
        """Where the features are."""
        return FEATURES / str(self.size)

    @property
    def chunks(self) -> list[Chunk]:
        """The files of the features, in order."""
        counts: list[tuple[Literal["train", "test"], int]] = [("train", self.images), ("test", self.test_images)]
        return [
            Chunk(self.folder / f"{part}-{start // CHUNK:03}.npz", part, start, min(start + CHUNK, images))
            for part, images in counts
            for start in range(0, images, CHUNK)
        ]

    def describes_what_is_there(self) -> bool:
        """Whether the features in the folder, all or some, are those of this manifest."""
        path = self.folder / "manifest.json"
        return path.exists() and path.read_text() == self.model_dump_json()


def read_manifest(size: int) -> Manifest:
    """The manifest of the features at an image size."""
    path = MANIFESTS / f"{size}.json"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `dvc repro features@{size}`")
    return Manifest.model_validate_json(path.read_text())


def images(limit: int | None = None, folder: Path = CIFAR10) -> Task:
    """CIFAR-10 as one task: 3 × 32 × 32 pixels a row, uint8, in the stored order; ``limit`` keeps the first images."""
    if missing := [name for name in CIFAR10_FILES if not (folder / name).exists()]:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}: run `dvc repro download@cifar10`")
    parts = []
    for part, keep in (("data", limit), ("test", limit and max(10, limit // 6))):
        files = [folder / name for name in CIFAR10_FILES if name.startswith(part)]
        records = np.concatenate([np.fromfile(file, np.uint8) for file in files]).reshape(-1, 1 + 3072)[:keep]
        parts += [torch.from_numpy(records[:, 1:].copy()), torch.from_numpy(records[:, 0].copy())]
    return Task(*parts)


def features(manifest: Manifest) -> Task:
    """The features as one task."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = {"train": [], "test": []}
    for chunk in manifest.chunks:
        content = chunk.read() if manifest.describes_what_is_there() else None
        if content is None:
            lacking = f"{chunk.path} is not what {MANIFESTS}/{manifest.size}.json describes"
            raise FileNotFoundError(f"{lacking}: run `dvc repro features@{manifest.size}`")
        found[chunk.part].append(content)
    return Task(*(torch.cat(side) for chunks in found.values() for side in zip(*chunks, strict=True)))


def scaled(data: Task, scaling: Scaling) -> Task:
    """Features as they come; each with mean 0 and deviation 1 over the training images; or rows of length 1."""
    if scaling == "standardised":
        mean, deviation = data.x.mean(dim=0), data.x.std(dim=0, correction=0)
        deviation[deviation == 0] = 1
        return replace(data, x=(data.x - mean) / deviation, x_test=(data.x_test - mean) / deviation)
    if scaling == "unit length":
        normalize = torch.nn.functional.normalize
        return replace(data, x=normalize(data.x), x_test=normalize(data.x_test))
    return data


@lru_cache(maxsize=1)
def build_stream(
    manifest: Manifest, section: SplitStream, outputs: int, seed: int, held_out: int, scaling: Scaling
) -> Stream:
    """Binary Split CIFAR-10; the last ``held_out`` images are not in training."""
    data = features(manifest)
    used = len(data.x) - held_out
    data = scaled(Task(data.x[:used], data.y[:used], data.x_test, data.y_test), scaling)
    return split(data, drawn_pairs(section, seed), outputs)
