"""Fixtures that are dear to make: MNIST, and a small clone in which the real pipeline has run."""

import copy
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from filelock import FileLock

from pipeline.data.download import CIFAR10_FILES
from tests.helpers import hashes, made_up_cifar10, made_up_weights

ROOT = Path(__file__).parent.parent
_SHORT = {"optimisation": {"epochs_first": 1, "epochs_later": 2}}
_HEADS = {"stream": {"pairs": [[0, 1], [2, 3]]}, "start": [[4, 4]], "training": _SHORT}
TINY = {
    "seeds": [0],
    "data": {"mnist": {"limit": 300}, "cifar10": {"limit": 300}},
    "encoder": {"images": {"64": {"size": 40}, "128": {"size": 32}, "224": {"size": 36}, "224_bicubic": {"size": 40}}},
    "training": _SHORT,
    "noracl": {"percentile": 100.0},
    "networks": {
        "mlp": {"small": [[4, 4]], "large": [[6, 6]]},
        "heads": {
            **{"128×128": [[4, 4]], "256×256": [[5, 5]], "512×512": [[6, 6]], "1024×1024": [[7, 7]]},
            "172×134": [[5, 4]],
        },
    },
    "benchmarks": {
        "permuted_mnist": {"stream": {"tasks": 2}, "start": [[4, 4]]},
        "rotated_mnist": {"stream": {"angles": [0, 45]}, "start": [[4, 4]]},
        "split_mnist": {"stream": {"pairs": [[0, 1], [2, 3]]}, "start": [[4, 4]]},
        "split_cifar10": _HEADS,
        "cifar10_128": _HEADS,
    },
    "stress": {
        **{"short": 2, "long": 3, "noracl": [4, 4], "long_only": ["64x64"]},
        "static": {"32x32": [4, 4], "75x32": [6, 4], "64x64": [5, 5]},
    },
    "ablations": {"init": ["null-space"], "trigger": ["fixed"]},
    "sensitivity": {"gamma": [0.8], "percentile": [10.0], "epsilon": [0.01]},
    "reading_seeds": [0],
    "readings": {"boost": {"why": "One reading is enough to see that they work.", "changes": {"noracl.boost": 3.0}}},
    "beyond": {"controls": {"benchmarks": ["split_mnist"], "init": ["zero"]}},
    "beyond_stress": {"oracle": {"seeds": [0], "networks": {"7×7": [7, 7]}}},
    "theory": {"widths": [8], "tasks": 32, "inputs": 16, "few_inputs": 8, "neurons": [1]},
    "compute": {"workers": 1},
}

FEW_FIGURES = ("fig2", "pareto", "agreement")  # tests/test_figures.py draws all of them

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of two processes one begins with the small clone and what needs it; the other begins with the rest."""
    items.sort(key=lambda item: (item.path.stem != "test_end_to_end", "clone" not in item.fixturenames))


def train_stages(ran: set[str]) -> set[str]:
    """Of stages that ran, those that compute results: not what reads them."""
    readers = ("figure@", "canaries", "golden", "tables", "claims", "page", "check")
    return {stage for stage in ran if not stage.startswith(readers)}


def merge(into: dict, changes: dict) -> dict:
    for key, value in changes.items():
        if (
            isinstance(value, dict)
            and isinstance(into.get(key), dict)
            and key not in ("mlp", "heads", "weights", "readings", "beyond", "beyond_stress")
        ):
            merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)  # or YAML would have anchors
    return into


class Clone:
    """A clone of this repository, worked in from outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first_run: set[str] = set()

    @property
    def network_log(self) -> Path:
        """Who wanted to reach the network, apart from the download stages; their own processes may."""
        return self.folder.parent / "network.log"

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        found = {k: v for k, v in os.environ.items() if not k.startswith(("DVC_", "GIT_", "PYTEST"))}
        injected = {"PYTHONPATH": str(ROOT / "tests/injected"), "NETWORK_LOG": str(self.network_log), "NETWORK": "on"}
        return found | injected | {"PATH": path, "OMP_NUM_THREADS": "1"} | more

    def run(self, *command: str, ok: bool = True, **environment: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(**environment),
            capture_output=True,
            encoding="utf-8",
            timeout=1800,
        )
        assert not ok or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def stages_run(self, *command: str) -> set[str]:
        """The stages that a dvc command ran."""
        lines = self.run(*command).splitlines()
        return {line.split("'")[1] for line in lines if line.startswith("Running stage ")}

    def change(self, **changes: object) -> None:
        path = self.folder / "params.yaml"
        changes = json.loads(json.dumps(changes))  # or what is written twice would become an anchor
        path.write_text(
            yaml.safe_dump(merge(yaml.safe_load(path.read_text(encoding="utf-8")), changes)), encoding="utf-8"
        )

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", message)

    def copy(self, folder: Path) -> "Clone":
        shutil.copytree(self.folder, folder, symlinks=True)
        return Clone(folder)


