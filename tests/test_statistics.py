"""Every statistic on frames so small that the answer is known by hand."""

import pandas as pd
import pytest

from pipeline.evidence.statistics import STATISTICS


def cell(column="accuracy", *, seeds=(), start=None):
    """Runs of one method; ``seeds`` are final values of the column, seed by seed, ``start`` those after task 1."""
    rows = []
    for seed, end in enumerate(seeds):
        begin = end if start is None else start[seed]
        rows.append({"seed": str(seed), "task": 3, column: end})
        rows.append({"seed": str(seed), "task": 1, column: begin})
    return pd.DataFrame(rows)


def acc(*seeds, start=None):
    return cell(seeds=seeds, start=start)


def params(*seeds):
    return cell("params", seeds=seeds)


def sized(*seeds):
    """Final accuracy and the parameters that it was reached with, seed by seed; half as many after the first task."""
    rows = []
    for seed, (accuracy, size) in enumerate(seeds):
        rows.append({"seed": str(seed), "task": 2, "accuracy": accuracy, "params": size})
        rows.append({"seed": str(seed), "task": 1, "accuracy": 99, "params": size / 2})
    return pd.DataFrame(rows)


def widths(*pairs, start=(10, 10)):
    """Final widths, seed by seed."""
    rows = []
    for seed, (one, two) in enumerate(pairs):
        rows.append({"seed": str(seed), "task": 1, "width_1": start[0], "width_2": start[1]})
        rows.append({"seed": str(seed), "task": 2, "width_1": one, "width_2": two})
    return pd.DataFrame(rows)


def newest(*pairs):
    """Accuracy on the newest task, seed by seed: of the first two tasks, and of the ten after them."""
    return pd.DataFrame(
        [
            {"seed": str(seed), "task": task, "accuracy_newest": early if task < 3 else late}
            for seed, (early, late) in enumerate(pairs)
            for task in range(1, 13)
        ]
    )


def idle(*seeds):
    """Widths and dormant shares of both layers after the last task, seed by seed; none dormant before."""
    rows = []
    for seed, (one, two, first, second) in enumerate(seeds):
        known = {"seed": str(seed), "width_1": one, "width_2": two}
        rows.append({**known, "task": 2, "dormant_1": first, "dormant_2": second})
        rows.append({**known, "task": 1, "dormant_1": 0.0, "dormant_2": 0.0})
    return pd.DataFrame(rows)


def events(tasks, *counts):
    return pd.DataFrame([{"seed": str(s), "task": tasks, "growth_events": n} for s, n in enumerate(counts)])


def long(quantity, curve, width=(4,), seeds=("0", "1")):
    """Rows as in theory.csv: ``curve`` maps x, width and seed's number to a value."""
    rows = []
    for w in width:
        for i, seed in enumerate(seeds):
            for x in curve[0]:
                row = {"seed": seed, "width": w, "x": float(x), "quantity": quantity}
                rows.append({**row, "value": curve[1](x, w, i)})
    return pd.DataFrame(rows)


def update(quantity, *seeds):
    """Rows of transfer.csv: a ratio per epoch after growth, seed by seed."""
    return pd.DataFrame(
        [
            {"seed": str(seed), "task": 2, "x": x, "quantity": quantity, "value": value}
            for seed, values in enumerate(seeds)
            for x, value in enumerate(values)
        ]
    )


def silenced(*seeds):
    """Changes on tasks 1, 2, … without the neurons of task 2, seed by seed."""
    return update("change", *seeds).assign(x=lambda rows: rows["x"] + 1)


NONE = float("nan")
SMALL = (1e-2, 1e-6, 1e-8, 1e-10)

