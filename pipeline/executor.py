"""Runs side by side: from the store where they are finished, else on worker processes or a Dask cluster."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch.linalg import LinAlgError  # type: ignore[attr-defined]
from tqdm import tqdm

from noracl import NonFiniteLoss
from pipeline import store
from pipeline.files import sweep
from pipeline.fingerprint import Fingerprint, Refused, fingerprint, refuse_unless
from pipeline.params import Compute
from pipeline.paths import RUNS
from pipeline.runs import Record, Run, compute, machine

DIVERGED = (NonFiniteLoss, LinAlgError)  # weights that overflow in an epoch's last step have no SVD
PATIENCE = 30.0  # seconds for a Dask scheduler to answer
_share: Any = None  # in a worker: the counter that all workers add their progress to


class RunFailed(RuntimeError):
    """A run could not be computed; the message names it."""


def _start_worker(counter: Any) -> None:
    global _share
    _share = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(run: Run, expected: Fingerprint) -> Record:
    refuse_unless(expected, run.files)

    def tell(part: float) -> None:
        if _share is not None:
            with _share.get_lock():
                _share.value += part * run.cost

    return compute(run, tell)


def workers(settings: Compute) -> int:
    """Worker processes: as configured, or one per core that this process may use."""
    if settings.workers != "auto":
        return settings.workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Progress:
    """A bar with an estimate on a terminal, a plain line now and then elsewhere."""

    def __init__(self, title: str, runs: int, total: float, unit: str = "runs") -> None:
        self.title, self.runs, self.total, self.unit = title, runs, total, unit
        self.finished, self.start, self.last = 0, time.monotonic(), 0.0
        self.bar = None
        if sys.stderr.isatty():
            layout = "{l_bar}{bar}| {elapsed} elapsed, {remaining} left{postfix}"
            self.bar = tqdm(total=round(total, 3), desc=title, bar_format=layout, dynamic_ncols=True)

    def show(self, done: float, force: bool = False) -> None:
        """Show that ``done`` of the total is done."""
        share = min(done / self.total, 1.0) if self.total else 1.0
        if self.bar is not None:
            self.bar.n = min(done, self.total)
            self.bar.set_postfix_str(f"{self.finished}/{self.runs} {self.unit}")
            return
        now = time.monotonic()
        if force or now - self.last >= 30:
            self.last = now
            elapsed = now - self.start
            left = f", about {elapsed / share - elapsed:.0f} s left" if 0.02 < share < 1 else ""
            counts = f"{self.finished}/{self.runs} {self.unit}"
            print(f"{self.title}: {counts}, {share:.0%}, {elapsed:.0f} s{left}", flush=True)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self.bar is not None:
            self.bar.close()


@contextlib.contextmanager
def side_by_side(settings: Compute, counter: Any = None) -> Iterator[Executor]:
    """Worker processes, or a Dask cluster; worker processes are killed in the end."""
    if settings.scheduler is not None:
        try:
            from distributed import Client

            client = Client(settings.scheduler, timeout=PATIENCE)
        except ImportError:
            raise RunFailed(
                "compute.scheduler in params.yaml needs `pip install distributed`, as requirements.txt pins it"
            ) from None
        except (OSError, ValueError) as error:
            raise RunFailed(
                f"compute.scheduler in params.yaml: {settings.scheduler} does not answer: {error}"
            ) from None
        with client:
            print(f"{settings.scheduler}: {len(client.scheduler_info()['workers'])} workers so far", flush=True)
            yield client.get_executor(pure=False)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers(settings), context, _start_worker, (counter,))
    try:
        yield pool
    finally:  # killed, not asked to end: a worker that died idle may hold the lock that the others wait for
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


@contextlib.contextmanager
def kill_like_ctrl_c() -> Iterator[None]:
    """Inside, SIGTERM does what Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _reason(run: Run, error: Exception) -> str | None:
    """What to tell people when a run could not be computed; None if that is not for them to mend."""
    if isinstance(error, BrokenProcessPool):
        return None
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, DIVERGED):
        return f"{run.label}: {error}; lower the learning rate or clip the gradient"
    if isinstance(error, CancelledError):
        return "the Dask scheduler is gone; finished runs are kept, start again to go on"
    if isinstance(error, ImportError):
        return f"a worker cannot load this project ({error}); start it in the project's folder"
    if isinstance(error, ValueError | MemoryError | RuntimeError):  # the library or torch gives up
        return f"{run.label}: {error}"
    return f"{run.label}: {error}" if type(error).__module__.startswith("distributed") else None


