"""What `dvc metrics` and `dvc plots` compare, by hand."""

import json

import pandas as pd
import yaml

from pipeline.config import load
from pipeline.evidence import results
from pipeline.experiments import metrics
from tests.conftest import ROOT

RUNS = pd.DataFrame(
    [
        ("b", "NORACL", 2, 0, 1, 0.9, 100, 4, 4),
        ("b", "NORACL", 2, 0, 2, 0.5, 120, 5, 4),
        ("b", "NORACL", 2, 1, 1, 0.7, 100, 4, 4),
        ("b", "NORACL", 2, 1, 2, 0.25, 131, 6, 4),
        ("b", "init null-space", 1, 0, 0, None, None, None, None),
        ("b", "init null-space", 1, 1, 1, 0.8, 80, 3, None),
    ],
    columns=["benchmark", "method", "layers", "seed", "task", "accuracy", "params", "width_1", "width_2"],
)


def test_means_over_seeds_after_the_last_task():
    assert metrics.metrics(RUNS) == {
        "b": {
            "2L_NORACL": {"accuracy": 37.5, "params": 126},
            "1L_init_null-space": {"accuracy": 80.0, "params": 80},
        }
    }
    assert metrics.metrics(RUNS.iloc[4:5]) == {}, "where no run went on there is nothing to compare"


def test_curves_have_one_line_per_method_and_task():
    found = metrics.curves(RUNS)
    assert found["row"].tolist() == ["b 2L NORACL"] * 2 + ["b 1L init null-space"]
    assert found["task"].tolist() == [1, 2, 1]
    assert found["accuracy"].tolist() == [0.8, 0.375, 0.8]
    assert found["width_1"].tolist() == [4.0, 5.5, 3.0]


def test_every_training_stage_writes_its_own():
    """A stage that has results has metrics and curves beside them, and nothing else is a metric."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    training = [stage.get("do", stage) for stage in stages.values() if "train" in stage.get("do", stage)["cmd"]]
    assert len(training) == 10
    for stage in training:
        suite = stage["cmd"].rpartition(" ")[2]
        outs = {path for out in stage["outs"] for path in out}
        assert {f"reports/metrics/{suite}.json", f"reports/plots/{suite}.csv"} <= outs


def test_only_the_words_of_a_long_name_are_cut():
    assert metrics.short("trigger scheduled") == "trigger_scheduled"
    assert metrics.short("continual backpropagation 1e-06") == "contin_backpr_1e-06"


def test_the_names_are_short_enough_for_a_table_of_120_columns():
    """`make compare` prints file, name, two values and their difference: columns as wide as their widest entry."""
    files, names = set(), set()
    for suite in metrics.computed(load()):
        files.add(f"{suite}.json")
        found = json.loads((ROOT / "reports/metrics" / f"{suite}.json").read_text(encoding="utf-8"))
        names |= {f"{benchmark}.{row}.accuracy" for benchmark, rows in found.items() for row in rows}
        runs = results.suite(suite)[["benchmark", "layers", "method"]].drop_duplicates()
        assert len(runs) == sum(map(len, found.values())), "no two methods have one name"
    assert len(f"{max(files, key=len)}  {max(names, key=len)}  1234567    workspace    -123456") <= 120
