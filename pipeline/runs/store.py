"""The run store: one file per finished run, for killed stages to take up, and for suites that share runs."""

import hashlib
import json
from pathlib import Path

from pipeline.files import write_bytes
from pipeline.paths import RUNS
from pipeline.runs.run import RECORDS, Record, Run


def save(run: Run, record: Record, folder: Path = RUNS) -> None:
    """Keep a record: a checksum, then what it is the checksum of."""
    body = json.dumps({"label": run.label, "key": run.key, **RECORDS.dump_python(record)}, allow_nan=False).encode()
    write_bytes(folder / f"{run.key}.json", hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def find(run: Run, folder: Path = RUNS) -> Record | None:
    """The record of this run, or of the start of a longer one; None if there is none that is whole."""
    try:
        checksum, _, body = (folder / f"{run.key}.json").read_bytes().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        return None  # damaged: it will be computed again and replaced
    data = json.loads(body)
    if data.pop("key", None) != run.key:
        return None  # whole, but of another run: somebody moved it
    data.pop("label")
    record = RECORDS.validate_python(data)
    if record.infeasible is not None:
        return record if record.tasks == run.tasks else None
    return record.first(run.tasks) if record.tasks >= run.tasks else None
