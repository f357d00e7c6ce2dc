"""Whatever people hand to the library works as with torch or scikit-learn, or is refused by the argument's name."""

import json
import re
from dataclasses import asdict, fields, replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from noracl import (
    Callbacks,
    EWCSettings,
    FisherSettings,
    GrowthSettings,
    History,
    Learner,
    Network,
    NonFiniteLoss,
    NullSpaceExhausted,
    OnlineEWC,
    OptimisationSettings,
    Settings,
    Stream,
    Task,
    learn,
    permuted,
    rotated,
    split,
)
from noracl.analysis.transfer import Observer
from noracl.method import memory, plasticity, signals
from tests.helpers import toy_stream, toy_task

X = np.random.default_rng(0).integers(0, 100, (24, 4))  # whole numbers, so that every type can hold them
Y = np.arange(24) % 3
FRAME = pd.DataFrame(X, columns=list("abcd"))
QUICK = OptimisationSettings(batch_size=32, epochs_first=2, epochs_later=3, rate_later=0.02)
SMALL = Settings((8, 6), optimisation=QUICK, ewc=EWCSettings(strength=10.0))
KINDS = (OptimisationSettings, FisherSettings, EWCSettings, GrowthSettings)
FIELDS = [(kind, field.name) for kind in KINDS for field in fields(kind)]
NUMERIC = [(kind, name) for kind, name in FIELDS if not isinstance(getattr(kind(), name), str | tuple)]


def made(**changes):
    floats = X.astype(np.float32)
    return Task(**{"x": floats, "y": Y, "x_test": floats, "y_test": Y, **changes})


def refused(message, call, *arguments, **options):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call(*arguments, **options)


