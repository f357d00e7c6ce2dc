import pandas as pd
import pytest

from pipeline.config import load
from pipeline.paths import PORTABILITY
from pipeline.tools.portability import SETTINGS, compare, to_markdown


def history(*values):
    return [{"task": str(t), "accuracy": str(a), "params": str(p)} for t, (a, p) in enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("fresh", "first", "points", "within"),
    [
        (history((0.9, 100), (0.8, 120)), "none", "0.00", "yes"),
        (history((0.9, 100), (0.83, 120)), "2", "3.00", "yes"),
        (history((0.8, 100), (0.8, 120)), "1", "10.00", "no"),
        (history((0.9, 100), (0.8, 151)), "2", "0.00", "no"),
    ],
)
def test_where_and_how_far_two_histories_part(fresh, first, points, within):
    """The committed tolerances allow 5 points of accuracy and a quarter of the parameters."""
    committed = history((0.9, 100), (0.8, 120))
    found = compare(fresh, committed, load())
    assert (found["first_task"], found["accuracy_points"], found["within_tolerances"]) == (first, points, within)


def test_the_committed_table_is_its_csv_in_words():
    table = pd.read_csv(PORTABILITY, dtype=str, keep_default_na=False)
    one = history((0.9, 100))
    assert list(table) == ["setting", "meaning", "instructions", "benchmark", *compare(one, one, load())]
    assert dict(zip(table["setting"], table["meaning"], strict=True)) == SETTINGS
    assert PORTABILITY.with_suffix(".md").read_text(encoding="utf-8") == to_markdown(table)