@dataclass
class Queue:
    """What is to compute, what is finished, whether finished runs go to the store, and whether one may diverge."""

    todo: list[Run]
    records: dict[Run, Record]
    progress: Progress
    store: bool
    diverging: bool

    def finish(self, run: Run, result: Callable[[], Record]) -> None:
        """Take a run off the list as soon as its record is safe."""
        keep = self.store
        try:
            record = result()
        except Exception as error:
            if self.diverging and isinstance(error, DIVERGED):
                record = Record(run.tasks, None, str(error), {}, machine())
                keep = False  # no suite may find it by chance
            elif (reason := _reason(run, error)) is None:
                raise
            else:
                raise RunFailed(reason) from None
        if keep:
            try:
                store.save(run, record)
            except OSError as error:
                raise RunFailed(f"{run.label} is computed, but cannot be kept in {RUNS}: {error}") from None
        self.records[run] = record
        self.todo.remove(run)
        self.progress.finished += 1


def run_all(
    runs: Sequence[Run], settings: Compute, title: str, fresh: bool = False, diverging: bool = False
) -> list[Record]:
    """The records of all runs, in their order; finished runs are kept in the store as they come.

    ``fresh`` computes them whatever the store has, and leaves the store alone. A run that diverges is an error, unless
    ``diverging`` lets it have a record without a history, which is not kept.
    """
    sweep(RUNS)
    found = {} if fresh else {run: store.find(run) for run in runs}
    records = {run: record for run, record in found.items() if record is not None}
    different = {(run.key, run.tasks): run for run in runs if run not in records}  # some only differ in their labels
    todo = sorted(different.values(), key=lambda run: -run.cost)
    known = "from scratch" if fresh else f"{len(records)} of {len(runs)} runs are in the run store"
    print(f"{title}: {known}, {len(todo)} to compute", flush=True)
    queue = Queue(todo, records, Progress(title, len(todo), sum(run.cost for run in todo)), not fresh, diverging)
    expected = _fingerprints(todo)
    deaths = 0
    with kill_like_ctrl_c():
        try:
            while todo:
                before = len(todo)
                try:
                    if settings.scheduler is None and workers(settings) == 1:
                        _run_here(queue)
                    else:
                        _run_beside(queue, settings, expected)
                except BrokenProcessPool:
                    deaths = deaths + 1 if len(todo) == before else 0
                    if deaths == 3:
                        raise RunFailed("workers die before they finish a run (out of memory?); giving up") from None
                    print(f"{title}: a worker died; starting new ones for {len(todo)} runs", flush=True)
        except KeyboardInterrupt:
            kept = f"{len(records)} finished runs are kept; " if not fresh else ""
            sys.exit(f"\n{title}: interrupted. {kept}start again to go on.")
        finally:
            queue.progress.close()
    return [records[run] if run in records else records[different[run.key, run.tasks]] for run in runs]


def _fingerprints(runs: Sequence[Run]) -> dict[Run, Fingerprint]:
    """What workers must compute with; stops before anything is computed from damaged files."""
    try:
        return {run: fingerprint(run.files) for run in runs}
    except Refused as error:
        raise RunFailed(str(error)) from None


def _run_beside(queue: Queue, settings: Compute, expected: dict[Run, Fingerprint]) -> None:
    """Everything that is to do, side by side on workers."""
    counter = multiprocessing.get_context("spawn").Value("d", 0.0)
    done = queue.progress.total - sum(run.cost for run in queue.todo)
    with side_by_side(settings, counter) as executor:
        futures: dict[Future[Record], Run] = {executor.submit(_work, run, expected[run]): run for run in queue.todo}
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, timeout=1, return_when=FIRST_COMPLETED)
            # What finished beside a worker that died is finished all the same: keep it first.
            for future in sorted(finished, key=_failed):
                queue.finish(futures[future], future.result)
                if settings.scheduler is not None:  # workers elsewhere cannot add to the counter
                    done += futures[future].cost
            seen = counter.get_obj().value  # without its lock, which a dead worker may hold
            queue.progress.show(done + seen, force=not waiting)


def _failed(future: Future[Record]) -> bool:
    return future.cancelled() or future.exception() is not None


def _run_here(queue: Queue) -> None:
    """The same in this process, one run after the other."""
    done = 0.0

    def tell(part: float) -> None:
        nonlocal done
        done += part * run.cost
        queue.progress.show(done)

    for run in list(queue.todo):
        queue.finish(run, lambda: compute(run, tell))  # noqa: B023
    queue.progress.show(done, force=True)