@pytest.fixture(scope="session")
def mnist_folder() -> Path:
    """The downloaded files; downloads them if need be."""
    folder = ROOT / "data" / "mnist"
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "pipeline", "download", "mnist"], cwd=ROOT, check=True)
    return folder


def clone_of_this(folder: Path, parameters: dict) -> Clone:
    """What is here, committed or not, as a repository of its own with other parameters; nothing has run in it.

    CIFAR-10 and ResNet18's weights are made up, and there as if they had been downloaded; their hashes are pinned. A
    file that nothing reads stands for Fashion-MNIST.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    clone = Clone(folder)
    registry = folder / "reports/figures.yaml"
    entries = yaml.safe_load(registry.read_text(encoding="utf-8"))["figures"]
    registry.write_text(yaml.safe_dump({"figures": {name: entries[name] for name in FEW_FIGURES}}), encoding="utf-8")
    clone.run("git", "init", "-q", "-b", "main")
    clone.change(**parameters)
    for part in ("results", "timing", "metrics", "plots"):  # these parameters ask for other suites
        shutil.rmtree(folder / "reports" / part)
    (folder / "dvc.lock").unlink()  # nor does it hold for them, and DVC reads and writes all of it at each stage
    pins = folder / "pipeline/data/download.py"
    for name, digest in hashes(made_up_cifar10(folder / "data/cifar10")).items():
        text = pins.read_text(encoding="utf-8")
        assert CIFAR10_FILES[name] in text
        pins.write_text(text.replace(CIFAR10_FILES[name], digest), encoding="utf-8")
    (folder / "data/fashion_mnist").mkdir()
    (folder / "data/fashion_mnist/made-up").touch()
    made_up_weights(folder / "data/resnet18/weights.pt")
    digest = hashlib.sha256((folder / "data/resnet18/weights.pt").read_bytes()).hexdigest()
    clone.change(encoder={"weights": {"made up": {"url": None, "file": "nowhere.pt", "sha256": digest}}})
    clone.run("dvc", "commit", "--force", "download@cifar10", "download@fashion_mnist", "encoder")
    clone.commit("tiny")
    return clone


@pytest.fixture(scope="session")
def clone(tmp_path_factory) -> Clone:
    """The small clone after `dvc repro`, committed; made once for all test processes, so leave it as it is."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    ran = shared / "clone" / "ran.json"
    with FileLock(shared / "clone.lock"):
        if not ran.exists():
            shutil.rmtree(ran.parent, ignore_errors=True)
            clone = clone_of_this(shared / "clone" / "repo", TINY)
            stages = clone.stages_run("dvc", "repro")
            clone.commit("results")
            ran.write_text(json.dumps(sorted(stages)), encoding="utf-8")
    clone = Clone(ran.parent / "repo")
    clone.first_run = set(json.loads(ran.read_text(encoding="utf-8")))
    return clone
