"""Ctrl-C and SIGTERM: one line at any moment, and nothing that lives on.

While modules are loaded there is nothing to keep, so the process ends at once. Afterwards a stage is interrupted, keeps
what is finished, and ends. Whoever is impatient and interrupts again ends it at once.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from types import FrameType


def way_back() -> str:
    """How to undo a stage that DVC began: before it runs one, DVC removes what the stage wrote the last time."""
    if "DVC_STAGE" not in os.environ:
        return ""
    return "\nTo undo instead: git checkout HEAD -- params.yaml dvc.lock reports (brings back what is committed)"


def _end(number: int, frame: FrameType | None) -> None:
    said = "interrupted again: stopped at once" if _stages else "interrupted: nothing was run"
    os.write(2, f"\n{said}{way_back()}\n".encode())
    os._exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _handle(_end)
    raise KeyboardInterrupt


def _handle(handler: object) -> None:
    for one in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(one) != signal.SIG_IGN:  # as under nohup, or in a shell's background
            signal.signal(one, handler)  # type: ignore[arg-type]


_stages: list[str] = []  # the stage that runs


def while_loading() -> None:
    """From now on an interruption ends the process at once."""
    _handle(_end)


def while_running(stage: str) -> None:
    """From now on an interruption raises KeyboardInterrupt, and so does the end of the dvc process that began this."""
    _stages.append(stage)
    _handle(_interrupt)
    if "DVC_STAGE" in os.environ:
        threading.Thread(target=_end_with_dvc, daemon=True).start()


def _end_with_dvc() -> None:
    """DVC runs a stage in a shell; if DVC is killed, the shell lives on, and so would the stage."""
    import psutil

    try:
        # DVC's children know the name of the stage from their environment, DVC itself does not.
        dvc = next(one for one in psutil.Process().parents() if "DVC_STAGE" not in one.environ())
    except (StopIteration, psutil.Error):
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        while dvc.is_running() and dvc.status() != psutil.STATUS_ZOMBIE:
            time.sleep(1)
    print("dvc has ended, so this stage ends as well", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
