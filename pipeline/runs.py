"""One run: what decides it, the key it is stored under, and how it is computed."""

import hashlib
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from noracl import NUMERICS, History, NullSpaceExhausted, Settings, learn, transfer
from noracl.network import count
from pipeline import cifar10
from pipeline.download import MNIST_FILES
from pipeline.params import Inputs, Params, Scaling, StreamSection
from pipeline.paths import MNIST
from pipeline.streams import build_stream

#: Parts of the growth rule that only some rules read: what a run does not read is not part of its key.
_READ_BY = {
    "fixed_neurons": {"fixed"},
    "schedule": {"scheduled"},
    "scheduled_neurons": {"scheduled"},
    "loss_window": {"loss"},
    "loss_improvement": {"loss"},
    "loss_neurons": {"loss"},
    "gamma": {"joint", "ed", "fsat"},
    "epsilon": {"joint", "ed", "fsat"},
    "percentile": {"joint", "fsat"},
    "tau_start": {"joint", "fsat"},
    "fsat_neurons": {"fsat"},
    "cooldown": {"joint", "ed", "fsat", "loss"},
}

#: Choices that came later, with what was done before: a run that still does it has the key that it had.
_ADDED = (
    ("held_out", 0),
    ("stream", "drawn", ()),
    ("settings", "fisher", "order", "stored"),
    ("settings", "optimisation", "clip_penalty", True),
    ("settings", "growth", "tau_start", "first"),
    ("settings", "growth", "fsat_neurons", None),
)


@dataclass(frozen=True)
class Run:
    """A method on a benchmark with a seed. The labels name it; the rest decides its numbers.

    An ``observed`` run also leaves what ``noracl.transfer`` sees of it. A run on ``features`` does not see images:
    their manifest and ``scaling`` take the place of ``inputs`` and ``limit``.
    """

    suite: str
    benchmark: str
    method: str
    seed: int
    stream: StreamSection
    outputs: int
    inputs: Inputs
    limit: int | None
    settings: Settings
    held_out: int = 0
    observed: bool = False
    features: cifar10.Manifest | None = None
    scaling: Scaling = "none"

    @classmethod
    def of(
        cls,
        params: Params,
        suite: str,
        benchmark: str,
        method: str,
        seed: int,
        settings: Settings,
        stream: StreamSection | None = None,
        features: cifar10.Manifest | None = None,
    ) -> "Run":
        """A run on a benchmark of params.yaml, or on a variant of its stream."""
        chosen = params.benchmark(benchmark)
        return cls(
            suite,
            benchmark,
            method,
            seed,
            stream or chosen.stream,
            chosen.outputs,
            params.inputs,
            params.data.limit,
            settings,
            params.data.held_out,
            features=features,
            scaling=params.cifar10.scaling if features else "none",
        )

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.benchmark} {len(self.settings.hidden)}L {self.method} seed {self.seed}"

    @property
    def files(self) -> dict[Path, str]:
        """The files that it reads, and what they must hash to; features are told by their manifest."""
        return {} if self.features else {MNIST / name: digest for name, digest in MNIST_FILES.items()}

    @property
    def encoder(self) -> dict[str, str]:
        """Which weights made the features, for the provenance of results."""
        if self.features is None:
            return {}
        return {"ResNet18 weights": f"{self.features.weights} (sha256 {self.features.weights_sha256})"}

    @property
    def tasks(self) -> int:
        """Length of the stream."""
        stream = self.stream
        if stream.kind == "permuted":
            return stream.tasks
        return len(stream.angles if stream.kind == "rotated" else stream.pairs)

    @property
    def key(self) -> str:
        """Hash of all that decides the run's numbers, apart from the length of a permuted stream.

        Nothing in the method knows how many tasks there are, so a short stream is the start of a long one.
        """
        settings = asdict(self.settings)
        rule, init = self.settings.growth.trigger, self.settings.growth.init
        growth = {k: v for k, v in settings["growth"].items() if k not in _READ_BY or rule in _READ_BY[k]}
        if rule == "none":
            growth = {"trigger": rule}
        if init != "random":
            growth.pop("random_scale", None)
        if init in ("he", "xavier", "zero", "random"):
            growth.pop("scale", None)
        settings["growth"] = growth
        decisive = {
            "numerics": NUMERICS,
            "data": MNIST_FILES,
            "stream": self.stream.model_dump(exclude={"tasks"}),
            "outputs": self.outputs,
            "inputs": self.inputs.model_dump(),
            "limit": self.limit,
            "held_out": self.held_out,
            "settings": settings,
            "seed": self.seed,
        }
        for *place, name, before in _ADDED:
            section: dict[str, Any] = decisive
            for part in place:
                section = section[part]
            if name in section and section[name] == before:
                del section[name]
        if self.features is not None:
            decisive["data"] = self.features.digest
            decisive["scaling"] = self.scaling
            del decisive["inputs"], decisive["limit"]
        if self.observed:  # what is seen at the end hangs on where the stream ends
            decisive["observed"] = [transfer.VERSION, self.tasks]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def cost(self) -> float:
        """Rough seconds on one core, for ordering and for the progress bar."""
        images = (self.limit or 60000) / (5 if self.stream.kind == "split" else 1)
        optimisation = self.settings.optimisation
        epochs = optimisation.epochs_first + (self.tasks - 1) * optimisation.epochs_later
        grown = 1.0 if self.settings.growth.trigger == "none" else 1.6
        step = 2.5e-4 + 1.1e-5 * self.settings.hidden[0] * grown
        if self.features is not None:
            step = 2.2e-8 * count((cifar10.WIDTH, *self.settings.hidden, self.outputs)) * grown
        return epochs * images / optimisation.batch_size * step


