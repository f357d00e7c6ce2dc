"""NORACL: continual learning with networks that grow neurons when two signals agree.

>>> from noracl import Learner, Settings
>>> learner = Learner(Settings(hidden=(16, 16)), classes=2, seed=0)
>>> learner.learn(x1, y1, x1_test, y1_test)  # as tasks arrive
>>> learner.learn(x2, y2, x2_test, y2_test)
>>> learner.predict(x1_test), learner.history.average_accuracy(), learner.widths
"""

from noracl.method.advice import TaskWarning
from noracl.method.bounds import joint, naive, separate
from noracl.method.callbacks import Callbacks
from noracl.method.fisher import FisherSettings
from noracl.method.history import EpochSignals, GrowthEvent, History
from noracl.method.initialisers.null_space import NullSpaceExhausted
from noracl.method.learner import Learner, Outcome, learn, learn_together
from noracl.method.network import Network
from noracl.method.optimisation import NonFiniteLoss, OptimisationSettings
from noracl.method.regularisers import EWCSettings, Quadratic, Regulariser
from noracl.method.regularisers.online_ewc import OnlineEWC
from noracl.method.settings import Settings
from noracl.method.streams import Stream, Task, permuted, rotated, split
from noracl.method.triggers import GrowthSettings, LayerSignal, Trigger

__version__ = "0.2.0"
__all__ = ["Callbacks", "Learner", "Network", "NonFiniteLoss", "NullSpaceExhausted", "Outcome", "TaskWarning", "learn"]
__all__ += ["learn_together"]
__all__ += ["EWCSettings", "FisherSettings", "GrowthSettings", "OptimisationSettings", "Settings"]
__all__ += ["OnlineEWC", "Quadratic", "Regulariser", "Trigger", "joint", "naive", "separate"]
__all__ += ["Stream", "Task", "permuted", "rotated", "split"]
__all__ += ["EpochSignals", "GrowthEvent", "History", "LayerSignal"]
