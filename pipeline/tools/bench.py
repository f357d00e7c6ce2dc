"""`make bench`: speed as ratios, each measured in one process on one thread against a named yardstick."""

import itertools
import resource
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from time import perf_counter
from timeit import timeit

import torch

from noracl import EWCSettings, Learner, Network, OnlineEWC, Stream, learn
from noracl.method.network import layers
from noracl.method.optimisation import SGD, Batches
from noracl.method.seeds import generator
from pipeline.config import PERMUTED, load
from pipeline.data.manifests import read_manifest
from pipeline.data.mnist import mnist
from pipeline.data.streams import build_stream
from pipeline.data.torchvision_compat import torchvision

RATE, CLIP, STRENGTH = 0.005, 5.0, 500.0
STEPS = 234  # whole mini-batches of an epoch of MNIST
#: what is measured, the ratio, which way it must go, its limit, detail
Line = tuple[str, float, str, float, str]


def alternate(*tasks: Callable[[], object], rounds: int = 9) -> list[float]:
    """The best seconds of each task, taken in turns so that all of them see the same machine."""
    turns = [[timeit(task, number=1) for task in tasks] for _ in range(rounds)]
    return [min(seconds) for seconds in zip(*turns, strict=True)]


def permuted_stream(tasks: int) -> Stream:
    """The benchmark's stream with another number of tasks."""
    chosen = load().benchmarks[PERMUTED]
    stream = chosen.stream.model_copy(update={"tasks": tasks})
    return build_stream(read_manifest(chosen.data), stream, chosen.outputs, 0)


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
    pairs = [(torch.nn.Linear(i, o, bias=False), torch.nn.ReLU()) for i, o in itertools.pairwise(sizes)]
    return torch.nn.Sequential(*[*itertools.chain(*pairs)][:-1])


def step_lines() -> Iterator[Line]:
    """A training step against the bare products and against autograd."""
    for width, limit in ((32, 1.5), (64, 1.6)):
        setting, name = Setting(width), f"step, {width}×{width}"
        ours, bare = alternate(setting.ours, setting.bare, rounds=15)
        detail = f"{ours / STEPS * 1e6:.0f} µs per step, {bare / STEPS * 1e6:.0f} µs bare"
        yield f"{name}: against gather + first-layer products", ours / bare, "≤", limit, detail
        ours, slow = alternate(setting.ours, setting.autograd, rounds=11)
        detail = f"{slow / STEPS * 1e6:.0f} µs per step with autograd"
        yield f"{name}: autograd loop against ours", slow / ours, "≥", 2.0, detail


def avalanche_line() -> Line:
    """Seconds per training epoch of Avalanche's online EWC on the same task; consolidation is counted apart."""
    setting, seconds = Setting(32), {"epoch": list[float](), "consolidation": list[float]()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torchvision()
        from avalanche.benchmarks import tensors_benchmark
        from avalanche.training.plugins import EvaluationPlugin, EWCPlugin
        from avalanche.training.supervised import Naive

        class TimedEWC(EWCPlugin):  # type: ignore[misc]
            def before_training_epoch(self, strategy: object, **kwargs: object) -> None:
                self.start = perf_counter()

            def after_training_epoch(self, strategy: object, **kwargs: object) -> None:
                seconds["epoch"].append(perf_counter() - self.start)

            def after_training_exp(self, strategy: object, **kwargs: object) -> None:
                start = perf_counter()
                super().after_training_exp(strategy, **kwargs)
                seconds["consolidation"].append(perf_counter() - start)

        part = [(setting.batches.x.float() * setting.scaling[0] + setting.scaling[1], setting.y)]
        stream = tensors_benchmark(train_tensors=part * 3, test_tensors=part, task_labels=[0] * 3)
        model = mlp(setting.sizes)
        strategy = Naive(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), RATE),
            criterion=torch.nn.CrossEntropyLoss(),
            train_mb_size=256,
            plugins=[TimedEWC(STRENGTH, "online", 0.9)],
            evaluator=EvaluationPlugin(),
        )
        (ours,) = alternate(setting.ours)
        for experience in stream.train_stream:
            strategy.train(experience)
    epoch, consolidation = (min(taken) for taken in seconds.values())
    detail = f"{epoch:.2f} s per epoch ({epoch / STEPS * 1e3:.1f} ms per step) against {ours:.3f} s; "
    detail += f"its consolidation, counted apart: {consolidation:.2f} s"
    return "epoch, 32×32: Avalanche 0.6.0 online EWC against ours", epoch / ours, "≥", 10.0, detail


def overhead_line() -> Line:
    """A whole run with growth checks that never open the gate, against the same run without them."""
    params, stream = load(), permuted_stream(3)
    # Percentile 0 is the least Fisher value, which never exceeds τ, a mean: all is looked at, nothing grows.
    checked = params.settings(PERMUTED, (32, 32), percentile=0.0)
    unchecked = params.settings(PERMUTED, (32, 32), trigger="none")
    taken: dict[tuple[str, int], list[float]] = defaultdict(list)
    for turn in range(8):  # task by task in turns, so that both see the same machine
        learners = {"with": Learner(stream, checked, 0), "without": Learner(stream, unchecked, 0)}
        for number, task in enumerate(stream.tasks, start=1):
            for kind, learner in sorted(learners.items(), reverse=bool((turn + number) % 2)):
                taken[kind, number].append(timeit(partial(learner.learn_task, number, task), number=1))
        assert not learners["with"].history.growth
    with_checks, without = (sum(min(taken[kind, task]) for task in (1, 2, 3)) for kind in ("with", "without"))
    detail = f"{with_checks:.2f} s with, {without:.2f} s without growth checks, 3 tasks"
    return "run, 3 tasks of Permuted MNIST: NORACL's checks", with_checks / without, "≤", 1.056, detail


def peak_memory() -> float:
    """Learn 100 tasks, one epoch each, and tell the peak resident size in GB."""
    torch.set_num_threads(1)
    settings = load().settings(PERMUTED, (32, 32))
    quick = replace(settings, optimisation=replace(settings.optimisation, epochs_first=1, epochs_later=1))
    learn(permuted_stream(100), quick)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def memory_line() -> Line:
    """Peak memory of a process of its own that learns 100 tasks."""
    with get_context("spawn").Pool(1) as pool:
        gigabytes = pool.apply(peak_memory)
    return "peak memory of a 100-task stream, in GB", gigabytes, "≤", 1.5, "one process, 32×32, NORACL"


def main(arguments: list[str]) -> None:
    """Measure and print; exit code 1 if a limit is not kept."""
    torch.set_num_threads(1)
    lines = [*step_lines(), avalanche_line(), overhead_line(), memory_line()]
    met = [ratio <= limit if sign == "≤" else ratio >= limit for _, ratio, sign, limit, _ in lines]
    width = max(len(what) for what, *_ in lines)
    print(f"one process, one thread, batch 256, EWC active; torch {torch.__version__}")
    for (what, ratio, sign, limit, detail), kept in zip(lines, met, strict=True):
        print(f"{'ok  ' if kept else 'MISS'} {what:{width}}  {ratio:7.3f} {sign} {limit:g}   {detail}")
    sys.exit(not all(met))
