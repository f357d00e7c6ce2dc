"""Forward and backward passes without autograd, for one network or for several that see the same samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from noracl.method.network import Network

_mask = torch.ops.aten.threshold_backward.grad_input  # of gradients after a ReLU, those before it
WIDE = 128  # a first layer of this width or more gains nothing from sharing its products


@dataclass(frozen=True)
class Pass:
    """What one network makes of a mini-batch, in buffers that are made once; neurons × samples."""

    weights: list[Tensor]
    outputs: list[Tensor]  #: activations of each hidden layer, then the logits
    deltas: list[Tensor]  #: gradients of each sample's loss before each ReLU, then with respect to the logits

    def pairs(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(deltas, samples × inputs) of each weight matrix: their product is its gradient."""
        return list(zip(self.deltas, [x, *(output.t() for output in self.outputs[:-1])], strict=True))


class Backprop:
    """Passes of some networks over the same mini-batch, of a fixed size; ``passes`` has one for each network.

    What is done to each number by itself is done for all networks at once. Narrow first layers share their products,
    if that leaves every network the bytes that it gets alone (``shares``).
    """

    def __init__(self, networks: Sequence[Network], rows: int) -> None:
        self.rows, theta, inputs = rows, networks[0].theta, networks[0].sizes[0]
        self.share = theta.new_tensor(1 / rows)  # of a sample in the mean over the mini-batch
        self.x: Tensor | None = None
        widths = [network.widths[0] for network in networks]
        narrow = [member for member, width in enumerate(widths) if width < WIDE]
        together = tuple(widths[member] for member in narrow)
        if not shares(together, inputs, rows, theta.device, torch.get_num_threads()):
            narrow = []
        order = narrow + [member for member in range(len(networks)) if member not in narrow]  # as their rows lie
        depth = max(len(network.widths) for network in networks)
        self.outputs, self.deltas = [], []
        parts: list[dict[int, tuple[Tensor, Tensor]]] = []
        for level in range(depth):
            there = [member for member in order if level < len(networks[member].widths)]
            sizes = [networks[member].widths[level] for member in there]
            output, delta = (theta.new_empty(sum(sizes), rows) for _ in range(2))
            self.outputs.append(output)
            self.deltas.append(delta)
            parts.append(
                dict(zip(there, zip(torch.split(output, sizes), torch.split(delta, sizes), strict=True), strict=True))
            )
        self.logits, self.errors = (theta.new_empty(len(networks), networks[0].sizes[-1], rows) for _ in range(2))
        self.passes = []
        for member, network in enumerate(networks):
            outputs, deltas = zip(*(parts[level][member] for level in range(len(network.widths))), strict=True)
            self.passes.append(Pass(network.weights, [*outputs, self.logits[member]], [*deltas, self.errors[member]]))
        shape = sum(widths[member] for member in narrow), inputs
        self.weights, self.gradients = theta.new_empty(shape), theta.new_empty(shape)
        self._bind(narrow)

    def _bind(self, narrow: list[int]) -> None:
        """Which products make up a pass: (left, right, result) for each, so that a step looks nothing up."""
        rows = len(self.weights)
        self.shared_output, self.shared_delta = self.outputs[0][:rows], self.deltas[0][:rows]
        sizes = [len(self.passes[member].weights[0]) for member in narrow]
        self.copies = list(
            zip(torch.split(self.weights, sizes), [self.passes[m].weights[0] for m in narrow], strict=True)
        )
        self.from_shared = dict(zip(narrow, torch.split(self.gradients, sizes), strict=True))
        alone = [one for member, one in enumerate(self.passes) if member not in narrow]
        self.first = [(one.weights[0], one.outputs[0]) for one in alone]
        self.up = list[tuple[Tensor, list[tuple[Tensor, Tensor, Tensor]]]]()
        self.down = list[tuple[Tensor, Tensor, list[tuple[Tensor, Tensor, Tensor]]]]()
        for level, (output, delta) in enumerate(zip(self.outputs, self.deltas, strict=True), start=1):
            there = [one for one in self.passes if level < len(one.outputs) - 1]
            above = [(one.weights[level], one.outputs[level - 1], one.outputs[level]) for one in there]
            self.up.append((output, above))
            there = [one for one in self.passes if level < len(one.outputs)]
            products = [(one.weights[level].t(), one.deltas[level], one.deltas[level - 1]) for one in there]
            self.down.insert(0, (output, delta, products))
        self.top = [(one.weights[-1], one.outputs[-2], one.outputs[-1]) for one in self.passes]
        self.later = [
            [(delta, output.t()) for delta, output in zip(one.deltas[1:], one.outputs[:-1], strict=True)]
            for one in self.passes
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Fill all outputs for samples × inputs; returns the logits, networks × classes × samples."""
        if x is not self.x:
            self.x, self.columns = x, x.t()
        columns = self.columns
        for target, weight in self.copies:
            target.copy_(weight)
        if self.copies:
            torch.mm(self.weights, columns, out=self.shared_output)
        for weight, output in self.first:
            torch.mm(weight, columns, out=output)
        for hidden, products in self.up:
            hidden.relu_()
            for weight, below, output in products:
                torch.mm(weight, below, out=output)
        for weight, below, output in self.top:
            torch.mm(weight, below, out=output)
        return self.logits

    def backward(self, targets: Tensor, scale: Tensor | None = None) -> None:
        """Fill all deltas: each sample's gradient of cross-entropy, by one-hot targets, times ``scale``."""
        torch.softmax(self.logits, 1, out=self.errors).sub_(targets.t())
        if scale is not None:
            self.errors.mul_(scale)
        self.descend()

    def descend(self) -> None:
        """Fill the other deltas from ``errors``, which hold each sample's gradient with respect to its logits."""
        for output, delta, products in self.down:
            for weight, above, here in products:
                torch.mm(weight, above, out=here)
            _mask(delta, output, 0, grad_input=delta)

    def run(self, x: Tensor, targets: Tensor) -> None:
        """Both passes, for ``gradient`` to be asked of each network."""
        self.forward(x)
        self.backward(targets, self.share)
        if self.copies:
            torch.mm(self.shared_delta, x, out=self.gradients)

    def gradient(self, member: int, out: Sequence[Tensor]) -> None:
        """Write one network's gradient of the mean cross-entropy over the mini-batch, one matrix per layer."""
        if member in self.from_shared:
            out[0].copy_(self.from_shared[member])
        else:
            assert self.x is not None
            torch.mm(self.passes[member].deltas[0], self.x, out=out[0])
        for (delta, inputs), matrix in zip(self.later[member], out[1:], strict=True):
            torch.mm(delta, inputs, out=matrix)


@lru_cache(maxsize=4096)
def shares(widths: tuple[int, ...], inputs: int, rows: int, device: torch.device, threads: int) -> bool:
    """Whether first layers of these widths get, from products that they share, the bytes that each gets alone.

    BLAS sums in an order that may depend on sizes and alignment, but not on the numbers: so it is tried with some.
    """
    if len(widths) < 2:
        return False
    draws = torch.Generator().manual_seed(0)
    x, weights, deltas = (
        torch.randn(shape, generator=draws).to(device)
        for shape in ((rows, inputs), (sum(widths), inputs), (sum(widths), rows))
    )
    for left, right in ((weights, x.t()), (deltas, x)):
        alone = [part.clone() @ right for part in torch.split(left, list(widths))]
        if not torch.equal(left @ right, torch.cat(alone)):
            return False
    return True
