"""Readings: other ways to read the paper, each a name, a reason and a handful of changes to params.yaml."""

import re
from collections.abc import Mapping
from typing import Any

#: What the paper and the authors' released configuration leave open, or say in two ways: no reading changes more.
OPEN = (
    r"training\.(init|optimisation\.clip_by|fisher\.(estimator|labels)|ewc\.(start|half))",
    r"noracl\.(tau_start|ed_layers|boost)",
    r"heuristics\.(random_scale|fsat_neurons|loss_window|loss_improvement|loss_neurons)",
    r"benchmarks\.[a-z0-9_]+\.(outputs|stream\.(pairs|interpolation))",
)
BASE = "base"  # the name of params.yaml as it is


def changed(data: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of params.yaml's data with other values at these keys, which are written as for `dvc exp run -S`."""
    for key, value in changes.items():
        name, _, rest = key.partition(".")
        data = {**data, name: changed(data[name], {rest: value}) if rest else value}
    return data


def _there(data: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True


def problems(data: dict[str, Any], readings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line for whatever is wrong with the changes of these readings."""
    found, known = [], dict[str, str]()
    for name, changes in readings.items():
        place = f"readings.{name}.changes"
        if name == BASE:
            found.append(f"  readings.{name}: {BASE} is params.yaml as it is: choose another name")
        for key in changes:
            if not _there(data, key):
                found.append(f"  {place}.{key}: params.yaml has no such key")
            elif not any(re.fullmatch(pattern, key) for pattern in OPEN):
                found.append(f"  {place}.{key}: the paper states this, so no reading of it can differ")
        same = repr(sorted(changes.items()))
        if same in known:
            found.append(f"  {place}: these are the changes of {known[same]}")
        known.setdefault(same, name)
    return found
