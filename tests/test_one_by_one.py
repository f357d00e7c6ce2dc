"""Tasks that arrive one by one: a learner that is fed, asked, saved, copied and given parts of one's own."""

import copy
import json
import math
import pickle
import tomllib
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import noracl
from noracl import (
    EWCSettings,
    FisherSettings,
    GrowthSettings,
    Learner,
    OptimisationSettings,
    Regulariser,
    Settings,
    Stream,
    Task,
    TaskWarning,
    Trigger,
    learn,
    permuted,
)
from noracl.method.history import History
from noracl.method.regularisers import REGULARISERS
from tests.helpers import plain_logits, toy_stream, toy_task

QUICK = OptimisationSettings(32, rate_first=0.1, rate_later=0.02, epochs_first=3, epochs_later=5)
GROWING = GrowthSettings(percentile=100, gamma=0.5, cooldown=1)
SETTINGS = Settings((8, 6), optimisation=QUICK, fisher=FisherSettings(batches=2), growth=GROWING)


def kinds(task):
    """A task as people of different habits have it."""
    arrays = [one.numpy() for one in (task.x, task.y, task.x_test, task.y_test)]
    frames = [pd.DataFrame(arrays[0]), pd.Series(arrays[1]), pd.DataFrame(arrays[2]), pd.Series(arrays[3])]
    return {"numpy": arrays, "pandas": frames, "lists": [one.tolist() for one in arrays]}


@pytest.mark.parametrize("kind", ["torch", "numpy", "pandas", "lists"])
def test_tasks_one_by_one_give_the_bytes_of_the_stream(kind):
    stream = toy_stream(3)
    expected = learn(stream, SETTINGS, seed=4)
    learner = Learner(SETTINGS, classes=3, seed=4)
    for task in stream.tasks:
        learner.learn(task) if kind == "torch" else learner.learn(*kinds(task)[kind])
    assert torch.equal(learner.network.theta, expected.network.theta)
    assert learner.history == expected.history
    assert learner.history.growth, "and it grew"
    assert learner.widths == expected.network.widths
    assert learner.tasks == 3


def test_permuted_inputs_and_scaling_come_with_the_task_or_the_learner():
    stream = permuted(toy_task(), 3, 3, seed=4, scale=0.5, shift=0.1)
    expected = learn(stream, SETTINGS)
    learner = Learner(SETTINGS, classes=3, scale=0.5, shift=0.1)
    for task in stream.tasks:
        learner.learn(task.x, task.y, task.x_test, task.y_test, columns=task.columns)
    assert torch.equal(learner.network.theta, expected.network.theta)
    last = stream.tasks[-1]
    assert learner.score(last.x_test[:, last.columns], last.y_test) == learner.history.accuracy[-1][-1]


def test_it_can_be_asked_at_any_time():
    learner = Learner(SETTINGS, classes=3)
    for ask in (learner.predict, learner.predict_proba, lambda x: learner.score(x, [0]), lambda x: learner.module()):
        with pytest.raises(ValueError, match="this learner has learnt nothing yet"):
            ask(np.zeros((1, 9)))
    with pytest.raises(ValueError, match="this history holds no task"):
        learner.history.average_accuracy()
    assert repr(learner) == "Learner(0 tasks learnt, widths (8, 6))"
    first, second = toy_task(0), toy_task(1)
    learner.learn(first)
    logits = plain_logits(learner.network.theta, learner.network.sizes, first.x_test)
    torch.testing.assert_close(learner.predict_proba(first.x_test), logits.softmax(1))
    assert torch.equal(learner.predict(first.x_test.numpy()), logits.argmax(1))
    assert learner.score(first.x_test.tolist(), first.y_test.tolist()) == learner.history.accuracy[0][0]
    before = learner.draws["labels"].get_state()
    seen = learner.signals(second.x, second.y)
    assert [one.reference for one in seen] == learner.reference
    assert all(one.percentile is not None and one.tau is not None for one in seen)
    assert torch.equal(learner.draws["labels"].get_state(), before), "looking changes nothing"
    learner.learn(second)
    assert repr(learner).startswith("Learner(2 tasks learnt, widths (")
    for wrong in (np.zeros((3, 8)), np.zeros(9), "text"):
        with pytest.raises(ValueError, match=r"^x must"):
            learner.predict(wrong)
    with pytest.raises(ValueError, match="y must hold 60 labels"):
        learner.score(first.x_test, [0])


def test_more_tasks_than_anybody_knew_of_and_classes_of_the_first_task():
    learner = Learner(SETTINGS)
    for seed in range(5):
        learner.learn(toy_task(seed))
    assert learner.classes == 3
    assert [len(row) for row in learner.history.accuracy] == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match=r"task.y must lie in \[0, 2\], the head's classes, got 0 to 5"):
        learner.learn(toy_task(classes=6))
    assert learner.tasks == 5