CASES = [
    ("accuracy_gap", [acc(80, 90), acc(79, 88)], [1, 2]),
    ("accuracy_gap", [acc(80, 90), acc(70, 70), acc(60, 95)], [20, -5]),  # the rival with the higher mean
    ("accuracy_gap", [acc(80, 90), acc(70, 70), acc(99, NONE)], [10, 20]),  # a rival that could not go on is left out
    ("mean_accuracy_gap", [acc(80, 90), acc(79, 88), acc(50, 50), acc(53, 44)], [-1, 4]),
    ("accuracy_range", [acc(80, 80), acc(70, 72), acc(75, 76)], [10, 8]),
    ("smallest_accuracy_step", [acc(80, 80), acc(75, 76), acc(74, 76)], [1, 0]),
    (
        "accuracy_fall",
        [acc(40, 50, start=(90, 90)), acc(70, 80, start=(90, 90)), acc(50, 70, start=(90, 95))],
        [10, 15],
    ),
    ("share_of_gap", [acc(50, 80), acc(20, 60), acc(80, 100)], [50, 50]),
    ("economy", [sized((60, 100), (50, 100)), sized((35, 200), (30, 200)), sized((20, 50), (20, 50))], [2.5, 2]),
    ("economy_held", [sized((60, 100), (50, 50)), sized((35, 100), (30, 100))], [2, 4]),
    ("parameters_saved", [params(90, 50), params(100, 100)], [10, 50]),
    ("parameters_excess", [params(110, 90), params(200, 200), params(100, 100)], [10, -10]),
    ("parameters_ratio", [params(100, 90), params(50, 30)], [2, 3]),
    ("mean_parameters_gap", [params(1000, 1000), params(3000, 1000), params(0, 0), params(2000, 1000)], [2, 0.5]),
    ("smallest_parameters_step", [params(3000, 3000), params(2000, 2500), params(2500, 2600)], [-0.5, -0.1]),
    ("bottom_heaviness", [widths((15, 11), (10, 13))], [4, -3]),
    ("growth_of_layer_2", [widths((15, 11), (10, 13))], [1, 3]),
    ("bottom_share_gap", [widths((14, 10), (13, 11)), widths((12, 12), (11, 13))], [50, 50]),
    ("growth_events_gap", [events(11, 10, 20), events(5, 2, 4)], [0.5, 1]),
    ("plastic_excess", [cell("plastic", seeds=(11, 9)), cell("plastic", seeds=(10, 10))], [10, -10]),
    (
        "plastic_kept_gap",
        [cell("plastic", seeds=(50, 80), start=(100, 100)), cell("plastic", seeds=(30, 20), start=(60, 40))],
        [0, 30],
    ),
    (
        "locked_gap_1",
        [cell("locked_1", seeds=(0.2, 0.4)), cell("locked_1", seeds=(0.5, 0.5)), cell("locked_1", seeds=(0.3, 0.3))],
        [-10, 10],
    ),
    (
        "locked_gap_2",
        [cell("locked_2", seeds=(0.2, 0.4)), cell("locked_2", seeds=(0.5, 0.5)), cell("locked_2", seeds=(0.3, 0.3))],
        [-20, 0],
    ),
    ("value", [pd.DataFrame({"seed": ["all"], "value": [5.6]})], [5.6]),
    (
        "share_exponent_late",
        [long("share", ((1, 400, 800, 4000), lambda x, w, i: 1.0 if x < w else (2 + i) * x**-1))],
        [-1, -1],
    ),
    ("retention_break_snr", [long("snr", ((1.0,), lambda x, w, i: w / (1 + i)), width=(2, 4))], [3, 1.5]),
    ("retention_break_right", [long("right", ((0.95,), lambda x, w, i: w / (1 + i)), width=(2, 4))], [3, 1.5]),
    (
        "share_exponent_early",
        [long("share", ((1, 2, 4, 40), lambda x, w, i: x ** -(0.1 + i) if x <= w else 9.0))],
        [-0.1, -1.1],
    ),
    ("old_exponent", [long("old", (SMALL, lambda x, w, i: 3 * x ** (1 + i)))], [1, 2]),
    ("new_exponent", [long("new", (SMALL, lambda x, w, i: x if x < 1e-4 else 9.0))], [1, 1]),
    (
        "printed_solves",
        [long("printed", (SMALL, lambda x, w, i: 0.01 if w == 2 or i else 5.0), width=(2, 4))],
        [50, 100],
    ),
    ("newborn_share", [long("unlearnt", (SMALL, lambda x, w, i: 0.25 if x == 1e-10 else 1.0))], [75, 75]),
    ("balanced_share", [long("share", ((0, 9), lambda x, w, i: 1 / (1 + x)), seeds=("all",))], [10]),
    ("width_exponent", [long("width", ((0, 1, 2, 8), lambda x, w, i: w + 3 * x), width=(2, 4), seeds=("all",))], [1]),
    ("width_slope", [long("slope", ((9,), lambda x, w, i: 0.1 * w), width=(2, 4), seeds=("all",))], [0.3]),
    ("gate_default", [long("opens", ((25, 50, 100), lambda x, w, i: 0.1 if x == 25 else 0.9))], [10, 10]),
    ("gate_best", [long("opens", ((25, 50, 100), lambda x, w, i: 0.8 + 0.1 * i if x == 50 else 0.4))], [80, 90]),
    (
        "recall_gap",
        [long("right", ((1, 9), lambda x, w, i: 0.6)), long("right", ((1, 9), lambda x, w, i: 0.5 if x == 9 else 1))],
        [10, 10],
    ),
    ("peak_moved", [pd.concat([update("moved", (0, 3, 1), (1, 2, 5)), update("stepped", (9, 9, 9))])], [1, 5]),
    ("peak_stepped", [pd.concat([update("moved", (9, 9)), update("stepped", (1, 2), (3, 4))])], [2, 4]),
    ("own_change_gap", [silenced((0.0, -0.5, -0.1, -0.2), (0.01, -0.4, -0.2, -0.2))], [-30, -20]),
    ("earlier_change", [silenced((0.01, -0.5, -0.1), (-0.02, -0.5, -0.1))], [1, -2]),
    ("later_change_gap", [silenced((0.1, -0.5, -0.1, -0.3), (0.0, -0.5, -0.1, -0.1))], [-30, -10]),
    ("far_change_gap", [silenced((0.1, -0.5, -0.4, -0.3, -0.1), (0.0, -0.5, -0.1, -0.1, -0.1))], [20, 0]),
    ("newest_gap", [newest((0, 0.9), (1, 0.5)), newest((1, 0.6), (0, 0.6))], [30, -10]),
    ("dormant_gap", [idle((30, 10, 0.5, 0.1), (10, 10, 0, 0)), idle((75, 25, 0.2, 0), (75, 25, 0, 0.4))], [25, -10]),
    ("peak_moved", [update("moved", (0, 3, 9), (1, 2))], [3, 2]),  # an epoch that only one seed has is left out
    ("own_share", [silenced((0, -0.4, 0), (0, -0.2, 0)), silenced((0.9, 0.9, 0.9), (0.9, 0.5, 0.9))], [50, 50]),
]


