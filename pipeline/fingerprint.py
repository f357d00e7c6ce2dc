"""What a worker computes with: its code and its data, which must be the client's, wherever it runs."""

import hashlib
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import noracl
from pipeline.download import MNIST_FILES
from pipeline.paths import MNIST


class Refused(RuntimeError):
    """A worker will not compute; the message says why."""


@dataclass(frozen=True)
class Fingerprint:
    """Hashes of the code that was loaded and of the data that it would read."""

    code: str
    data: str


def _code() -> str:
    """Every module of both packages, by name and content."""
    found = hashlib.sha256()
    for package in (Path(noracl.__file__).parent, Path(__file__).parent):
        for path in sorted(package.glob("*.py")):
            found.update(f"{package.name}/{path.name}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


CODE = _code()  # now, while it is loaded: the files may be changed under a worker that goes on


@lru_cache(maxsize=16)
def _md5(path: Path, inode: int, size: int, changed: int) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def fingerprint(folder: Path = MNIST) -> Fingerprint:
    """Of this process; FileNotFoundError or Refused if the data are not those that were downloaded."""
    for name, expected in MNIST_FILES.items():
        path = (folder / name).absolute()
        if not path.exists():
            raise FileNotFoundError(f"{folder} lacks {name}: run `dvc repro download@mnist`")
        now = path.stat()
        if _md5(path, now.st_ino, now.st_size, now.st_mtime_ns) != expected:
            raise Refused(f"{folder / name} is damaged: run `dvc repro download@mnist`")
    return Fingerprint(CODE, hashlib.sha256(repr(sorted(MNIST_FILES.items())).encode()).hexdigest())


def refuse_unless(expected: Fingerprint) -> None:
    """Raise Refused in a process whose code or data are not those of the client."""
    here = f"the worker in {Path.cwd()} on {socket.gethostname()} refuses"
    try:
        mine = fingerprint()
    except (OSError, Refused) as error:
        raise Refused(f"{here}: {error}") from None
    for what in ("code", "data"):
        theirs, ours = getattr(expected, what), getattr(mine, what)
        if theirs != ours:
            raise Refused(
                f"{here}: its {what} is not the client's ({ours[:12]}, not {theirs[:12]}); "
                "bring it to the same commit and start it again"
            )
