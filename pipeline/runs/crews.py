"""Crews: worker processes on this machine, or the workers of a Dask cluster, behind one interface.

A job reports its start and its progress under a number, its slot; the client hears which worker has it, and how far.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, Protocol, TypeVar

from pipeline.committed import announce
from pipeline.files import StageError
from pipeline.sections import Compute

PATIENCE = 5.0  # seconds for a Dask scheduler to answer
SCHEDULER = "compute.scheduler in params.yaml"
Reports = dict[int, tuple[str, float]]  #: by slot: the worker that has the job, and the share that is done
Result = TypeVar("Result")
_board: Any = None  # in a worker process: for each slot its process and its share, written without a lock


class RunFailed(StageError):
    """A run could not be computed; the message names it."""


class Crew(Protocol):
    """Workers that take jobs."""

    channel: str  #: what ``report`` needs to know in a worker
    reports: Reports

    def submit(self, job: Callable[..., Result], *given: Any, avoid: Collection[str] = ()) -> Future[Result]:
        """Give a job to a worker, if possible to one that is not among those to ``avoid``."""

    def members(self) -> list[str]:
        """The workers, by the names that reports have."""

    def listen(self) -> None:
        """Bring ``reports`` up to date."""


def report(channel: str, slot: int, share: float) -> None:
    """In a worker: this share of the job is done."""
    if channel:
        from distributed import get_worker

        worker = get_worker()
        worker.log_event(channel, [slot, worker.address, share])
    elif _board is not None:
        _board[2 * slot], _board[2 * slot + 1] = os.getpid(), share


class Processes:
    """Worker processes on this machine, one torch thread each."""

    channel = ""

    def __init__(self, pool: Executor, board: Any) -> None:
        self.pool, self.board, self.reports = pool, board, Reports()

    def submit(self, job: Callable[..., Result], *given: Any, avoid: Collection[str] = ()) -> Future[Result]:
        """The pool chooses: a process that hangs takes no other job anyway."""
        with interrupts_wait():
            return self.pool.submit(job, *given)

    def members(self) -> list[str]:
        """Processes by their number."""
        return [f"process {number}" for number in getattr(self.pool, "_processes", None) or ()]

    def listen(self) -> None:
        """Read the board."""
        begun = ((slot, int(self.board[2 * slot])) for slot in range(len(self.board) // 2))
        self.reports |= {slot: (f"process {number}", self.board[2 * slot + 1]) for slot, number in begun if number}


class Cluster:
    """The workers of a Dask cluster."""

    def __init__(self, client: Any) -> None:
        self.client, self.executor = client, client.get_executor(pure=False)
        self.channel, self.reports = f"noracl-{uuid.uuid4().hex}", Reports()
        client.subscribe_topic(self.channel, self._hear)

    def _hear(self, event: tuple[float, tuple[int, str, float]]) -> None:
        slot, worker, share = event[1]
        self.reports[slot] = worker, share

    def submit(self, job: Callable[..., Result], *given: Any, avoid: Collection[str] = ()) -> Future[Result]:
        """Any worker, or one of the others."""
        others = [worker for worker in self.members() if worker not in avoid] if avoid else []
        future: Future[Result] = self.executor.submit(job, *given, **({"workers": others} if others else {}))
        return future

    def members(self) -> list[str]:
        """Workers by their address; none while the scheduler does not answer."""
        try:
            return list(self.client.nthreads())
        except OSError:
            return []

    def listen(self) -> None:
        """Reports come by themselves."""


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM wait; processes that are started inside never see Ctrl-C: their parent decides."""
    caught: list[int] = []
    here = threading.current_thread() is threading.main_thread()
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM) if here}
    own = {one: handler for one, handler in handlers.items() if callable(handler)}
    for one in own:  # the mask is not enough: another thread, as one of BLAS, may get the signal
        signal.signal(one, lambda number, frame: caught.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for one, handler in own.items():
            signal.signal(one, handler)
        if caught:
            signal.raise_signal(caught[0])


def _start_worker(board: Any) -> None:
    global _board
    _board = board
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def workers(settings: Compute) -> int:
    """Worker processes: as configured, or one per core that this process may use."""
    if settings.workers != "auto":
        return settings.workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def side_by_side(settings: Compute, slots: int = 0) -> Iterator[Crew]:
    """A crew for jobs with this many slots; worker processes are killed in the end."""
    if settings.scheduler is not None:
        with _client(settings.scheduler) as client:
            crew = Cluster(client)
            print(f"{settings.scheduler}: {len(crew.members())} workers so far", flush=True)
            yield crew
        return
    context = multiprocessing.get_context("spawn")
    board = context.Array("d", 2 * slots, lock=False)
    pool = ProcessPoolExecutor(workers(settings), context, _start_worker, (board,))
    try:
        yield Processes(pool, board)
    finally:  # killed, not asked to end: a worker that died idle may hold the lock that the others wait for
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


def _client(address: str) -> Any:
    """A connection to a scheduler, which is told of if the committed params.yaml does not name it."""
    announce("compute.scheduler", address, "it gets every run, and what answers there can run code on this machine")
    try:
        from distributed import Client
    except ImportError:
        raise RunFailed(f"{SCHEDULER} needs `pip install distributed`, as requirements.txt pins it") from None
    found: Future[Any] = Future()

    def connect() -> None:
        try:
            found.set_result(Client(address, timeout=PATIENCE))
        except Exception as error:
            found.set_exception(error)

    threading.Thread(target=connect, daemon=True).start()  # Dask's own timeout does not end a silent connection
    try:
        return found.result(2 * PATIENCE)
    except TimeoutError:
        raise RunFailed(f"{SCHEDULER}: {address} does not answer: it is no Dask scheduler, or it hangs") from None
    except (OSError, ValueError) as error:
        raise RunFailed(f"{SCHEDULER}: {address} does not answer: {error}") from None
