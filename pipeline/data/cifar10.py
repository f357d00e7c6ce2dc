"""CIFAR-10's images, and the features of them that heads are trained on."""

import hashlib
import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noracl import Task
from pipeline.data.download import CIFAR10_FILES
from pipeline.data.manifests import Features
from pipeline.data.verified import Damaged, missing, remembered, verified
from pipeline.files import json_digest, write_bytes
from pipeline.paths import CIFAR10, FEATURES, MANIFESTS

WIDTH = 512  # features of an image
CHUNK = 1000  # images whose features share a file


@dataclass(frozen=True)
class Chunk:
    """Images of the part "train" or "test" from ``start`` to ``stop``, and the file that holds their features."""

    manifest: Features
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

    def fits(self, x: object) -> bool:
        """Whether these can be its features."""
        shape = (len(self), WIDTH)
        return isinstance(x, np.ndarray) and (x.dtype, x.shape) == (np.float32, shape) and bool(np.isfinite(x).all())

    def digest(self, x: NDArray[np.float32], y: NDArray[np.uint8]) -> str:
        """Hash of these features and labels, under the name of the file and by this manifest."""
        label = f"{self.path.name}\n{self.manifest.model_dump_json()}\n"
        return hashlib.sha256(label.encode() + x.tobytes() + y.tobytes()).hexdigest()

    def save(self, x: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        """Keep features and labels, and their hash beside them."""
        content, y = io.BytesIO(), labels.astype(np.uint8)
        np.savez(content, x=x, y=y, digest=np.array(self.digest(x, y)))
        write_bytes(self.path, content.getvalue())

    def read(self) -> tuple[Tensor, Tensor] | None:
        """The features and labels; None if the file is missing or damaged."""
        try:
            with self.path.open("rb") as file, np.load(file) as content:
                x, y, digest = content["x"], content["y"], str(content["digest"])
        except Exception:  # a damaged file can be wrong in any way
            return None
        whole = self.fits(x) and (y.dtype, y.shape) == (np.uint8, (len(self),)) and digest == self.digest(x, y)
        return (torch.from_numpy(x), torch.from_numpy(y)) if whole else None


def chunks(manifest: Features) -> list[Chunk]:
    """The files of the features, in order."""
    return [
        Chunk(manifest, folder(manifest) / f"{part}-{start // CHUNK:03}.npz", part, start, min(start + CHUNK, count))
        for part, count in (("train", manifest.images), ("test", manifest.test_images))
        for start in range(0, count, CHUNK)
    ]


def folder(manifest: Features) -> Path:
    """Where the features are."""
    return FEATURES / manifest.name


def describes_what_is_there(manifest: Features) -> bool:
    """Whether the features in the folder, all or some, are those of this manifest."""
    path = folder(manifest) / "manifest.json"
    return path.exists() and path.read_text(encoding="utf-8") == manifest.model_dump_json()


def images(limit: int | None = None, source: Path = CIFAR10) -> Task:
    """CIFAR-10 as one task: 3 × 32 × 32 pixels per row, uint8, as stored; ``limit`` keeps the first images."""
    files = [
        verified(source / name, known, "run `dvc repro download@cifar10`") for name, known in CIFAR10_FILES.items()
    ]
    parts = []
    for part, keep in (("data", limit), ("test", limit and max(10, limit // 6))):
        content = [np.fromfile(file, np.uint8) for file in files if file.name.startswith(part)]
        records = np.concatenate(content).reshape(-1, 1 + 3072)[:keep]
        parts += [torch.from_numpy(records[:, 1:].copy()), torch.from_numpy(records[:, 0].copy())]
    return Task(*parts)


@remembered
def _stored_digest(path: Path) -> str:
    """What a chunk says of its own content; nothing if it says nothing."""
    try:
        with path.open("rb") as file, np.load(file) as content:
            return str(content["digest"])
    except Exception:  # as above
        return ""


def _mend(manifest: Features) -> str:
    return f"run `dvc repro features@{manifest.name}`"


def _wrong(chunk: Chunk) -> Damaged:
    described = f"{MANIFESTS}/cifar10_{chunk.manifest.name}.json"
    return Damaged(f"{chunk.path} is not what {described} describes: {_mend(chunk.manifest)} after deleting it")


def digest_of_features(manifest: Features) -> str:
    """Hash of all features, by what their files say of themselves; ``features`` takes no file at its word."""
    found = []
    for chunk in chunks(manifest):
        if not chunk.path.exists():
            raise missing(chunk.path, _mend(manifest))
        if not (digest := _stored_digest(chunk.path)):
            raise _wrong(chunk)
        found.append(digest)
    return json_digest(found)


@lru_cache(maxsize=1)
def _read(manifest: Features, digest: str) -> Task:
    found: dict[str, list[tuple[Tensor, Tensor]]] = {"train": [], "test": []}
    for chunk in chunks(manifest):
        if (content := chunk.read()) is None:
            raise _wrong(chunk)
        found[chunk.part].append(content)
    return Task(*(torch.cat(side) for part in found.values() for side in zip(*part, strict=True)))


def features(manifest: Features) -> Task:
    """The features as one task; they are read once while their files stay as they are."""
    return _read(manifest, digest_of_features(manifest))
