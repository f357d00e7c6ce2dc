"""Runs side by side: from the store where they are finished, else on worker processes or a Dask cluster.

A worker is asked for a group of runs, which it computes in lock-step. No worker is trusted: a record is checked before
it counts. A worker that fails, or whose record is none of the run, is not asked again: the run goes to another one,
once. A group that takes ten times its estimate is given to another worker as well, and the first result counts.
"""

import contextlib
import statistics
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial

from pipeline.files import sweep
from pipeline.interrupts import way_back
from pipeline.paths import RUNS
from pipeline.runs import canaries, store
from pipeline.runs.answers import Answer, Doubt, Verdicts, answer, work
from pipeline.runs.crews import Crew, side_by_side, workers
from pipeline.runs.crews import RunFailed as RunFailed
from pipeline.runs.fingerprint import Fingerprint, Refused, fingerprint
from pipeline.runs.groups import Group, cost, grouped
from pipeline.runs.progress import Progress
from pipeline.runs.records import Record
from pipeline.runs.run import Run
from pipeline.sections import Compute

OVERDUE = 10.0  # a group that takes this many times its estimate is given to another worker,
SOONEST = 60.0  # but not before this many seconds
Results = Generator[tuple[Run, Record], None, None]


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
        todo = list(different.values())
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
    progress, deaths = Progress(title, len(todo), cost(todo)), 0
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
            kept = f"{len(records)} finished runs are kept; start again to go on." if not fresh else "Nothing is kept."
            sys.exit(f"\n{title}: interrupted. {kept}{way_back()}")
    return [records[run] if run in records else records[different[run.key, run.tasks]] for run in runs]


def _here(todo: list[Run], progress: Progress, expected: dict[Run, Fingerprint]) -> Results:
    """Runs and their records, computed in this process group by group."""
    done = 0.0

    def tell(part: float) -> None:
        nonlocal done
        done += part * cost(group)
        progress.show(done)

    for group in grouped(todo, 1):
        found = Verdicts.of(group, partial(answer, group, "this process", tell))
        yield from found.records.items()
        for run, doubt in found.doubts.items():
            raise RunFailed(f"{run.label}: {doubt}")
        for failure in found.failures:
            raise failure
    progress.show(done, force=True)


@dataclass
class Attempt:
    """A group that a worker was asked for, and for how many seconds it has been working on it."""

    group: Group
    slot: int
    seconds: float = 0.0
    overdue: bool = False


@dataclass
class Supervisor:
    """Gives groups to a crew, and gives a group to another worker where one fails or hangs."""

    crew: Crew
    title: str
    expected: dict[Run, Fingerprint]
    attempts: dict[Future[Answer], Attempt] = field(default_factory=dict)
    doubts: dict[Run, Doubt] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)
    pace: list[float] = field(default_factory=list)  # seconds over estimate of finished groups
    slots: int = 0

    def ask(self, group: Group) -> None:
        """Give a group to a worker."""
        slot, self.slots = self.slots, self.slots + 1
        given = group, self.expected[group[0]], slot, self.crew.channel
        self.attempts[self.crew.submit(work, *given, avoid=self.suspects)] = Attempt(group, slot)

    def ask_another(self, group: Group, doubt: Doubt, worker: str | None) -> None:
        """Give a group to another worker, if that was not yet done with one of its runs."""
        for run in group:
            if run in self.doubts:
                raise RunFailed(f"{run.label}: {self.doubts[run]}; then {doubt}; giving up")
            self.doubts[run] = doubt
        self.suspects |= {worker} if worker else set()
        others = f" and {len(group) - 1} more" if len(group) > 1 else ""
        print(f"{self.title}: {group[0].label}{others}: {doubt}; another worker is asked", flush=True)
        self.ask(group)

    def answered(self, future: Future[Answer]) -> Iterator[tuple[Run, Record]]:
        """What a finished attempt gives, if anything."""
        attempt = self.attempts.pop(future)
        found = Verdicts.of(attempt.group, future.result)
        yield from found.records.items()
        for failure in found.failures:
            raise failure
        if found.doubts:
            worker, _ = self.crew.reports.get(attempt.slot, (None, 0.0))
            self.ask_another(tuple(found.doubts), next(iter(found.doubts.values())), worker)
            return
        seconds = sum(record.seconds["total"] for record in found.records.values())
        self.pace.append(seconds / cost(attempt.group))
        for other in [one for one, twin in self.attempts.items() if set(twin.group) <= set(attempt.group)]:
            other.cancel()
            del self.attempts[other]

    def look_at_the_clock(self, passed: float) -> None:
        """Give groups that are overdue to other workers."""
        members, reports = self.crew.members(), self.crew.reports
        if not members:
            return  # a cluster may start its workers later
        pace = max(1.0, statistics.median(self.pace or [1.0]))
        busy = [one for one in self.attempts.values() if one.slot in reports and not one.overdue]
        free = set(members) - self.suspects
        stuck = self.suspects and (len(busy) < len(free) or not free)  # what has not begun waits behind what hangs
        for attempt in list(self.attempts.values()):
            attempt.seconds = attempt.seconds + passed if attempt.slot in reports or stuck else 0.0
            if attempt.seconds > max(SOONEST, OVERDUE * pace * cost(attempt.group)) and not attempt.overdue:
                attempt.overdue = True
                worker, _ = reports.get(attempt.slot, (None, 0.0))
                doubt = Doubt(worker or "a worker", f"has not finished after {attempt.seconds:.0f} s")
                self.ask_another(attempt.group, doubt, worker)


def _beside(todo: list[Run], progress: Progress, settings: Compute, expected: dict[Run, Fingerprint]) -> Results:
    """Runs and their records as their groups finish, side by side on workers."""
    before = progress.total - cost(todo)
    with side_by_side(settings, slots=2 * len(todo)) as crew:
        supervisor, finished_cost = Supervisor(crew, progress.title, expected), before
        for group in grouped(todo, len(crew.members()) or workers(settings)):
            supervisor.ask(group)
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
            shares = {a.group: crew.reports.get(a.slot, ("", 0.0))[1] for a in supervisor.attempts.values()}
            under_way = sum(share * cost(group) for group, share in shares.items())
            progress.show(finished_cost + under_way, force=not supervisor.attempts)
