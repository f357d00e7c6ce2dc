"""Writing files so that nobody ever sees half of one."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SCRAP = ".tmp"  # how the names of unfinished files and folders end; git and DVC do not look at them


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