def refusal(call):
    """The message of the one error that may come, or None."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return None


TYPES = ["f2", "f4", "f8", "g", "i1", "i2", "i4", "i8", "u2", "u4", "u8", ">f4", ">f8", ">i2", "O"]
INPUTS = {
    **{name: X.astype(name) for name in TYPES},
    "by columns": np.asfortranarray(X.astype("f4")),
    "backwards": X[::-1].astype("f4")[::-1],
    "every other": np.repeat(X, 2, axis=1).astype("f4")[:, ::2],
    "read only": np.frombuffer(X.astype("f4").tobytes(), "f4").reshape(X.shape),
    "not masked": np.ma.masked_array(X, mask=False),
    "list": X.tolist(),
    "tuple of arrays": tuple(X),
    "list of tensors": list(torch.tensor(X)),
    "frame": FRAME,
    "frame of several types": FRAME.assign(b=FRAME.b.astype(float), c=FRAME.c.astype("Int64")).astype({"d": "i2"}),
    "fractions": [[Fraction(int(value)) for value in row] for row in X],
    "gradient": torch.tensor(X).float().requires_grad_(),
    "calculated with a gradient": torch.tensor(X).float().requires_grad_() * 1,
    "parameter": torch.nn.Parameter(torch.tensor(X).float()),
    "bfloat16": torch.tensor(X).bfloat16(),
    "turned": torch.tensor(X.T.copy()).float().t(),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_of_any_kind_become_the_same_tensor(name):
    task = made(x=INPUTS[name], x_test=INPUTS[name])
    for found in (task.x, task.x_test):
        assert (found.dtype, found.requires_grad, found.is_contiguous()) == (torch.float32, False, True)
        assert torch.equal(found, torch.tensor(X).float())
    learn(Stream([task], 3), replace(SMALL, hidden=(3,)))


LABELS = {
    **{name: Y.astype(name) for name in ("f2", "f4", "f8", ">i8", "O")},
    "one column": Y[:, None],
    "frame of one column": pd.DataFrame({"label": Y}),
    "series": pd.Series(Y, index=Y),
    "nullable": pd.Series(Y, dtype="Int64"),
    "categories": pd.Categorical(Y),
    "gradient": torch.tensor(Y).float().requires_grad_(),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_any_kind_become_the_same_tensor(name):
    task = made(y=LABELS[name])
    assert task.y.dtype == torch.long
    assert torch.equal(task.y, torch.tensor(Y))


def test_truth_values_count_as_0_and_1_and_tensors_that_fit_are_not_copied():
    for fits in (torch.zeros(24, 4), torch.zeros(24, 4, dtype=torch.uint8)):
        task = made(x=X > 50, y=Y > 0, x_test=fits, y_test=torch.tensor(Y))
        assert torch.equal(task.x, torch.tensor(X > 50).float())
        assert torch.equal(task.y, torch.tensor(Y > 0).long())
        assert task.x_test is fits


BAD = [
    ("x", X.astype(str), "x must hold numbers, got '85': encode text and categories as numbers"),
    ("x", FRAME.assign(b="red"), "x must hold numbers, got 'red': encode text"),
    ("x", FRAME.assign(b=pd.array([1, None] * 12, dtype="Int64")), "x must hold numbers, got <NA>"),
    ("x", X.astype(complex), "x must hold real numbers, got torch.complex128"),
    ("x", np.zeros((24, 4), "M8[s]"), "x must hold numbers, got datetime"),
    ("x", scipy.sparse.csr_matrix(X), "x must be dense, got a sparse matrix: give x.toarray()"),
    ("x", torch.tensor(X).to_sparse(), "x must be an ordinary dense tensor, got torch.sparse_coo on cpu"),
    ("x", torch.zeros(24, 4, device="meta"), "x must be an ordinary dense tensor, got torch.strided on meta"),
    ("x", np.ma.masked_greater(X, 50), "x must hold a number everywhere, got masked values"),
    ("x", [[1.0, 2.0], [3.0]], "x must hold numbers in rows of one length"),
    ("x", [[10**400] * 4] * 24, "x must hold numbers in rows of one length: int too large"),
    ("x", (row for row in X), "x must hold numbers, got <generator"),
    ("x", None, "x must hold numbers, got None: give an array"),
    ("x", X[0], "x must be a samples × inputs matrix, got shape (4,): give each sample one row"),
    ("x", X.reshape(24, 2, 2), "x must be a samples × inputs matrix, got shape (24, 2, 2): give each sample one row"),
    ("x", [], "x must be a samples × inputs matrix, got shape (0,): give each sample one row"),
    ("x", X[:, :0], "x must have at least one column, got shape (24, 0)"),
    ("x", X * 1e300, "tasks[0].x holds NaN or infinite values, or values beyond ±3.4e38, the range of float32"),
    ("x_test", torch.tensor(X) * 1e300, "tasks[0].x_test holds NaN or infinite values, or values beyond ±3.4e38"),
    ("y", list("abc") * 8, "y must hold numbers, got 'a': encode text labels as 0 … classes − 1"),
    ("y", pd.Series(list("abc") * 8, dtype="category"), "y must hold numbers, got 'a': encode text labels"),
    ("y", Y + 0.5, "y must hold whole numbers, got 0.5"),
    ("y", np.full(24, np.nan), "y must hold whole numbers, got nan"),
    ("y", np.full(24, 1e300), "y must hold whole numbers, got 1e+300"),
    ("y", np.eye(3)[Y], "y must hold 24 labels, one per row of x, got shape (24, 3): of one-hot labels give y.argmax"),
    ("y_test", Y[:-1], "y_test must hold 24 labels, one per row of x_test, got shape (23,)"),
    ("columns", [0.5, 1, 2, 3], "columns must hold whole numbers, got 0.5"),
    ("columns", [True, False, True, True], "columns must hold positions, got truth values"),
    ("columns", list("abcd"), "columns must hold numbers, got 'a'"),
]


@pytest.mark.parametrize(("argument", "value", "message"), BAD, ids=range(len(BAD)))
def test_bad_data_is_refused_by_name(argument, value, message):
    refused(message, lambda: Stream([made(**{argument: value})], 3))


def test_columns_are_named_alike_and_ordered_by_whole_numbers():
    assert made(columns=np.array([3.0, 2.0, 1.0, 0.0])).columns.tolist() == [3, 2, 1, 0]
    refused("x_test must have the columns of x, in the same order", made, x=FRAME, x_test=FRAME[list("dcba")])


def test_all_tasks_must_be_on_one_device():
    odd = made()
    object.__setattr__(odd, "y_test", odd.y_test.to("meta"))
    refused("tasks[1].y_test must be on cpu, as tasks[0].x is, got meta", Stream, [made(), odd], 3)


DTYPES = arrays.scalar_dtypes() | arrays.unicode_string_dtypes() | arrays.byte_string_dtypes() | st.just(np.dtype("O"))
ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
JUNK = (
    ODD
    | st.recursive(ODD, lambda inner: st.lists(inner, max_size=4), max_leaves=12)
    | DTYPES.flatmap(
        lambda kind: arrays.arrays(
            kind,
            arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
            elements=st.none() | st.integers() | st.text() if kind.hasobject else None,
        )
    )
)


@given(st.sampled_from(["x", "y", "x_test", "y_test", "columns"]), JUNK)
@settings(max_examples=300, deadline=None)
def test_any_value_of_any_argument_is_taken_or_refused_by_name(argument, value):
    good = {"x": np.eye(3), "y": [0, 1, 2], "x_test": np.eye(3), "y_test": [0, 1, 2], "columns": None}
    message = refusal(lambda: Stream([Task(**{**good, argument: value})], 3))
    assert message is None or re.match(r"(tasks\[0\]\.)?(x|y|x_test|y_test|columns) ", message)


SCALARS = st.sampled_from([np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64])
WRAPPED = st.sampled_from([lambda scalar: scalar, np.asarray, lambda scalar: torch.tensor(scalar.item())])


@given(st.sampled_from(NUMERIC), SCALARS, WRAPPED, st.sampled_from([1, 2, 0.5]))
@settings(max_examples=200, deadline=None)
def test_numbers_of_numpy_and_torch_are_kept_as_the_same_plain_numbers(place, scalar, wrapped, value):
    kind, name = place
    plain, odd = scalar(value).item(), wrapped(scalar(value))
    if refusal(lambda: kind(**{name: plain})):
        refused(f"{name} must be ", kind, **{name: odd})
    else:
        assert json.dumps(asdict(kind(**{name: odd}))) == json.dumps(asdict(kind(**{name: plain})))


def test_long_doubles_and_fractions_are_numbers_and_plain_ones_stay_what_they_are():
    assert type(GrowthSettings(gamma=np.longdouble(0.5)).gamma) is float
    assert GrowthSettings(gamma=Fraction(1, 2)).gamma == 0.5
    assert type(GrowthSettings(gamma=1).gamma) is int
    assert type(EWCSettings(strength=2.0).strength) is float


@given(st.sampled_from(FIELDS), JUNK | st.sampled_from([True, np.True_, 10**309, -(10**309)]))
@settings(max_examples=400, deadline=None)
def test_any_value_of_any_setting_is_taken_as_plain_python_or_refused_by_name(place, value):
    kind, name = place
    message = refusal(lambda: json.dumps(asdict(kind(**{name: value})), allow_nan=False))
    assert message is None or message.startswith(f"{name} must ")
    assert message or name == "half" or not isinstance(value, bool | np.bool_), "a truth value is no number"


def test_hidden_and_schedule_may_be_one_number_a_list_or_an_array():
    for five in (5, np.int64(5), np.array(5), torch.tensor(5), [5], np.array([5]), (n for n in [5])):
        assert Settings(hidden=five).hidden == (5,)
    for several in ([5, 6], np.array([5, 6]), torch.tensor([5, 6]), pd.Series([5, 6]), range(5, 7)):
        for found in (Settings(hidden=several).hidden, GrowthSettings(schedule=several).schedule):
            assert found == (5, 6)
            assert all(type(one) is int for one in found)
    for wrong in (5.5, [5.0], "55", None, True, [[5, 5]], np.ones((2, 2), int), 10**30, [0]):
        refused("hidden must be", Settings, hidden=wrong)
    refused("hidden must be a list of whole numbers, got {5", Settings, hidden={5, 6})
    refused("hidden must name the width", Settings, hidden=())


def test_settings_inside_settings_are_checked():
    refused("optimisation must be of type OptimisationSettings, got {'clip': 1}", Settings, optimisation={"clip": 1})
    refused("growth must be of type GrowthSettings, got 'joint'", Settings, growth="joint")
    refused("ewc must be of type EWCSettings, got <class", Settings, ewc=EWCSettings)
    refused("init must be one of glorot", Settings, init=np.array(["he", "he"]))


@pytest.mark.parametrize("schedule", [(), (3,), (3, 30), [99]])
def test_a_schedule_that_never_comes_is_refused(schedule):
    growth = GrowthSettings(trigger="scheduled", schedule=schedule)
    message = "growth.schedule must name an epoch below epochs_later, which is 3, or nothing ever grows; got"
    refused(f"{message} {tuple(schedule)}", replace, SMALL, growth=growth)
    replace(SMALL, growth=replace(growth, trigger="joint"))
    replace(SMALL, growth=replace(growth, schedule=(2, 99)))


def test_streams_take_tasks_from_anything_that_gives_them():
    task = toy_task()
    for tasks in ([task, task], (one for one in (task, task)), np.array([task, task])):
        assert len(Stream(tasks, 3).tasks) == 2
    refused("tasks must be a list of tasks, got Task: of one task give [task]", Stream, task, 3)
    refused("tasks must be a list of tasks, got NoneType", Stream, None, 3)
    refused("tasks[0] must be of type Task, got (array(", Stream, [(X, Y, X, Y)], 3)
    refused("tasks[1] must be of type Task, got 'a'", Stream, [task, "a"], 3)


def test_the_size_of_the_head_may_be_computed():
    for classes in (Y.max() + 1, torch.tensor(Y).max() + 1, np.uint8(3)):
        assert type(Stream([made()], classes).classes) is int
    for wrong in (3.0, "3", True, None, [3], 1, 2**63):
        refused("classes must be", Stream, [made()], wrong)


def test_scaled_inputs_stay_within_float32():
    ends = "tasks[0].x × scale + shift leaves ±3.4e38, the range of float32"
    refused(ends, Stream, [made(x=X * 1e36)], 3, scale=1e6)
    refused(ends, Stream, [made(x=np.full(X.shape, 3e38))], 3, shift=1e38)
    refused(ends, Stream, [made(x=X.astype("u1"))], 3, scale=1e37)
    refused("scale must be a number in [-3.40282e+38, 3.40282e+38], got 1e+300", Stream, [made()], 3, scale=1e300)
    assert Stream([made()], 3, scale=np.float32(0.5), shift=np.int8(1)).scale == 0.5


def test_a_seed_is_a_whole_number_whatever_its_type():
    plain, *others = (learn(toy_stream(1), SMALL, seed).network.theta for seed in (3, np.int64(3), torch.tensor(3)))
    assert all(torch.equal(plain, other) for other in others)
    learn(toy_stream(1), SMALL, -1)
    for wrong in (None, 1.5, "a", True, [1], np.float64(1)):
        refused("seed must be a whole number, got", learn, toy_stream(1), SMALL, wrong)
        refused("seed must be a whole number, got", permuted, toy_task(), 2, 3, wrong)


def test_ready_made_streams_name_what_is_wrong():
    task = toy_task()
    assert len(permuted(task, np.int64(2), np.int64(3), np.int64(0)).tasks) == 2
    assert len(rotated(task, (angle for angle in (0, np.float32(45))), 3).tasks) == 2
    assert len(split(task, np.array([[0, 1], [1, 2]])).tasks) == 2
    for make, more in ((permuted, (2, 3, 0)), (rotated, ([0], 3)), (split, ([(0, 1)],))):
        refused("data must be of type Task", make, X, *more)
    refused("angles must be a list of degrees, got 45", rotated, task, 45, 3)
    refused("angles must be a number in (-∞, ∞), got nan", rotated, task, [np.nan], 3)
    refused("pairs must be a list of pairs", split, task, 5)
    refused("pairs must hold two different classes each, got (0,)", split, task, (0, 1))
    refused("pairs must be a whole number", split, task, [("a", "b")])


def test_swapped_and_wrong_arguments_of_learn_are_named():
    stream = toy_stream(2)
    refused("stream must be of type Stream, got Settings(", learn, SMALL, stream)
    refused("stream must be of type Stream, got [", learn, list(stream.tasks), SMALL)
    refused("settings must be of type Settings, got 5", learn, stream, 5)
    refused("callbacks must be of type Callbacks, got 5", learn, stream, SMALL, 0, 5)
    refused("settings must be of type Settings, got Stream(", Learner, stream, SMALL, 0)
    refused("regulariser must be one of ewc, l2, ", Settings, regulariser=5)
    refused("regulariser must make a Regulariser, got int", Learner, Settings(regulariser=lambda settings: 5))
    refused("trigger must be one of ", GrowthSettings, trigger=5)
    refused("init must be one of ", GrowthSettings, init=None)


def test_tasks_must_fit_the_network():
    stream = toy_stream(3)
    learner = Learner.of(stream, SMALL, 0)
    learner.learn(stream.tasks[0])
    refused("task.x must have 9 columns, got 8", learner.learn, toy_task(inputs=8))
    refused("task.y must lie in [0, 2]", learner.learn, toy_task(classes=6))
    refused("x must hold numbers", learner.learn, None)
    refused("y must hold", learner.learn, stream.tasks[0].x)
    refused("x_test and y_test must both be given, or neither", learner.learn, np.eye(3), [0, 1, 2], np.eye(3))
    other = toy_task(seed=9)
    learner.learn(other)
    right = learner.network.predict(other.x_test) == other.y_test
    assert learner.history.accuracy[1][1] == pytest.approx(right.double().mean().item()), "of the task that was learnt"


def frozen(value):
    """All that a learner holds, as bytes; what nobody may change by its identity."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    if isinstance(value, dict):
        return {name: frozen(one) for name, one in value.items()}
    if isinstance(value, list):
        return [frozen(one) for one in value]
    if isinstance(value, Learner | History | OnlineEWC | Network):
        return id(value), frozen(vars(value))
    return id(value) if isinstance(value, Task | Stream) else repr(value)