def test_without_test_data_accuracy_is_unknown_and_says_so():
    learner = Learner(SETTINGS, classes=3)
    learner.learn(toy_task(0))
    learner.learn(toy_task(1).x, toy_task(1).y)
    learner.learn(toy_task(2))
    row = learner.history.accuracy[-1]
    assert math.isnan(row[1])
    assert not math.isnan(row[0] + row[2])
    assert math.isnan(learner.history.average_accuracy())
    assert math.isnan(learner.history.forgetting()), "not 0, which nobody measured"
    with pytest.raises(ValueError, match=r"tasks\[0\].x_test is empty"):
        Stream([Task(toy_task().x, toy_task().y)], 3)


@pytest.mark.parametrize("regulariser", sorted(REGULARISERS))
def test_a_saved_learner_goes_on_with_the_same_bytes(tmp_path, regulariser):
    settings = replace(SETTINGS, regulariser=regulariser, fisher=FisherSettings(labels="sampled", batches=2))
    stream = permuted(toy_task(), 4, 3, seed=4, scale=0.5)
    whole = Learner.of(stream, settings, seed=2)
    for task in stream.tasks[:2]:
        whole.learn(task)
    whole.save(tmp_path / "half.npz")
    loaded = Learner.load(tmp_path / "half.npz")
    copied, pickled = copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))
    for learner in (whole, loaded, copied, pickled):
        for task in stream.tasks[2:]:
            learner.learn(task)
    assert whole.history.growth
    for learner in (loaded, copied, pickled):
        assert torch.equal(learner.network.theta, whole.network.theta)
        assert learner.history == whole.history
        assert learner.settings == whole.settings
        assert learner.widths == whole.widths
    assert [path.name for path in tmp_path.iterdir()] == ["half.npz"]


def test_a_copy_is_trained_on_its_own(tmp_path):
    """The weights of a copied network are views of its own vector: training moves them, and only them."""
    learner = Learner(replace(SETTINGS, growth=GrowthSettings(trigger="none")), classes=3).learn(toy_task())
    kept = learner.network.theta.clone()
    for copied in (pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)):
        copied.learn(toy_task(1))
        assert not torch.equal(copied.network.theta, kept)
        assert copied.network.weights[0].data_ptr() == copied.network.theta.data_ptr()
        x = toy_task(1).x_test
        assert torch.equal(copied.predict(x), plain_logits(copied.network.theta, copied.network.sizes, x).argmax(1))
    assert torch.equal(learner.network.theta, kept)


def test_files_hold_arrays_and_json_and_bad_ones_are_refused(tmp_path):
    path = tmp_path / "learner.npz"
    learner = Learner(SETTINGS, classes=3)
    with pytest.raises(ValueError, match="this learner has learnt nothing yet"):
        learner.save(path)
    learner.learn(toy_task()).save(path)
    with np.load(path, allow_pickle=False) as content:
        assert json.loads(str(content["json"]))["format"] == 1
        arrays = {name: content[name] for name in content.files}
    assert all(one.dtype != object for one in arrays.values())
    assert all(name.endswith(".npy") for name in zipfile.ZipFile(path).namelist())
    np.savez(tmp_path / "other.npz", **{**arrays, "json": np.array(json.dumps({"format": 7}))})
    with pytest.raises(ValueError, match=r"other.npz has format 7; this version reads 1"):
        Learner.load(tmp_path / "other.npz")
    np.savez(tmp_path / "code.npz", json=np.array([Settings()], dtype=object))
    (tmp_path / "cut.npz").write_bytes(path.read_bytes()[:-100])
    (tmp_path / "text.npz").write_text("hello", encoding="utf-8")
    for name in ("code", "cut", "text"):
        with pytest.raises(ValueError, match=f"{name}.npz holds no learner"):
            Learner.load(tmp_path / f"{name}.npz")
    with pytest.raises(FileNotFoundError):
        Learner.load(tmp_path / "none.npz")
    own = Learner(replace(SETTINGS, regulariser=lambda settings: Regulariser(settings)), classes=3).learn(toy_task())
    with pytest.raises(ValueError, match="regulariser must be registered under a name to be saved"):
        own.save(path)
    assert Learner.load(path).tasks == 1, "the old file is still there"


def test_the_network_is_a_plain_module_of_torch():
    learner = Learner(SETTINGS, classes=3, scale=0.5, shift=0.25).learn(toy_task()).learn(toy_task(1))
    module, x = learner.module(), toy_task().x_test
    torch.testing.assert_close(module(x).softmax(1), learner.predict_proba(x))
    assert [tuple(one.shape) for one in module.parameters()] == [tuple(one.shape) for one in learner.network.weights]
    twin = learner.module()
    for parameter in twin.parameters():
        torch.nn.init.zeros_(parameter)
    twin.load_state_dict(module.state_dict())
    assert torch.equal(twin(x), module(x))
    with torch.no_grad():
        next(module.parameters()).zero_()
    assert learner.network.weights[0].any(), "a copy"
    assert "scale" not in str(Learner(SETTINGS, classes=3).learn(toy_task()).module().state_dict().keys())


