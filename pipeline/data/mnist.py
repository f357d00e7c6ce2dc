"""MNIST: the downloaded files as one task, and their manifest."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from noracl import Task
from pipeline.config import Params, load
from pipeline.data.download import MNIST_FILES
from pipeline.data.manifests import Pixels
from pipeline.data.verified import verified
from pipeline.files import json_digest, write_json
from pipeline.paths import MANIFESTS, MNIST


def verified_files(folder: Path) -> dict[str, Path]:
    """The four files by name, if they are what they should be."""
    mend = "run `dvc repro download@mnist`"
    return {name: verified(folder / name, known, mend) for name, known in MNIST_FILES.items()}


@lru_cache(maxsize=2)
def mnist(limit: int | None = None, folder: Path = MNIST) -> Task:
    """MNIST as one task: 28 × 28 pixels per row, uint8, in the stored order; ``limit`` keeps the first images."""
    files = verified_files(folder)
    parts = []
    for part, keep in (("train", limit), ("t10k", limit and max(10, limit // 6))):
        pixels = np.fromfile(files[f"{part}-images-idx3-ubyte"], np.uint8, offset=16)
        labels = np.fromfile(files[f"{part}-labels-idx1-ubyte"], np.uint8, offset=8)
        parts += [torch.from_numpy(pixels).view(-1, 784)[:keep], torch.from_numpy(labels)[:keep]]
    return Task(*parts)


def manifest_of(params: Params) -> Pixels:
    """The manifest of MNIST as training sees it."""
    return Pixels(data=json_digest(MNIST_FILES), **params.data.mnist.model_dump())


def main(arguments: list[str]) -> None:
    """Stage pixels."""
    write_json(MANIFESTS / "mnist.json", manifest_of(load()).model_dump())
