"""`make bench`: speed as ratios, each measured in one process on one thread against a named yardstick."""

import itertools
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from noracl import EWCSettings, Learner, Network, OnlineEWC, Stream, learn
from noracl.network import layers
from noracl.optimisation import SGD, Batches
from noracl.seeds import generator
from pipeline.params import load_or_exit
from pipeline.streams import build_stream, mnist

RATE, CLIP, STRENGTH = 0.005, 5.0, 500.0
STEPS = 234  # whole mini-batches of an epoch of MNIST


@dataclass(frozen=True)
class Line:
    """One line of the table: the ratio, which way it must go, and its limit."""

    what: str
    ratio: float
    sign: str
    limit: float
    detail: str

    @property
    def met(self) -> bool:
        """Whether the limit is kept."""
        return self.ratio <= self.limit if self.sign == "≤" else self.ratio >= self.limit


def alternate(*tasks: Callable[[], object], rounds: int = 9) -> list[float]:
    """The best seconds of each task, taken in turns so that all of them see the same machine."""
    best = [float("inf")] * len(tasks)
    for _ in range(rounds):
        for i, task in enumerate(tasks):
            start = time.perf_counter()
            task()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def permuted_stream(tasks: int) -> Stream:
    """The benchmark's stream with another number of tasks."""
    params = load_or_exit()
    chosen = params.benchmarks["permuted_mnist"]
    return build_stream(chosen.stream.model_copy(update={"tasks": tasks}), chosen.outputs, params.inputs, None, 0)


class Setting:
    """An epoch of MNIST on a network of a given width with EWC active, done in several ways."""

    def __init__(self, width: int) -> None:
        data, stream = mnist(), permuted_stream(1)
        self.sizes = (784, width, width, 10)
        self.scaling = (stream.scale, stream.shift)
        self.batches = Batches(data.x, data.y, 10, *self.scaling, batch_size=256)
        self.network = Network.initialise(self.sizes, "glorot", generator(0))
        self.ewc = OnlineEWC(EWCSettings(strength=STRENGTH))
        self.ewc.consolidate(self.network, torch.rand_like(self.network.theta) * 1e-4)
        self.sgd = SGD(self.network, self.ewc, RATE, CLIP)
        self.order = torch.randperm(60000, generator=generator(1))[: STEPS * 256]
        self.y = data.y

    def ours(self) -> None:
        """The library's epoch."""
        self.sgd.epoch(self.batches, self.order)

    @torch.inference_mode()
    def bare(self) -> None:
        """Only what cannot be saved: gathering the mini-batch and the two products of the first layer."""
        weight = self.network.weights[0]
        hidden, delta, gradient = torch.empty(len(weight), 256), torch.randn(len(weight), 256), torch.empty_like(weight)
        for index in torch.split(self.order, 256):
            x, _ = self.batches.load(index)
            torch.mm(weight, x.t(), out=hidden)
            torch.mm(delta, x, out=gradient)

    def autograd(self) -> None:
        """The same epoch as anyone would write it: modules, autograd, torch.optim and clip_grad_norm_."""
        model = mlp(self.sizes)
        optimiser = torch.optim.SGD(model.parameters(), RATE)
        assert self.ewc.fisher is not None
        fisher = layers(self.ewc.fisher, self.sizes)
        anchor = [p.detach().clone() for p in model.parameters()]
        for index in torch.split(self.order, 256):
            x, _ = self.batches.load(index)
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), self.y[index])
            for p, f, a in zip(model.parameters(), fisher, anchor, strict=True):
                loss = loss + STRENGTH / 2 * (f * (p - a) ** 2).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()


