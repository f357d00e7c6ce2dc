"""MNIST and Fashion-MNIST: the downloaded files as one task, and their manifests."""

import argparse
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from noracl import Task
from pipeline.config import Params, load
from pipeline.data.download import FASHION_MNIST_FILES, MNIST_FILES
from pipeline.data.manifests import Pixels
from pipeline.data.verified import Damaged, verified
from pipeline.files import json_digest, write_json
from pipeline.paths import DATA, MANIFESTS

#: By data set, the files that it has in a folder of its name, and their md5.
FILES = {"mnist": MNIST_FILES, "fashion_mnist": FASHION_MNIST_FILES}


def verified_files(name: str, folder: Path = DATA) -> dict[str, Path]:
    """The four files of a data set by name, if they are what they should be."""
    mend = f"run `dvc repro download@{name}`"
    return {file: verified(folder / name / file, known, mend) for file, known in FILES[name].items()}


@lru_cache(maxsize=2)
def images(name: str, limit: int | None = None, folder: Path = DATA) -> Task:
    """A data set as one task: 28 × 28 pixels per row, uint8, in the stored order; ``limit`` keeps the first images."""
    files = verified_files(name, folder)
    parts = []
    for part, keep in (("train", limit), ("t10k", limit and max(10, limit // 6))):
        pixels = np.fromfile(files[f"{part}-images-idx3-ubyte"], np.uint8, offset=16)
        labels = np.fromfile(files[f"{part}-labels-idx1-ubyte"], np.uint8, offset=8)
        parts += [torch.from_numpy(pixels).view(-1, 784)[:keep], torch.from_numpy(labels)[:keep]]
    return Task(*parts)


def manifest_of(name: str, params: Params) -> Pixels:
    """The manifest of a data set as training sees it."""
    return Pixels(data=json_digest(FILES[name]), **getattr(params.data, name).model_dump())


def name_of(manifest: Pixels) -> str:
    """The data set that a manifest is about, known by the hash of its files."""
    for name, files in FILES.items():
        if manifest.data == json_digest(files):
            return name
    raise Damaged(f"{MANIFESTS} has a manifest of unknown files, {manifest.data[:12]!r}: run `dvc repro pixels`")


def main(arguments: list[str]) -> None:
    """Stage pixels@…"""
    parser = argparse.ArgumentParser(prog="python -m pipeline pixels", description=__doc__)
    parser.add_argument("dataset", choices=FILES)
    name = parser.parse_args(arguments).dataset
    write_json(MANIFESTS / f"{name}.json", manifest_of(name, load()).model_dump())
