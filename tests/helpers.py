"""Small networks, data and slow, independent formulas that the tests compare with."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from noracl import Network, Stream, Task
from noracl.method.network import layers
from noracl.method.seeds import generator
from pipeline.data.download import CIFAR10_FILES
from pipeline.data.torchvision_compat import torchvision


def network(sizes=(6, 5, 4, 3), seed=0, dtype=torch.float64) -> Network:
    start = Network.initialise(sizes, "he", generator(seed, "test"))
    return Network(sizes, start.theta.to(dtype))


def batch(rows=7, inputs=6, classes=3, seed=0, dtype=torch.float64) -> tuple[Tensor, Tensor]:
    draw = generator(seed, "batch")
    x = torch.randn(rows, inputs, generator=draw, dtype=dtype)
    y = torch.randint(classes, (rows,), generator=draw)
    return x, y


def one_hot(y: Tensor, classes=3, dtype=torch.float64) -> Tensor:
    return torch.nn.functional.one_hot(y, classes).to(dtype)


def plain_logits(theta: Tensor, sizes, x: Tensor) -> Tensor:
    """Forward pass written out with autograd's own operations."""
    *hidden, head = layers(theta, sizes)
    for weight in hidden:
        x = torch.relu(x @ weight.t())
    return x @ head.t()


def plain_loss(theta: Tensor, sizes, x: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(plain_logits(theta, sizes, x), y)


def toy_task(seed=0, rows=96, inputs=9, classes=3, columns=None) -> Task:
    """Gaussian blobs: learnable in a few steps."""
    draw = generator(seed, "toy")
    centres = 2 * torch.randn(classes, inputs, generator=draw)

    def part(n):
        y = torch.randint(classes, (n,), generator=draw)
        return centres[y] + torch.randn(n, inputs, generator=draw), y

    x, y = part(rows)
    x_test, y_test = part(60)
    return Task(x, y, x_test, y_test, columns)


def toy_stream(tasks=3, **kwargs) -> Stream:
    return Stream([toy_task(seed, **kwargs) for seed in range(tasks)], kwargs.get("classes", 3))


def made_up_cifar10(folder: Path, per_file: int = 60) -> dict[str, np.ndarray]:
    """The six files of CIFAR-10 with few images of noise, brighter for higher labels; also their records by name."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    records = {}
    for name in CIFAR10_FILES:
        labels = np.arange(per_file) % 10
        pixels = draw.integers(0, 100, (per_file, 3072)) + 15 * labels[:, None]
        records[name] = np.hstack([labels[:, None], pixels]).astype(np.uint8)
        (folder / name).write_bytes(records[name].tobytes())
    return records


def hashes(records: dict[str, np.ndarray]) -> dict[str, str]:
    """What to pin in place of the real hashes of CIFAR-10."""
    return {name: hashlib.sha256(rows.tobytes()).hexdigest() for name, rows in records.items()}


def made_up_weights(path: Path) -> None:
    """Weights that fit ResNet18 in a small file: all inputs of a neuron have the same weight."""
    draw = generator(0, "weights")
    state = torchvision().models.resnet18(weights=None).state_dict()
    for name, value in state.items():
        if value.ndim > 1:
            one = torch.randn(len(value), *[1] * (value.ndim - 1), generator=draw) * 2 / value[0].numel()
            state[name] = one.half().expand(value.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path)
