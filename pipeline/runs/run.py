"""One run: what decides it, the key it is stored under, and how it is computed."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from pydantic import TypeAdapter

from noracl import History, NullSpaceExhausted, Settings, learn
from noracl.analysis import transfer
from noracl.method.network import count
from pipeline.data.cifar10 import WIDTH
from pipeline.data.download import MNIST_FILES
from pipeline.data.manifests import Manifest, digest
from pipeline.data.streams import build_stream
from pipeline.files import json_digest
from pipeline.paths import MNIST
from pipeline.runs import canaries
from pipeline.runs.provenance import machine
from pipeline.sections import StreamSection


@dataclass(frozen=True)
class Run:
    """A method on a benchmark with a seed; an ``observed`` one also leaves what ``transfer`` sees of it."""

    suite: str
    benchmark: str
    method: str
    seed: int
    stream: StreamSection
    outputs: int
    data: Manifest
    settings: Settings
    observed: bool = False

    @property
    def layers(self) -> int:
        """Hidden layers."""
        return len(self.settings.hidden)

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.benchmark} {self.layers}L {self.method} seed {self.seed}"

    @property
    def files(self) -> dict[Path, str]:
        """The files that it reads, and what they must hash to; features are told by their manifest."""
        return {MNIST / name: value for name, value in MNIST_FILES.items()} if self.data.kind == "pixels" else {}

    @property
    def encoder(self) -> dict[str, str]:
        """Which weights made the features, for the provenance of results."""
        if self.data.kind == "pixels":
            return {}
        return {"ResNet18 weights": f"{self.data.weights} (sha256 {self.data.weights_sha256})"}

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
            "settings": asdict(self.settings) | {"growth": self.settings.growth.decisive},
            "seed": self.seed,
        }
        if self.observed:  # what is seen at the end depends on where the stream ends
            decisive["observed"] = self.tasks
        return json_digest(decisive)[:32]

    @property
    def cost(self) -> float:
        """Rough seconds on one core, for ordering and for the progress bar."""
        optimisation, grown = self.settings.optimisation, 1.0 if self.settings.growth.trigger == "none" else 1.6
        inputs, images = (784, self.data.limit or 60000) if self.data.kind == "pixels" else (WIDTH, self.data.images)
        step = 2.5e-4 + 1.4e-8 * grown * count((inputs, *self.settings.hidden, self.outputs))
        epochs = optimisation.epochs_first + (self.tasks - 1) * optimisation.epochs_later
        return epochs * images / (5 if self.stream.kind == "split" else 1) / optimisation.batch_size * step


@dataclass(frozen=True)
class Record:
    """What a run left: its history, or the reason why the method could not go on; and where and how long."""

    tasks: int
    history: History | None
    infeasible: str | None
    seconds: dict[str, float]
    machine: dict[str, str]
    observation: transfer.Observation | None = None

    def first(self, tasks: int) -> "Record":
        """The record of the first tasks of the stream."""
        return replace(self, tasks=tasks, history=self.history and self.history.first(tasks))


def compute(run: Run, on_share: Callable[[float], None] | None = None) -> Record:
    """Compute a run from scratch, on one thread; ``on_share`` hears of each finished share of it."""
    torch.set_num_threads(1)
    stream = build_stream(run.data, run.stream, run.outputs, run.seed)
    start, start_cpu = time.perf_counter(), time.process_time()
    tell = None if on_share is None else lambda task, history: on_share(1 / len(stream.tasks))
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


RECORDS = TypeAdapter(Record)  # to JSON and back
