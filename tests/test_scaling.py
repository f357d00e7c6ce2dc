import pandas as pd
import pytest

from pipeline import scaling
from pipeline.params import load
from pipeline.scaling import Stage, enough, makespan, page, stages

PARAMS = load()


@pytest.mark.parametrize(("cores", "seconds"), [(1, 14), (2, 7), (3, 6), (4, 6), (1000, 6)])
def test_free_cores_take_the_longest_run_that_is_left(cores, seconds):
    assert makespan([2, 6, 1, 4, 1], cores) == seconds


def test_the_longest_run_says_how_many_cores_help():
    assert enough([6, 3, 3, 1, 1]) == 3
    assert enough([5]) == 1
    assert enough([2] * 9) == 9


def test_suites_that_were_timed_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "TIMING", tmp_path)
    assert stages(PARAMS) == []
    pd.DataFrame({"total": [10.0] * 10}).to_csv(tmp_path / "permuted_mnist-noracl.csv")
    pd.DataFrame({"total": [999.0, 999.0], "cpu": [100.0, 300.0]}).to_csv(tmp_path / "stress-noracl.csv")
    assert stages(PARAMS) == [Stage("permuted_mnist-noracl", (10.0,) * 10), Stage("stress-noracl", (100.0, 300.0))]
    text = page(PARAMS, stages(PARAMS))
    assert "**Longest single run:** 300 s, in stress-noracl." in text
    assert "| 1000 | 0.09 h, 1.6 times as fast | 0.08 h, 1.7 times as fast |" in text, "310 s and 300 s for 500 s"
