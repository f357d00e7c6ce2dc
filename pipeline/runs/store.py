"""The run store: one file per finished run, for killed stages to take up, and for suites that share runs.

A file is named by the run's key and the length of its stream, so that a short run never replaces a long one.
"""

import hashlib
import json
import re
import tempfile
from pathlib import Path

from pipeline.files import write_bytes
from pipeline.paths import RUNS
from pipeline.runs.records import Invalid, Record, from_plain, to_plain
from pipeline.runs.run import Run

FORMAT = 2  # of a file; records that are written in another way need another number


def save(run: Run, record: Record, folder: Path = RUNS) -> None:
    """Keep a record: a checksum, then what it is the checksum of."""
    body = json.dumps({"format": FORMAT, "key": run.key, "label": run.label, **to_plain(record)}).encode()
    checksum = hashlib.sha256(body).hexdigest().encode()
    write_bytes(folder / f"{run.key}-{record.tasks}.json", checksum + b"\n" + body)


def find(run: Run, folder: Path = RUNS) -> Record | None:
    """The record of this run, or of the start of a longer one; None if there is none that is whole."""
    for path in sorted(folder.glob(f"{run.key}*.json")):
        stored = re.fullmatch(rf"{run.key}-(\d+)", path.stem)
        if stored and int(stored[1]) < run.tasks:
            continue
        try:
            return read(path, run).first(run.tasks)
        except Invalid as error:
            print(f"{path} is no record of {run.label}, which is computed again: {error}", flush=True)
        except FileNotFoundError:
            continue  # somebody cleans up
    return None


def read(path: Path, run: Run) -> Record:
    """A record of this run, or of a longer one that begins with it; Invalid if the file is anything else."""
    checksum, _, body = path.read_bytes().partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        raise Invalid("the file is damaged")
    try:
        content = json.loads(body)
    except ValueError:
        raise Invalid("it is not JSON") from None
    head = {name: content.pop(name, None) for name in ("format", "key", "label")} if isinstance(content, dict) else {}
    if head.get("format") != FORMAT:
        raise Invalid(f"its format is {head.get('format')}, not {FORMAT}")
    if head["key"] != run.key:
        raise Invalid("it is the record of another run")
    return from_plain(content, run)


def require_writable(folder: Path = RUNS) -> None:
    """OSError unless something can be written to the store."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"room")
