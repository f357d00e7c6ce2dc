"""How to add neurons: fan-in weights of the newcomers (section 3.2, appendix A.1.1 and A.6.2).

Fan-out, Fisher and anchor of new neurons are zero whatever the initialiser: see ``network.embed``.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from noracl.checks import choice, number, whole


class NullSpaceExhausted(RuntimeError):
    """The layer's incoming weights leave fewer free directions than neurons are to be added."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(f"null-space initialisation needs {needed} free directions, {available} are left")
        self.needed, self.available = needed, available

    def __reduce__(self) -> tuple[type, tuple[int, int]]:
        return type(self), (self.needed, self.available)


def _normal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    return torch.randn(rows, columns, generator=generator)


def orthogonal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """The first columns of the Q of a random square matrix; beyond ``rows``, of a further, independent one.

    Column j of Q depends on the first j columns only, so the rest of the square matrix need not be drawn.
    """
    blocks = []
    for start in range(0, columns, rows):
        blocks.append(torch.linalg.qr(_normal(rows, min(rows, columns - start), generator)).Q)
    return torch.cat(blocks, dim=1)


def null_space(weight: Tensor, columns: int, generator: torch.Generator) -> Tensor:
    """Random orthonormal columns, orthogonal to all existing incoming weight vectors (the rows of ``weight``)."""
    rows = weight.shape[1]
    left, singular, _ = torch.linalg.svd(weight.t().double().cpu(), full_matrices=False)
    tolerance = singular.max() * max(weight.shape) * torch.finfo(weight.dtype).eps
    span = left[:, singular > tolerance]
    available = rows - span.shape[1]
    if columns > available:
        raise NullSpaceExhausted(columns, available)
    drawn = _normal(rows, columns, generator).double()
    for _ in range(2):  # once more against what rounding left in the span
        drawn = torch.linalg.qr(drawn - span @ (span.t() @ drawn)).Q
    return drawn


Initialiser = Callable[[Tensor, int, float, torch.Generator], Tensor]
#: the layer's weight (neurons × fan-in), number of new neurons, scale, generator → new neurons' fan-in as columns
INITIALISERS: dict[str, Initialiser] = {
    "qr": lambda w, k, s, g: s * orthogonal(w.shape[1], k, g),
    "random": lambda w, k, s, g: s * _normal(w.shape[1], k, g),
    "he": lambda w, k, s, g: math.sqrt(2 / w.shape[1]) * _normal(w.shape[1], k, g),
    "xavier": lambda w, k, s, g: math.sqrt(2 / (w.shape[0] + w.shape[1] + k)) * _normal(w.shape[1], k, g),
    "null-space": lambda w, k, s, g: s * null_space(w, k, g),
    "zero": lambda w, k, s, g: torch.zeros(w.shape[1], k),
}


def fan_in(init: str, weight: Tensor, neurons: int, scale: float, generator: torch.Generator) -> Tensor:
    """Incoming weights (neurons × fan-in) of new neurons for a layer whose weight matrix is ``weight``.

    ``scale`` is s_init for qr and null-space and the standard deviation for random; he, xavier and zero set
    their own.
    """
    choice("init", init, INITIALISERS)
    whole("neurons", neurons, 1)
    number("scale", scale, 0)
    return INITIALISERS[init](weight, neurons, scale, generator).t().to(weight)
