"""What workers answer, and whether it counts: no worker is trusted.

A record is checked before it counts. If it is none of the run, or if the worker failed, that raises doubts about the
worker; what the library says of a run is final, wherever it is computed.
"""

import os
import socket
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from noracl import NonFiniteLoss
from pipeline.files import StageError
from pipeline.runs.crews import RunFailed, report
from pipeline.runs.fingerprint import Fingerprint, Refused, refuse_unless
from pipeline.runs.groups import Group
from pipeline.runs.records import Invalid, Record, from_plain, to_plain
from pipeline.runs.run import Run, compute_together

DIVERGED = (NonFiniteLoss, LinAlgError)  # weights that overflow in an epoch's last step have no SVD
FINAL = (*DIVERGED, ValueError, RuntimeError)  # what the library or torch says of a run, wherever it is computed


class Doubt(Exception):
    """A worker did not do its work; another one may."""

    def __init__(self, worker: str, why: str) -> None:
        super().__init__(worker, why)
        self.worker, self.why = worker, why

    def __str__(self) -> str:
        return f"{self.worker} {self.why}"


@dataclass(frozen=True)
class Answer:
    """What a worker made of a group, one result or error for each run, or the error that ended it; and who it is."""

    worker: str
    result: object


def work(group: Group, expected: Fingerprint, slot: int, channel: str) -> Answer:
    """In a worker: compute a group, if code and data are the client's."""
    me, done = f"the worker in {Path.cwd()} on {socket.gethostname()} (process {os.getpid()})", 0.0

    def tell(part: float) -> None:
        nonlocal done
        done += part
        report(channel, slot, done)

    tell(0.0)
    try:
        refuse_unless(expected, group[0], me)
    except Refused as error:
        return Answer(me, error)
    return answer(group, me, tell)


def answer(group: Group, worker: str, tell: Callable[[float], None]) -> Answer:
    """Compute a group; whatever is not about a run raises doubts about the worker."""
    try:
        return Answer(worker, [_plain(result, worker) for result in compute_together(group, tell)])
    except Exception as error:
        return Answer(worker, _plain(error, worker))


def _plain(result: Record | Exception, worker: str) -> Record | Exception:
    """A record as it is; what the library says of a run without its frames; of all else, who it happened to."""
    if isinstance(result, FINAL):
        return result.with_traceback(None)
    if isinstance(result, Exception):
        places = [f" ({one.filename}:{one.lineno})" for one in traceback.extract_tb(result.__traceback__)[-1:]]
        return Doubt(worker, f"failed: {type(result).__name__}: {result}{''.join(places)}")
    return result


def _answered(group: Group, result: Callable[[], Answer]) -> Answer:
    """A worker's answer; Doubt if there is none, RunFailed if no worker will have one."""
    try:
        found = result()
        if not isinstance(found, Answer):
            raise Doubt("a worker", f"answered with a {type(found).__name__}")
        if isinstance(found.result, Exception):
            raise found.result
    except (BrokenProcessPool, Doubt):
        raise
    except CancelledError:
        raise RunFailed("the Dask scheduler is gone; finished runs are kept, start again to go on") from None
    except ImportError as error:
        raise RunFailed(f"a worker cannot load this project ({error}); start it in the project's folder") from None
    except (Refused, StageError) as error:
        raise RunFailed(str(error)) from None
    except Exception as error:
        raise RunFailed(f"{group[0].label}: {error}") from None
    if not isinstance(found.result, list) or len(found.result) != len(group):
        raise Doubt(found.worker, f"did not answer with {len(group)} results")
    return found


def _checked(run: Run, result: object, worker: str) -> Record:
    """The record of a run; Doubt if its worker is to blame, RunFailed if another worker could not do better."""
    if isinstance(result, Doubt):
        raise result
    if isinstance(result, DIVERGED):
        raise RunFailed(f"{run.label}: {result}; lower the learning rate or clip the gradient")
    if isinstance(result, Exception):
        raise RunFailed(f"{run.label}: {result}")
    try:
        record = from_plain(to_plain(result), run)
        if record.tasks != run.tasks:
            raise Invalid(f"tasks is {record.tasks}, the run has {run.tasks}")
    except Invalid as error:
        raise Doubt(worker, f"sent a record that this run cannot have left: {error}") from None
    return record


@dataclass
class Verdicts:
    """What an answer comes to, run by run: records that count, doubts about the worker, and failures that are final."""

    records: dict[Run, Record] = field(default_factory=dict)
    doubts: dict[Run, Doubt] = field(default_factory=dict)
    failures: list[RunFailed] = field(default_factory=list)

    @classmethod
    def of(cls, group: Group, result: Callable[[], Answer]) -> "Verdicts":
        """Judge the answer for a group."""
        found = cls()
        try:
            answered = _answered(group, result)
        except Doubt as doubt:
            return cls(doubts=dict.fromkeys(group, doubt))
        assert isinstance(answered.result, list)
        for run, one in zip(group, answered.result, strict=True):
            try:
                found.records[run] = _checked(run, one, answered.worker)
            except Doubt as doubt:
                found.doubts[run] = doubt
            except RunFailed as failure:
                found.failures.append(failure)
        return found
