"""The learner as a classifier of scikit-learn, which must be installed for this module alone."""

from numbers import Integral
from typing import Any, Self

import numpy as np
import torch

from noracl.method.checks import require
from noracl.method.learner import Learner
from noracl.method.optimisation import OptimisationSettings
from noracl.method.regularisers import EWCSettings
from noracl.method.settings import Settings
from noracl.method.triggers import GrowthSettings

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    needed = "noracl.estimator needs scikit-learn 1.6 or newer: pip install 'noracl[sklearn]'"
    raise ImportError(f"{needed} ({error})") from None

FARTHEST = 10.0  #: deviations; a value farther from the first task's mean than this counts as this far
REAL = [np.float64, np.float32]


class NORACLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learns one task per ``partial_fit``, and grows when its signals agree; ``fit`` starts anew with one task.

    Parameters have the names and the meaning of ``noracl.Settings`` and its parts, and defaults for small tables. They
    are read when the first task is learnt. ``random_state`` as a number is the learner's seed.

    ``standardise`` scales each input by its mean and deviation in the first task, for later tasks too, because a
    continual learner cannot look ahead; values beyond ten deviations are then cut to ten. The network has no biases, so
    the learner is given a last column of ones.

    Fitted attributes are ``classes_``, ``n_features_in_``, ``feature_names_in_`` (of data frames), ``n_tasks_``,
    ``widths_``, ``learner_`` (the ``Learner``, with its history) and ``scaler_`` (None without ``standardise``).
    """

    classes_: Any
    learner_: Learner
    scaler_: Any

    def __init__(
        self,
        hidden: Any = (32, 32),
        *,
        batch_size: int = 32,
        rate_first: float = 0.1,
        rate_later: float = 0.05,
        epochs_first: int = 30,
        epochs_later: int = 30,
        regulariser: Any = "online_ewc",
        strength: float = 500.0,
        trigger: Any = "joint",
        init: Any = "qr",
        gamma: float = 0.9,
        epsilon: float = 0.05,
        percentile: float = 25.0,
        cooldown: int = 3,
        standardise: bool = True,
        device: torch.device | str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.batch_size = batch_size
        self.rate_first = rate_first
        self.rate_later = rate_later
        self.epochs_first = epochs_first
        self.epochs_later = epochs_later
        self.regulariser = regulariser
        self.strength = strength
        self.trigger = trigger
        self.init = init
        self.gamma = gamma
        self.epsilon = epsilon
        self.percentile = percentile
        self.cooldown = cooldown
        self.standardise = standardise
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, and learn one task; y holds labels of any kind."""
        if hasattr(self, "learner_"):
            del self.learner_
        return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn one more task. The first call needs all ``classes`` of all tasks, unless its y has them all."""
        first = not hasattr(self, "learner_")
        X, y = validate_data(self, X, y, dtype=REAL, reset=first)
        check_classification_targets(y)
        known = unique_labels(y if classes is None else classes) if first else self.classes_
        same = first or classes is None or np.array_equal(unique_labels(classes), known)
        require(same, "classes must be those of the first call, or None")
        mend = "name the classes of all tasks, by partial_fit(X, y, classes=…)"
        require(len(known) > 1, f"one class is too few, got {known.tolist()}: {mend}")
        new = np.setdiff1d(unique_labels(known, y), known).tolist()
        require(not new, f"y holds {new}, not among the classes {known.tolist()}: give all classes at the first call")
        if first:
            learner = Learner(self._settings(), len(known), self._seed(), device=self.device)
            self.classes_, self.scaler_ = known, StandardScaler().fit(X) if self.standardise else None
        else:
            learner = self.learner_
        learner.learn(self._inputs(X), np.searchsorted(known, y))
        self.learner_ = learner
        return self

    def predict(self, X: Any) -> Any:
        """The most likely class of each sample, as y had it."""
        found = self._asked(X)
        return self.classes_[self.learner_.predict(found).cpu().numpy()]

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class, samples × classes, in the order of ``classes_``."""
        found = self._asked(X)
        return self.learner_.predict_proba(found).cpu().numpy()

    @property
    def n_tasks_(self) -> int:
        """Tasks that were learnt."""
        return self.learner_.tasks

    @property
    def widths_(self) -> tuple[int, ...]:
        """Neurons in each hidden layer."""
        return self.learner_.widths

    def _asked(self, X: Any) -> Any:
        check_is_fitted(self, "learner_")
        return self._inputs(validate_data(self, X, dtype=REAL, reset=False))

    def _inputs(self, X: Any) -> Any:
        scaled = X if self.scaler_ is None else np.clip(self.scaler_.transform(X), -FARTHEST, FARTHEST)
        return np.column_stack([scaled, np.ones(len(X), X.dtype)])

    def _seed(self) -> int:
        state = check_random_state(self.random_state)
        return int(self.random_state if isinstance(self.random_state, Integral) else state.randint(2**31 - 1))

    def _settings(self) -> Settings:
        rates, epochs = (self.rate_first, self.rate_later), (self.epochs_first, self.epochs_later)
        growth = GrowthSettings(self.trigger, self.init, self.gamma, self.epsilon, self.percentile, self.cooldown)
        by, ewc = OptimisationSettings(self.batch_size, *rates, *epochs), EWCSettings(self.strength)
        return Settings(self.hidden, regulariser=self.regulariser, optimisation=by, ewc=ewc, growth=growth)
