"""Stages features@…: CIFAR-10 through the frozen ResNet18 by one recipe; what is finished is kept and taken up."""

import argparse
import shutil
import socket
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from noracl import Task
from pipeline.config import Params, load
from pipeline.data import cifar10
from pipeline.data.download import CIFAR10_FILES, WEIGHTS_FILE
from pipeline.data.encoder import CANARY, Unusable, encode, encoder, folded
from pipeline.data.manifests import Features
from pipeline.data.torchvision_compat import torchvision
from pipeline.data.verified import missing, sha256, verified
from pipeline.files import StageError, json_digest, write_json, write_text
from pipeline.paths import MANIFESTS, RESNET18
from pipeline.runs import canaries
from pipeline.runs.crews import RunFailed, side_by_side
from pipeline.runs.progress import Progress
from pipeline.sections import Compute

GET_WEIGHTS = "run `dvc repro encoder`"


def manifest_of(params: Params, recipe: str, data: Task) -> Features:
    """The manifest of what is to be computed by a recipe of encoder.images, from the files that are there."""
    image = params.encoder.images[recipe]
    weights = RESNET18 / WEIGHTS_FILE
    if not weights.exists():
        raise missing(weights, GET_WEIGHTS)
    digest = sha256(weights)
    name = next((name for name, known in params.encoder.weights.items() if known.sha256 == digest), None)
    if name is None:
        raise Unusable(
            f"{weights} has sha256 {digest}, which encoder.weights in params.yaml does not name: {GET_WEIGHTS}"
        )
    return Features(
        name=recipe,
        canary=json_digest(canaries.committed("features")[CANARY[image.interpolation]]),
        data=json_digest(CIFAR10_FILES),
        weights=name,
        weights_sha256=digest,
        size=image.size,
        interpolation=image.interpolation,
        mean=params.encoder.mean,
        deviation=params.encoder.deviation,
        images=len(data.x),
        test_images=len(data.x_test),
        torch=torch.__version__.split("+")[0],
        torchvision=torchvision().__version__.split("+")[0],
    )


@lru_cache(maxsize=1)
def _folded(weights: Path, digest: str) -> nn.Module:
    return folded(encoder(verified(weights, digest, GET_WEIGHTS)))


def work(pixels: NDArray[np.uint8], manifest: Features) -> NDArray[np.float32]:
    """In a worker: the features of some images, by the weights that the manifest names and no others."""
    torch.set_num_threads(1)
    try:
        model = _folded(RESNET18 / WEIGHTS_FILE, manifest.weights_sha256)
    except (OSError, StageError) as error:
        raise RunFailed(f"the worker in {Path.cwd()} on {socket.gethostname()} refuses: {error}") from None
    return encode(model, torch.from_numpy(pixels), manifest).numpy()


def extract(manifest: Features, data: Task, compute: Compute) -> None:
    """All chunks that are not there yet, on worker processes with one thread each; every finished one is kept."""
    title, folder = f"features@{manifest.name}", cifar10.folder(manifest)
    if not cifar10.describes_what_is_there(manifest):
        shutil.rmtree(folder, ignore_errors=True)
        write_text(folder / "manifest.json", manifest.model_dump_json())
    todo = [chunk for chunk in cifar10.chunks(manifest) if chunk.read() is None]
    images, done = sum(map(len, todo)), 0
    print(f"{title}: weights {manifest.weights}, {images} images to do", flush=True)
    progress = Progress(title, len(todo), images, "chunks")
    with side_by_side(compute) as pool:
        futures = {pool.submit(work, chunk.of(data)[0].numpy(), manifest): chunk for chunk in todo}
        for future in as_completed(futures):
            chunk = futures[future]
            if not chunk.fits(found := future.result()):
                raise RunFailed(f"{title}: a worker gave no features of the images of {chunk.path.name}")
            chunk.save(found, chunk.of(data)[1].numpy())
            done += len(chunk)
            progress.finished += 1
            progress.show(done, force=done == images)
    progress.close()


def main(arguments: list[str]) -> None:
    """Stages features@…."""
    params = load()
    parser = argparse.ArgumentParser(prog="python -m pipeline features", description=__doc__)
    parser.add_argument("recipe", choices=params.encoder.images)
    recipe = parser.parse_args(arguments).recipe
    try:
        data = cifar10.images(params.data.cifar10.limit)
        manifest = manifest_of(params, recipe, data)
        extract(manifest, data, params.compute)
    except BrokenProcessPool:
        raise RunFailed("a worker died (out of memory?). What is finished is kept; start again to go on.") from None
    except KeyboardInterrupt:
        raise RunFailed("interrupted. What is finished is kept; start again to go on.") from None
    write_json(MANIFESTS / f"cifar10_{recipe}.json", manifest.model_dump())
