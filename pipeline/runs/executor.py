"""Runs side by side: from the store where they are finished, else on worker processes or a Dask cluster.

No worker is trusted: a record is checked before it counts. A worker that fails, or whose record is none of the run, is
not asked again: the run goes to another one, once. A run that takes ten times its estimate is given to another worker
as well, and the first result counts.
"""

import contextlib
import os
import socket
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from noracl import NonFiniteLoss
from pipeline.files import StageError, sweep
from pipeline.paths import RUNS
from pipeline.runs import canaries, store
from pipeline.runs.crews import Crew, report, side_by_side, workers
from pipeline.runs.crews import RunFailed as RunFailed
from pipeline.runs.fingerprint import Fingerprint, Refused, fingerprint, refuse_unless
from pipeline.runs.progress import Progress
from pipeline.runs.records import Invalid, Record, from_plain, to_plain
from pipeline.runs.run import Run, compute
from pipeline.sections import Compute

DIVERGED = (NonFiniteLoss, LinAlgError)  # weights that overflow in an epoch's last step have no SVD
FINAL = (*DIVERGED, ValueError, RuntimeError)  # what the library or torch says of a run, wherever it is computed
OVERDUE = 10.0  # a run that takes this many times its estimate is given to another worker,
SOONEST = 60.0  # but not before this many seconds
Results = Generator[tuple[Run, Record], None, None]


class Doubt(Exception):
    """A worker did not do its work; another one may."""

    def __init__(self, worker: str, why: str) -> None:
        super().__init__(worker, why)
        self.worker, self.why = worker, why

    def __str__(self) -> str:
        return f"{self.worker} {self.why}"


@dataclass(frozen=True)
class Answer:
    """What a worker made of a run, or the error that ended it, and who it is."""

    worker: str
    result: object


def _work(run: Run, expected: Fingerprint, slot: int, channel: str) -> Answer:
    """In a worker: compute a run, if code and data are the client's."""
    me, done = f"the worker in {Path.cwd()} on {socket.gethostname()} (process {os.getpid()})", 0.0

    def tell(part: float) -> None:
        nonlocal done
        done += part
        report(channel, slot, done)

    tell(0.0)
    try:
        refuse_unless(expected, run, me)
    except Refused as error:
        return Answer(me, error)
    return _answer(run, me, tell)


def _answer(run: Run, worker: str, tell: Callable[[float], None]) -> Answer:
    """Compute a run; whatever is not about the run raises doubts about the worker."""
    try:
        return Answer(worker, compute(run, tell))
    except FINAL as error:
        return Answer(worker, error.with_traceback(None))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Answer(
            worker, Doubt(worker, f"failed: {type(error).__name__}: {error} ({place.filename}:{place.lineno})")
        )


def _checked(run: Run, result: Callable[[], Answer]) -> Record:
    """The record of a run; Doubt if its worker is to blame, RunFailed if another worker could not do better."""
    try:
        answer = result()
        if isinstance(answer, Answer) and isinstance(answer.result, Exception):
            raise answer.result
    except (BrokenProcessPool, Doubt):
        raise
    except DIVERGED as error:
        raise RunFailed(f"{run.label}: {error}; lower the learning rate or clip the gradient") from None
    except CancelledError:
        raise RunFailed("the Dask scheduler is gone; finished runs are kept, start again to go on") from None
    except ImportError as error:
        raise RunFailed(f"a worker cannot load this project ({error}); start it in the project's folder") from None
    except (Refused, StageError) as error:
        raise RunFailed(str(error)) from None
    except Exception as error:
        raise RunFailed(f"{run.label}: {error}") from None
    if not isinstance(answer, Answer):
        raise Doubt("a worker", f"answered with a {type(answer).__name__}")
    try:
        record = from_plain(to_plain(answer.result), run)
        if record.tasks != run.tasks:
            raise Invalid(f"tasks is {record.tasks}, the run has {run.tasks}")
    except Invalid as error:
        raise Doubt(answer.worker, f"sent a record that this run cannot have left: {error}") from None
    return record


def _keep(run: Run, record: Record) -> None:
    try:
        store.save(run, record)
    except OSError as error:
        raise RunFailed(f"{run.label} is computed, but cannot be kept in {RUNS}: {error}") from None


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
        expected = {run: fingerprint(run) for run in todo}
    except (canaries.Stale, Refused) as error:
        raise RunFailed(str(error)) from None
    if todo and not fresh:
        try:
            store.require_writable()
        except OSError as error:
            raise RunFailed(f"nothing was computed, because {RUNS} cannot be written: {error}") from None
    progress, deaths = Progress(title, len(todo), sum(run.cost for run in todo)), 0
    here = settings.scheduler is None and workers(settings) == 1
    with contextlib.closing(progress):
        try:
            while todo:
                before = len(todo)
                results = _here(todo, progress, expected) if here else _beside(todo, progress, settings, expected)
                try:
                    with contextlib.closing(results):
                        for run, record in results:
                            if not fresh:
                                _keep(run, record)
                            records[run] = record
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


