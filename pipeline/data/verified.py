"""Files that are read only if they have the right hash, which is computed once while a file stays as it is."""

import hashlib
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from pipeline.files import StageError

SETTLED = 2 * 10**9  # nanoseconds: a file that changed within them may change again and keep its times


class Damaged(StageError):
    """A file does not hold what it should; the message names it and says what to run."""


def remembered(about: Callable[[Path], str]) -> Callable[[Path], str]:
    """The same function of a file, called once for each path, inode, size and time of the last change."""
    known = lru_cache(maxsize=1024)(lambda path, *version: about(path))

    def look(path: Path) -> str:
        now = path.stat()
        if time.time_ns() - now.st_ctime_ns < SETTLED:
            return about(path)
        return known(path.absolute(), now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)

    return look


def _hash(kind: str) -> Callable[[Path], str]:
    def read(path: Path) -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, kind).hexdigest()

    return remembered(read)


md5, sha256 = _hash("md5"), _hash("sha256")


def missing(path: Path, mend: str) -> FileNotFoundError:
    """The error for a file that is not there; ``mend`` says what to do, such as "run `dvc repro …`"."""
    return FileNotFoundError(f"{path.parent} lacks {path.name}: {mend}")


def verified(path: Path, expected: str, mend: str) -> Path:
    """The path, if its file has this md5 or sha256."""
    if not path.exists():
        raise missing(path, mend)
    if (md5 if len(expected) == 32 else sha256)(path) != expected:
        raise Damaged(f"{path} is damaged: {mend} after deleting it")  # or DVC may take it for what it was
    return path