@pytest.mark.parametrize(("name", "cells", "expected"), CASES, ids=[case[0] for case in CASES])
def test_by_hand(name, cells, expected):
    found = STATISTICS[name].function(*cells)
    assert found.tolist() == pytest.approx(expected)


def test_none_is_untested():
    assert {case[0] for case in CASES} == set(STATISTICS)


def test_seeds_are_paired_whatever_their_order():
    ours, rival = acc(80, 90), acc(79, 80).iloc[::-1]
    assert STATISTICS["accuracy_gap"].function(ours, rival).to_dict() == {"0": 1, "1": 10}


def test_where_nothing_grew_there_is_no_share_and_where_recall_never_breaks_no_break():
    assert STATISTICS["bottom_share_gap"].function(widths((12, 10)), widths((10, 10))).isna().all()
    never = long("snr", ((0.95,), lambda x, w, i: NONE))
    assert (STATISTICS["retention_break_snr"].function(never) == float("inf")).all()


def test_a_width_without_an_exponent_is_not_left_out_of_the_mean():
    flat = long("old", (SMALL, lambda x, w, i: x if w == 2 or i else NONE), width=(2, 4))
    assert STATISTICS["old_exponent"].function(flat).tolist() == pytest.approx([NONE, 1], nan_ok=True)


def test_the_words_are_one_plain_sentence():
    for one in STATISTICS.values():
        assert one.words.endswith(".")
        assert "\n" not in one.words