def test_a_learner_takes_a_device():
    learner = Learner(SETTINGS, classes=3, device="cpu").learn(toy_task())
    assert learner.network.theta.device == torch.device("cpu")
    meta = Learner(SETTINGS, classes=3, device="meta")
    with pytest.raises((ValueError, NotImplementedError, RuntimeError)):
        meta.learn(toy_task())
    assert not hasattr(meta, "network"), "as it was before"


class Frozen(Regulariser):
    """Nothing that was there at the end of a task moves."""

    def penalise(self, theta, gradient):
        if "old" in self.vectors:
            gradient[self.vectors["old"] > 0] = 0

    def consolidate(self, network, fisher, batches):
        self.keep(old=torch.ones_like(network.theta))


def test_regularisers_triggers_and_initialisers_of_ones_own_go_in_like_ours():
    growth = GrowthSettings(
        trigger=lambda signals, widths: [2 if one.phi > 0 else 0 for one in signals],
        init=lambda weight, neurons, scale, generator: scale * torch.ones(weight.shape[1], neurons),
        scale=0.03,
        cooldown=100,
    )
    learner = Learner(replace(SETTINGS, regulariser=Frozen, growth=growth), classes=3).learn(toy_task())
    old = [weight.clone() for weight in learner.network.weights]
    learner.learn(toy_task(1))
    assert learner.widths == (10, 8)
    for before, after in zip(old, learner.network.weights, strict=True):
        assert torch.equal(after[: before.shape[0], : before.shape[1]], before)
    assert learner.network.weights[-1][:, 6:].any(), "new neurons learn"

    class Late(Trigger):
        def before_epoch(self, growth, epoch, widths):
            return [1 if epoch == 4 else 0] * len(widths)

    for rule in (Late, Late()):
        found = learn(toy_stream(2), replace(SETTINGS, growth=GrowthSettings(trigger=rule)))
        assert found.network.widths == (9, 7)
    with pytest.raises(ValueError, match="trigger must return 2 numbers, one per hidden layer"):
        learn(toy_stream(2), replace(SETTINGS, growth=GrowthSettings(trigger=lambda signals, widths: [1])))
    bad = GrowthSettings(trigger="fixed", init=lambda weight, neurons, scale, generator: torch.ones(2, 2))
    with pytest.raises(ValueError, match="init must return the incoming weights as 9 × "):
        learn(toy_stream(2), replace(SETTINGS, growth=bad))


def test_a_task_that_cannot_work_is_warned_of():
    task = toy_task()
    with pytest.warns(TaskWarning, match="9 steps at a learning rate of 0.1 hardly move the weights: choose a smaller"):
        Learner(SETTINGS, classes=3).learn(task)
    enough = replace(SETTINGS, optimisation=replace(QUICK, epochs_first=30))
    with pytest.warns(TaskWarning, match="inputs reach 255 where the network sees them: standardise them"):
        Learner(enough, classes=3).learn((task.x * 20 + 128).clamp(0, 255).to(torch.uint8), task.y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Learner(enough, classes=3).learn(task)


def test_metrics_follow_their_definitions():
    history = History(
        accuracy=[[0.9], [0.5, 0.8], [0.6, 0.7, 0.9]], zero_shot=[0.2, 0.4, 0.5], untrained=[0.2, 0.3, 0.1]
    )
    assert history.learning_accuracy() == pytest.approx((0.9 + 0.8 + 0.9) / 3)
    assert history.forward_transfer() == pytest.approx((0.1 + 0.4) / 2)
    assert history.backward_transfer() == pytest.approx((-0.3 - 0.1) / 2)
    found = learn(toy_stream(3), SETTINGS)
    fresh = Learner.of(toy_stream(3), SETTINGS)
    expected = [fresh.network.predict(task.x_test) == task.y_test for task in toy_stream(3).tasks]
    assert found.history.untrained == [float(one.double().mean()) for one in expected]
    half = learn(Stream(toy_stream(3).tasks[:2], 3), SETTINGS).network
    task = toy_stream(3).tasks[2]
    assert found.history.zero_shot[2] == float((half.predict(task.x_test) == task.y_test).double().mean())


def test_the_package_says_its_version_and_has_types():
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    assert noracl.__version__ == project["project"]["version"]
    assert Path(noracl.__file__).with_name("py.typed").exists()
    assert EWCSettings in (getattr(noracl, name) for name in noracl.__all__)
