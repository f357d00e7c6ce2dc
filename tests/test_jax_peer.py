"""The epoch in JAX is the library's epoch: the bench compares equal work."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PEER = Path("pipeline/tools/jax_peer.py")
ABSENT = 77  # the exit code of the process below where jax is not installed

#: In a process of its own: jax minds forks, and its flags hold for the whole process.
COMPARE = f"""
import sys
from importlib.util import find_spec

if find_spec("jax") is None:
    sys.exit({ABSENT})
import numpy, torch
from noracl import EWCSettings, OnlineEWC
from noracl.method.network import layers
from noracl.method.optimisation import SGD, Lockstep
from pipeline.tools.epochs import RATE, STRENGTH, Setting
from pipeline.tools.jax_peer import Peer

setting, networks, clip = Setting(32, 30), int(sys.argv[1]), float(sys.argv[2])
fisher, anchor = torch.rand_like(setting.network.theta) * 0.01, setting.network.theta * 0.5
chosen = setting.networks[:networks]
before = [network.theta.clone() for network in chosen]
peer = Peer(before, fisher, anchor, setting.sizes, setting.batches)
found = [numpy.asarray(one).reshape(networks, -1) for one in peer.train(setting.order, 256, RATE, clip, STRENGTH)()]
for k, network in enumerate(chosen):
    ewc = OnlineEWC(EWCSettings(strength=STRENGTH))
    ewc.keep(importance=fisher, anchor=anchor)
    Lockstep([SGD(network, ewc, RATE, clip)]).epoch(setting.batches, setting.order)
    apart = max(
        abs(ours.numpy().ravel() - theirs[k]).max()
        for ours, theirs in zip(layers(network.theta, setting.sizes), found, strict=True)
    )
    print(apart, (network.theta - before[k]).abs().max().item())
"""


@pytest.mark.parametrize("networks", [1, 5])
@pytest.mark.parametrize("clip", [5.0, 0.5])
def test_an_epoch_gives_the_weights_of_the_library(mnist_folder, networks, clip):
    beside = Path(sys.prefix, "bench")  # where `make bench` installs it
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(beside), "."])}
    command = [sys.executable, "-c", COMPARE, str(networks), str(clip)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=300)
    if done.returncode == ABSENT:
        pytest.skip("jax is not installed: `make bench` installs it")
    assert done.returncode == 0, done.stderr
    pairs = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    assert len(pairs) == networks
    for apart, moved in pairs:
        assert apart < min(1e-4, moved / 50), "an epoch that changes little would show nothing"


def test_jax_is_imported_in_one_file_after_its_flags_are_set():
    for path in [path for top in ("noracl", "pipeline") for path in Path(top).rglob("*.py")]:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        assert any(name.partition(".")[0] == "jax" for name in names) == (path == PEER), path
    text = PEER.read_text(encoding="utf-8")
    assert text.index('os.environ["XLA_FLAGS"] = ') < text.index("\nimport jax\n")
