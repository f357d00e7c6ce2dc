"""A real Dask scheduler and its workers, on this machine and for it alone."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pipeline.experiments.train import write_suite
from pipeline.runs import executor, store
from pipeline.runs.executor import RunFailed, run_all
from pipeline.runs.fingerprint import Fingerprint, Refused, fingerprint, refuse_unless
from pipeline.sections import Compute
from tests.conftest import ROOT
from tests.test_executor import ONE, place, tiny_runs  # noqa: F401

SLOWER = {
    **{"seeds": [0, 1, 2, 3], "data": {"mnist": {"limit": 3000}}},
    "training": {"optimisation": {"epochs_later": 40}},
}


@contextmanager
def process(module, *arguments, cwd, code=ROOT):
    """A process of Dask that knows this project's code, or another copy of it."""
    command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments, "--host", "127.0.0.1"]
    environment = {"PYTHONPATH": str(code), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    log = (cwd / f"{module}-{len(list(cwd.glob(module + '*')))}.log").open("w")
    started = subprocess.Popen(command, cwd=cwd, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        log.close()


@pytest.fixture
def cluster(place):  # noqa: F811
    """The address of a scheduler, and a function that adds workers to it."""
    with ExitStack() as stack:
        file = place / "scheduler.json"
        arguments = ("--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        stack.enter_context(process("dask_scheduler", *arguments, cwd=place))
        end = time.monotonic() + 60
        while not file.exists() or not file.read_text():
            assert time.monotonic() < end
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        arguments = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(place / "scratch"))
        yield (
            Compute(workers=1, scheduler=address),
            lambda code=ROOT: stack.enter_context(process("dask_worker", address, *arguments, cwd=place, code=code)),
        )


def result_bytes(runs, records, folder, monkeypatch):
    monkeypatch.setattr("pipeline.experiments.train.RESULTS", folder)
    monkeypatch.setattr("pipeline.experiments.train.TIMING", folder / "timing")
    write_suite("table/suite", runs, records, signals=True)
    return {path.name: path.read_bytes() for path in (folder / "table/suite").iterdir()}


def test_a_cluster_that_loses_a_worker_gives_the_bytes_of_one_worker(place, cluster, monkeypatch):  # noqa: F811
    settings, worker = cluster
    runs = tiny_runs(**SLOWER)
    workers = [worker(), worker()]

    def kill_one():
        while not list(place.glob(".runs/*.json")):
            time.sleep(0.01)
        workers[0].send_signal(signal.SIGKILL)

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    far = run_all(runs, settings, "far")
    thread.join()
    assert workers[0].wait() == -signal.SIGKILL
    assert workers[1].poll() is None
    assert all(store.find(run) == record for run, record in zip(runs, far, strict=True))
    near = run_all(runs, ONE, "near", fresh=True)
    far, near = (result_bytes(runs, records, place / name, monkeypatch) for name, records in (("f", far), ("n", near)))
    assert set(far) == {"runs.csv", "signals.csv", "provenance.json"}
    assert far == near


def test_a_worker_with_other_code_refuses(place, cluster):  # noqa: F811
    settings, worker = cluster
    strange = place / "strange"
    for package in ("noracl", "pipeline"):
        shutil.copytree(ROOT / package, strange / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (strange / "noracl/method/network.py").open("a") as file:
        file.write("#")
    worker(strange)
    with pytest.raises(RunFailed, match=r"the worker in .* refuses: its code is not the client's.*same commit"):
        run_all(tiny_runs()[:1], settings, "far")
    assert not list(place.glob(".runs/*.json"))


def test_a_worker_with_other_data_refuses(place, monkeypatch):  # noqa: F811
    (run, *_) = tiny_runs()
    mine = fingerprint(run.files)
    refuse_unless(mine, run.files)
    with pytest.raises(Refused, match="its data is not the client's"):
        refuse_unless(Fingerprint(mine.code, "0" * 64), run.files)
    copy = shutil.copytree(place / "data/mnist", place / "copy/mnist")
    monkeypatch.setattr("pipeline.runs.run.MNIST", copy)
    path = copy / "t10k-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\7")
    with pytest.raises(Refused, match=r"refuses: .*t10k-labels-idx1-ubyte is damaged: run `dvc repro download@mnist`"):
        refuse_unless(mine, run.files)
    with pytest.raises(RunFailed, match=r"t10k-labels-idx1-ubyte is damaged: run `dvc repro download@mnist`"):
        run_all([run], ONE, "damaged")
    path.unlink()
    with pytest.raises(FileNotFoundError, match="lacks t10k-labels-idx1-ubyte"):
        run_all([run], ONE, "missing")
    assert not Path(".runs").exists()


def test_a_scheduler_that_does_not_answer_is_named(place, monkeypatch):  # noqa: F811
    monkeypatch.setattr(executor, "PATIENCE", 0.2)
    with pytest.raises(RunFailed, match=r"compute.scheduler in params.yaml: tcp://127.0.0.1:9 does not answer"):
        run_all(tiny_runs(), Compute(workers=1, scheduler="tcp://127.0.0.1:9"), "far")
