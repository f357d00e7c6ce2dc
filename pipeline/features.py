"""Stage features@…: what a frozen ResNet18 makes of CIFAR-10's images at a size.

Finished chunks are kept in data/features, so a second start goes on where the first one stopped.
"""

import argparse
import hashlib
import json
import pickle
import shutil
import sys
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse

from noracl import Task
from pipeline import cifar10
from pipeline.cifar10 import Manifest
from pipeline.download import CIFAR10_FILES, WEIGHTS_FILE
from pipeline.executor import Progress, RunFailed, kill_like_ctrl_c, side_by_side
from pipeline.files import write_json, write_text
from pipeline.params import Compute, Params, load_or_exit
from pipeline.paths import CIFAR10, MANIFESTS, RESNET18
from pipeline.vision import torchvision

VERSION = 1  # of the features: higher when the same images, weights and settings give other numbers
BATCH = 16  # images at a time: 8 to 32 were about as fast, 64 slower


class Unusable(RuntimeError):
    """The weights are not what ResNet18 needs; the message names the params.yaml key."""


def sha256(path: Path) -> str:
    """Of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest_of(params: Params, size: int, data: Task) -> Manifest:
    """The manifest of what is to be computed, from the files that are there."""
    weights = RESNET18 / WEIGHTS_FILE
    if not weights.exists():
        raise FileNotFoundError(f"{weights} is missing: run `dvc repro weights`")
    digest = sha256(weights)
    names = [name for name, known in params.features.weights.items() if known.sha256 == digest]
    if not names:
        raise Unusable(f"{weights} has sha256 {digest}, which features.weights in params.yaml does not name")
    files = {name: sha256(CIFAR10 / name) for name in CIFAR10_FILES}
    return Manifest(
        version=VERSION,
        data=hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest(),
        weights=names[0],
        weights_sha256=digest,
        size=size,
        mean=params.features.mean,
        deviation=params.features.deviation,
        images=len(data.x),
        test_images=len(data.x_test),
        torch=torch.__version__.split("+")[0],
        torchvision=torchvision().__version__.split("+")[0],
    )


@lru_cache(maxsize=1)
def encoder(weights: Path) -> nn.Module:
    """ResNet18 without its classifier, frozen."""
    model: nn.Module = torchvision().models.resnet18(weights=None)
    try:
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    except (RuntimeError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        raise Unusable(f"{weights} holds no weights of torchvision's ResNet18; see features.weights: {error}") from None
    model.fc = nn.Identity()
    model.eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


@lru_cache(maxsize=1)
def folded(weights: Path) -> nn.Module:
    """The encoder with each BatchNorm folded into the convolution before it: the same features, a fifth sooner."""
    model: nn.Module = fuse(encoder(weights))
    model.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


@torch.inference_mode()
def encode(model: nn.Module, x: Tensor, manifest: Manifest) -> Tensor:
    """Features of images (rows of 3 × 32 × 32 pixels, uint8)."""
    mean, deviation = (torch.tensor(values).view(1, 3, 1, 1) for values in (manifest.mean, manifest.deviation))
    found = []
    for part in torch.split(x, BATCH):
        images = (part.view(-1, 3, 32, 32).contiguous(memory_format=torch.channels_last) / 255 - mean) / deviation
        enlarged = nn.functional.interpolate(images, size=manifest.size, mode="bilinear", align_corners=False)
        found.append(model(enlarged))
    return torch.cat(found)


def work(pixels: NDArray[np.uint8], manifest: Manifest) -> NDArray[np.float32]:
    """In a worker: the features of some images."""
    torch.set_num_threads(1)
    return encode(folded(RESNET18 / WEIGHTS_FILE), torch.from_numpy(pixels), manifest).numpy()


def extract(manifest: Manifest, data: Task, compute: Compute) -> None:
    """All chunks that are not there yet, on worker processes with a thread each; every finished one is kept."""
    title = f"features@{manifest.size}"
    if not manifest.describes_what_is_there():
        shutil.rmtree(manifest.folder, ignore_errors=True)
        write_text(manifest.folder / "manifest.json", manifest.model_dump_json())
    todo = [chunk for chunk in manifest.chunks if chunk.read() is None]
    images, done = sum(map(len, todo)), 0
    print(f"{title}: weights {manifest.weights}, {images} images to do", flush=True)
    progress = Progress(title, len(todo), images, "chunks")
    with side_by_side(compute) as pool:
        futures = {pool.submit(work, chunk.of(data)[0].numpy(), manifest): chunk for chunk in todo}
        for future in as_completed(futures):
            chunk = futures[future]
            chunk.save(future.result(), chunk.of(data)[1].numpy())
            done += len(chunk)
            progress.finished += 1
            progress.show(done, force=done == images)
    progress.close()


def main() -> None:
    """Command line of the stages."""
    params = load_or_exit()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", type=int, choices=params.features.compared)
    size = parser.parse_args().size
    try:
        data = cifar10.images(params.data.limit)
        manifest = manifest_of(params, size, data)
        with kill_like_ctrl_c():
            extract(manifest, data, params.compute)
    except (Unusable, RunFailed, FileNotFoundError) as error:
        sys.exit(f"features@{size}: {error}")
    except BrokenProcessPool:
        sys.exit(f"features@{size}: a worker died (out of memory?). What is finished is kept; start again to go on.")
    except KeyboardInterrupt:
        sys.exit(f"\nfeatures@{size}: interrupted. What is finished is kept; start again to go on.")
    write_json(MANIFESTS / f"{size}.json", manifest.model_dump())


if __name__ == "__main__":
    main()
