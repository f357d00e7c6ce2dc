import os
import sys
from pathlib import Path

import pytest
import torch
import yaml

from pipeline.config import parse
from pipeline.data import mnist
from pipeline.data.download import MNIST_FILES
from pipeline.data.manifests import Pixels, digest_of_files
from pipeline.experiments.staleness import of_runs
from pipeline.experiments.suites import Builder
from pipeline.files import write_json
from pipeline.runs import canaries, executor
from pipeline.runs.executor import RunFailed, run_all, workers
from pipeline.runs.run import compute
from pipeline.sections import Compute
from tests.conftest import ROOT, TINY, merge

SUITE = "main/split_mnist-static"
ONE, TWO = Compute(workers=1, scheduler=None), Compute(workers=2, scheduler=None)


@pytest.fixture
def place(tmp_path, monkeypatch, mnist_folder):
    """A project folder with nothing but the data, tiny parameters and the manifest of both."""
    (tmp_path / "data").symlink_to(mnist_folder.parent)
    text = yaml.safe_dump(merge(yaml.safe_load((ROOT / "params.yaml").read_text()), TINY))
    (tmp_path / "params.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    mnist.main([])
    return tmp_path


def tiny_runs(**changes):
    params = parse(yaml.safe_dump(merge(yaml.safe_load(Path("params.yaml").read_text()), changes)))
    manifest = Pixels(data=digest_of_files(MNIST_FILES), **params.data.mnist.model_dump())
    return Builder(params, lambda name: manifest).static(SUITE, "split_mnist")


def test_any_number_of_workers_gives_the_same_records(place, monkeypatch):
    runs = tiny_runs(seeds=[0, 1])
    alone = run_all(runs, ONE, "alone")
    together = run_all(runs, TWO, "together", fresh=True)
    assert [r.history for r in alone] == [r.history for r in together]

    def never(run, on_share=None):
        raise AssertionError("computed again")

    monkeypatch.setattr(executor, "compute", never)
    assert [r.history for r in run_all(runs, ONE, "again")] == [r.history for r in alone]


def test_runs_that_differ_in_their_labels_alone_are_computed_once(place, monkeypatch, capsys):
    runs = tiny_runs(networks={"mlp": {"small": [[4, 4]], "same": [[4, 4]], "large": [[6, 6]]}})
    computed = []

    def counted(run, on_share=None):
        computed.append(run.method)
        return compute(run, on_share)

    monkeypatch.setattr(executor, "compute", counted)
    found = {run.method: record for run, record in zip(runs, run_all(runs, ONE, "twins"), strict=True)}
    assert found["small"] == found["same"] != found["large"]
    assert len(computed) == 2
    assert "0 of 3 runs are in the run store .runs, 2 to compute" in capsys.readouterr().out


def test_a_store_that_cannot_be_written_is_explained(place):
    (place / ".runs").write_text("a file where the folder should be")
    with pytest.raises(RunFailed, match=r"split_mnist 2L \w+ seed 0 is computed, but cannot be kept in .runs: .*"):
        run_all(tiny_runs()[:1], ONE, "full")


def test_what_torch_refuses_is_named(place, monkeypatch):
    def fail(run, on_share=None):
        raise torch.linalg.LinAlgError("the algorithm failed to converge")

    monkeypatch.setattr(executor, "compute", fail)
    with pytest.raises(RunFailed, match=r"split_mnist 2L \w+ seed 0: the algorithm failed to converge"):
        run_all(tiny_runs(), ONE, "wild")


def test_a_diverging_run_is_named_and_leaves_no_result(place):
    runs = tiny_runs(training={"optimisation": {"rate_first": 1e30, "clip": None}})
    for settings in (ONE, TWO):
        with pytest.raises(
            RunFailed, match=r"split_mnist 2L \w+ seed 0: the loss became non-finite at task 1, after its last step"
        ):
            run_all(runs, settings, "wild")
    assert not list(place.glob(".runs/*"))


def test_nothing_is_computed_or_found_while_the_code_gives_other_numbers_than_the_canaries(place):
    runs = tiny_runs()
    known = of_runs(runs)
    write_json(canaries.file_of(SUITE), known)
    run_all(runs, ONE, "same")
    ((route, numbers),) = known.items()
    first, *others = numbers["numbers"]
    write_json(canaries.file_of(SUITE), {route: {**numbers, "numbers": [1.001 * first, *others]}})
    for fresh in (False, True):
        with pytest.raises(RunFailed, match=r"no longer gives the numbers in .*: run `dvc repro canaries`"):
            run_all(runs, ONE, "changed", fresh)


def test_data_that_cannot_make_a_stream_is_named(place):
    """The first 10 test images hold no 3, 6 or 8."""
    (run, *_) = tiny_runs(
        data={"mnist": {"limit": 60}}, benchmarks={"split_mnist": {"stream": {"pairs": [[0, 1], [3, 8]]}}}
    )
    with pytest.raises(RunFailed, match=r"split_mnist 2L \w+ seed 0: tasks\[\d\].x_test is empty"):
        run_all([run], ONE, "few")


def test_a_cluster_without_its_package_is_explained(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RunFailed, match=r"compute.scheduler in params.yaml needs `pip install distributed`"):
        run_all(tiny_runs(), Compute(workers=1, scheduler="tcp://127.0.0.1:8786"), "far")


def test_workers_are_one_per_core_or_as_asked():
    assert workers(TWO) == 2
    assert workers(Compute(workers="auto", scheduler=None)) == len(os.sched_getaffinity(0))
