"""The epoch of `make bench` in JAX, as one who wants speed writes it: jitted, scanned, buffers given back.

Of the ways that were tried, this was the fastest: activations as neurons × samples, one array per layer, labels as
whole numbers. One flat vector of parameters was slower. Unrolling the scan, giving buffers back, wider vectors
(xla_cpu_prefer_vector_width) and YNNPACK's products made no difference beyond the noise.

Nothing else imports jax: XLA reads its flags once, and they are set here.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from torch import Tensor

from noracl.method.network import layers
from noracl.method.optimisation import Batches

Array = Any  #: an array of JAX, which is not there when types are checked
Weights = list[Array]  #: per layer, neurons × fan-in


def loss(weights: Weights, fisher: Weights, anchor: Weights, x: Array, y: Array, strength: float) -> Array:
    """Mean cross-entropy of a mini-batch and the penalty of online EWC, λ/2 ΣF(θ − θ*)²."""
    hidden = x.T
    for weight in weights[:-1]:
        hidden = jax.nn.relu(weight @ hidden)
    logarithms = jax.nn.log_softmax(weights[-1] @ hidden, axis=0)
    penalty = sum((f * (w - a) ** 2).sum() for w, f, a in zip(weights, fisher, anchor, strict=True))
    return -jnp.take_along_axis(logarithms, y[None], axis=0).mean() + strength / 2 * penalty


def step_of(rate: float, clip: float, strength: float) -> Callable[..., Weights]:
    """A step of SGD on a mini-batch, clipped by the norm of the whole gradient."""

    def step(weights: Weights, fisher: Weights, anchor: Weights, x: Array, y: Array) -> Weights:
        gradient = jax.grad(loss)(weights, fisher, anchor, x, y, strength)
        norm = jnp.sqrt(sum((g * g).sum() for g in gradient))
        rescaled = rate * jnp.minimum(1.0, clip / norm)
        return [w - rescaled * g for w, g in zip(weights, gradient, strict=True)]

    return step


def epoch_of(step: Callable[..., Weights], scale: float, shift: float) -> Callable[..., Weights]:
    """All steps of an epoch as one compiled program; the buffers of the old weights hold the new ones."""

    def epoch(weights: Weights, fisher: Weights, anchor: Weights, rows: tuple[Array, Array], order: Array) -> Weights:
        def one(weights: Weights, index: Array) -> tuple[Weights, None]:
            x, y = (part.at[index].get(mode="promise_in_bounds") for part in rows)
            return step(weights, fisher, anchor, x.astype(jnp.float32) * scale + shift, y), None

        trained: Weights = jax.lax.scan(one, weights, order)[0]
        return trained

    compiled: Callable[..., Weights] = jax.jit(epoch, donate_argnums=0)
    return compiled


def copies(flat: Sequence[Tensor], sizes: Sequence[int]) -> Weights:
    """Flat vectors of networks by layer: of one network its matrices, of several their stacks."""
    matrices = [[jnp.array(matrix.numpy()) for matrix in layers(one, sizes)] for one in flat]
    return matrices[0] if len(flat) == 1 else [jnp.stack(same) for same in zip(*matrices, strict=True)]


class Peer:
    """Networks of the same sizes and their Fisher and anchor, trained on the same mini-batches; one, or by ``vmap``."""

    def __init__(
        self, thetas: Sequence[Tensor], fisher: Tensor, anchor: Tensor, sizes: Sequence[int], batches: Batches
    ) -> None:
        self.networks = len(thetas)
        self.weights = copies(thetas, sizes)
        self.fisher, self.anchor = (copies([flat] * self.networks, sizes) for flat in (fisher, anchor))
        labels = batches.targets.argmax(1).int()
        self.rows = jnp.array(batches.x.numpy()), jnp.array(labels.numpy())
        self.scaling = batches.scale, batches.shift.item()

    def train(self, order: Tensor, size: int, rate: float, clip: float, strength: float) -> Callable[[], Weights]:
        """What does an epoch with every call; the weights that it gives are valid until the next call."""
        step = step_of(rate, clip, strength)
        if self.networks > 1:
            step = jax.vmap(step, in_axes=(0, 0, 0, None, None))
        compiled, index = epoch_of(step, *self.scaling), jnp.array(order.int().view(-1, size).numpy())

        def epoch() -> Weights:
            trained = compiled(self.weights, self.fisher, self.anchor, self.rows, index)
            self.weights = jax.block_until_ready(trained)
            return self.weights

        return epoch
