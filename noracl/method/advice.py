"""Advice: a warning where a task cannot work with its settings, because the defaults are sized for MNIST."""

import math
import warnings

import torch

from noracl.method.streams import Task

FEWEST = 1.0  #: learning rate × steps: with less than this, weights hardly leave their first values
LARGEST_INPUT = 30.0  #: standardised inputs rarely go beyond 10


class TaskWarning(UserWarning):
    """A task will hardly be learnt with its settings; the message says what to change."""


def warn_of(task: Task, scale: float, shift: float, epochs: int, rate: float, batch_size: int) -> None:
    """Warn of unscaled inputs, and of too few or too small steps."""
    ends = torch.tensor([0.0, 255.0]) if task.x.dtype == torch.uint8 else torch.stack(task.x.aminmax()).cpu()
    largest = float((ends * scale + shift).abs().max())
    if largest > LARGEST_INPUT:
        said = f"inputs reach {largest:.3g} where the network sees them: standardise them, or give scale and shift"
        warnings.warn(said, TaskWarning, stacklevel=4)
    steps = epochs * math.ceil(len(task.x) / batch_size)
    if rate * steps < FEWEST:
        said = f"{steps} steps at a learning rate of {rate:g} hardly move the weights: choose a smaller "
        said += "optimisation.batch_size, more epochs or a larger rate, so that rate × steps is at least 1"
        warnings.warn(said, TaskWarning, stacklevel=4)
