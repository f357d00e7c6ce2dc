import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_circles
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from noracl import EWCSettings, GrowthSettings, Learner, OptimisationSettings, Settings
from noracl.estimator import NORACLClassifier
from tests.helpers import toy_task

SMALL = {"hidden": (12, 12), "random_state": 4}
CHECKS = """
from sklearn.utils.estimator_checks import check_estimator
from noracl.estimator import NORACLClassifier
for one in (NORACLClassifier(), NORACLClassifier(16, trigger="none", regulariser="none", standardise=False)):
    for check in check_estimator(one, on_skip=None, on_fail=None):
        print(check["status"], check["check_name"], repr(check["exception"]))
"""


def arrays(seed, words=(0, 1, 2)):
    task = toy_task(seed)
    x, y, x_test, y_test = (one.numpy() for one in (task.x, task.y, task.x_test, task.y_test))
    return x, np.array(words)[y], x_test, np.array(words)[y_test]


def test_every_check_of_scikit_learn_passes_and_none_is_skipped(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # which one of the checks needs before anything is imported
    done = subprocess.run([sys.executable, "-c", CHECKS], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("passed ")] == []
    assert len(lines) > 80
    assert sum("check_estimators_partial_fit_n_features" in line for line in lines) == 2


@pytest.mark.parametrize("standardise", [True, False])
def test_partial_fit_gives_the_bytes_of_the_learner(standardise):
    first, second = arrays(0), arrays(1)
    first[0][:, 3] = 1.0  # does not vary in the first task, but in the second
    second[0][:5] *= 100
    settings = Settings(
        hidden=(8, 6),
        regulariser="ewc",
        optimisation=OptimisationSettings(
            batch_size=16, rate_first=0.08, rate_later=0.02, epochs_first=10, epochs_later=12
        ),
        ewc=EWCSettings(strength=20),
        growth=GrowthSettings(trigger="ed", init="random", gamma=0.5, epsilon=0.1, percentile=90, cooldown=1),
    )
    learner, scaler = Learner(settings, classes=3, seed=4), StandardScaler().fit(first[0])
    flat = {**vars(settings.optimisation), **vars(settings.ewc), **vars(settings.growth)}
    names = set(NORACLClassifier().get_params()) & set(flat)
    assert len(names) == 12
    model = NORACLClassifier((8, 6), regulariser="ewc", standardise=standardise, random_state=4)
    model.set_params(**{name: flat[name] for name in names})
    for x, y, x_test, _ in (first, second):
        seen, asked = (np.clip(scaler.transform(one), -10, 10) if standardise else one for one in (x, x_test))
        learner.learn(np.c_[seen, np.ones(len(x))], y)
        assert model.partial_fit(x, y) is model
        assert torch.equal(model.learner_.network.theta, learner.network.theta)
        found = learner.predict_proba(np.c_[asked, np.ones(len(asked))])
        np.testing.assert_array_equal(model.predict_proba(x_test), found.numpy())
    assert model.learner_.settings == settings
    assert model.n_tasks_ == 2
    assert model.widths_ == learner.widths != (8, 6)


def test_fit_forgets_everything_and_repeats_itself():
    model, fresh = NORACLClassifier(**SMALL), NORACLClassifier(**SMALL).fit(*arrays(0)[:2])
    assert not hasattr(model, "n_tasks_")
    assert not hasattr(model, "widths_")
    words = np.array(["a", "b", "c"])
    model.partial_fit(*arrays(1, words)[:2]).partial_fit(*arrays(2, words)[:2]).fit(*arrays(0)[:2])
    assert model.n_tasks_ == 1
    assert model.classes_.tolist() == [0, 1, 2]
    assert torch.equal(model.learner_.network.theta, fresh.learner_.network.theta)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(np.full((3, 9), np.nan), [0, 1, 2])
    with pytest.raises(NotFittedError):
        model.predict(arrays(0)[0])


def test_random_state_is_a_number_a_generator_or_none():
    def theta(random_state):
        return NORACLClassifier(**{**SMALL, "random_state": random_state}).fit(*arrays(0)[:2]).learner_.network.theta

    draw = np.random.RandomState(3)
    first, second = theta(draw), theta(draw)
    assert not torch.equal(first, second), "the generator goes on"
    assert torch.equal(first, theta(np.random.RandomState(3)))
    assert not torch.equal(theta(None), theta(None))
    assert torch.equal(theta(np.int64(5)), theta(5))
    with pytest.raises(ValueError, match="cannot be used to seed"):
        theta("five")


def test_labels_of_any_kind_and_classes_that_come_later():
    words = np.array(["cat", "dog", "eel"])
    x, y, x_test, y_test = arrays(0, words)
    expected = NORACLClassifier(**SMALL).fit(x, arrays(0)[1]).predict(x_test)
    found = NORACLClassifier(**SMALL).fit(x, y)
    np.testing.assert_array_equal(found.predict(x_test), words[expected])
    assert found.score(x_test, y_test) > 0.9
    model = NORACLClassifier(**SMALL).partial_fit(x[y == "dog"], y[y == "dog"], classes=["eel", "dog", "cat"])
    assert model.classes_.tolist() == ["cat", "dog", "eel"]
    assert model.partial_fit(x, y).partial_fit(x, y, classes=words).n_tasks_ == 3
    assert model.predict_proba(x_test).shape == (60, 3)
    with pytest.raises(ValueError, match="classes must be those of the first call, or None"):
        model.partial_fit(x, y, classes=["cat", "dog"])
    with pytest.raises(ValueError, match=r"y holds \['fox'\], not among the classes \['cat', 'dog', 'eel'\]"):
        model.partial_fit(x, np.where(y == "eel", "fox", y))
    with pytest.raises(ValueError, match="Mix of label input types"):
        model.partial_fit(x, arrays(0)[1])
    assert model.n_tasks_ == 3
    with pytest.raises(
        ValueError, match=r"one class is too few, got \['dog'\]: name the classes of all tasks, by partial_fit"
    ):
        NORACLClassifier().fit(x[y == "dog"], y[y == "dog"])
    with pytest.raises(ValueError, match="gamma must be a number in"):
        NORACLClassifier(gamma=2).fit(x, y)


def test_frames_keep_the_names_of_their_columns():
    x, y, x_test, y_test = arrays(0, np.array(["cat", "dog", "eel"]))
    names = [f"input {place}" for place in range(9)]
    frame, test = pd.DataFrame(x, columns=names), pd.DataFrame(x_test, columns=names)
    model = (
        NORACLClassifier(**SMALL).partial_fit(frame, pd.Series(y)).partial_fit(frame, pd.Series(y, dtype="category"))
    )
    assert model.feature_names_in_.tolist() == names
    assert model.n_features_in_ == 9
    plain = NORACLClassifier(**SMALL).partial_fit(x, y).partial_fit(x, y)
    np.testing.assert_array_equal(model.predict(test), plain.predict(x_test))
    assert model.score(test, pd.Series(y_test)) > 0.9
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame[names[::-1]], y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(test[names[::-1]])


def test_a_clone_has_learnt_nothing_and_a_pickle_goes_on():
    model = NORACLClassifier(**SMALL).partial_fit(*arrays(0)[:2])
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "learner_")
    copied = pickle.loads(pickle.dumps(model))
    for one in (model, copied):
        one.partial_fit(*arrays(1)[:2])
    assert torch.equal(copied.learner_.network.theta, model.learner_.network.theta)
    assert copied.widths_ == model.widths_


