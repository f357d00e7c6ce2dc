"""Ctrl-C at any moment: one line, no traceback, and nothing lives on."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import yaml

from pipeline.data import pixels
from pipeline.runs.crews import interrupts_wait
from tests.conftest import ROOT, merge
from tests.test_executor import SUITE, place  # noqa: F401

LONG = {
    **{"seeds": [0, 1, 2, 3], "data": {"mnist": {"limit": 3000}}},
    "training": {"optimisation": {"epochs_later": 4000}},
}


@pytest.fixture
def begun(place):  # noqa: F811
    """A function that starts a long training with some workers, and returns it when its own code runs."""
    started = []

    def start(workers, **environment):
        path = place / "params.yaml"
        changes = LONG | {"compute": {"workers": workers}}
        path.write_text(
            yaml.safe_dump(merge(yaml.safe_load(path.read_text(encoding="utf-8")), changes)), encoding="utf-8"
        )
        pixels.main(["mnist"])
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "train", SUITE],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        started.append(process)
        while not catches(process, signal.SIGTERM):
            assert process.poll() is None
            time.sleep(0.005)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def catches(process, number):
    """Whether a process has a handler for a signal, as Python itself has none for SIGTERM."""
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (number - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("number", "workers", "seconds"),
    [
        *((signal.SIGINT, 1, 0), (signal.SIGTERM, 1, 0.7), (signal.SIGINT, 2, 1.5), (signal.SIGTERM, 2, 2.5)),
        *((signal.SIGINT, 2, 3.5), (signal.SIGINT, 2, 5), (signal.SIGTERM, 2, 5)),
    ],
)
def test_an_interruption_at_any_moment_is_one_line(begun, workers, seconds, number):
    process = begun(workers)
    time.sleep(seconds)
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number)
    output, _ = process.communicate(timeout=60)
    assert "Traceback" not in output
    lines = [line for line in output.splitlines() if "interrupted" in line]
    assert len(lines) == 1, output
    (line,) = lines
    assert line == "interrupted: nothing was run" or line.endswith("start again to go on.")
    assert process.returncode in (1, 130)
    _, left = psutil.wait_procs(children, timeout=30)
    assert not left


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("seconds", [0, 5])
def test_a_stage_that_dvc_began_says_how_to_undo_it(begun, seconds):
    """Before DVC runs a stage, it removes the committed results of the stage."""
    process = begun(1, DVC_STAGE="noracl@split_mnist")
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert "Traceback" not in output
    assert output.splitlines()[-1].startswith("To undo instead: git checkout HEAD -- params.yaml dvc.lock reports")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_who_interrupts_twice_does_not_wait(begun):
    process = begun(2)
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert "Traceback" not in output
    assert "interrupted" in output


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs pthread_kill")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_thread_lets_an_interruption_in_while_workers_are_started(number):
    """A worker whose start is interrupted prints a traceback; BLAS has threads that do not block signals."""
    done = threading.Event()
    beside = threading.Thread(target=done.wait)
    beside.start()
    before = signal.signal(number, signal.default_int_handler)
    inside = []

    def start_workers():
        with interrupts_wait():
            signal.pthread_kill(beside.ident, number)
            time.sleep(0.1)
            inside.append("to its end")

    try:
        with pytest.raises(KeyboardInterrupt):
            start_workers()
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
        done.set()
    assert inside
