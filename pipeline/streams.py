"""Downloaded files as task streams."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from noracl import Stream, Task, permuted, rotated, split
from pipeline.download import MNIST_FILES
from pipeline.params import Inputs, StreamSection
from pipeline.paths import MNIST


def _idx(path: Path, header: int, width: int) -> Tensor:
    content = np.fromfile(path, dtype=np.uint8)[header:]
    return torch.from_numpy(content.reshape(-1, width).copy())


@lru_cache(maxsize=2)
def mnist(limit: int | None = None, folder: Path = MNIST) -> Task:
    """MNIST as one task: 28 × 28 pixels a row, uint8, in the stored order; ``limit`` keeps the first images."""
    if missing := [name for name in MNIST_FILES if not (folder / name).exists()]:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}: run `dvc repro download@mnist`")
    parts = []
    for part, keep in (("train", limit), ("t10k", limit and max(10, limit // 6))):
        images = _idx(folder / f"{part}-images-idx3-ubyte", 16, 784)[:keep]
        labels = _idx(folder / f"{part}-labels-idx1-ubyte", 8, 1).flatten()[:keep]
        parts += [images, labels]
    return Task(*parts)


@lru_cache(maxsize=1)  # rotated images take a while to make and are the same for every run of a suite
def build_stream(section: StreamSection, outputs: int, inputs: Inputs, limit: int | None, seed: int) -> Stream:
    """A stream of params.yaml; the seed draws the permutations of a permuted one."""
    scaling = {"scale": 1 / (255 * inputs.deviation), "shift": -inputs.mean / inputs.deviation}
    data = mnist(limit)
    if section.kind == "permuted":
        return permuted(data, section.tasks, outputs, seed, **scaling)
    if section.kind == "rotated":
        return rotated(data, section.angles, outputs, section.interpolation, **scaling)
    return split(data, section.pairs, outputs, **scaling)
