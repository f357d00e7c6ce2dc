"""The same epoch of MNIST done in several ways, and the stream it comes from: what `make bench` compares."""

import copy
import itertools
from collections.abc import Callable
from time import process_time

import torch

from noracl import EWCSettings, Network, OnlineEWC, Stream
from noracl.method.network import layers
from noracl.method.optimisation import SGD, Batches, Lockstep
from noracl.method.seeds import generator
from pipeline.config import PERMUTED, load
from pipeline.data.manifests import read_manifest
from pipeline.data.pixels import images
from pipeline.data.streams import build_stream
from pipeline.data.torchvision_compat import torchvision
from pipeline.tools.rounds import Seconds

RATE, CLIP, STRENGTH = 0.005, 5.0, 500.0
TOGETHER = 5  # networks in lock-step


def permuted_stream(tasks: int) -> Stream:
    """The benchmark's stream, of all of MNIST, with another number of tasks."""
    chosen = load().benchmarks[PERMUTED]
    stream = chosen.stream.model_copy(update={"tasks": tasks})
    return build_stream(read_manifest(chosen.data).model_copy(update={"limit": None}), stream, chosen.outputs, 0)


class Setting:
    """An epoch of MNIST on a network of a given width with EWC active, done in several ways."""

    def __init__(self, width: int, steps: int) -> None:
        data, stream = images("mnist"), permuted_stream(1)
        self.steps, self.sizes = steps, (784, width, width, 10)
        self.scaling = (stream.scale, stream.shift)
        self.batches = Batches(data.x, data.y, 10, *self.scaling, batch_size=256)
        self.networks = [Network.initialise(self.sizes, "glorot", generator(seed)) for seed in range(TOGETHER)]
        self.network = self.networks[0]
        self.ewc = OnlineEWC(EWCSettings(strength=STRENGTH))
        self.ewc.consolidate(self.network, torch.rand_like(self.network.theta) * 1e-4)
        self.alone = Lockstep([SGD(self.network, self.ewc, RATE, CLIP)])
        self.five = Lockstep([SGD(network, copy.deepcopy(self.ewc), RATE, CLIP) for network in self.networks])
        self.order = torch.randperm(60000, generator=generator(1))[: steps * 256]
        self.y = data.y

    def ours(self) -> None:
        """The library's epoch."""
        self.alone.epoch(self.batches, self.order)

    def together(self) -> None:
        """The library's epoch for five networks in lock-step."""
        self.five.epoch(self.batches, self.order)

    def jax(self, networks: int) -> Callable[[], object]:
        """The same epoch in JAX, for the first network or for several on the same mini-batches."""
        from pipeline.tools.jax_peer import Peer

        vectors, thetas = self.ewc.vectors, [network.theta for network in self.networks[:networks]]
        peer = Peer(thetas, vectors["importance"], vectors["anchor"], self.sizes, self.batches)
        return peer.train(self.order, 256, RATE, CLIP, STRENGTH)

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
