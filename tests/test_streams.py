import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noracl import Stream, Task, permuted, rotated, split
from noracl.method.seeds import generator
from noracl.method.streams import rotate
from tests.helpers import toy_task


def images(rows=5, side=6, seed=0):
    return torch.randint(0, 256, (rows, side * side), generator=generator(seed), dtype=torch.uint8)


def test_permuted_tasks_share_the_data_and_differ_in_order():
    data = toy_task()
    stream = permuted(data, 4, 3, seed=1)
    assert all(task.x is data.x and task.x_test is data.x_test for task in stream.tasks)
    orders = [tuple(task.columns.tolist()) for task in stream.tasks]
    assert len(set(orders)) == 4
    other = permuted(data, 4, 3, seed=2)
    assert not torch.equal(other.tasks[0].columns, stream.tasks[0].columns)


@given(st.integers(0, 50), st.integers(1, 6), st.integers(0, 6))
@settings(max_examples=20, deadline=None)
def test_a_short_permuted_stream_is_the_start_of_a_long_one(seed, tasks, more):
    data = toy_task(rows=4)
    short, long = permuted(data, tasks, 3, seed), permuted(data, tasks + more, 3, seed)
    for a, b in zip(short.tasks, long.tasks, strict=False):
        assert torch.equal(a.columns, b.columns)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, -1])
def test_right_angles_are_exact(turns, interpolation):
    x = images()
    expected = torch.rot90(x.view(-1, 6, 6), turns, (1, 2)).reshape(5, 36)
    assert torch.equal(rotate(x, 90.0 * turns, interpolation), expected)


def test_rotation_interpolates_by_hand():
    """45° about the centre of a 3 × 3 image: the middle stays, an edge is read at distance 1 along the diagonal."""
    x = torch.zeros(1, 9)
    x[0, 4] = 1.0  # centre
    x[0, 2] = 8.0  # top right
    turned = rotate(x, 45.0).view(3, 3)
    step = 0.5**0.5
    assert turned[1, 1].item() == pytest.approx(1.0)
    weight_corner, weight_centre = step * step, (1 - step) * (1 - step)
    assert turned[0, 1].item() == pytest.approx(8 * weight_corner + weight_centre, rel=1e-5)


def test_rotated_stream_turns_training_and_test_images():
    data = Task(images(), torch.arange(5), images(seed=1), torch.arange(5))
    stream = rotated(data, [0, 20, 40], 5)
    assert torch.equal(stream.tasks[0].x, data.x)
    assert torch.equal(stream.tasks[2].x_test, rotate(data.x_test, 40))
    assert stream.tasks[1].x.dtype == torch.uint8
    with pytest.raises(ValueError, match="square"):
        rotated(toy_task(inputs=8), [10], 3)
    with pytest.raises(ValueError, match="interpolation must be one of"):
        rotated(data, [10], 5, interpolation="cubic")


def test_split_relabels_pairs_on_any_feature_matrix():
    data = toy_task(classes=6)
    stream = split(data, [(0, 3), (5, 1)], classes=2)
    second = stream.tasks[1]
    chosen = (data.y == 5) | (data.y == 1)
    assert torch.equal(second.x, data.x[chosen])
    assert torch.equal(second.y, (data.y[chosen] == 1).long())
    assert set(second.y_test.tolist()) == {0, 1}
    with pytest.raises(ValueError, match="pairs must hold two different classes"):
        split(data, [(1, 1)])
    with pytest.raises(ValueError, match=r"tasks\[0\].x is empty"):
        split(data, [(8, 9)])


def test_numpy_arrays_are_welcome():
    x, y = np.random.default_rng(0).normal(size=(4, 3)), np.array([0, 1, 1, 0], dtype=np.uint8)
    task = Task(x, y, x, y)
    assert task.x.dtype == torch.float32
    assert task.y.dtype == torch.long
    assert Stream([task], 2).inputs == 3


def changed(**fields):
    good = toy_task()
    return Task(**{name: fields.get(name, getattr(good, name)) for name in ("x", "y", "x_test", "y_test", "columns")})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"x": torch.full((96, 9), float("nan"))}, r"tasks\[1\].x holds NaN"),
        ({"x_test": torch.full((60, 9), float("inf"))}, r"tasks\[1\].x_test holds NaN or infinite"),
        ({"y": torch.full((96,), 3)}, r"tasks\[1\].y must lie in \[0, 2\], the head's classes, got 3 to 3"),
        ({"y_test": torch.full((60,), -1)}, r"tasks\[1\].y_test must lie in \[0, 2\]"),
        ({"x": torch.zeros(0, 9), "y": torch.zeros(0, dtype=torch.long)}, r"tasks\[1\].x is empty"),
        ({"y": torch.zeros(95, dtype=torch.long)}, "y must hold 96 labels, one per row of x, got shape \\(95,\\)"),
        ({"x": torch.zeros(96, 8)}, r"tasks\[1\].x must have 9 columns, got 8"),
        ({"columns": torch.zeros(9, dtype=torch.long)}, r"tasks\[1\].columns must be a permutation"),
    ],
)
def test_bad_data_is_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Stream([toy_task(), changed(**fields)], 3)


def test_bad_shapes_and_types_are_named():
    with pytest.raises(ValueError, match="x must be a samples × inputs matrix"):
        changed(x=torch.zeros(96))
    with pytest.raises(ValueError, match=r"x must hold real numbers, got torch\.complex64"):
        changed(x=torch.zeros(96, 9, dtype=torch.complex64))
    with pytest.raises(ValueError, match=r"y must hold whole numbers, got 0\.5"):
        changed(y=torch.full((96,), 0.5))
    with pytest.raises(ValueError, match="tasks must hold at least one"):
        Stream([], 3)
    with pytest.raises(ValueError, match="classes must be a whole number of at least 2"):
        Stream([toy_task()], 1)
