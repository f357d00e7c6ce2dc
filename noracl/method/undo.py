"""All or nothing: a learner whose task was stopped, by whatever it was, is as it was before the task."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def _copy(regulariser: Any) -> Any:
    try:
        return copy.deepcopy(regulariser)
    except Exception as error:  # whatever an attribute of another library raises
        raise ValueError(f"regulariser must be one that copy.deepcopy can copy: {error}") from None


def _put_back(owner: Any, values: dict[str, Any]) -> None:
    vars(owner).clear()
    vars(owner).update(values)


@contextmanager
def all_or_nothing(learner: Any) -> Iterator[None]:
    """Undo in place what the block did to the learner, its network, its history and its regulariser if it fails."""
    fields = {name: copy.copy(one) if isinstance(one, list | dict) else one for name, one in vars(learner).items()}
    network, states = getattr(learner, "network", None), [draw.get_state() for draw in learner.draws.values()]
    theta = None if network is None else network.theta.clone()
    records, before = {name: list(one) for name, one in vars(learner.history).items()}, _copy(learner.regulariser)
    try:
        yield
    except BaseException:
        _put_back(learner, fields)
        _put_back(learner.history, records)
        if hasattr(before, "__dict__"):
            _put_back(learner.regulariser, vars(before))
        else:  # it has __slots__
            learner.regulariser = before
        if network is not None:
            network.theta.copy_(theta)
        for draw, state in zip(learner.draws.values(), states, strict=True):
            draw.set_state(state)
        raise
