"""Downloaded files as task streams."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from noracl import Stream, Task, permuted, rotated, split
from noracl.seeds import generator
from pipeline.download import MNIST_FILES
from pipeline.params import Inputs, SplitStream, StreamSection
from pipeline.paths import MNIST


def _idx(path: Path, header: int, width: int) -> Tensor:
    content = np.fromfile(path, dtype=np.uint8)[header:]
    return torch.from_numpy(content.reshape(-1, width).copy())


@lru_cache(maxsize=2)
def mnist(limit: int | None = None, folder: Path = MNIST, held_out: int = 0) -> Task:
    """MNIST as one task: 28 × 28 pixels a row, uint8, in the stored order.

    ``limit`` keeps the first images; of those, the last ``held_out`` are kept out of training.
    """
    if missing := [name for name in MNIST_FILES if not (folder / name).exists()]:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}: run `dvc repro download@mnist`")
    parts = []
    for part, keep in (("train", limit), ("t10k", limit and max(10, limit // 6))):
        images = _idx(folder / f"{part}-images-idx3-ubyte", 16, 784)[:keep]
        labels = _idx(folder / f"{part}-labels-idx1-ubyte", 8, 1).flatten()[:keep]
        used = len(images) - (held_out if part == "train" else 0)
        parts += [images[:used], labels[:used]]
    return Task(*parts)


@lru_cache(maxsize=1)  # rotated images take a while to make and are the same for every run of a suite
def build_stream(
    section: StreamSection, outputs: int, inputs: Inputs, limit: int | None, seed: int, held_out: int = 0
) -> Stream:
    """A stream of params.yaml; the seed draws the permutations of a permuted one, or what a split one leaves to it."""
    scaling = {"scale": 1 / (255 * inputs.deviation), "shift": -inputs.mean / inputs.deviation}
    data = mnist(limit, held_out=held_out)
    if section.kind == "permuted":
        return permuted(data, section.tasks, outputs, seed, **scaling)
    if section.kind == "rotated":
        return rotated(data, section.angles, outputs, section.interpolation, **scaling)
    return split(data, drawn_pairs(section, seed), outputs, **scaling)


def drawn_pairs(section: SplitStream, seed: int) -> list[tuple[int, int]]:
    """The pairs of a split stream; the seed draws what ``drawn`` names."""
    pairs = list(section.pairs)
    if "digits" in section.drawn:
        digits = [digit for pair in pairs for digit in pair]
        digits = [digits[i] for i in torch.randperm(len(digits), generator=generator(seed, "digits"))]
        pairs = [(min(pair), max(pair)) for pair in zip(digits[::2], digits[1::2], strict=True)]
    if "order" in section.drawn:
        pairs = [pairs[i] for i in torch.randperm(len(pairs), generator=generator(seed, "order of pairs"))]
    if "labels" in section.drawn:
        turned = torch.randint(2, (len(pairs),), generator=generator(seed, "labels of pairs")).tolist()
        pairs = [(b, a) if turn else (a, b) for (a, b), turn in zip(pairs, turned, strict=True)]
    return pairs
