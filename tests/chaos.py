"""Faults on purpose: a small suite is killed, starved of disk, damaged and robbed, and started again until it is done.

`make chaos` does this for some minutes, tests/test_chaos.py for some seconds. In the end the tables are those of an
undisturbed run, byte for byte; no finished run was computed again; and no damaged file was taken for a result.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from tests.conftest import ROOT, Clone, clone_of_this

SUITES = ("main/split_mnist-static", "main/split_mnist-noracl")
HEADS = "cifar10/split_cifar10-static"  # on the features of made-up images
RECIPE = "224_bicubic"  # by which these are enlarged
TABLES = (
    *("reports/tables/main.csv", "reports/tables/main.md", "reports/tables/verdicts.json"),
    *(f"reports/metrics/{suite}.json" for suite in SUITES),
    *(f"reports/plots/{suite}.csv" for suite in SUITES),
)
KILLS = 50  # at least
FEWEST_WRITES = 3  # files that a start replaces even if all its runs are finished
BIN = str(Path(sys.executable).parent)
#: Runs a stage with less patience than the code has: with workers that hang, with servers that drip.
IMPATIENT = """
import sys
from pipeline.data import web
from pipeline.runs import executor
executor.SOONEST, web.TIMEOUT, web.WINDOW = 5.0, 2.0, 2.0
from pipeline.__main__ import main
main(sys.argv[1:])
"""
#: What a Dask worker loads before it works, to be a good or a bad one.
GOOD_WORKER = "from pipeline.runs import answers"
BAD_WORKERS = {
    "worker hangs": """
import time
from pipeline.runs import answers
answers.compute_together = lambda runs, tell: time.sleep(3600)
""",
    "worker lies": """
from pipeline.runs import answers
from pipeline.runs.run import compute_together as honest
lies = iter(("accuracy", "tasks", "none") * 100)
def lie_about(record, lie):
    if lie == "accuracy":
        record.history.accuracy[-1][0] = 7.5
    if lie == "tasks":
        record.history.accuracy.pop()
    return None if lie == "none" else record