def _here(todo: list[Run], progress: Progress, expected: dict[Run, Fingerprint]) -> Results:
    """Runs and their records, computed in this process one after the other."""
    done = 0.0

    def tell(part: float) -> None:
        nonlocal done
        done += part * run.cost
        progress.show(done)

    for run in list(todo):
        try:
            record = _checked(run, partial(_answer, run, "this process", tell))
        except Doubt as doubt:
            raise RunFailed(f"{run.label}: {doubt}") from None
        yield run, record
    progress.show(done, force=True)


@dataclass
class Attempt:
    """A run that a worker was asked for, and for how many seconds it has been working on it."""

    run: Run
    slot: int
    seconds: float = 0.0
    overdue: bool = False


@dataclass
class Supervisor:
    """Gives runs to a crew, and gives a run to another worker where one fails or hangs."""

    crew: Crew
    title: str
    expected: dict[Run, Fingerprint]
    attempts: dict[Future[Answer], Attempt] = field(default_factory=dict)
    doubts: dict[Run, Doubt] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)
    pace: list[float] = field(default_factory=list)  # seconds over estimate of finished runs
    slots: int = 0

    def ask(self, run: Run) -> None:
        """Give a run to a worker."""
        slot, self.slots = self.slots, self.slots + 1
        future = self.crew.submit(_work, run, self.expected[run], slot, self.crew.channel, avoid=self.suspects)
        self.attempts[future] = Attempt(run, slot)

    def ask_another(self, run: Run, doubt: Doubt, worker: str | None) -> None:
        """Give a run to another worker, if that was not yet done."""
        if run in self.doubts:
            raise RunFailed(f"{run.label}: {self.doubts[run]}; then {doubt}; giving up")
        self.doubts[run] = doubt
        self.suspects |= {worker} if worker else set()
        print(f"{self.title}: {run.label}: {doubt}; another worker is asked", flush=True)
        self.ask(run)

    def answered(self, future: Future[Answer]) -> Iterator[tuple[Run, Record]]:
        """What a finished attempt gives, if anything."""
        attempt = self.attempts.pop(future)
        try:
            record = _checked(attempt.run, future.result)
        except Doubt as doubt:
            worker, _ = self.crew.reports.get(attempt.slot, (None, 0.0))
            self.ask_another(attempt.run, doubt, worker)
            return
        self.pace.append(record.seconds["total"] / attempt.run.cost)
        for other in [one for one, twin in self.attempts.items() if twin.run == attempt.run]:
            other.cancel()
            del self.attempts[other]
        yield attempt.run, record

    def look_at_the_clock(self, passed: float) -> None:
        """Give runs that are overdue to other workers."""
        members, reports = self.crew.members(), self.crew.reports
        if not members:
            return  # a cluster may start its workers later
        pace = max(1.0, statistics.median(self.pace or [1.0]))
        busy = [one for one in self.attempts.values() if one.slot in reports and not one.overdue]
        free = set(members) - self.suspects
        stuck = self.suspects and (len(busy) < len(free) or not free)  # what has not begun waits behind what hangs
        for attempt in list(self.attempts.values()):
            attempt.seconds = attempt.seconds + passed if attempt.slot in reports or stuck else 0.0
            if attempt.seconds > max(SOONEST, OVERDUE * pace * attempt.run.cost) and not attempt.overdue:
                attempt.overdue = True
                worker, _ = reports.get(attempt.slot, (None, 0.0))
                doubt = Doubt(worker or "a worker", f"has not finished after {attempt.seconds:.0f} s")
                self.ask_another(attempt.run, doubt, worker)


def _beside(todo: list[Run], progress: Progress, settings: Compute, expected: dict[Run, Fingerprint]) -> Results:
    """Runs and their records as they finish, side by side on workers."""
    before = progress.total - sum(run.cost for run in todo)
    with side_by_side(settings, slots=2 * len(todo)) as crew:
        supervisor, finished_cost = Supervisor(crew, progress.title, expected), before
        for run in todo:
            supervisor.ask(run)
        last = time.monotonic()
        while supervisor.attempts:
            finished, _ = wait(supervisor.attempts, timeout=1, return_when=FIRST_COMPLETED)
            crew.listen()
            # What finished beside a worker that died is finished all the same: keep it first.
            for future in sorted(finished, key=lambda one: one.cancelled() or one.exception() is not None):
                if future in supervisor.attempts:
                    for run, record in supervisor.answered(future):
                        finished_cost += run.cost
                        yield run, record
            now = time.monotonic()
            supervisor.look_at_the_clock(min(now - last, 5.0))  # less if this process was stopped meanwhile
            last = now
            shares = {a.run: crew.reports.get(a.slot, ("", 0.0))[1] for a in supervisor.attempts.values()}
            under_way = sum(share * run.cost for run, share in shares.items())
            progress.show(finished_cost + under_way, force=not supervisor.attempts)
