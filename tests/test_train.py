"""What the training stages write, from made-up records."""

import json
from pathlib import Path

import pandas as pd
import pytest

from noracl import EpochSignals, GrowthEvent, History, LayerSignal
from noracl.method.learner import COMPONENTS
from pipeline.config import load
from pipeline.data.manifests import placeholder
from pipeline.experiments.builder import Builder
from pipeline.experiments.cost import cost_table
from pipeline.experiments.train import result_rows, signal_rows, summary, write_suite
from pipeline.runs.run import Record

MAKE = Builder(load(), placeholder)
SIGNAL = LayerSignal(1.0, 0.9, 0.002, 0.001)


def record(tasks=3, layers=2) -> Record:
    history = History(
        accuracy=[[0.9 - 0.1 * (t - j) for j in range(t + 1)] for t in range(tasks)],
        widths=[(32 + t,) * layers for t in range(tasks)],
        parameters=[1000 + t for t in range(tasks)],
        locked=[(0.25,) * layers] * tasks,
        plastic=[500.5] * tasks,
        growth=[GrowthEvent(2, 4, 1, 1, **vars(SIGNAL))],
        signals=[EpochSignals(2, 4, (SIGNAL,) * layers)],
    )
    seconds = {**dict.fromkeys(COMPONENTS, 1.0), "sgd": 95.0, "total": 101.0}
    return Record(tasks, history, None, seconds, {"cpu": "a"})


def test_a_row_per_task():
    run = MAKE.noracl("s", "permuted_mnist")[0]
    rows = result_rows(run, record(layers=1), layers=2)
    assert [row["task"] for row in rows] == [1, 2, 3]
    assert rows[2] == {
        **{"benchmark": "permuted_mnist", "method": "NORACL", "layers": 1, "seed": 0, "task": 3},
        **{"accuracy": "0.800000", "accuracy_first": "0.700000", "accuracy_newest": "0.900000", "params": 1002},
        **{"width_1": 34, "width_2": "", "growth_events": 1, "locked_1": "0.250000", "locked_2": ""},
        "plastic": "500.500",
    }
    assert rows[0]["growth_events"] == 0


def test_signals_name_the_neurons_that_they_added():
    run = MAKE.noracl("s", "permuted_mnist")[0]
    first, second = signal_rows(run, record())
    assert (first["task"], first["epoch"], first["layer"], first["neurons"]) == (2, 4, 1, 1)
    assert (second["layer"], second["neurons"], second["percentile"]) == (2, 0, "2.000000e-03")


def test_an_infeasible_run_has_one_row_without_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = MAKE.noracl("table/s", "split_mnist")[5:7]
    records = [record(), Record(5, None, "no room", {"total": 1.0}, {"cpu": "b"})]
    write_suite("table/s", runs, records)
    table = pd.read_csv("reports/results/table/s/runs.csv")
    assert table["task"].tolist() == [1, 2, 3, 0]
    assert table["accuracy"].isna().tolist() == [False, False, False, True]
    assert table["seed"].tolist() == [0, 0, 0, 1]
    assert json.loads(Path("reports/results/table/s/provenance.json").read_text(encoding="utf-8")) == [
        {"cpu": "a"},
        {"cpu": "b"},
    ]
    timing = pd.read_csv("reports/timing/table/s.csv")
    assert (timing["tasks"].tolist(), timing["sgd"].tolist()) == ([3, 5], [95.0, 0.0])
    assert "split_mnist 2L NORACL: 80.00%, 1002 parameters, 1" in summary(runs, records)


def test_cost_table_by_hand():
    paper = pd.read_csv("reports/paper/cost.csv")
    table = cost_table([record(), record()], paper).set_index("component")
    assert table.loc["SGD training", "seconds"] == 95.0
    assert table.loc["SGD training", "share_percent"] == pytest.approx(95.0)
    assert table.loc["NORACL overhead", "seconds"] == 3.0
    assert table.loc["Total wall-clock", "seconds"] == 100.0
    assert pd.isna(table.loc["Validation eval", "seconds"]), "this code does not make that pass"
    assert table.loc["NORACL overhead, % of the shared components", "seconds"] == pytest.approx(3 / 97 * 100, abs=0.01)
    assert table.loc["NORACL overhead, % of the shared components", "paper_seconds"] == 5.6
    assert table.loc["growth events", "seconds"] == 1.0
