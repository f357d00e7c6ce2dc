"""Canaries: tiny runs whose numbers say whether the numerics are still the same.

A route is what a run does, apart from sizes and thresholds. Its canary learns a toy stream that way, in milliseconds.
The numbers are in reports/canaries, one file per suite; training depends on its file, and a run's key holds its canary.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from inspect import getsource
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from noracl import EWCSettings, GrowthSettings, OptimisationSettings, Outcome, Settings, Task
from noracl.analysis import transfer
from noracl.method.initialisers import INITIALISERS
from noracl.method.network import layers
from noracl.method.seeds import generator
from noracl.method.triggers import TRIGGERS
from pipeline.data.manifests import Pixels
from pipeline.data.streams import make_stream, scaling
from pipeline.files import json_digest
from pipeline.paths import CANARIES
from pipeline.runs import ways
from pipeline.sections import PermutedStream, RotatedStream, SplitStream, StreamSection

if TYPE_CHECKING:
    from pipeline.runs.run import Run

RELATIVE = 1e-5  # two CPUs give canaries that differ by less than this share of a number,
ABSOLUTE = 1e-6  # or by less than this,
SHARES = 0.03  # and shares (accuracies, locked weights) that differ by less than two of 80 samples
PIXELS = Pixels(data="toy", limit=None, mean=120 / 255, deviation=60 / 255)
STREAMS: dict[str, StreamSection] = {
    "permuted": PermutedStream(kind="permuted", tasks=3),
    "rotated": RotatedStream(kind="rotated", angles=(0, 30, 60), interpolation="bilinear"),
    "split": SplitStream(kind="split", pairs=((0, 1), (2, 3), (1, 2))),
}

STEPS = OptimisationSettings(32, rate_first=0.1, rate_later=0.02, epochs_first=3, epochs_later=5)
#: Mini-batches of Fisher, by estimator; with 3, a sample of a batch canary lies on a ReLU's kink, where CPUs disagree.
BATCHES = {"per_sample": 3, "batch": 5}
RULE = ("trigger", "init", "tau_start", "ed_layers", "boost")
#: Settings that a route names where they are unusual: the field, its usual value, and the words for any other.
SWITCHES = (
    ("optimisation.clip_by", "norm", "clipped by value"),
    ("ewc.half", True, "penalty without ½"),
    ("growth.ed_layers", "own", "ED in any layer"),
    ("growth.boost", 1.0, "rate boosted in cooldowns"),
)

Numbers = dict[str, Any]


class Stale(RuntimeError):
    """The numerics give other numbers than the committed canaries say; the message says what to do."""


class Route(NamedTuple):
    """What a run does: the kinds of its data and stream, and its settings with toy sizes and thresholds."""

    data: str
    stream: str
    settings: Settings
    how: str

    @property
    def name(self) -> str:
        """For people, and as the key of its numbers."""
        made, fisher, growth = self.settings, self.settings.fisher, self.settings.growth
        parts = [f"{self.data} {self.stream}", made.init, made.regulariser, f"{fisher.estimator} {fisher.labels}"]
        parts += [made.ewc.start, growth.trigger if growth.trigger == "none" else f"{growth.trigger} {growth.init}"]
        parts += [f"τ {growth.tau_start}"] if "tau_start" in growth.decisive else []
        parts += [words for field, usual, words in SWITCHES if attrgetter(field)(made) != usual]
        parts += [self.how] if self.how != ways.LEARN else []
        return ", ".join(parts)


def route_of(run: "Run") -> Route:
    """The route of a run; what it does not use is the same for all."""
    own, by = run.settings, run.settings.optimisation.clip_by
    rule: dict[str, Any] = {k: v for k, v in own.growth.decisive.items() if k in RULE}
    toy = Settings(
        hidden=(12, 3),
        init=own.init,
        regulariser=own.regulariser,
        optimisation=replace(STEPS, clip_by=by, clip=STEPS.clip if by == "norm" else 0.02),
        fisher=replace(own.fisher, batches=BATCHES[own.fisher.estimator]),
        ewc=EWCSettings(strength=50.0, decay=0.8, start=own.ewc.start, half=own.ewc.half),
        growth=GrowthSettings(percentile=100, cooldown=1, schedule=(0, 2), loss_window=1, loss_improvement=1, **rule),
    )
    return Route(run.data.kind, run.stream.kind, toy, ways.in_small(run.how))


@lru_cache(maxsize=2)
def toy_data(kind: str) -> Task:
    """Four blobs of 6 × 6 inputs, as pixels or as features."""
    draws = generator(0, "canary")
    centres = 2 * torch.randn(4, 36, generator=draws)
    y = torch.randint(4, (320,), generator=draws)
    x = centres[y] + torch.randn(320, 36, generator=draws)
    if kind == "pixels":
        x = (x * 20 + 128).clamp(0, 255).to(torch.uint8)
    return Task(x[:240], y[:240], x[240:], y[240:])


@lru_cache(maxsize=512)
def compute(route: Route) -> Numbers:
    """What the numerics give on a route; of a rule that does not grow here, its text as well, which numbers miss."""
    scaled = scaling(PIXELS) if route.data == "pixels" else {}
    stream = make_stream(toy_data(route.data), STREAMS[route.stream], 4, seed=0, **scaled)
    torch.set_num_threads(1)
    ((outcome, observation),) = ways.outcomes([route.how], stream, [route.settings], 0)
    if isinstance(outcome, Exception):
        raise outcome
    updates = observation.updates if isinstance(observation, transfer.Observation) else []
    found = numbers_of(outcome, [sum(moves) for one in updates for moves in (one.moved, one.stepped)])
    growth = route.settings.growth
    if growth.trigger != "none" and not outcome.history.growth and outcome.network.widths == route.settings.hidden:
        found["source"] = getsource(type(TRIGGERS[growth.trigger])) + getsource(INITIALISERS[growth.init].columns)
    return found


def numbers_of(outcome: Outcome, more: Sequence[float] = ()) -> Numbers:
    """What a run came to, in a few numbers that any change of the numerics moves."""
    history, network = outcome.history, outcome.network
    matrices = layers(network.theta.double(), network.sizes)
    weights = [float(number) for matrix in matrices for number in (matrix.sum(), matrix.norm())]
    signals = [value or 0.0 for one in history.signals for layer in one.layers for value in vars(layer).values()]
    return {
        "widths": [list(widths) for widths in history.widths],
        "growth": [[event.task, event.epoch, event.layer, event.neurons] for event in history.growth],
        "numbers": [*weights, *history.plastic, *signals, *more],
        "shares": [share for row in (*history.accuracy, *history.locked) for share in row],
    }


def agree(found: Any, expected: Any, relative: float = RELATIVE, share: bool = False) -> bool:
    """Whether two sets of canaries are the same but for what two CPUs may differ in."""
    if isinstance(found, dict) and isinstance(expected, dict):
        same = found.keys() == expected.keys()
        return same and all(agree(found[k], expected[k], relative, k == "shares") for k in found)
    if isinstance(found, list) and isinstance(expected, list):
        same = len(found) == len(expected)
        return same and all(agree(a, b, relative, share) for a, b in zip(found, expected, strict=True))
    if isinstance(found, float) and isinstance(expected, float):
        slack = SHARES if share else max(relative * abs(expected), ABSOLUTE)
        return math.isclose(found, expected, rel_tol=0, abs_tol=slack)
    return type(found) is type(expected) and found == expected


def file_of(suite: str) -> Path:
    """Where the canaries of a suite are kept."""
    return CANARIES / f"{suite}.json"


def committed(suite: str) -> Numbers:
    """The canaries of a suite, by the names of their routes; none where there is no file."""
    path = file_of(suite)
    return _parsed(path.read_text(encoding="utf-8")) if path.exists() else {}


@lru_cache(maxsize=64)
def _parsed(text: str) -> Numbers:  # every key of a run asks for the file of its suite
    found: Numbers = json.loads(text)
    return found


def digest(run: "Run") -> str:
    """Hash of the canary of a run: as committed, or, for a run of no suite, as computed here."""
    route = route_of(run)
    return json_digest(committed(run.suite).get(route.name) or compute(route))


def verify(runs: Iterable["Run"]) -> None:
    """Stale if the numerics do not give the committed canaries of these runs: no finished run is then what it says."""
    for suite, route in dict.fromkeys((run.suite, route_of(run)) for run in runs):
        known = committed(suite)
        if known and (route.name not in known or not agree(compute(route), known[route.name])):
            raise Stale(f"the code no longer gives the numbers in {file_of(suite)}: run `dvc repro canaries`")
