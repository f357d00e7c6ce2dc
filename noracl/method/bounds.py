"""What a continual learner is compared with: no protection, all data at once, a network of its own for each task.

All three give the ``Outcome`` that ``learn`` gives, with a history of the same shape in which nothing grows. Networks
are static, with the widths of ``settings.hidden``; each starts at the weights at which ``learn`` starts with the same
seed. No penalty protects a weight: ``locked`` is 0, and ``plastic`` is the number of parameters.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from noracl.method.checks import instance
from noracl.method.history import History
from noracl.method.learner import Learner, Outcome, learn
from noracl.method.optimisation import NonFiniteLoss
from noracl.method.settings import Settings
from noracl.method.streams import Stream, Task


def naive(stream: Stream, settings: Settings, seed: int = 0) -> Outcome:
    """Learn task after task with one network and no protection: what is forgotten if nothing is done about it."""
    return learn(stream, _bare(settings), seed)


def joint(stream: Stream, settings: Settings, seed: int = 0) -> Outcome:
    """After each task, train a fresh network on all tasks so far: what could be reached if all data could be kept.

    Each network trains for ``epochs_first`` at ``rate_first``, as on a first task, on however many tasks. This is a
    choice: more tasks mean more steps, and other epochs may come closer to what can be reached. The training data of
    all tasks lie in memory once more, with their columns in order: 470 MB for ten tasks of MNIST.
    """
    instance("stream", stream, Stream)
    kinds = {task.x.dtype for task in stream.tasks}
    kind, rows = kinds.pop() if len(kinds) == 1 else torch.float32, sum(len(task.x) for task in stream.tasks)
    x, y = stream.tasks[0].x.new_empty(rows, stream.inputs, dtype=kind), torch.cat([task.y for task in stream.tasks])
    history, bare, end, seconds = History(), _bare(settings), 0, []
    before = Learner.of(stream, bare, seed)
    for number, task in enumerate(stream.tasks, start=1):
        start, end = end, end + len(task.x)
        x[start:end] = _seen(task, task.x)
        learner = Learner.of(stream, bare, seed)
        history.untrained.append(_score(learner, task))
        history.zero_shot.append(_score(before, task))
        with _naming(f"joint training on {number} tasks"):
            learner.learn(x[:end], y[:end])
        history.accuracy.append([_score(learner, one) for one in stream.tasks[:number]])
        for name in ("widths", "parameters", "locked", "plastic"):
            getattr(history, name).extend(getattr(learner.history, name))
        before = learner
        seconds.append(learner.seconds)
    return Outcome(history, _sums(seconds), before.network)


def separate(stream: Stream, settings: Settings, seed: int = 0) -> Outcome:
    """Train a network of its own for each task, told apart when tested: nothing is forgotten and nothing is shared.

    Each network trains for ``epochs_first`` at ``rate_first``, as on a first task. ``widths``, ``parameters`` and
    ``plastic`` count all networks so far; the outcome's network is the last one.
    """
    instance("stream", stream, Stream)
    history, bare, outcomes = History(), _bare(settings), []
    for number, task in enumerate(stream.tasks, start=1):
        with _naming(f"a network for task {number} alone"):
            outcomes.append(learn(replace(stream, tasks=[task]), bare, seed))
        single = [outcome.history for outcome in outcomes]
        history.accuracy.append([one.accuracy[0][0] for one in single])
        history.widths.append(tuple(number * width for width in bare.hidden))
        history.parameters.append(sum(one.parameters[0] for one in single))
        history.locked += single[-1].locked
        history.plastic.append(sum(one.plastic[0] for one in single))
        history.untrained += single[-1].untrained
        history.zero_shot += single[-1].zero_shot
    return Outcome(history, _sums([outcome.seconds for outcome in outcomes]), outcomes[-1].network)


def _bare(settings: Settings) -> Settings:
    """The same without protection and without growth."""
    instance("settings", settings, Settings)
    return replace(settings, regulariser="none", growth=replace(settings.growth, trigger="none"))


def _seen(task: Task, x: torch.Tensor) -> torch.Tensor:
    """Inputs with their columns in the order in which the network sees them."""
    return x if task.columns is None else x.index_select(1, task.columns.to(x.device))


def _score(learner: Learner, task: Task) -> float:
    """Accuracy on a task, on the learner's clock."""
    start = time.perf_counter()
    found = learner.score(_seen(task, task.x_test), task.y_test)
    learner.seconds["evaluation"] += time.perf_counter() - start
    return found


def _sums(seconds: list[dict[str, float]]) -> dict[str, float]:
    """Seconds per component over several learners."""
    return {name: sum(one[name] for one in seconds) for name in seconds[0]}


@contextmanager
def _naming(training: str) -> Iterator[None]:
    """Say which of several trainings diverged."""
    try:
        yield
    except NonFiniteLoss as error:
        raise NonFiniteLoss(f"{training}: {error}") from None