def fail_at(call, error):
    """A function that raises at its n-th call."""
    calls = []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise error
        return 0.5

    return failing


WILD = replace(QUICK, rate_first=1e30, rate_later=1e30, clip=None)
FULL = GrowthSettings(trigger="fixed", init="null-space", fixed_neurons=9)
HUGE = GrowthSettings(trigger="scheduled", schedule=(2,), scheduled_neurons=10**12)
FAILURES = {
    "diverges": ({"optimisation": WILD}, None, NonFiniteLoss),
    "no free directions": ({"growth": FULL}, None, NullSpaceExhausted),
    "grows beyond memory": ({"growth": HUGE}, None, ValueError),
    "no decomposition": ({}, (signals, "effective_dimension", 3, torch.linalg.LinAlgError()), torch.linalg.LinAlgError),
    "interrupted at its end": ({}, (plasticity, "locked_fraction", 2, KeyboardInterrupt()), KeyboardInterrupt),
}


@pytest.mark.parametrize("kind", [Learner, Observer])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("name", FAILURES)
def test_a_learner_whose_task_failed_is_as_it_was_before(name, shuffled, kind, monkeypatch):
    changes, patch, error = FAILURES[name]
    stream = permuted(toy_task(), 3, 3, seed=4) if shuffled else toy_stream(3)
    growth = GrowthSettings(percentile=100, gamma=0.5, cooldown=2)
    plain = replace(SMALL, growth=growth, fisher=FisherSettings(labels="sampled"))
    learner, twin = kind.of(stream, plain, 1), kind.of(stream, plain, 1)
    for one in (learner, twin):
        one.learn(stream.tasks[0])
    before = frozen(learner)
    bad = replace(plain, **changes)
    learner.settings, learner.trigger = bad, Learner.of(stream, bad, 0).trigger
    with monkeypatch.context() as patched:
        if patch is not None:
            module, function, call, raised = patch
            patched.setattr(module, function, fail_at(call, raised))
        with pytest.raises(error):
            learner.learn(toy_task(seed=7))
    learner.settings, learner.trigger = plain, twin.trigger
    assert frozen(learner) == before
    outcomes = [one.learn_stream(stream) for one in (learner, twin)]
    assert frozen(outcomes[0].network.theta) == frozen(outcomes[1].network.theta)
    assert outcomes[0].history == outcomes[1].history
    assert outcomes[0].history.growth
    assert frozen(learner.draws) == frozen(twin.draws)