def test_it_works_where_classifiers_of_scikit_learn_work():
    x, y = load_iris(return_X_y=True)
    names = load_iris().target_names[y]
    model = NORACLClassifier(random_state=0)
    assert cross_val_score(model, x, names).mean() > 0.9
    assert cross_val_score(make_pipeline(StandardScaler(), model), x, names).mean() > 0.9
    search = GridSearchCV(model, {"hidden": [(1,), (8, 8)]}, scoring="neg_log_loss", cv=3).fit(x, names)
    assert search.best_params_ == {"hidden": (8, 8)}
    assert search.best_estimator_.widths_ == (8, 8)


def test_inputs_need_not_lie_around_zero():
    x, y = make_circles(300, noise=0.1, factor=0.5, random_state=0)
    assert NORACLClassifier(random_state=0).fit(x, y).score(x, y) > 0.9, "a network without biases sees directions only"
    assert NORACLClassifier(random_state=0).fit(x * 1e-6 + 7, y).score(x * 1e-6 + 7, y) > 0.9


@pytest.mark.parametrize("trigger", ["joint", "none"])
def test_a_stream_of_digits_is_learnt_by_growing_and_without_a_warning(trigger):
    x, digits = load_digits(return_X_y=True)
    model, scores = NORACLClassifier(trigger=trigger, random_state=0), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for first in range(0, 10, 2):
            rows = np.isin(digits, (first, first + 1))
            new, old = np.flatnonzero(rows)[:-90], np.flatnonzero(rows)[-90:]
            model.partial_fit(x[new], digits[new] % 2)
            scores.append(model.score(x[old], digits[old] % 2))
        NORACLClassifier().fit(x[:3], [0, 1, 0])
    assert np.mean(scores) > 0.9
    assert model.score(x, digits % 2) > 0.7, "and it forgot little"
    assert model.n_tasks_ == 5
    assert (sum(model.widths_) > 64) == (trigger == "joint")
