"""What a worker computes with: its code and its data, which must be the client's, wherever it runs."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import noracl
import pipeline
from pipeline.data.cifar10 import digest_of_features
from pipeline.data.pixels import name_of, verified_files
from pipeline.data.verified import Damaged
from pipeline.runs.run import Run


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


def fingerprint(run: Run) -> Fingerprint:
    """Of this process, and of the data that a run reads; FileNotFoundError or Damaged if they are not as they were."""
    if run.data.kind == "features":
        return Fingerprint(CODE, digest_of_features(run.data))
    verified_files(name_of(run.data))
    return Fingerprint(CODE, run.data.data)


def refuse_unless(expected: Fingerprint, run: Run, worker: str) -> None:
    """Raise Refused in a process whose code or data are not those of the client."""
    try:
        mine = fingerprint(run)
    except (OSError, Damaged) as error:
        raise Refused(f"{worker} refuses: {error}") from None
    for what, ours in vars(mine).items():
        if (theirs := vars(expected)[what]) != ours:
            differs = f"its {what} is not the client's ({ours[:12]}, not {theirs[:12]})"
            raise Refused(f"{worker} refuses: {differs}; bring it to the same commit and start it again")