answers.compute_together = lambda runs, tell: [lie_about(one, next(lies)) for one in honest(runs, tell)]
""",
}


@dataclass
class Tally:
    """What one kind of fault did."""

    tries: int = 0
    survived: int = 0
    repeated: int = 0
    lost: int = 0
    wrong: int = 0


@dataclass
class Chaos:
    """A clone, what an undisturbed run gave in it, and what faults did to it."""

    clone: Clone
    draws: random.Random
    suites: tuple[str, ...]
    tallies: dict[str, Tally] = field(default_factory=dict)
    open: Counter = field(default_factory=Counter)  # tries after which the suites were not finished yet
    expected: dict[str, bytes] = field(default_factory=dict)
    runs: int = 0
    heads: bytes = b""

    # The small suites

    @classmethod
    def prepare(cls, folder: Path, seed: int, seeds: int, limit: int, suites: tuple[str, ...]) -> "Chaos":
        small = {
            "seeds": list(range(seeds)),
            "data": {"mnist": {"limit": limit}, "mirrors": [str(folder / "mirror")]},
            "networks": {"mlp": {"small": [[4, 4]], "large": [[6, 6]]}},
            **{"beyond": {}, "beyond_stress": {}},
            "benchmarks": {
                "split_mnist": {
                    **{"stream": {"pairs": [[0, 1], [2, 3]]}, "start": [[4, 4]]},
                    "training": {"optimisation": {"epochs_first": 10, "epochs_later": 30}},
                    "noracl": {"percentile": 100.0},
                },
                "split_cifar10": {
                    **{"stream": {"pairs": [[0, 1], [2, 3]]}, "start": [[4, 4]]},
                    "training": {"optimisation": {"epochs_first": 2, "epochs_later": 2}},
                },
            },
        }
        small["encoder"] = {"images": {RECIPE: {"size": 32}}}
        small["data"]["cifar10"] = {"limit": 300}
        heads = ("128×128", "256×256", "512×512", "1024×1024", "172×134")
        small["networks"]["heads"] = {name: [[width, 4]] for width, name in enumerate(heads, start=4)}
        clone = clone_of_this(folder / "repo", small)
        for part in ("results", "timing"):  # other tables are made from what is committed
            shutil.copytree(ROOT / "reports" / part, folder / "repo/reports" / part)
        for copied in (folder / "mirror", folder / "repo/data/mnist"):
            shutil.copytree(ROOT / "data/mnist", copied)
        clone.run("python", "-m", "pipeline", "pixels", "mnist")
        for stage in (("features", RECIPE), ("train", HEADS)):
            clone.run("python", "-m", "pipeline", *stage)
        chaos = cls(clone, random.Random(seed), suites)
        chaos.heads = (clone.folder / f"reports/results/{HEADS}/runs.csv").read_bytes()
        chaos.forget()
        chaos.finish()
        chaos.expected, chaos.runs = chaos.results(), len(chaos.finished())
        chaos.forget()
        return chaos

    @property
    def store(self) -> Path:
        return self.clone.folder / ".runs"

    def results(self) -> dict[str, bytes]:
        """What is there of results and tables."""
        names = [f"reports/results/{suite}/{name}.csv" for suite in self.suites for name in ("runs", "signals")]
        names += TABLES if self.suites == SUITES else ()
        paths = {name: self.clone.folder / name for name in names}
        return {name: path.read_bytes() for name, path in paths.items() if path.exists()}

    def forget(self) -> None:
        """Begin again without runs and results."""
        for path in (*self.store.iterdir(), *(self.clone.folder / name for name in self.results())):
            path.unlink()

    def finished(self) -> dict[str, tuple[int, int]]:
        """Whole files of the store; a run that is computed again makes another file."""
        found = {}
        for path in self.store.glob("*.json"):
            checksum, _, body = path.read_bytes().partition(b"\n")
            if hashlib.sha256(body).hexdigest().encode() == checksum:
                found[path.name] = path.stat().st_ino, path.stat().st_mtime_ns
        return found

    def start(self, *command: str, workers: int = 1, **environment: str) -> subprocess.Popen:
        """A stage, by default the training of one of the suites."""
        self.clone.change(compute={"workers": workers})
        return subprocess.Popen(
            command or (sys.executable, "-m", "pipeline", "train", self.draws.choice(self.suites)),
            cwd=self.clone.folder,
            env=self.clone.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )

    def finish(self) -> None:
        """Run what is left, undisturbed."""
        for suite in self.suites:
            self.clone.run("python", "-m", "pipeline", "train", suite)
        if self.suites == SUITES:
            self.clone.run("python", "-m", "pipeline", "tables")

    # What faults did

    def tally(self, fault: str) -> Tally:
        return self.tallies.setdefault(fault, Tally())

    @contextmanager
    def trying(self, fault: str, tries: int = 1):
        """Count a fault, and the finished runs that were computed again or lost meanwhile.

        The block gets the finished runs, and takes those away that it damages itself.
        """
        before = self.finished()
        yield before
        after = self.finished()
        tally = self.tally(fault)
        tally.tries += tries
        tally.lost += len(set(before) - set(after))
        tally.repeated += sum(after[name] != file for name, file in before.items() if name in after)
        self.open[fault] += tries

    def demand(self, fault: str, kept: bool, output: str) -> None:
        """Count what went wrong, and show how."""
        if not kept:
            self.tally(fault).wrong += 1
            print(f"{fault}:\n{output}")

    def settle(self) -> None:
        """Finish what the faults left, and see whether it is what an undisturbed run gives."""
        if self.results().keys() != self.expected.keys():
            with self.trying(next(iter(self.open)), 0):
                self.finish()
        same = self.results() == self.expected
        for fault, tries in self.open.items():
            self.tally(fault).survived += tries * same
            self.demand(fault, same, "other results than without faults")
        self.open.clear()
        self.forget()

    # Faults

    def moment(self, process: subprocess.Popen) -> None:
        """Wait for a random moment: while it starts, or after it has stored something."""
        if self.draws.random() < 0.3:
            time.sleep(self.draws.uniform(0, 4))
        else:
            self.await_progress(process)
            time.sleep(self.draws.uniform(0, 0.5))

    def await_progress(self, process: subprocess.Popen) -> None:
        """Wait until one more run is finished."""
        count = len(self.finished())
        while len(self.finished()) == count and process.poll() is None:
            time.sleep(0.03)

    def workers(self, process: subprocess.Popen) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(process.pid).children()
            return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        return []

    def kill_worker(self, times: int = 4) -> None:
        """SIGKILL to a worker, some times in one start; the parent starts others and goes on."""
        fault, killed = "worker killed", 0
        with self.trying(fault, 0):
            process = self.start(workers=2)
            for _ in range(times):
                while not self.workers(process) and process.poll() is None:
                    time.sleep(0.1)
                self.moment(process)
                if workers := self.workers(process):
                    with suppress(psutil.NoSuchProcess):
                        self.draws.choice(workers).kill()
                        killed += 1
            output, _ = process.communicate(timeout=120)
            gave_up = "workers die before they finish a run" in output  # killed too often: one is to start again
            self.demand(fault, process.returncode == 0 or gave_up, output)
        self.tally(fault).tries += killed
        self.open[fault] += killed

    def kill_parent(self, workers: int | None = None) -> None:
        """SIGKILL to the parent alone; its workers must not outlive it."""
        with self.trying("parent killed"):
            process = self.start(workers=workers or self.draws.choice((1, 2)))
            self.moment(process)
            children = self.workers(process)
            process.kill()
            process.wait()
            _, left = psutil.wait_procs(children, timeout=20)
            self.demand("parent killed", not left, f"{len(left)} workers live on")
            for child in left:
                child.kill()
            process.stdout.close()

    def kill_all(self, *command: str) -> None:
        """SIGKILL to the parent and all that it started."""
        with self.trying(f"{command[0] if command else 'all'} killed"):
            process = self.start(*command, workers=2)
            self.moment(process)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()

    def kill_dvc(self) -> None:
        """The same to `dvc repro`, which then goes on."""
        command = ("dvc", "repro", "-f", "-s", "static@split_mnist")
        self.kill_all(*command)
        with self.trying("dvc killed", 0):
            self.clone.run(*command)

    def terminate_dvc(self) -> None:
        """SIGTERM to `dvc` alone: the training that it began ends with it."""
        fault = "dvc terminated"
        with self.trying(fault):
            process = self.start("dvc", "repro", "-f", "-s", "static@split_mnist", workers=2)
            self.await_progress(process)
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
            _, left = psutil.wait_procs(children, timeout=30)
            finished = "runs, 100%" in output or " 0 to compute" in output  # before the signal came
            told = finished or "finished runs are kept; start again to go on" in output
            self.demand(fault, told and not left and "Traceback" not in output, f"{left} live on\n{output}")
            for child in left:
                child.kill()

    def kill_in_a_write(self) -> None:
        """SIGKILL when a file is written but not yet in its place."""
        with self.trying("killed in a write"):
            process = self.start(FAULT=f"kill:{self.draws.randint(1, FEWEST_WRITES)}")
            output, _ = process.communicate(timeout=120)
            self.demand("killed in a write", process.returncode == -signal.SIGKILL, output)

    def terminate(self) -> None:
        """SIGTERM, as a cluster's scheduler sends it: one line that says how to go on."""
        with self.trying("terminated"):
            process = self.start()
            self.await_progress(process)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
            told = "finished runs are kept; start again to go on" in output or " 0 to compute" in output
            self.demand("terminated", told and "Traceback" not in output, output)

    def fill_disk(self) -> None:
        """A store without room: a tiny file system if one can be mounted, else writes that fail."""
        if mount(self.store, "16k"):
            try:
                with self.trying("disk full"):
                    self.stops_for_room()
                    mount(self.store, "1m", "remount,")
                    self.finish()
                    self.demand("disk full", self.results() == self.expected, "other results than without faults")
            finally:
                subprocess.run(["umount", str(self.store)], check=True)
        else:
            self.fail_writes()

    def fail_writes(self) -> None:
        """Every write fails from some moment on."""
        with self.trying("disk full"):
            self.stops_for_room(FAULT=f"full:{self.draws.randint(1, FEWEST_WRITES)}")

    def stops_for_room(self, **environment: str) -> None:
        process = self.start(**environment)
        output, _ = process.communicate(timeout=120)
        told = "No space left on device" in output and "Traceback" not in output
        self.demand("disk full", told and process.returncode == 1, output)

    def damage_store(self) -> None:
        """Files of the store cut, with a flipped bit, empty, garbage, those of another run, or gone."""
        fault, command = "run store damaged", ("python", "-m", "pipeline", "train", self.suites[0])
        if len(self.finished()) < self.runs:
            with self.trying(fault, 0):
                self.clone.run(*command)
        kinds = ("truncated", "flipped", "empty", "garbage", "another run", "gone", "old format", "impossible")
        mine = [name for name in sorted(self.finished()) if b" NORACL " not in (self.store / name).read_bytes()]
        names = self.draws.sample(mine, min(len(kinds), len(mine) - 1))
        other = (self.store / next(name for name in mine if name not in names)).read_bytes()
        with self.trying(fault, len(names)) as before:
            for kind, name in zip(kinds, names, strict=False):
                path = self.store / name
                content = bytearray(path.read_bytes())
                if kind == "flipped":
                    content[self.draws.randrange(len(content))] ^= 1 << self.draws.randrange(8)
                cut = content[: self.draws.randrange(1, len(content))]
                made = {"truncated": cut, "flipped": content, "empty": b"", "garbage": b"{}", "another run": other}
                made["old format"] = resealed(bytes(path.read_bytes()), lambda record: record.update(format=1))
                made["impossible"] = resealed(
                    bytes(path.read_bytes()), lambda record: record["history"]["accuracy"][0].append(2.5)
                )
                path.unlink() if kind == "gone" else path.write_bytes(made[kind])
                del before[name]
            output = self.clone.run(*command)
            self.demand(fault, f" {len(names)} to compute" in output, output)

    def damage_download(self) -> None:
        """A data file cut, with a flipped bit, or gone: nothing is computed from it, and the download mends it."""
        fault, kind = "download damaged", self.draws.choice(("truncated", "flipped", "gone"))
        path = self.draws.choice(sorted((self.clone.folder / "data/mnist").iterdir()))
        with self.trying(fault):
            content = bytearray(path.read_bytes())
            content[self.draws.randrange(len(content))] ^= 1 << self.draws.randrange(8)
            cut = content[: self.draws.randrange(len(content))]
            path.unlink() if kind == "gone" else path.write_bytes(content if kind == "flipped" else cut)
            output = self.clone.run("python", "-m", "pipeline", "train", self.suites[0], ok=False)
            told = "run `dvc repro download@mnist`" in output and "Traceback" not in output
            self.demand(fault, told or "0 to compute" in output, output)
            self.clone.run("python", "-m", "pipeline", "download", "mnist", NETWORK="off", PATH=BIN)

    def damage_features(self) -> None:
        """A file of features reversed, cut, swapped for another or gone: nothing is trained on it, and it is mended."""
        fault, kind = "features damaged", self.draws.choice(("reversed", "cut", "swapped", "gone"))
        train, extract = (("python", "-m", "pipeline", *words) for words in (("train", HEADS), ("features", RECIPE)))
        folder = self.clone.folder / f"data/features/{RECIPE}"
        results = self.clone.folder / f"reports/results/{HEADS}/runs.csv"
        with self.trying(fault):
            path, other = folder / "train-000.npz", folder / "test-000.npz"
            content = path.read_bytes()
            if kind == "reversed":
                with np.load(path) as arrays:
                    kept = {name: arrays[name] for name in arrays.files}
                np.savez(path, **{**kept, "x": kept["x"][::-1]})
            elif kind == "gone":
                path.unlink()
            else:
                path.write_bytes(content[: len(content) // 2] if kind == "cut" else other.read_bytes())
            for record in self.of_heads():
                record.unlink()
            output = self.clone.run(*train, ok=False)
            told = f"run `dvc repro features@{RECIPE}`" in output and "Traceback" not in output
            self.demand(fault, told and not self.of_heads(), f"{kind}:\n{output}")
            self.clone.run(*extract)
            self.clone.run(*train)
            self.demand(fault, results.read_bytes() == self.heads, f"{kind}: other results than without faults")
            for record in self.of_heads():
                record.unlink()

    def of_heads(self) -> list[Path]:
        """The finished runs on features."""
        return [path for path in self.store.glob("*.json") if b"split_cifar10" in path.read_bytes()]

    def bad_worker(self, fault: str) -> None:
        """A cluster of two workers, of which one hangs or lies: the other does all the work."""
        with self.trying(fault), ExitStack() as stack:
            folder = self.clone.folder.parent
            address = stack.enter_context(scheduler(self.clone, folder))
            for name, preload in (("bad", BAD_WORKERS[fault]), ("good", GOOD_WORKER)):
                (folder / f"{name}.py").write_text(preload, encoding="utf-8")
                arguments = (address, "--preload", str(folder / f"{name}.py"))
                stack.enter_context(dask(self.clone, folder, "dask_worker", *arguments))
            wait_for_workers(address, 2)
            self.clone.change(compute={"scheduler": address})
            try:
                suite = self.draws.choice(self.suites)
                output = self.clone.run(sys.executable, "-c", IMPATIENT, "train", suite, PYTHONPATH=".", ok=False)
            finally:
                self.clone.change(compute={"scheduler": None})
            told = "another worker is asked" in output or " 0 to compute" in output
            self.demand(fault, told and "Traceback" not in output and "giving up" not in output, output)

    def hung_worker(self) -> None:
        """One that never finishes a run."""
        self.bad_worker("worker hangs")

    def lying_worker(self) -> None:
        """One whose records are impossible."""
        self.bad_worker("worker lies")

    def dripping_server(self) -> None:
        """A server that sends a header without end, byte by byte, is given up, and the next source is taken."""
        fault = "server drips"
        with self.trying(fault), drips() as address:
            weights = self.clone.folder / "data/resnet18/weights.pt"
            kept = self.clone.folder.parent / "weights.pt"
            shutil.copy(weights, kept)
            digest = hashlib.sha256(kept.read_bytes()).hexdigest()
            sources = {
                "dripping": {"url": f"{address}/weights", "file": "nowhere.pt", "sha256": "0" * 64},
                "made up": {"url": None, "file": str(kept), "sha256": digest},
            }
            self.clone.change(encoder={"weights": sources})
            output = self.clone.run(sys.executable, "-c", IMPATIENT, "download", "resnet18", PYTHONPATH=".", ok=False)
            self.clone.change(encoder={"weights": {"made up": {**sources["made up"], "file": "nowhere.pt"}}})
            told = "did not work, trying the next source" in output and "verified" in output
            whole = hashlib.sha256(weights.read_bytes()).hexdigest() == digest
            self.demand(fault, told and whole and "Traceback" not in output, output)

    def remove_between_stages(self) -> None:
        """Results and tables gone between a stage and the next, and the whole store as well."""
        with self.trying("files removed", 0):
            self.finish()
        with self.trying("files removed", 3) as before:
            (self.clone.folder / f"reports/results/{self.suites[0]}/runs.csv").unlink()
            shutil.rmtree(self.clone.folder / "reports/tables")
            self.finish()
            self.demand("files removed", self.results() == self.expected, "other results than without faults")
            (self.clone.folder / f"reports/results/{self.suites[-1]}/signals.csv").unlink()
            shutil.rmtree(self.store)
            before.clear()

    # All of it

    def run(self, plan: list[Callable[[], None]], end: float, share: float = 0.8) -> bool:
        """The faults of a plan until time is over, settled when a share is finished; whether all promises were kept."""
        for number, fault in enumerate(plan):
            if time.monotonic() > end:
                print(f"chaos: the time is over, {len(plan) - number} of {len(plan)} faults are left out")
                break
            print(
                f"chaos: {number + 1} of {len(plan)}: {getattr(fault, '__name__', 'fault').replace('_', ' ')}",
                flush=True,
            )
            fault()
            if len(self.finished()) > share * self.runs:
                self.settle()
        if self.open:
            self.settle()
        return all(t.survived == t.tries and not (t.repeated or t.lost or t.wrong) for t in self.tallies.values())

    def kills(self) -> int:
        return sum(tally.tries for fault, tally in self.tallies.items() if "killed" in fault)

    def table(self) -> str:
        heads = ("fault", "tries", "survived", "runs repeated", "runs lost", "wrong")
        lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
        for fault, t in self.tallies.items():
            lines.append(f"| {fault} | {t.tries} | {t.survived} | {t.repeated} | {t.lost} | {t.wrong} |")
        sums = (sum(values) for values in zip(*(vars(t).values() for t in self.tallies.values()), strict=True))
        return "\n".join([*lines, f"| all | {' | '.join(map(str, sums))} |"])


def resealed(content: bytes, change: Callable[[dict], None]) -> bytes:
    """A file of the store with another content and the right checksum."""
    record = json.loads(content.partition(b"\n")[2])
    change(record)
    body = json.dumps(record).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


@contextmanager
def dask(clone: Clone, folder: Path, module: str, *arguments: str):
    """A process of Dask in the clone."""
    command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments, "--host", "127.0.0.1", "--no-dashboard"]
    if module == "dask_worker":
        command += ["--nthreads", "1", "--no-nanny", "--local-directory", str(folder / "scratch")]
    with (folder / "dask.log").open("a", encoding="utf-8") as log:
        environment = clone.environment(PYTHONPATH=".")
        started = subprocess.Popen(command, cwd=clone.folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield started
        finally:
            started.kill()
            started.wait()


@contextmanager
def scheduler(clone: Clone, folder: Path):
    """A scheduler of Dask; its address."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    with dask(clone, folder, "dask_scheduler", "--port", "0", "--scheduler-file", str(file)):
        end = time.monotonic() + 60
        while not file.exists() or not file.read_text(encoding="utf-8"):
            assert time.monotonic() < end, "the scheduler does not start"
            time.sleep(0.1)
        yield json.loads(file.read_text(encoding="utf-8"))["address"]


def wait_for_workers(address: str, workers: int) -> None:
    """Wait until a scheduler knows so many workers."""
    from distributed import Client

    with Client(address, timeout=30) as client:
        client.wait_for_workers(workers, timeout=60)


@contextmanager
def drips():
    """The address of a server that begins a header and never ends it."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            while not over.is_set():
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                    while not over.wait(0.2):
                        connection.sendall(b"x")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.close()
        thread.join(5)


def mount(folder: Path, size: str, more: str = "") -> bool:
    """A file system of this size at a folder, if this user may mount one."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"{more}size={size}", "tmpfs", str(folder)]
    return shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=9.0)
    options = parser.parse_args()
    start = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("chaos: stopped"))  # the folder goes all the same
    with tempfile.TemporaryDirectory() as folder:
        print(f"chaos: seed {options.seed}; the same again: python -m tests.chaos --seed {options.seed}", flush=True)
        chaos = Chaos.prepare(Path(folder), options.seed, 8, 3000, SUITES)
        plan = [chaos.kill_worker] * 4 + [chaos.kill_parent] * 20 + [chaos.kill_all] * 5 + [chaos.kill_in_a_write] * 16
        plan += [chaos.kill_dvc] * 2 + [chaos.terminate_dvc, chaos.fill_disk] + [chaos.fail_writes] * 3
        plan += [chaos.terminate] * 2
        plan += [chaos.damage_store] * 2 + [chaos.damage_download] * 3 + [chaos.remove_between_stages]
        plan += [chaos.damage_features] * 3 + [chaos.hung_worker, chaos.lying_worker, chaos.dripping_server]
        chaos.draws.shuffle(plan)
        end = start + options.minutes * 60
        kept = chaos.run(plan, end)
        while kept and chaos.kills() < KILLS and time.monotonic() < end:  # some workers were not there to be killed
            kept = chaos.run([chaos.kill_parent], end)
    print(chaos.table())
    print(f"{chaos.kills()} SIGKILLs at random moments in {time.monotonic() - start:.0f} s, seed {options.seed}")
    sys.exit(not kept or chaos.kills() < KILLS)


if __name__ == "__main__":
    main()
