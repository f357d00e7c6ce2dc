import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from pipeline import executor, store
from pipeline.executor import RunFailed, run_all, workers
from pipeline.params import Compute, load, parse
from pipeline.suites import table1
from tests.conftest import ROOT, TINY, merge

ONE, TWO = Compute(workers=1, scheduler=None), Compute(workers=2, scheduler=None)


@pytest.fixture
def place(tmp_path, monkeypatch, mnist_folder):
    """An empty project folder with the data and tiny parameters."""
    (tmp_path / "data").symlink_to(mnist_folder.parent)
    text = yaml.safe_dump(merge(yaml.safe_load((ROOT / "params.yaml").read_text()), TINY))
    (tmp_path / "params.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tiny_runs(**changes):
    data = merge(yaml.safe_load(Path("params.yaml").read_text()), changes)
    return table1(parse(yaml.safe_dump(data)), "split_mnist", "static")


def test_any_number_of_workers_gives_the_same_records(place, monkeypatch):
    runs = tiny_runs(seeds=[0, 1])
    alone = run_all(runs, ONE, "alone")
    together = run_all(runs, TWO, "together", fresh=True)
    assert [r.history for r in alone] == [r.history for r in together]

    def never(run, on_share=None):
        raise AssertionError("computed again")

    monkeypatch.setattr(executor, "compute", never)
    assert [r.history for r in run_all(runs, ONE, "again")] == [r.history for r in alone]


def test_a_diverging_run_is_named_and_leaves_no_result(place):
    runs = tiny_runs(optimisation={"rate_first": 1e30, "clip": None})
    for settings in (ONE, TWO):
        with pytest.raises(
            RunFailed, match=r"split_mnist 2L \w+ seed 0: the loss became non-finite at task 1, after its last step"
        ):
            run_all(runs, settings, "wild")
    assert not list(place.glob(".runs/*"))


def test_where_runs_may_diverge_they_have_no_history_and_are_not_kept(place):
    wild, tame = tiny_runs(optimisation={"rate_first": 1e30, "clip": None}), tiny_runs()
    for settings in (ONE, TWO):
        records = run_all([*wild, *tame], settings, "some are wild", diverging=True)
        assert [record.history is None for record in records] == [True] * len(wild) + [False] * len(tame)
        assert "non-finite at task 1" in records[0].infeasible
    assert len(list(place.glob(".runs/*"))) == len(tame)


def test_data_that_cannot_make_a_stream_is_named(place):
    """The first 10 test images hold no 3, 6 or 8."""
    (run, *_) = tiny_runs(data={"limit": 60}, benchmarks={"split_mnist": {"stream": {"pairs": [[0, 1], [3, 8]]}}})
    with pytest.raises(RunFailed, match=r"split_mnist 2L \w+ seed 0: tasks\[\d\].x_test is empty"):
        run_all([run], ONE, "few")


def test_a_cluster_without_its_package_is_explained(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RunFailed, match=r"compute.scheduler in params.yaml needs `pip install distributed`"):
        run_all(tiny_runs(), Compute(workers=1, scheduler="tcp://127.0.0.1:8786"), "far")


def test_workers_are_one_per_core_or_as_asked():
    assert workers(TWO) == 2
    assert workers(Compute(workers="auto", scheduler=None)) == len(os.sched_getaffinity(0))


def start(place):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pipeline.train", "permuted_mnist-static"]
    return subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for_stored(place, number):
    end = time.monotonic() + 120
    while len(list(place.glob(".runs/*.json"))) < number:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_killed_workers_and_parents_lose_only_the_run_in_hand(place):
    """A worker is killed, then the parent; the third start finishes, and no finished run was computed again."""
    path = place / "params.yaml"
    slow = {
        "seeds": [0, 1, 2, 3],
        "data": {"limit": 6000},
        "compute": {"workers": 2},
        "benchmarks": {"permuted_mnist": {"epochs_first": 10, "epochs_later": 40}},
    }
    path.write_text(yaml.safe_dump(merge(yaml.safe_load(path.read_text()), slow)))
    first = start(place)
    wait_for_stored(place, 1)
    children = [c for c in psutil.Process(first.pid).children() if "spawn_main" in " ".join(c.cmdline())]
    os.kill(children[0].pid, signal.SIGKILL)
    wait_for_stored(place, 3)
    first.send_signal(signal.SIGTERM)
    output, _ = first.communicate(timeout=60)
    assert "a worker died; starting new ones" in output
    assert "finished runs are kept; start again to go on" in output
    assert "Traceback" not in output
    assert first.returncode == 1
    assert not (place / "reports").exists()
    kept = {p: p.stat().st_mtime_ns for p in place.glob(".runs/*.json")}
    assert 3 <= len(kept) < 8

    second = start(place)
    output, _ = second.communicate(timeout=120)
    assert second.returncode == 0, output
    assert f"{len(kept)} of 8 runs are in the run store" in output
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    runs = table1(load(path), "permuted_mnist", "static")
    undisturbed = run_all(runs[:1], ONE, "undisturbed", fresh=True)
    assert store.find(runs[0]).history == undisturbed[0].history
