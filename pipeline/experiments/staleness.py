"""Stage canaries: the numbers of tiny runs, one file per suite, left as they are while they still agree.

Training depends on these files in place of the code: see ``pipeline.runs.canaries``.
"""

import json
import math
from collections.abc import Iterable

import torch

from pipeline.config import Params, load
from pipeline.data import encoder
from pipeline.data.manifests import Features, placeholder
from pipeline.experiments import theory, transfer
from pipeline.experiments.suites import suites
from pipeline.files import write_text
from pipeline.paths import CANARIES
from pipeline.runs import canaries
from pipeline.runs.canaries import Numbers
from pipeline.runs.run import Run

TINY_THEORY = {"widths": (8,), "tasks": 32, "inputs": 16, "few_inputs": 8, "neurons": (1, 2)}


def of_runs(runs: Iterable[Run]) -> Numbers:
    """The canaries of every route that these runs take."""
    return {route.name: canaries.compute(route) for route in dict.fromkeys(map(canaries.route_of, runs))}


def of_theory(params: Params) -> Numbers:
    """A small version of the theory's results: labels as they are, numbers apart."""
    tiny = params.model_copy(update={"seeds": (0,), "theory": params.theory.model_copy(update=TINY_THEORY)})
    rows = [row for part in theory.PARTS for row in theory.rows(tiny, part)]
    labels = [" ".join(str(row[name]) for name in theory.COLUMNS if name not in ("x", "value")) for row in rows]
    values = [float(str(row[name])) for row in rows for name in ("x", "value")]
    return {"theory": {"labels": labels, "numbers": [None if math.isnan(value) else value for value in values]}}


def of_encoder() -> Numbers:
    """Features of a few images, enlarged in each way, by a network of the encoder's shape with drawn weights."""
    draws = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = encoder.folded(encoder.frozen(encoder.resnet18()))
    images = torch.randint(256, (4, 3072), generator=draws, dtype=torch.uint8)
    shown = placeholder("cifar10_40")
    assert isinstance(shown, Features)
    found = {}
    for interpolation, name in encoder.CANARY.items():
        recipe = shown.model_copy(update={"interpolation": interpolation})
        features = encoder.encode(model, images, recipe).double()
        found[name] = {"numbers": [float(number) for row in features for number in (row.sum(), row.norm())]}
    return found


def compute(params: Params) -> dict[str, Numbers]:
    """All canaries, by suite; they need no data."""
    found = {suite.name: of_runs(suite.runs()) for suite in suites(params, placeholder).values()}
    found["transfer"] = of_runs(transfer.runs(params, placeholder))
    return found | {"theory": of_theory(params), "features": of_encoder()}


def disagreeing(found: dict[str, Numbers]) -> list[str]:
    """The suites whose committed canaries are not what was found."""
    return [suite for suite, numbers in found.items() if not canaries.agree(numbers, canaries.committed(suite))]


def settled(found: dict[str, Numbers]) -> dict[str, Numbers]:
    """What to commit: the digits that are committed, in whatever file, for all numbers that still agree with them."""
    known = {name: numbers for suite in found for name, numbers in canaries.committed(suite).items()}
    return {
        suite: {
            name: known[name] if name in known and canaries.agree({name: new}, {name: known[name]}) else new
            for name, new in numbers.items()
        }
        for suite, numbers in found.items()
    }


def main(arguments: list[str]) -> None:
    """Write the files of suites whose numbers have changed, and remove those of suites that are gone."""
    torch.set_num_threads(1)
    found = settled(compute(load()))
    changed = [suite for suite, numbers in found.items() if numbers != canaries.committed(suite)]
    for suite in changed:
        write_text(canaries.file_of(suite), json.dumps(found[suite], indent=1, sort_keys=True) + "\n")
    for path in CANARIES.rglob("*.json"):
        if path.relative_to(CANARIES).with_suffix("").as_posix() not in found:
            path.unlink()
    routes = sum(len(numbers) for suite, numbers in found.items() if "/" in suite)
    print(
        f"canaries: {routes} routes in {len(found)} suites, {len(changed)} of them changed: {', '.join(changed) or '–'}"
    )
