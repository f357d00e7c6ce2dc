"""The run store: one file per finished run, found again by what decides the run.

DVC deletes a stage's outputs before it runs; the store is why a killed stage takes up where it stopped, and why
suites that share a run compute it once.
"""

import hashlib
import json
from pathlib import Path

from pipeline.files import write_bytes
from pipeline.paths import RUNS
from pipeline.runs import Record, Run


def _path(run: Run, folder: Path) -> Path:
    return folder / f"{run.key}.json"


def save(run: Run, record: Record, folder: Path = RUNS) -> None:
    """Keep a record: a checksum, then what it is the checksum of."""
    body = json.dumps({"label": run.label, "key": run.key, **record.to_dict()}, allow_nan=False).encode()
    write_bytes(_path(run, folder), hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def find(run: Run, folder: Path = RUNS) -> Record | None:
    """The record of this run, or of the start of a longer one; None if there is none that is whole."""
    try:
        checksum, _, body = _path(run, folder).read_bytes().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        return None  # damaged: it will be computed again and replaced
    data = json.loads(body)
    if data.pop("key", run.key) != run.key:
        return None  # whole, but of another run: somebody moved it
    data.pop("label")
    record = Record.from_dict(data)
    if record.infeasible is not None:
        return record if record.tasks == run.tasks else None
    return record.first(run.tasks) if record.tasks >= run.tasks else None
