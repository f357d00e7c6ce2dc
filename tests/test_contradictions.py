"""The paper against itself: each kind of contradiction by hand, and numbers that agree, which are none."""

import math

import pandas as pd
import pytest

from pipeline.config import load
from pipeline.evidence import contradictions, results
from pipeline.evidence.contradictions import concerned, equal_layers, find, neighbours, printable
from pipeline.paths import PAPER
from pipeline.report import contradictions_table, tables

PARAMS, FOUND = load(), find()
NUMBERS, PROSE = results.paper_numbers(), pd.read_csv(PAPER / "prose.csv", dtype=str)
RELEASED = pd.read_csv(PAPER / "released.csv", dtype={"seed": str})
DEFAULTS = {"γ": 0.9, "p": 25.0, "ε": 0.05}
PERMUTED = {("main", "permuted_mnist", "2L NORACL"), ("ablations", "permuted_mnist", "full")}
PERMUTED |= {("sensitivity", "permuted_mnist", "default")}


def changed(key, **values):
    """The paper's numbers, one cell of them with other values."""
    numbers = NUMBERS.astype(float)
    numbers.loc[key, list(values)] = list(values.values())
    return numbers


def test_all_that_there_are():
    kinds = [(one.benchmark, one.quantity) for one in FOUND]
    assert kinds == [
        *[("permuted_mnist", "params")] * 3,
        *[("rotated_mnist", "params"), ("split_mnist", "params")],
        *[("permuted_mnist", "acc"), ("rotated_mnist", "acc"), ("split_mnist", "params")],
    ]
    assert all(key in NUMBERS.index for one in FOUND for key in one.cells)


def test_the_default_is_smaller_than_both_neighbours_of_each_threshold():
    found = contradictions.of_thresholds(NUMBERS, DEFAULTS)
    assert [set(one.cells) - PERMUTED for one in found] == [
        {("sensitivity", "permuted_mnist", row) for row in rows}
        for rows in (("gamma=0.85", "gamma=0.95"), ("p=20", "p=30"), ("eps=0.01", "eps=0.10"))
    ]
    assert [one.expected for one in found] == [
        "default: between 54.0k and 64.1k",
        "default: between 53.7k and 70.3k",
        "default: between 58.4k and 61.6k",
    ]
    assert all("49.2k ± 3.2k" in one.printed and "7 of all 9 variants have more" in one.what for one in found)


def test_a_default_between_its_neighbours_or_within_the_error_contradicts_nothing():
    key = ("sensitivity", "permuted_mnist", "default")
    assert contradictions.of_thresholds(changed(key, params=60000), DEFAULTS) == []
    wide = contradictions.of_thresholds(changed(key, params_sd=20000), DEFAULTS)
    assert wide == [], "two standard errors reach its neighbours"
    (above,) = contradictions.of_thresholds(changed(key, params=69000, params_sd=100), DEFAULTS)[:1]
    assert "has more parameters than both" in above.what


def test_neighbours_are_the_nearest_values_below_and_above():
    rows = ["p=10", "p=30", "p=20", "p=15", "p=40", "gamma=0.85"]
    assert neighbours(rows, "p", 25) == ("p=20", "p=30")


def test_widths_in_the_text_and_parameters_in_the_table():
    rotated, split = contradictions.of_widths(NUMBERS, PROSE)
    assert rotated.printed == "about 44×37 neurons; 42.9k ± 2.7k"
    assert rotated.expected == "36.5k for these widths, or about 52 neurons in layer 1"
    assert 784 * 44 + 44 * 37 + 37 * 10 == 36494
    assert (784 * 51 + 51 * 37 + 370, 784 * 52 + 52 * 37 + 370) == (42241, 43062), "around 42.9k"
    assert split.expected == "18.9k or 19.2k for these widths, or about 28 neurons in layer 1"
    assert 784 * 23 + 23 * 36 + 36 * 10 == 19220
    assert split.cells == (("main", "split_mnist", "2L NORACL"), ("ablations", "split_mnist", "full"))


def test_widths_that_give_the_parameters_contradict_nothing():
    assert "permuted_mnist" in set(PROSE[PROSE["exact"] == "no"]["benchmark"]), "60×32 gives the printed 49.2k"
    near = changed(("main", "rotated_mnist", "2L NORACL"), params=37200)
    assert [one.benchmark for one in contradictions.of_widths(near, PROSE)] == ["split_mnist"], "one neuron more"


def test_neurons_that_never_act_change_no_accuracy():
    permuted, rotated = contradictions.of_inert_neurons(NUMBERS, PROSE)
    assert permuted.printed == "63.0 ± 3.7 % with zero initialisation; 56.5 ± 1.1 % for 2L medium"
    assert rotated.printed == "67.7 ± 2.4 % with zero initialisation; 63.3 ± 1.7 % for 2L medium"
    assert rotated.cells == (("ablations", "rotated_mnist", "init zero"), ("main", "rotated_mnist", "2L medium"))
    same = changed(("ablations", "permuted_mnist", "init zero"), acc=58.0)
    assert contradictions.of_inert_neurons(same, PROSE) == [rotated]
    for benchmark, row in contradictions.START.items():
        widths = PARAMS.networks["mlp"][row.removeprefix("2L ")]
        assert PARAMS.benchmarks[benchmark].start == widths, "the static network of the size with which growth starts"


def test_counts_with_ten_outputs():
    (one,) = contradictions.of_outputs(NUMBERS, PROSE, RELEASED)
    rows = ["1L small", "1L medium", "1L large", "2L small", "2L medium", "2L large"]
    rows += ["trigger fixed", "trigger scheduled"]
    assert [key[2] for key in one.cells] == rows
    assert one.expected == (
        "1L small: 12.5k; 1L medium: 25.1k; 1L large: 50.3k; 2L small: 12.8k; 2L medium: 26.1k; 2L large: 54.4k; "
        "trigger fixed: 29.5k; trigger scheduled: 36.5k"
    )
    assert "the released network 32×32 has 26176 parameters" in one.where
    (silent,) = contradictions.of_outputs(NUMBERS, PROSE, RELEASED.assign(params=math.nan))
    assert "released" not in silent.where
    (fewer,) = contradictions.of_outputs(changed(one.cells[0], params=12500), PROSE, RELEASED)
    assert fewer.cells == one.cells[1:]


def test_counts_are_cut_or_rounded():
    assert printable(12960) == {12900, 13000}
    assert printable(12832) == {12800}
    assert (equal_layers(29800, 10), equal_layers(36800, 10)) == ((36, 36), (44, 44))
    with pytest.raises(ValueError, match="not enough values"):
        equal_layers(29800, 2)


def test_cells_are_named_by_table():
    assert concerned(FOUND, "main")[("2L NORACL", "rotated_mnist")] == {"params"}
    assert concerned(FOUND, "ablations")[("init zero", "permuted_mnist")] == {"acc"}
    assert concerned(FOUND, "cifar10") == {}


def test_the_table_for_people_has_a_row_for_each():
    files = contradictions_table.build(PARAMS)
    (content,) = (text for path, text in files.items() if path.suffix == ".csv")
    (text,) = (text for path, text in files.items() if path.suffix == ".md")
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(content.splitlines()) - 1 == len(rows) == len(FOUND)
    assert all(row.count(" | ") == len(contradictions_table.HEADS) - 1 for row in rows), "no cell breaks the table"
    assert "`ablations/rotated_mnist/init zero`" in text
    assert set(files) <= set(tables.build(PARAMS.model_copy(update={"readings": {}}))), "so the check compares them"
