"""Learners in files: arrays and JSON in one .npz file, so that nothing that is read can run code."""

import json
import os
import zipfile
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from noracl.method.callbacks import Callbacks
from noracl.method.checks import require
from noracl.method.history import History
from noracl.method.network import Network
from noracl.method.settings import Settings
from noracl.method.streams import Task

if TYPE_CHECKING:
    from noracl.method.learner import Learner

FORMAT = 1
AnyLearner = TypeVar("AnyLearner", bound="Learner")
PLAIN = ("classes", "scale", "shift", "reference", "losses", "cooldown", "seconds")


def save(learner: "Learner", path: str | PathLike[str]) -> None:
    """Write a learner between two tasks; an unfinished write leaves the old file."""
    require(hasattr(learner, "network"), "this learner has learnt nothing yet: call learn(x, y) first")
    require(not hasattr(learner, "task"), "a learner can be saved between tasks, not while it learns one")
    vectors = getattr(learner.regulariser, "vectors", None)
    require(isinstance(vectors, dict), "regulariser must keep its state in vectors, as Regulariser says, to be saved")
    tensors = {"theta": learner.network.theta, "untrained": learner.untrained.theta}
    tensors |= {name: one for name in ("fisher_average", "tau") if (one := getattr(learner, name)) is not None}
    tensors |= {f"vectors/{name}": one for name, one in (vectors or {}).items()}
    tensors |= {f"draws/{name}": draw.get_state() for name, draw in learner.draws.items()}
    for place, test in enumerate(learner.tests):
        parts = {"x": test.x_test, "y": test.y_test, "columns": test.columns}
        tensors |= {f"tests/{place}/{name}": one for name, one in parts.items() if one is not None}
    facts = {name: getattr(learner, name) for name in PLAIN} | {"format": FORMAT, "device": str(learner.device)}
    facts |= {"settings": learner.settings.to_dict(), "history": learner.history.to_dict()}
    facts |= {"sizes": learner.network.sizes, "first_sizes": learner.untrained.sizes}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    unfinished = f"{os.fspath(path)}.tmp"
    with open(unfinished, "wb") as file:
        np.savez(file, allow_pickle=False, json=np.array(json.dumps(facts)), **arrays)
    os.replace(unfinished, path)


def load(kind: type[AnyLearner], path: str | PathLike[str], callbacks: Callbacks | None) -> AnyLearner:
    """A learner that goes on where the saved one stopped."""
    facts, tensors = _read(path)
    settings = Settings.from_dict(facts["settings"])
    device = torch.device(facts["device"])
    learner = kind(settings, facts["classes"], 0, callbacks, device=device)
    for name in PLAIN:
        setattr(learner, name, facts[name])
    learner.history = History.from_dict(facts["history"])
    learner.network = Network(facts["sizes"], tensors["theta"].to(device))
    learner.untrained = Network(facts["first_sizes"], tensors["untrained"].to(device))
    for name in ("fisher_average", "tau"):
        setattr(learner, name, tensors[name].to(device) if name in tensors else None)
    vectors = {name: one.to(device) for name, one in _below("vectors/", tensors).items()}
    learner.regulariser.keep(**vectors)
    for name, state in _below("draws/", tensors).items():
        learner.draws[name].set_state(state)
    for place in range(len(learner.history.widths)):
        test = _below(f"tests/{place}/", tensors)
        empty = test["x"][:0]
        learner.tests.append(Task(empty, test["y"][:0], test["x"], test["y"], test.get("columns")).to(device))
    return learner


def _read(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
            facts = json.loads(str(content["json"]))
            tensors = {name: torch.from_numpy(content[name]) for name in content.files if name != "json"}
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{os.fspath(path)} holds no learner: {error}") from None
    found = facts.get("format") if isinstance(facts, dict) else None
    require(found == FORMAT, f"{os.fspath(path)} has format {found}; this version reads {FORMAT}")
    return facts, tensors


def _below(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): one for name, one in tensors.items() if name.startswith(prefix)}
