"""All or nothing: a learner whose task was stopped, by whatever it was, is as it was before the task."""

import copy
from typing import Any


def _copy(regulariser: Any) -> Any:
    try:
        return copy.deepcopy(regulariser)
    except Exception as error:  # whatever an attribute of another library raises
        raise ValueError(f"regulariser must be one that copy.deepcopy can copy: {error}") from None


def _put_back(owner: Any, values: dict[str, Any]) -> None:
    vars(owner).clear()
    vars(owner).update(values)


class Snapshot:
    """A learner as it is now, with its network, its history and its regulariser."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.history, self.regulariser = learner, learner.history, learner.regulariser
        kept = vars(learner).items()
        self.fields = {name: copy.copy(one) if isinstance(one, list | dict) else one for name, one in kept}
        self.records = {name: list(one) for name, one in vars(self.history).items()}
        self.before, self.network = _copy(self.regulariser), getattr(learner, "network", None)
        self.theta = None if self.network is None else self.network.theta.clone()
        self.states = [draw.get_state() for draw in learner.draws.values()]

    def put_back(self) -> None:
        """Undo in place what was done to the learner since then."""
        _put_back(self.learner, self.fields)
        _put_back(self.history, self.records)
        if hasattr(self.before, "__dict__"):
            _put_back(self.regulariser, vars(self.before))
        else:  # it has __slots__
            self.learner.regulariser = self.before
        if self.network is not None:
            self.network.theta.copy_(self.theta)
        for draw, state in zip(self.learner.draws.values(), self.states, strict=True):
            draw.set_state(state)
