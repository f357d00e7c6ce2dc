"""Small networks, data and slow, independent formulas that the tests compare with."""

import torch
from torch import Tensor

from noracl import Network, Stream, Task
from noracl.network import layers
from noracl.seeds import generator


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
