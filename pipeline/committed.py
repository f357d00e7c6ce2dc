"""What the committed params.yaml says: whoever changes where data come from, or who computes, is told of it."""

import subprocess
import sys
from functools import cache
from typing import Any

from pipeline.paths import PARAMS
from pipeline.plain_yaml import ParamsError, read


@cache
def _committed() -> Any:
    """The committed params.yaml; None where there is none, or no git."""
    try:
        done = subprocess.run(["git", "show", f"HEAD:./{PARAMS}"], capture_output=True, encoding="utf-8", timeout=10)
        return read(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError, ParamsError):
        return None


def announce(key: str, value: object, meaning: str) -> None:
    """Say so, before it is used, if the value of a key of params.yaml is not the committed one."""
    place = _committed()
    for name in key.split("."):
        place = place.get(name) if isinstance(place, dict) else None
    if place != value:
        print(f"Note: {key} in params.yaml is {value}, which is not committed: {meaning}.", file=sys.stderr, flush=True)
