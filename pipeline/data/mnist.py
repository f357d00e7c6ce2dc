"""MNIST: the downloaded files as one task, and their manifest."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from noracl import Task
from pipeline.config import Params, load
from pipeline.data.download import MNIST_FILES
from pipeline.data.manifests import Pixels, digest_of_files
from pipeline.files import write_json
from pipeline.paths import MANIFESTS, MNIST


@lru_cache(maxsize=2)
def mnist(limit: int | None = None, folder: Path = MNIST) -> Task:
    """MNIST as one task: 28 × 28 pixels per row, uint8, in the stored order; ``limit`` keeps the first images."""
    if missing := [name for name in MNIST_FILES if not (folder / name).exists()]:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}: run `dvc repro download@mnist`")
    parts = []
    for part, keep in (("train", limit), ("t10k", limit and max(10, limit // 6))):
        pixels = np.fromfile(folder / f"{part}-images-idx3-ubyte", np.uint8, offset=16)
        labels = np.fromfile(folder / f"{part}-labels-idx1-ubyte", np.uint8, offset=8)
        parts += [torch.from_numpy(pixels).view(-1, 784)[:keep], torch.from_numpy(labels)[:keep]]
    return Task(*parts)


def manifest_of(params: Params) -> Pixels:
    """The manifest of MNIST as training sees it."""
    return Pixels(data=digest_of_files(MNIST_FILES), **params.data.mnist.model_dump())


def main(arguments: list[str]) -> None:
    """Stage pixels."""
    write_json(MANIFESTS / "mnist.json", manifest_of(load()).model_dump())