@dataclass(frozen=True)
class Record:
    """What a run left: its history, or the reason why the method could not go on; and where and how long."""

    tasks: int
    history: History | None
    infeasible: str | None
    seconds: dict[str, float]
    machine: dict[str, str]
    observation: transfer.Observation | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Record":
        """The inverse of ``to_dict``."""
        history = None if data["history"] is None else History.from_dict(data["history"])
        seen = data.get("observation")
        observation = None if seen is None else transfer.Observation.from_dict(seen)
        return cls(data["tasks"], history, data["infeasible"], data["seconds"], data["machine"], observation)

    def first(self, tasks: int) -> "Record":
        """The record of the first tasks of the stream."""
        history = None if self.history is None else self.history.first(tasks)
        return replace(self, tasks=tasks, history=history)


def compute(run: Run, on_share: Callable[[float], None] | None = None) -> Record:
    """Compute a run from scratch, on one thread; ``on_share`` hears of each finished share of it."""
    torch.set_num_threads(1)
    drawn = run.stream.kind == "permuted" or (run.stream.kind == "split" and run.stream.drawn)
    seed = run.seed if drawn else 0  # a stream that the seed does not change is built once
    if run.features is not None and run.stream.kind == "split":
        stream = cifar10.build_stream(run.features, run.stream, run.outputs, seed, run.held_out, run.scaling)
    else:
        stream = build_stream(run.stream, run.outputs, run.inputs, run.limit, seed, run.held_out)
    start, start_cpu = time.perf_counter(), time.process_time()

    def tell(task: int, history: History) -> None:
        if on_share is not None:
            on_share(1 / len(stream.tasks))

    history, infeasible, observation, seconds = None, None, None, {}
    try:
        if run.observed:
            outcome, observation = transfer.observe(stream, run.settings, run.seed, on_task=tell)
        else:
            outcome = learn(stream, run.settings, run.seed, on_task=tell)
        history, seconds = outcome.history, outcome.seconds
    except NullSpaceExhausted as error:
        infeasible = str(error)
    total = {"total": time.perf_counter() - start, "cpu": time.process_time() - start_cpu}
    return Record(run.tasks, history, infeasible, {**seconds, **total}, machine(), observation)


@lru_cache
def machine() -> dict[str, str]:
    """Where a number was computed: what may change its last digits."""
    return {
        "cpu": _cpu(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__.split("+")[0],
        "python": platform.python_version(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return f"{facts['model name']}, family {facts['cpu family']} model {facts['model']}"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()
