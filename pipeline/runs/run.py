"""One run: what decides it, the key it is stored under, and how it is computed."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from noracl import Callbacks, NullSpaceExhausted, Settings, learn
from noracl.analysis import transfer
from noracl.method.network import count
from pipeline.data.cifar10 import WIDTH
from pipeline.data.manifests import Manifest, digest
from pipeline.data.streams import build_stream
from pipeline.files import json_digest
from pipeline.runs import canaries
from pipeline.runs.provenance import machine
from pipeline.runs.records import Record
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
        images = (self.data.limit or 60000) if self.data.kind == "pixels" else self.data.images
        step = 2.5e-4 + 1.4e-8 * grown * count((self.inputs, *self.settings.hidden, self.outputs))
        epochs = optimisation.epochs_first + (self.tasks - 1) * optimisation.epochs_later
        return epochs * images / (5 if self.stream.kind == "split" else 1) / optimisation.batch_size * step


def compute(run: Run, on_share: Callable[[float], None] | None = None) -> Record:
    """Compute a run from scratch, on one thread; ``on_share`` hears of each finished share of it."""
    torch.set_num_threads(1)
    stream = build_stream(run.data, run.stream, run.outputs, run.seed)
    start, start_cpu = time.perf_counter(), time.process_time()
    tell = None if on_share is None else Callbacks(task=lambda learner, task: on_share(1 / len(stream.tasks)))
    history, infeasible, observation, seconds = None, None, None, {}
    try:
        if run.observed:
            outcome, observation = transfer.observe(stream, run.settings, run.seed, callbacks=tell)
        else:
            outcome = learn(stream, run.settings, run.seed, callbacks=tell)
        history, seconds = outcome.history, outcome.seconds
    except NullSpaceExhausted as error:
        infeasible = str(error)
    total = {"total": time.perf_counter() - start, "cpu": time.process_time() - start_cpu}
    return Record(run.tasks, history, infeasible, {**seconds, **total}, machine(), observation)