def test_a_first_task_that_failed_leaves_the_learner_new():
    stream = toy_stream(2)
    learner = Learner.of(stream, replace(SMALL, optimisation=WILD), 0)
    history = learner.history
    with pytest.raises(NonFiniteLoss):
        learner.learn_stream(stream)
    learner.settings = SMALL
    assert torch.equal(learner.learn_stream(stream).network.theta, learn(stream, SMALL, 0).network.theta)
    assert learner.history is history


def test_an_interrupted_stream_goes_on_where_it_stopped():
    stream, seen = toy_stream(3), []

    def stop(learner, number):
        seen.append(number)
        if seen == [1]:
            raise KeyboardInterrupt

    learner = Learner.of(stream, SMALL, 0, Callbacks(task=stop))
    with pytest.raises(KeyboardInterrupt):
        learner.learn_stream(stream)
    outcome = learner.learn_stream(stream)
    assert seen == [1, 2, 3]
    assert outcome.history == learn(stream, SMALL, 0).history


class Slotted:
    """A regulariser without a dictionary of attributes."""

    __slots__ = ("consolidated", "kept")
    curvature = None

    def __init__(self, kept=None):
        self.consolidated, self.kept = [], kept

    def penalise(self, theta, gradient):
        pass

    def transform(self, change):
        pass

    def consolidate(self, network, fisher, batches):
        self.consolidated.append(network.sizes)


