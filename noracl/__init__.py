"""NORACL: continual learning with networks that grow neurons when two signals agree.

>>> from noracl import Settings, Stream, Task, learn
>>> stream = Stream([Task(x1, y1, x1_test, y1_test), Task(x2, y2, x2_test, y2_test)], classes=2)
>>> outcome = learn(stream, Settings(hidden=(16, 16)), seed=0)
>>> outcome.history.average_accuracy(), outcome.history.widths
"""

from noracl.method.fisher import FisherSettings
from noracl.method.history import EpochSignals, GrowthEvent, History
from noracl.method.initialisers.null_space import NullSpaceExhausted
from noracl.method.learner import Learner, Outcome, Settings, learn
from noracl.method.network import Network
from noracl.method.optimisation import NonFiniteLoss, OptimisationSettings
from noracl.method.regularisers import Consolidation, EWCSettings
from noracl.method.regularisers.online_ewc import OnlineEWC
from noracl.method.streams import Stream, Task, permuted, rotated, split
from noracl.method.triggers import GrowthSettings, LayerSignal

__all__ = ["Learner", "Network", "NonFiniteLoss", "NullSpaceExhausted", "OnlineEWC", "Outcome", "learn"]
__all__ += ["Consolidation", "EWCSettings", "FisherSettings", "GrowthSettings", "OptimisationSettings", "Settings"]
__all__ += ["Stream", "Task", "permuted", "rotated", "split"]
__all__ += ["EpochSignals", "GrowthEvent", "History", "LayerSignal"]
