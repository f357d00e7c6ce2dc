"""`make bench`: speed as ratios, each measured in one process on one thread against a named yardstick.

A line shows the median ratio over its rounds and a 95 % interval. Rounds are added until all of the interval keeps the
limit (ok), up to a maximum. If all of it is beyond the limit then, that is a MISS; if only a part is, the line is
undecided (?), which is no failure.
"""

import argparse
import itertools
import resource
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing import get_context
from time import process_time

import torch

from noracl import EWCSettings, Learner, Network, OnlineEWC, Settings, Stream, learn
from noracl.method.network import layers
from noracl.method.optimisation import SGD, Batches, Lockstep
from noracl.method.seeds import generator
from pipeline.config import PERMUTED, load
from pipeline.data.manifests import read_manifest
from pipeline.data.mnist import mnist
from pipeline.data.streams import build_stream
from pipeline.data.torchvision_compat import torchvision
from pipeline.experiments.cost import GROWTH
from pipeline.tools.rounds import Found, Line, Pair, Seconds, at_least, at_most, compare, in_turns, timed

RATE, CLIP, STRENGTH = 0.005, 5.0, 500.0


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    looks: tuple[int, ...]  #: numbers of rounds after which a line may be decided
    steps: int  #: mini-batches of an epoch
    epochs: tuple[int, int]  #: of the first task and of later ones
    tasks: int  #: of the stream whose memory is measured


FULL = Scale(looks=(8, 16, 32), steps=234, epochs=(10, 30), tasks=100)  # the paper's epochs, on all of MNIST
SHORT = Scale(looks=(6,), steps=30, epochs=(1, 1), tasks=3)  # enough to see that every line can be measured


def permuted_stream(tasks: int) -> Stream:
    """The benchmark's stream, of all of MNIST, with another number of tasks."""
    chosen = load().benchmarks[PERMUTED]
    stream = chosen.stream.model_copy(update={"tasks": tasks})
    return build_stream(read_manifest(chosen.data).model_copy(update={"limit": None}), stream, chosen.outputs, 0)


def settings_for(epochs: tuple[int, int], **rule: object) -> Settings:
    """The benchmark's settings with a number of epochs."""
    chosen = load().settings(PERMUTED, (32, 32), **rule)
    by = replace(chosen.optimisation, epochs_first=epochs[0], epochs_later=epochs[1])
    return replace(chosen, optimisation=by)


class Setting:
    """An epoch of MNIST on a network of a given width with EWC active, done in several ways."""

    def __init__(self, width: int, steps: int) -> None:
        data, stream = mnist(), permuted_stream(1)
        self.steps, self.sizes = steps, (784, width, width, 10)
        self.scaling = (stream.scale, stream.shift)
        self.batches = Batches(data.x, data.y, 10, *self.scaling, batch_size=256)
        self.network = Network.initialise(self.sizes, "glorot", generator(0))
        self.ewc = OnlineEWC(EWCSettings(strength=STRENGTH))
        self.ewc.consolidate(self.network, torch.rand_like(self.network.theta) * 1e-4)
        self.lockstep = Lockstep([SGD(self.network, self.ewc, RATE, CLIP)])
        self.order = torch.randperm(60000, generator=generator(1))[: steps * 256]
        self.y = data.y

    def ours(self) -> None:
        """The library's epoch."""
        self.lockstep.epoch(self.batches, self.order)

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


def step_lines(scale: Scale) -> Iterator[Line]:
    """A training step against the bare products and against autograd."""

    def detail(one: float, other: float) -> str:
        return f"{one / scale.steps * 1e6:.0f} against {other / scale.steps * 1e6:.0f} µs"

    for width, limit in ((32, 1.5), (64, 1.6)):
        setting, name = Setting(width, scale.steps), f"step, {width}×{width}"
        ours, bare, slow = timed(setting.ours), timed(setting.bare), timed(setting.autograd)
        what = f"{name}, ours against gather + first-layer products"
        yield compare(what, at_most(limit), in_turns(ours, bare), scale.looks, detail)
        what = f"{name}, autograd loop against ours"
        yield compare(what, at_least(2.0), in_turns(slow, ours), scale.looks, detail)


