"""Runs side by side: from the store where they are finished, else on worker processes or a Dask cluster."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from noracl import NonFiniteLoss
from pipeline.files import StageError, sweep
from pipeline.paths import RUNS
from pipeline.runs import canaries, store
from pipeline.runs.fingerprint import Fingerprint, Refused, fingerprint, refuse_unless
from pipeline.runs.progress import Progress
from pipeline.runs.run import Record, Run, compute
from pipeline.sections import Compute

DIVERGED = (NonFiniteLoss, LinAlgError)  # weights that overflow in an epoch's last step have no SVD
PATIENCE = 30.0  # seconds for a Dask scheduler to answer
Results = Generator[tuple[Run, Callable[[], Record]], None, None]
_share: Any = None  # in a worker: the counter that all workers add their progress to


class RunFailed(StageError):
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


@contextlib.contextmanager
def side_by_side(settings: Compute, counter: Any = None) -> Iterator[Executor]:
    """Worker processes, or a Dask cluster; worker processes are killed in the end."""
    if settings.scheduler is not None:
        key = "compute.scheduler in params.yaml"
        try:
            from distributed import Client

            client = Client(settings.scheduler, timeout=PATIENCE)
        except ImportError:
            raise RunFailed(f"{key} needs `pip install distributed`, as requirements.txt pins it") from None
        except (OSError, ValueError) as error:
            raise RunFailed(f"{key}: {settings.scheduler} does not answer: {error}") from None
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
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _kept(run: Run, result: Callable[[], Record], keep: bool) -> Record:
    """The record of a run, as soon as it is safe in the store; RunFailed if people can mend what went wrong."""
    try:
        record = result()
    except BrokenProcessPool:
        raise
    except Refused as error:
        raise RunFailed(str(error)) from None
    except DIVERGED as error:
        raise RunFailed(f"{run.label}: {error}; lower the learning rate or clip the gradient") from None
    except CancelledError:
        raise RunFailed("the Dask scheduler is gone; finished runs are kept, start again to go on") from None
    except ImportError as error:
        raise RunFailed(f"a worker cannot load this project ({error}); start it in the project's folder") from None
    except Exception as error:
        gave_up = isinstance(error, ValueError | MemoryError | RuntimeError)  # the library or torch
        if gave_up or type(error).__module__.startswith("distributed"):
            raise RunFailed(f"{run.label}: {error}") from None
        raise
    try:
        if keep:
            store.save(run, record)
    except OSError as error:
        raise RunFailed(f"{run.label} is computed, but cannot be kept in {RUNS}: {error}") from None
    return record


def run_all(runs: Sequence[Run], settings: Compute, title: str, fresh: bool = False) -> list[Record]:
    """The records of all runs, in their order; kept in the store as they come, unless ``fresh`` leaves it alone."""
    try:
        canaries.verify(runs)
        sweep(RUNS)
        found = {} if fresh else {run: store.find(run) for run in runs}
        records = {run: record for run, record in found.items() if record is not None}
        different = {(run.key, run.tasks): run for run in runs if run not in records}  # some differ only in labels
        todo = sorted(different.values(), key=lambda run: -run.cost)
        known = "from scratch" if fresh else f"{len(records)} of {len(runs)} runs are in the run store {RUNS}"
        print(f"{title}: {known}, {len(todo)} to compute", flush=True)
        expected = {run: fingerprint(run.files) for run in todo}
    except (canaries.Stale, Refused) as error:
        raise RunFailed(str(error)) from None
    progress, deaths = Progress(title, len(todo), sum(run.cost for run in todo)), 0
    here = settings.scheduler is None and workers(settings) == 1
    with kill_like_ctrl_c(), contextlib.closing(progress):
        try:
            while todo:
                before = len(todo)
                results = _here(todo, progress) if here else _beside(todo, progress, settings, expected)
                try:
                    with contextlib.closing(results):
                        for run, result in results:
                            records[run] = _kept(run, result, keep=not fresh)
                            todo.remove(run)
                            progress.finished += 1
                except BrokenProcessPool:
                    deaths = deaths + 1 if len(todo) == before else 0
                    if deaths == 3:
                        raise RunFailed("workers die before they finish a run (out of memory?); giving up") from None
                    print(f"{title}: a worker died; starting new ones for {len(todo)} runs", flush=True)
        except KeyboardInterrupt:
            kept = f"{len(records)} finished runs are kept; " if not fresh else ""
            sys.exit(f"\n{title}: interrupted. {kept}start again to go on.")
    return [records[run] if run in records else records[different[run.key, run.tasks]] for run in runs]


def _beside(todo: list[Run], progress: Progress, settings: Compute, expected: dict[Run, Fingerprint]) -> Results:
    """Runs and their results as they finish, side by side on workers."""
    counter = multiprocessing.get_context("spawn").Value("d", 0.0)
    done = progress.total - sum(run.cost for run in todo)
    with side_by_side(settings, counter) as executor:
        futures: dict[Future[Record], Run] = {executor.submit(_work, run, expected[run]): run for run in todo}
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, timeout=1, return_when=FIRST_COMPLETED)
            # What finished beside a worker that died is finished all the same: keep it first.
            for future in sorted(finished, key=lambda one: one.cancelled() or one.exception() is not None):
                yield futures[future], future.result
                if settings.scheduler is not None:  # workers elsewhere cannot add to the counter
                    done += futures[future].cost
            seen = counter.get_obj().value  # without its lock, which a dead worker may hold
            progress.show(done + seen, force=not waiting)


def _here(todo: list[Run], progress: Progress) -> Results:
    """The same in this process, one run after the other."""
    done = 0.0

    def tell(part: float) -> None:
        nonlocal done
        done += part * run.cost
        progress.show(done)

    for run in list(todo):
        yield run, partial(compute, run, tell)
    progress.show(done, force=True)
