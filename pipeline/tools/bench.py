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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing import get_context

import torch

from noracl import Learner, Settings, learn_together
from pipeline.config import PERMUTED, load
from pipeline.experiments.cost import GROWTH
from pipeline.runs.groups import MOST
from pipeline.tools import suites_bench
from pipeline.tools.epochs import TOGETHER, Setting, avalanche, permuted_stream
from pipeline.tools.rounds import Found, Line, Pair, at_least, at_most, compare, in_turns, timed


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    looks: tuple[int, ...]  #: numbers of rounds after which a line may be decided
    steps: int  #: mini-batches of an epoch
    epochs: tuple[int, int]  #: of the first task and of later ones
    tasks: int  #: of the stream whose memory is measured
    suites: suites_bench.Size  #: of the runs that are computed in groups


FULL = Scale(  # the paper's epochs, on all of MNIST
    looks=(16, 128),
    steps=234,
    epochs=(10, 30),
    tasks=100,
    suites=suites_bench.Size(tasks=3, epochs=(2, 30), images=20000, looks=(6,)),  # task 1 has its share of ten tasks
)
SHORT = Scale(  # enough to see that every line can be measured
    looks=(6,),
    steps=30,
    epochs=(1, 1),
    tasks=3,
    suites=suites_bench.Size(tasks=2, epochs=(1, 1), images=256, looks=(6,)),
)


def settings_for(epochs: tuple[int, int], **rule: object) -> Settings:
    """The benchmark's settings with a number of epochs."""
    chosen = load().settings(PERMUTED, (32, 32), **rule)
    by = replace(chosen.optimisation, epochs_first=epochs[0], epochs_later=epochs[1])
    return replace(chosen, optimisation=by)


def per_step(scale: Scale) -> Callable[[float, float], str]:
    """Seconds of two epochs as microseconds of their steps."""
    return lambda one, other: f"{one / scale.steps * 1e6:.0f} against {other / scale.steps * 1e6:.0f} µs"


def step_lines(scale: Scale) -> Iterator[Line]:
    """A training step against the bare products and against autograd."""
    for width in (32, 64):
        setting, name = Setting(width, scale.steps), f"step, {width}×{width}"
        ours, bare, slow = timed(setting.ours), timed(setting.bare), timed(setting.autograd)
        what = f"{name}, ours against gather + first-layer products"
        yield compare(what, at_most(1.3), in_turns(ours, bare), scale.looks, per_step(scale))
        what = f"{name}, autograd loop against ours"
        yield compare(what, at_least(2.0), in_turns(slow, ours), scale.looks, per_step(scale))


#: Other libraries that train the same network: name, package, an epoch of it, and its least ratio to ours.
PEERS = [("Avalanche 0.6.0, online EWC", "avalanche", avalanche, 10.0)]
ABSENT = "not installed: `make bench` installs it"
JAX = "JAX 0.10.2"


def peer_lines(scale: Scale) -> Iterator[Line]:
    """An epoch of every other library against ours; consolidation is left out on both sides."""
    for name, package, make, least in PEERS:
        what, limit = f"epoch, 32×32, {name} against ours", at_least(least)
        if find_spec(package) is None:
            yield Line(what, limit, None, ABSENT)
            continue
        setting = Setting(32, scale.steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rounds = in_turns(make(setting), timed(setting.ours))
            yield compare(what, limit, rounds, scale.looks, "{:.2f} against {:.3f} s".format)


def jax_lines(scale: Scale) -> Iterator[Line]:
    """A step in JAX against ours: of one network, and of several of the same width on the same mini-batches."""
    for networks, width in itertools.product((1, TOGETHER), (32, 64)):
        alone, together = f"{width}×{width}, {JAX} (jit, scan)", f"{width}×{width} in lock-step, {JAX} (vmap)"
        name = alone if networks == 1 else f"{networks} networks of {together}"
        what = f"step, {name} against ours"
        if find_spec("jax") is None:
            yield Line(what, None, None, ABSENT)
            continue
        setting = Setting(width, scale.steps)
        ours = timed(setting.ours if networks == 1 else setting.together)
        yield compare(what, None, in_turns(timed(setting.jax(networks)), ours), scale.looks, per_step(scale))


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


def peak_memory(tasks: int, networks: int) -> float:
    """Learn tasks with some networks, one epoch each, and tell the peak resident size in GB."""
    torch.set_num_threads(1)
    learn_together(permuted_stream(tasks), [settings_for((1, 1))] * networks)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def memory_lines(scale: Scale) -> Iterator[Line]:
    """Peak memory of a process of its own: of one network, and of a full group."""
    for networks in (1, MOST):
        what = f"peak memory of a stream of {scale.tasks} tasks, {networks} × 32×32, in GB"
        print(f"measuring {what} …", file=sys.stderr, flush=True)
        with get_context("spawn").Pool(1) as pool:
            gigabytes = pool.apply(peak_memory, (scale.tasks, networks))
        yield Line(what, at_most(1.5), Found(gigabytes, gigabytes, gigabytes, 1), "one process, NORACL")


def lines(scale: Scale) -> Iterator[Line]:
    """All lines, each as soon as it is measured."""
    yield from step_lines(scale)
    yield from jax_lines(scale)
    yield from peer_lines(scale)
    yield suites_bench.suites_line(scale.suites)
    yield overhead_line(scale)
    yield from memory_lines(scale)


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
