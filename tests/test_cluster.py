"""A real Dask scheduler and its workers, on this machine and for it alone."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from pipeline import committed
from pipeline.data.pixels import verified_files
from pipeline.data.verified import Damaged
from pipeline.experiments.train import write_suite
from pipeline.runs import crews, executor, store
from pipeline.runs.executor import RunFailed, run_all
from pipeline.runs.fingerprint import Fingerprint, Refused, fingerprint, refuse_unless
from pipeline.sections import Compute
from tests.chaos import BAD_WORKERS, GOOD_WORKER, wait_for_workers
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
    log = (cwd / f"{module}-{len(list(cwd.glob(module + '*')))}.log").open("w", encoding="utf-8")
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
        while not file.exists() or not file.read_text(encoding="utf-8"):
            assert time.monotonic() < end
            time.sleep(0.1)
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        arguments = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(place / "scratch"))

        def worker(code=ROOT, preload=""):
            path = place / f"preload-{len(list(place.glob('preload-*')))}.py"
            path.write_text(preload, encoding="utf-8")
            more = ("--preload", str(path))
            return stack.enter_context(process("dask_worker", address, *arguments, *more, cwd=place, code=code))

        yield Compute(workers=1, scheduler=address), worker


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
    with (strange / "noracl/method/network.py").open("a", encoding="utf-8") as file:
        file.write("#")
    worker(strange)
    with pytest.raises(RunFailed, match=r"the worker in .* refuses: its code is not the client's.*same commit"):
        run_all(tiny_runs()[:1], settings, "far")
    assert not list(place.glob(".runs/*.json"))


def test_a_worker_with_other_data_refuses(place, monkeypatch):  # noqa: F811
    (run, *_) = tiny_runs()
    mine = fingerprint(run)
    refuse_unless(mine, run, "worker 1")
    with pytest.raises(Refused, match="worker 1 refuses: its data is not the client's"):
        refuse_unless(Fingerprint(mine.code, "0" * 64), run, "worker 1")
    copy = shutil.copytree(place / "data/mnist", place / "copy/mnist")
    monkeypatch.setattr("pipeline.runs.fingerprint.verified_files", lambda name: verified_files(name, copy.parent))
    path = copy / "t10k-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\7")
    with pytest.raises(Refused, match=r"refuses: .*t10k-labels-idx1-ubyte is damaged: run `dvc repro download@mnist`"):
        refuse_unless(mine, run, "worker 1")
    with pytest.raises(Damaged, match=r"t10k-labels-idx1-ubyte is damaged: run `dvc repro download@mnist`"):
        run_all([run], ONE, "damaged")
    path.unlink()
    with pytest.raises(FileNotFoundError, match="lacks t10k-labels-idx1-ubyte"):
        run_all([run], ONE, "missing")
    assert not Path(".runs").exists()


def test_a_scheduler_that_does_not_answer_is_named(place, monkeypatch):  # noqa: F811
    monkeypatch.setattr(crews, "PATIENCE", 0.2)
    with pytest.raises(RunFailed, match=r"compute.scheduler in params.yaml: tcp://127.0.0.1:9 does not answer"):
        run_all(tiny_runs(), Compute(workers=1, scheduler="tcp://127.0.0.1:9"), "far")


def test_nobody_waits_long_for_a_server_that_is_silent(place, monkeypatch):  # noqa: F811
    assert crews.PATIENCE <= 5
    monkeypatch.setattr(crews, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RunFailed, match=f"compute.scheduler in params.yaml: {address} does not answer"):
            run_all(tiny_runs(), Compute(workers=1, scheduler=address), "far")


def test_a_scheduler_that_is_not_committed_is_told_of_before_it_is_used(place, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setattr(crews, "PATIENCE", 0.2)
    committed._committed.cache_clear()
    monkeypatch.chdir(ROOT)
    with pytest.raises(RunFailed), crews.side_by_side(Compute(workers=1, scheduler="tcp://127.0.0.1:9")):
        pass
    told = capsys.readouterr().err
    assert "Note: compute.scheduler in params.yaml is tcp://127.0.0.1:9, which is not committed: it gets" in told
    committed.announce("compute.scheduler", None, "nothing")
    committed.announce(
        "noracl.gamma", yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))["noracl"]["gamma"], "nothing"
    )
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("bad", sorted(BAD_WORKERS))
def test_a_worker_that_hangs_or_lies_costs_nothing_but_its_own_work(place, cluster, monkeypatch, capsys, bad):  # noqa: F811
    settings, worker = cluster
    runs = tiny_runs(seeds=[0, 1])
    near = run_all(runs, ONE, "near", fresh=True)
    if bad == "worker hangs":
        monkeypatch.setattr(executor, "SOONEST", 5.0)
    for preload in (BAD_WORKERS[bad], GOOD_WORKER):
        worker(preload=preload)
    wait_for_workers(settings.scheduler, 2)
    far = run_all(runs, settings, "far")
    assert [record.history for record in far] == [record.history for record in near]
    assert all(store.find(run) == record for run, record in zip(runs, far, strict=True))
    told = capsys.readouterr().out
    assert "another worker is asked" in told
    assert (
        "has not finished after" if bad == "worker hangs" else "sent a record that this run cannot have left"
    ) in told


def test_a_run_that_fails_on_two_workers_is_named_with_both(place, cluster):  # noqa: F811
    settings, worker = cluster
    for _ in range(2):
        worker(preload="from pipeline.runs import answers\nanswers.compute_together = lambda runs, tell: {}['gone']\n")
    wait_for_workers(settings.scheduler, 2)
    with pytest.raises(
        RunFailed,
        match=r"seed 0: the worker in .* failed: KeyError: 'gone' .*; then the worker in .* failed: KeyError",
    ):
        run_all(tiny_runs()[:1], settings, "far")
    assert not list(place.glob(".runs/*.json"))
