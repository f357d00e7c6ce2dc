"""Writing files so that nobody ever sees half of one, and the hash of what JSON can hold."""

import csv
import hashlib
import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


class StageError(RuntimeError):
    """Something that people can mend: the message, which the entry point prints, says what is wrong and what to do."""


SCRAP = ".tmp"  # how the names of unfinished files and folders end; git and DVC do not look at them


def json_digest(content: object) -> str:
    """sha256 of what JSON can hold, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_bytes(path: Path, content: bytes) -> None:
    """Replace ``path`` at once: a killed or failing write leaves the old file, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=SCRAP)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_text(path: Path, content: str) -> None:
    """The same for text."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    """The same for JSON, in a stable layout."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def write_csv(path: Path, rows: Sequence[dict[str, object]], columns: Sequence[str]) -> None:
    """A CSV with Unix line ends, replaced at once."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


@contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """A folder next to ``beside`` that is gone afterwards, whatever happens."""
    beside.parent.mkdir(parents=True, exist_ok=True)
    sweep(beside.parent)
    with tempfile.TemporaryDirectory(dir=beside.parent, prefix=f".{beside.name}.", suffix=SCRAP) as name:
        yield Path(name)


def sweep(folder: Path, age: float = 3600.0) -> None:
    """Remove what killed writers left in a folder; what is younger than ``age`` seconds may still be written."""
    for path in folder.glob(f".*{SCRAP}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime >= age:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