def mlp(sizes: tuple[int, ...]) -> torch.nn.Sequential:
    """The network in torch's own modules."""
    parts: list[torch.nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        parts += [torch.nn.Linear(fan_in, fan_out, bias=False), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def step_lines() -> list[Line]:
    """A training step against the bare products and against autograd."""
    lines = []
    for width, limit in ((32, 1.5), (64, 1.6)):
        setting = Setting(width)
        ours, bare = alternate(setting.ours, setting.bare, rounds=15)
        detail = f"{ours / STEPS * 1e6:.0f} µs a step, {bare / STEPS * 1e6:.0f} µs bare"
        lines.append(
            Line(f"step, {width}×{width}: against gather + first-layer products", ours / bare, "≤", limit, detail)
        )
        ours, slow = alternate(setting.ours, setting.autograd, rounds=11)
        detail = f"{slow / STEPS * 1e6:.0f} µs a step with autograd"
        lines.append(Line(f"step, {width}×{width}: autograd loop against ours", slow / ours, "≥", 2.0, detail))
    return lines


def avalanche_line() -> Line:
    """Seconds per training epoch of Avalanche's online EWC on the same task; consolidation is counted apart."""
    from pipeline.vision import torchvision

    setting, seconds = Setting(32), {"epoch": float("inf"), "consolidation": float("inf")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torchvision()
        from avalanche.benchmarks import tensors_benchmark
        from avalanche.core import SupervisedPlugin
        from avalanche.training.plugins import EvaluationPlugin, EWCPlugin
        from avalanche.training.supervised import EWC

        class Clock(SupervisedPlugin):  # type: ignore[misc]
            def before_training_epoch(self, strategy: object, **kwargs: object) -> None:
                self.start = time.perf_counter()

            def after_training_epoch(self, strategy: object, **kwargs: object) -> None:
                self.end = time.perf_counter()
                seconds["epoch"] = min(seconds["epoch"], self.end - self.start)

        class TimedEWC(EWCPlugin):  # type: ignore[misc]
            def after_training_exp(self, strategy: object, **kwargs: object) -> None:
                start = time.perf_counter()
                super().after_training_exp(strategy, **kwargs)
                seconds["consolidation"] = min(seconds["consolidation"], time.perf_counter() - start)

        x = setting.batches.x.float() * setting.scaling[0] + setting.scaling[1]
        part = [(x, setting.y)]
        stream = tensors_benchmark(train_tensors=part * 3, test_tensors=part, task_labels=[0] * 3)
        model = mlp(setting.sizes)
        strategy = EWC(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), RATE),
            criterion=torch.nn.CrossEntropyLoss(),
            ewc_lambda=STRENGTH,
            mode="online",
            decay_factor=0.9,
            train_mb_size=256,
            plugins=[Clock()],
            evaluator=EvaluationPlugin(),
        )
        strategy.plugins = [
            p if type(p) is not EWCPlugin else TimedEWC(STRENGTH, "online", 0.9) for p in strategy.plugins
        ]
        (ours,) = alternate(setting.ours)
        for experience in stream.train_stream:
            strategy.train(experience)
    detail = (
        f"{seconds['epoch']:.2f} s an epoch ({seconds['epoch'] / STEPS * 1e3:.1f} ms a step) against {ours:.3f} s; "
        f"its consolidation, counted apart: {seconds['consolidation']:.2f} s"
    )
    return Line("epoch, 32×32: Avalanche 0.6.0 online EWC against ours", seconds["epoch"] / ours, "≥", 10.0, detail)


def overhead_line() -> Line:
    """A whole run with growth checks that never open the gate, against the same run without them."""
    params = load_or_exit()
    stream = permuted_stream(3)
    # Percentile 0 is the least Fisher value, which never exceeds τ, a mean: all is looked at, nothing grows.
    checked = params.settings("permuted_mnist", (32, 32), percentile=0.0)
    unchecked = params.settings("permuted_mnist", (32, 32), trigger="none")
    best: dict[tuple[str, int], float] = {}
    for turn in range(8):  # task by task in turns, so that both see the same machine
        learners = {"with": Learner(stream, checked, 0), "without": Learner(stream, unchecked, 0)}
        for number, task in enumerate(stream.tasks, start=1):
            for kind, learner in sorted(learners.items(), reverse=bool((turn + number) % 2)):
                start = time.perf_counter()
                learner.learn_task(number, task)
                seconds = time.perf_counter() - start
                best[kind, number] = min(best.get((kind, number), seconds), seconds)
        assert not learners["with"].history.growth
    with_checks, without = (sum(s for (k, _), s in best.items() if k == kind) for kind in ("with", "without"))
    detail = f"{with_checks:.2f} s with, {without:.2f} s without growth checks, 3 tasks"
    return Line("run, 3 tasks of Permuted MNIST: NORACL's checks", with_checks / without, "≤", 1.056, detail)


def memory_line() -> Line:
    """Peak memory of a process that learns 100 tasks (one epoch each)."""
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.bench", "memory"], capture_output=True, text=True, check=True
    )
    gigabytes = float(done.stdout.split()[-1])
    return Line("peak memory of a 100-task stream, in GB", gigabytes, "≤", 1.5, "one process, 32×32, NORACL")


def peak_memory() -> float:
    """Learn 100 tasks quickly and tell the peak resident size in GB."""
    params = load_or_exit()
    settings = params.settings("permuted_mnist", (32, 32))
    quick = replace(settings, optimisation=replace(settings.optimisation, epochs_first=1, epochs_later=1))
    learn(permuted_stream(100), quick)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Measure and print; exit code 1 if a limit is not kept."""
    torch.set_num_threads(1)
    if sys.argv[1:] == ["memory"]:
        print(peak_memory())
        return
    lines = [*step_lines(), avalanche_line(), overhead_line(), memory_line()]
    width = max(len(line.what) for line in lines)
    print(f"one process, one thread, batch 256, EWC active; torch {torch.__version__}")
    for line in lines:
        mark = "ok  " if line.met else "MISS"
        print(f"{mark} {line.what:{width}}  {line.ratio:7.3f} {line.sign} {line.limit:g}   {line.detail}")
    sys.exit(not all(line.met for line in lines))


if __name__ == "__main__":
    main()
