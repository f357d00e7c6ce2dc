"""Writing files so that nobody ever sees half of one."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> None:
    """Replace ``path`` at once: a killed or failing write leaves the old file, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
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
    with tempfile.TemporaryDirectory(dir=beside.parent, prefix=f".{beside.name}.") as name:
        yield Path(name)