def test_a_regulariser_of_ones_own_is_put_back_too(monkeypatch):
    learner = Learner.of(toy_stream(2), replace(SMALL, regulariser=lambda settings: Slotted()), 0)
    monkeypatch.setattr(plasticity, "locked_fraction", fail_at(1, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        learner.learn_stream(toy_stream(2))
    assert learner.regulariser.consolidated == []
    uncopyable = Learner(replace(SMALL, regulariser=lambda settings: Slotted(kept=(n for n in "a"))))
    refused("regulariser must be one that copy.deepcopy can copy", uncopyable.learn, toy_task())


@pytest.mark.parametrize(
    ("classes", "hidden", "message"),
    [
        (10**15, 4, "a network of 9 inputs, hidden (4,) and classes 1000000000000000 needs 144000000 GB for its"),
        (3, 10**15, "a network of 9 inputs, hidden (1000000000000000,) and classes 3 needs 432000000 GB for its"),
        (3, (2**60, 2**60), "a network of 9 inputs, hidden (1152921504606846976, 1152921504606846976) and classes 3"),
    ],
)
def test_what_cannot_fit_is_refused_before_it_is_made(classes, hidden, message):
    stream = Stream(toy_stream(1).tasks, classes)
    refused(message, learn, stream, replace(SMALL, hidden=hidden))


def test_memory_is_weights_and_labels_and_is_asked_of_the_machine(monkeypatch):
    device = torch.device("cpu")
    weights, labels = 36 * (5 * 4 + 4 * 3), 12 * 10 * 3
    monkeypatch.setattr(memory.os, "sysconf", lambda name: {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": weights + labels}[name])
    memory.require_memory((5, 4, 3), 10, device)
    refused("a network of 5 inputs", memory.require_memory, (5, 4, 3), 11, device)
    memory.require_memory((5, 4, 3), 10**9, torch.device("cuda"))
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.physical() == 10**12


def test_another_default_type_of_torch_changes_nothing():
    data, grows = toy_task(), replace(SMALL, growth=GrowthSettings(trigger="fixed", fixed_neurons=1))
    found = []
    try:
        for kind in (torch.float64, torch.float32):
            torch.set_default_dtype(kind)
            found.append(learn(rotated(data, [0, 33], 3), grows).network.theta)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(*found)


def test_a_network_predicts_what_people_hand_it():
    network = learn(Stream([made()], 3), SMALL).network
    expected = network.predict(torch.tensor(X).float())
    for x in (X, X.astype("u1"), X.tolist(), FRAME, torch.tensor(X).double(), X.astype("f4")):
        assert torch.equal(network.predict(x), expected)
    refused("x must be a matrix of 4 columns, got shape (24, 3)", network.predict, X[:, :3])
    refused("x must be a matrix of 4 columns, got shape (4,)", network.predict, torch.zeros(4))
    refused("x must hold numbers, got 'a'", network.predict, [["a"] * 4])
