"""What a worker computes with: its code and its data, which must be the client's, wherever it runs."""

import hashlib
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import noracl
import pipeline
from pipeline.files import json_digest


class Refused(RuntimeError):
    """A worker will not compute; the message says why."""


@dataclass(frozen=True)
class Fingerprint:
    """Hashes of the code that was loaded and of the data that a run reads."""

    code: str
    data: str


def _code() -> str:
    """Every module of both packages, by name and content."""
    found = hashlib.sha256()
    for package in (Path(noracl.__file__).parent, Path(pipeline.__file__).parent):
        for path in sorted(package.rglob("*.py")):
            name = path.relative_to(package.parent).as_posix()
            found.update(name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


CODE = _code()  # now, while it is loaded: the files may be changed under a worker that goes on


@lru_cache(maxsize=64)
def _digest(path: Path, kind: str, inode: int, size: int, changed: int) -> str:
    return hashlib.new(kind, path.read_bytes()).hexdigest()


def fingerprint(files: dict[Path, str]) -> Fingerprint:
    """Of this process and these files; FileNotFoundError or Refused if they are not what their md5 or sha256 says."""
    for path, expected in files.items():
        mend = f"run `dvc repro download@{path.parent.name}`"
        if not path.exists():
            raise FileNotFoundError(f"{path.parent} lacks {path.name}: {mend}")
        now, kind = path.stat(), "md5" if len(expected) == 32 else "sha256"
        if _digest(path.absolute(), kind, now.st_ino, now.st_size, now.st_mtime_ns) != expected:
            raise Refused(f"{path} is damaged: {mend}")
    return Fingerprint(CODE, json_digest({path.name: digest for path, digest in files.items()}))


def refuse_unless(expected: Fingerprint, files: dict[Path, str]) -> None:
    """Raise Refused in a process whose code or data are not those of the client."""
    here = f"the worker in {Path.cwd()} on {socket.gethostname()} refuses"
    try:
        mine = fingerprint(files)
    except (OSError, Refused) as error:
        raise Refused(f"{here}: {error}") from None
    for what, ours in vars(mine).items():
        if (theirs := vars(expected)[what]) != ours:
            differs = f"its {what} is not the client's ({ours[:12]}, not {theirs[:12]})"
            raise Refused(f"{here}: {differs}; bring it to the same commit and start it again")
