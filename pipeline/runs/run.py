"""One run: what decides it, the key it is stored under, and how it is computed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from noracl import Callbacks, NullSpaceExhausted, Outcome, Settings
from noracl.method.network import count
from pipeline.data.cifar10 import WIDTH
from pipeline.data.manifests import Manifest, digest
from pipeline.data.streams import build_stream
from pipeline.files import json_digest
from pipeline.runs import canaries, ways
from pipeline.runs.provenance import machine
from pipeline.runs.records import Record
from pipeline.sections import StreamSection


@dataclass(frozen=True)
class Run:
    """A method on a benchmark with a seed, computed in one of the ``ways``."""

    suite: str
    benchmark: str
    method: str
    seed: int
    stream: StreamSection
    outputs: int
    data: Manifest
    settings: Settings
    how: str = ways.LEARN

    @property
    def layers(self) -> int:
        """Hidden layers."""
        return len(self.settings.hidden)

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.benchmark} {self.layers}L {self.method} seed {self.seed}"

    @property
    def encoder(self) -> dict[str, str]:
        """Which weights made the features, for the provenance of results."""
        if self.data.kind == "pixels":
            return {}
        return {"ResNet18 weights": f"{self.data.weights} (sha256 {self.data.weights_sha256})"}

    @property
    def inputs(self) -> int:
        """Inputs of the network."""
        return 784 if self.data.kind == "pixels" else WIDTH

    @property
    def tasks(self) -> int:
        """Length of the stream."""
        return self.stream.tasks

    @property
    def key(self) -> str:
        """Hash of all that decides its numbers; a short permuted stream is the start of a long one."""
        decisive = {
            "canary": canaries.digest(self),
            "data": digest(self.data),
            "stream": self.stream.model_dump(exclude={"tasks"}),
            "outputs": self.outputs,
            "settings": _decisive(self.settings),
            "seed": self.seed,
        }
        if self.how != ways.LEARN:  # what is seen, or planned, depends on where the stream ends
            decisive[self.how] = self.tasks
        return json_digest(decisive)[:32]

    def size(self, widths: Sequence[int]) -> int:
        """Parameters at these widths, which for one network per task are those of all networks together."""
        networks = widths[0] // self.settings.hidden[0] if self.how == ways.SEPARATE else 1
        return networks * count((self.inputs, *(width // networks for width in widths), self.outputs))

    @property
    def cost(self) -> float:
        """Rough seconds on one core, for ordering and for the progress bar."""
        optimisation, grown = self.settings.optimisation, 1.0 if self.settings.growth.trigger == "none" else 1.6
        images = (self.data.limit or 60000) if self.data.kind == "pixels" else self.data.images
        step = 2.5e-4 + 1.4e-8 * grown * count((self.inputs, *self.settings.hidden, self.outputs))
        epochs = optimisation.epochs_first + (self.tasks - 1) * optimisation.epochs_later
        return epochs * images / (5 if self.stream.kind == "split" else 1) / optimisation.batch_size * step


def _decisive(settings: Settings) -> dict[str, Any]:
    """What decides a run; a switch at its usual value is left out, so that keys are what they were before it came."""
    found = asdict(settings) | {"growth": settings.growth.decisive}
    for field, usual, _ in canaries.SWITCHES:
        part, name = field.split(".")
        if found[part].get(name) == usual:
            del found[part][name]
    return found


def compute(run: Run, on_share: Callable[[float], None] | None = None) -> Record:
    """Compute a run from scratch, on one thread; ``on_share`` hears of each finished share of it."""
    (result,) = compute_together([run], on_share)
    return finished(result)


def finished(result: Record | Exception) -> Record:
    """A record; what ended the run is raised."""
    if isinstance(result, Exception):
        raise result
    return result


def compute_together(runs: Sequence[Run], on_share: Callable[[float], None] | None = None) -> list[Record | Exception]:
    """Compute runs in lock-step, which see the same mini-batches (``groups.company``): records, or what ended a run."""
    torch.set_num_threads(1)
    first, share = runs[0], 1 / (len(runs) * runs[0].tasks)
    stream = build_stream(first.data, first.stream, first.outputs, first.seed)
    start, start_cpu = time.perf_counter(), time.process_time()
    tell = None if on_share is None else Callbacks(task=lambda learner, task: on_share(share))
    hows, settings = [run.how for run in runs], [run.settings for run in runs]
    results = ways.outcomes(hows, stream, settings, first.seed, tell)
    spent = {"total": time.perf_counter() - start, "cpu": time.process_time() - start_cpu}
    shares = _parts([outcome for outcome, _ in results], spent["total"])
    return [
        _record(run, *result, {name: seconds * part for name, seconds in spent.items()})
        for run, result, part in zip(runs, results, shares, strict=True)
    ]


def _parts(outcomes: Sequence[Outcome | Exception], total: float) -> list[float]:
    """The share of the time that each outcome took: by its own clocks, and an error whatever these leave."""
    own = [None if isinstance(one, Exception) else sum(one.seconds.values()) for one in outcomes]
    known = sum(seconds or 0.0 for seconds in own)
    left = max(total - known, 0.0) / max(own.count(None), 1)
    seconds = [left if one is None else one for one in own]
    return [one / (sum(seconds) or 1.0) for one in seconds]


def _record(
    run: Run, outcome: Outcome | Exception, observation: ways.Seen | None, spent: dict[str, float]
) -> Record | Exception:
    if isinstance(outcome, NullSpaceExhausted):
        return Record(run.tasks, None, str(outcome), spent, machine(), None)
    if isinstance(outcome, Exception):
        return outcome
    return Record(run.tasks, outcome.history, None, outcome.seconds | spent, machine(), observation)
