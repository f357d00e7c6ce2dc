"""CIFAR-10's images, and the features of them that heads are trained on."""

import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noracl import Task
from pipeline.data.download import CIFAR10_FILES
from pipeline.data.manifests import Features
from pipeline.files import write_bytes
from pipeline.paths import CIFAR10, FEATURES, MANIFESTS

WIDTH = 512  # features of an image
CHUNK = 1000  # images whose features share a file


@dataclass(frozen=True)
class Chunk:
    """Images of the part "train" or "test" from ``start`` to ``stop``, and the file that holds their features."""

    path: Path
    part: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def of(self, data: Task) -> tuple[Tensor, Tensor]:
        """Its rows and labels of a data set."""
        x, y = (data.x, data.y) if self.part == "train" else (data.x_test, data.y_test)
        return x[self.start : self.stop], y[self.start : self.stop]

    def save(self, x: NDArray[np.float32], y: NDArray[np.uint8]) -> None:
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


def chunks(manifest: Features) -> list[Chunk]:
    """The files of the features, in order."""
    return [
        Chunk(folder(manifest) / f"{part}-{start // CHUNK:03}.npz", part, start, min(start + CHUNK, count))
        for part, count in (("train", manifest.images), ("test", manifest.test_images))
        for start in range(0, count, CHUNK)
    ]


def folder(manifest: Features) -> Path:
    """Where the features are."""
    return FEATURES / str(manifest.size)


def describes_what_is_there(manifest: Features) -> bool:
    """Whether the features in the folder, all or some, are those of this manifest."""
    path = folder(manifest) / "manifest.json"
    return path.exists() and path.read_text(encoding="utf-8") == manifest.model_dump_json()


def images(limit: int | None = None, source: Path = CIFAR10) -> Task:
    """CIFAR-10 as one task: 3 × 32 × 32 pixels per row, uint8, as stored; ``limit`` keeps the first images."""
    if missing := [name for name in CIFAR10_FILES if not (source / name).exists()]:
        raise FileNotFoundError(f"{source} lacks {', '.join(missing)}: run `dvc repro download@cifar10`")
    parts = []
    for part, keep in (("data", limit), ("test", limit and max(10, limit // 6))):
        files = [source / name for name in CIFAR10_FILES if name.startswith(part)]
        records = np.concatenate([np.fromfile(file, np.uint8) for file in files]).reshape(-1, 1 + 3072)[:keep]
        parts += [torch.from_numpy(records[:, 1:].copy()), torch.from_numpy(records[:, 0].copy())]
    return Task(*parts)


@lru_cache(maxsize=1)
def features(manifest: Features) -> Task:
    """The features as one task."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = {"train": [], "test": []}
    described = describes_what_is_there(manifest)
    for chunk in chunks(manifest):
        if not described or (content := chunk.read()) is None:
            lacking = f"{chunk.path} is not what {MANIFESTS}/cifar10_{manifest.size}.json describes"
            raise FileNotFoundError(f"{lacking}: run `dvc repro features@{manifest.size}`")
        found[chunk.part].append(content)
    return Task(*(torch.cat(side) for part in found.values() for side in zip(*part, strict=True)))
