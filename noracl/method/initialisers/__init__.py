"""Initialisers set the incoming weights of new neurons (section 3.2, appendix A.1.1 and A.6.2). One file each.

Outgoing weights, Fisher and anchor of new neurons are zero whatever the initialiser: see ``network.embed``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from noracl.method.checks import number, require, whole
from noracl.method.registry import Registry, load_folder


@dataclass(frozen=True)
class Initialiser:
    """A function (the layer's weight, new neurons, scale, generator) → their incoming weights as columns."""

    columns: Callable[[Tensor, int, float, torch.Generator], Tensor]
    scale: str | None = None  #: the field of ``GrowthSettings`` that is its scale; None if it sets its own


INITIALISERS = Registry("init", Initialiser, scale="scale")
register = INITIALISERS.register  #: decorates a function, which ``GrowthSettings(init=name)`` then chooses


def normal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Independent draws from N(0, 1)."""
    return torch.randn(rows, columns, generator=generator, dtype=torch.float32)


def fan_in(init: Any, weight: Tensor, neurons: int, scale: float, generator: torch.Generator) -> Tensor:
    """Incoming weights (neurons × fan-in) of new neurons for a layer whose weight matrix is ``weight``."""
    whole("neurons", neurons, 1)
    number("scale", scale, 0)
    columns = INITIALISERS.find(init).columns(weight, neurons, scale, generator)
    shape = (weight.shape[1], neurons)
    fits = isinstance(columns, Tensor) and columns.shape == shape
    require(fits, f"init must return the incoming weights as {shape[0]} × {shape[1]}, one column per new neuron")
    return columns.t().to(weight)


load_folder(__name__, __path__)
