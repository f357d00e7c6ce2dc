"""The ways in which a run can be computed, by the name that ``Run.how`` has; most runs just learn."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from noracl import Callbacks, Outcome, Settings, Stream, learn_together
from noracl.analysis import controls, transfer, upkeep
from noracl.method import bounds

LEARN, OBSERVE, JOINT, SEPARATE, VALIDATE = "learn", "observed", "joint", "separate", "validated"
CONTROL = "control: "  #: and the name of a control of equal growth
UPKEEP, TRIED = "upkeep: ", "validated upkeep: "  #: and the name and strength of a way to keep a network plastic
HELD_OUT = 6  #: the last sixth of the training data, as many images as the test set has, is what validation tests on
BOUNDS: dict[str, Callable[[Stream, Settings, int], Outcome]] = {JOINT: bounds.joint, SEPARATE: bounds.separate}

Seen = transfer.Observation | upkeep.Dormancy  #: what is seen of a run besides its history
Result = tuple[Outcome | Exception, Seen | None]


def keeps_up(how: str) -> bool:
    """Whether such a run keeps a network plastic in one of the ways of ``upkeep``."""
    return how.startswith((UPKEEP, TRIED))


def alone(how: str) -> bool:
    """Whether such a run cannot be computed beside others."""
    return how in (OBSERVE, *BOUNDS) or keeps_up(how)


def seen(how: str) -> type:
    """What is seen of such a run besides its history; NoneType if nothing is."""
    if keeps_up(how):
        return upkeep.Dormancy
    return transfer.Observation if how == OBSERVE else type(None)


def kept_up(how: str) -> tuple[str, float]:
    """The kind and the strength of a way to keep a network plastic."""
    kind, strength = how.split(": ")[1].rsplit(" ", 1)
    return kind, float(strength)


def in_small(how: str) -> str:
    """The same on a toy stream, where a larger strength is needed to see it at work."""
    return f"{UPKEEP}{kept_up(how)[0]} 0.2" if keeps_up(how) else how


def company(how: str, settings: Settings) -> Hashable:
    """What runs that are computed side by side must have in common, besides what they see."""
    return (CONTROL, settings) if how.startswith(CONTROL) else how


def outcomes(
    hows: Sequence[str], stream: Stream, settings: Sequence[Settings], seed: int, callbacks: Callbacks | None = None
) -> list[Result]:
    """What runs of one kind come to, each with its settings and with what was observed of it."""
    how, first = hows[0], settings[0]
    if how.startswith(CONTROL):
        names = [one.removeprefix(CONTROL) for one in hows]
        try:
            return [(one, None) for one in controls.learn_controls(names, stream, first, seed, callbacks)]
        except Exception as error:  # NORACL itself failed
            return [(error, None) for _ in names]
    if how in (LEARN, VALIDATE):
        shown = held_out(stream) if how == VALIDATE else stream
        return [(one, None) for one in learn_together(shown, settings, seed, callbacks)]
    try:
        if how == OBSERVE:
            return [transfer.observe(stream, first, seed, callbacks)]
        if keeps_up(how):
            shown = held_out(stream) if how.startswith(TRIED) else stream
            return [upkeep.learn_kept_up(*kept_up(how), shown, first, seed, callbacks)]
        return [(BOUNDS[how](stream, first, seed), None)]
    except Exception as error:
        return [(error, None)]


def held_out(stream: Stream) -> Stream:
    """The stream without its test data: tasks are tested on the last of their training data, which they do not see."""
    tasks = []
    for task in stream.tasks:
        keep = len(task.x) - len(task.x) // HELD_OUT
        tasks.append(replace(task, x=task.x[:keep], y=task.y[:keep], x_test=task.x[keep:], y_test=task.y[keep:]))
    return replace(stream, tasks=tasks)
