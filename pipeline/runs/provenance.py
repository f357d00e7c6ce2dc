"""Where a number was computed: what may change its last digits."""

import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import torch


@cache
def machine() -> dict[str, str]:
    """This machine."""
    return {
        "cpu": _cpu(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__.split("+")[0],
        "python": platform.python_version(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
        facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return f"{facts['model name']}, family {facts['cpu family']} model {facts['model']}"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def distinct(machines: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Each machine once, in order."""
    return [dict(facts) for facts in dict.fromkeys(tuple(sorted(one.items())) for one in machines)]
