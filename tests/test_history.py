import json

import pytest

from noracl import EpochSignals, GrowthEvent, History, LayerSignal

HISTORY = History(
    accuracy=[[0.9], [0.7, 0.8], [0.75, 0.6, 0.9]],
    widths=[(2,), (3,), (3,)],
    parameters=[8, 12, 12],
    locked=[(0.0,), (0.1,), (0.2,)],
    plastic=[8.0, 7.0, 6.5],
    growth=[GrowthEvent(2, 1, 1, 1, 1.0, 1.0, 0.2, 0.1)],
    signals=[EpochSignals(2, 1, (LayerSignal(1.0, 1.0, 0.2, 0.1),)), EpochSignals(3, 1, ())],
)


def test_measures_by_hand():
    assert HISTORY.average_accuracy() == pytest.approx((0.75 + 0.6 + 0.9) / 3)
    assert HISTORY.average_accuracy(1) == pytest.approx(0.75)
    assert HISTORY.forgetting() == pytest.approx(((0.9 - 0.75) + (0.8 - 0.6)) / 2)
    assert HISTORY.backward_transfer() == pytest.approx(((0.75 - 0.9) + (0.6 - 0.8)) / 2)


def test_one_task_has_nothing_to_forget():
    assert HISTORY.first(1).forgetting() == HISTORY.first(1).backward_transfer() == 0.0


def test_first_tasks_only():
    half = HISTORY.first(2)
    assert half.accuracy == HISTORY.accuracy[:2]
    assert half.growth == HISTORY.growth
    assert [s.task for s in half.signals] == [2]
    assert HISTORY.first(1).growth == []


def test_json_round_trip():
    assert History.from_dict(json.loads(json.dumps(HISTORY.to_dict()))) == HISTORY


def test_a_history_without_tasks_and_tasks_that_it_lacks_are_named():
    for measure in (History().average_accuracy, History().forgetting, History().backward_transfer):
        with pytest.raises(ValueError, match="this history holds no task: learn at least one first"):
            measure()
    for wrong in (3, -4):
        with pytest.raises(ValueError, match=f"task must be below 3, the tasks learnt, got {wrong}"):
            HISTORY.average_accuracy(wrong)
    for wrong in (-1, 1.5, "a"):
        with pytest.raises(ValueError, match="tasks must be a whole number of at least 0"):
            HISTORY.first(wrong)