def avalanche(setting: Setting) -> Seconds:
    """An epoch of Avalanche's online EWC on the same rows; what it does between epochs is not counted."""
    seconds = list[float]()
    torchvision()
    from avalanche.benchmarks import tensors_benchmark
    from avalanche.training.plugins import EvaluationPlugin, EWCPlugin
    from avalanche.training.supervised import Naive

    class TimedEWC(EWCPlugin):  # type: ignore[misc]
        def before_training_epoch(self, strategy: object, **kwargs: object) -> None:
            self.start = process_time()

        def after_training_epoch(self, strategy: object, **kwargs: object) -> None:
            seconds.append(process_time() - self.start)

    rows = setting.order
    part = [(setting.batches.x[rows].float() * setting.scaling[0] + setting.scaling[1], setting.y[rows])]
    stream = tensors_benchmark(train_tensors=part, test_tensors=part, task_labels=[0])
    model = mlp(setting.sizes)
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), RATE),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=256,
        plugins=[TimedEWC(STRENGTH, "online", 0.9)],
        evaluator=EvaluationPlugin(),
    )

    def epoch() -> float:
        strategy.train(stream.train_stream[0])
        return seconds[-1]

    return epoch


#: Other libraries that train the same network: name, package, an epoch of it, and its least ratio to ours.
PEERS = [("Avalanche 0.6.0, online EWC", "avalanche", avalanche, 10.0)]


def peer_lines(scale: Scale) -> Iterator[Line]:
    """An epoch of every other library against ours; consolidation is left out on both sides."""
    for name, package, make, least in PEERS:
        what, limit = f"epoch, 32×32, {name} against ours", at_least(least)
        if find_spec(package) is None:
            yield Line(what, limit, None, "not installed: `make bench` installs it")
            continue
        setting = Setting(32, scale.steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rounds = in_turns(make(setting), timed(setting.ours))
            yield compare(what, limit, rounds, scale.looks, "{:.2f} against {:.3f} s".format)


def with_and_without_checks(scale: Scale) -> Iterator[Pair]:
    """Seconds of each later task with the parts that only NORACL has, and without them: the ratio of appendix A.7.

    Both are parts of one run, in turns epoch by epoch, by the learner's own clocks, which are wall-clock. Two runs, one
    with checks and one without, would differ more by noise than by the checks.
    """
    # Percentile 0 is the least Fisher value, which never exceeds τ, a mean: every epoch is checked, nothing grows.
    stream, settings = permuted_stream(10), settings_for(scale.epochs, percentile=0.0)
    for seed in itertools.count():
        learner = Learner.of(stream, settings, seed).learn(stream.tasks[0])
        for task in stream.tasks[1:]:
            before = dict(learner.seconds)
            learner.learn(task)
            seconds = {name: learner.seconds[name] - before[name] for name in before}
            whole = sum(seconds.values())
            yield whole, whole - sum(seconds[name] for name in GROWTH)
        assert not learner.history.growth


def overhead_line(scale: Scale) -> Line:
    """What NORACL adds to the time of a later task, with growth checks after every epoch."""
    what = f"later task, all of MNIST × {scale.epochs[1]}, 32×32, with growth checks against without"
    rounds = with_and_without_checks(scale)
    return compare(what, at_most(1.056), rounds, scale.looks, "{:.2f} against {:.2f} s".format)


def peak_memory(tasks: int) -> float:
    """Learn tasks, one epoch each, and tell the peak resident size in GB."""
    torch.set_num_threads(1)
    learn(permuted_stream(tasks), settings_for((1, 1)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def memory_line(scale: Scale) -> Line:
    """Peak memory of a process of its own."""
    what = f"peak memory of a stream of {scale.tasks} tasks, in GB"
    print(f"measuring {what} …", file=sys.stderr, flush=True)
    with get_context("spawn").Pool(1) as pool:
        gigabytes = pool.apply(peak_memory, (scale.tasks,))
    return Line(what, at_most(1.5), Found(gigabytes, gigabytes, gigabytes, 1), "one process, 32×32, NORACL")


def lines(scale: Scale) -> Iterator[Line]:
    """All lines, each as soon as it is measured."""
    yield from step_lines(scale)
    yield from peer_lines(scale)
    yield overhead_line(scale)
    yield memory_line(scale)


def main(arguments: list[str]) -> None:
    """Measure and print; exit code 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m pipeline bench", description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="few rounds and steps: tells whether it works, not how fast"
    )
    scale = SHORT if parser.parse_args(arguments).short else FULL
    torch.set_num_threads(1)
    print(f"one process, one thread, batch 256, EWC active; torch {torch.__version__}; medians [95 % intervals]")
    missed = 0
    for line in lines(scale):
        print(line, flush=True)
        missed += line.mark == "MISS"
    sys.exit(missed > 0)
