"""Only the download stages may reach the network; tests/test_end_to_end.py runs all stages under the same guard."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_executor import place  # noqa: F401
from tests.test_layout import PACKAGES, imported

NETWORKING = ("urllib.request", "http", "ftplib", "smtplib", "requests", "aiohttp", "socket.create_connection")
UNSHARE = ["unshare", "--net"]
TRY = """
import socket, sys
sys.orig_argv += sys.argv[1:]
sys.path.insert(0, {folder!r})
import sitecustomize, importlib
importlib.reload(sitecustomize)
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
for call in (lambda: socket.create_connection(("192.0.2.1", 9), 0.01), lambda: socket.getaddrinfo("example.org", 80)):
    try:
        call()
    except OSError as error:
        print("cut off" in str(error))
"""


def test_one_module_speaks_to_the_network():
    found = {
        path
        for path in PACKAGES
        for name in imported(path)
        if f"{name}.".startswith(tuple(f"{n}." for n in NETWORKING))
    }
    assert found == {Path("pipeline/data/web.py")}


@pytest.mark.parametrize(
    ("stage", "cut"), [("train main/split_mnist-static", True), ("train download", True), ("download mnist", False)]
)
def test_the_guard_of_the_tests_stops_all_but_downloads(tmp_path, stage, cut):
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", TRY.format(folder=str(ROOT / "tests/injected")), "pipeline", *stage.split()],
        env={"NETWORK_LOG": str(log), "NETWORK": "on", "PATH": os.environ["PATH"]},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.stdout.split() == [str(cut)] * 2, done.stderr
    assert log.exists() == cut


def test_training_needs_no_network_at_all(place):  # noqa: F811
    """Not even this machine's own addresses: the kernel gives the process a network of its own, with nothing in it."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("this user may not cut processes off the network")
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-m", "pipeline", "train", "main/split_mnist-static"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert (place / "reports/results/main/split_mnist-static/runs.csv").exists()
