"""NORACL: continual learning with networks that grow neurons when two signals agree.

>>> from noracl import Settings, Stream, Task, learn
>>> stream = Stream([Task(x1, y1, x1_test, y1_test), Task(x2, y2, x2_test, y2_test)], classes=2)
>>> outcome = learn(stream, Settings(hidden=(16, 16)), seed=0)
>>> outcome.history.average_accuracy(), outcome.history.widths
"""

from noracl.consolidation import Consolidation, EWCSettings, OnlineEWC
from noracl.fisher import FisherSettings
from noracl.history import EpochSignals, GrowthEvent, History
from noracl.learner import Learner, Outcome, Settings, learn
from noracl.network import Network
from noracl.neurogenesis import NullSpaceExhausted
from noracl.optimisation import NonFiniteLoss, OptimisationSettings
from noracl.streams import Stream, Task, permuted, rotated, split
from noracl.triggers import GrowthSettings, LayerSignal

#: Raised by one whenever a change to the library changes the numbers that it computes.
NUMERICS = 1

__all__ = [
    "NUMERICS",
    "Consolidation",
    "EWCSettings",
    "EpochSignals",
    "FisherSettings",
    "GrowthEvent",
    "GrowthSettings",
    "History",
    "LayerSignal",
    "Learner",
    "Network",
    "NonFiniteLoss",
    "NullSpaceExhausted",
    "OnlineEWC",
    "OptimisationSettings",
    "Outcome",
    "Settings",
    "Stream",
    "Task",
    "learn",
    "permuted",
    "rotated",
    "split",
]
