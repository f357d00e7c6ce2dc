"""Finished runs and features, through a DVC remote: one machine sends them, another checks and keeps them.

A record is kept only if a run of params.yaml can have left it, and features only if they are those of a manifest in
reports/data. docs/machines.md says when this is of use.
"""

import argparse
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dvc.data_cloud import Remote
from dvc.exceptions import DvcException
from dvc.repo import Repo

from pipeline.config import Params, load
from pipeline.data import cifar10
from pipeline.experiments import transfer
from pipeline.experiments.suites import suites
from pipeline.files import StageError, scratch_folder, write_text
from pipeline.paths import FEATURES, RUNS
from pipeline.runs import store
from pipeline.runs.progress import Progress
from pipeline.runs.records import Invalid
from pipeline.runs.run import Run

FOLDER = "noracl"  # in the remote, beside what DVC keeps there
FOREIGN = "not asked for by params.yaml"
Owner = Run | cifar10.Chunk
RECORD = re.compile(rf"{re.escape(RUNS.as_posix())}/(\w+)-(\d+)\.json")


def owners(params: Params) -> Callable[[str], Owner | None]:
    """What a file belongs to, by its name; None for whatever params.yaml does not ask for."""
    runs = [run for suite in suites(params).values() for run in suite.runs()] + transfer.runs(params)
    by_key = {
        run.key: run for run in sorted(runs, key=lambda run: -run.tasks)
    }  # the shortest of those that begin alike
    manifests = {run.data for run in runs if run.data.kind == "features"}
    chunks = {chunk.path.as_posix(): chunk for manifest in manifests for chunk in cifar10.chunks(manifest)}

    def owner(name: str) -> Owner | None:
        record = RECORD.fullmatch(name)
        return by_key.get(record[1]) if record else chunks.get(name)

    return owner


def problem(copy: Path, name: str, owner: Owner) -> str | None:
    """Why a file cannot be what its name says."""
    if isinstance(owner, cifar10.Chunk):
        described = f"reports/data/cifar10_{owner.manifest.name}.json"
        return None if replace(owner, path=copy).read() else f"it does not hold the features that {described} describes"
    try:
        tasks = store.read(copy, owner).tasks
    except Invalid as error:
        return str(error)
    return None if RECORD.fullmatch(name)[2] == str(tasks) else f"it has {tasks} tasks"  # type: ignore[index]


def _place(remote: Remote, name: str = "") -> str:
    return str(remote.fs.join(remote.path, FOLDER, *name.split("/")))


def in_remote(remote: Remote) -> list[str]:
    """The names of all files that were sent."""
    top = _place(remote)
    found = remote.fs.find(top) if remote.fs.exists(top) else []
    return sorted("/".join(remote.fs.relparts(path, top)) for path in found)


def send(name: str, owner: Owner, remote: Remote) -> str:
    """Send a file if it is whole, and say what became of it."""
    if remote.fs.exists(_place(remote, name)):
        return "there already"
    if why := problem(Path(name), name, owner):
        return f"refused: {why}"
    remote.fs.put_file(name, _place(remote, name))
    return "sent"


def fetch(name: str, owner: Owner, remote: Remote) -> str:
    """Keep a copy of a file if it is what its name says, and say what became of it."""
    path = Path(name)
    if path.exists() and problem(path, name, owner) is None:
        return "here already"
    with scratch_folder(path) as scratch:
        copy = scratch / path.name
        remote.fs.get_file(_place(remote, name), str(copy))
        if why := problem(copy, name, owner):
            return f"refused: {why}; delete it in {remote.path} and push it again"
        if isinstance(owner, cifar10.Chunk) and not cifar10.describes_what_is_there(owner.manifest):
            write_text(path.parent / "manifest.json", owner.manifest.model_dump_json())
        os.replace(copy, path)
    return "fetched"


def share(direction: str, remote: Remote, owner: Callable[[str], Owner | None]) -> Counter[str]:
    """How many files were sent or fetched, and how many were not; whoever is refused is named."""
    here = [path.as_posix() for path in (*RUNS.glob("*.json"), *FEATURES.glob("*/*.npz"))]
    names, move = (sorted(here), send) if direction == "push" else (in_remote(remote), fetch)
    counts, progress = Counter[str](), Progress(f"share {direction}", len(names), len(names), "files")
    for number, name in enumerate(names, start=1):
        known = owner(name)
        outcome = FOREIGN if known is None else move(name, known, remote)
        if outcome.startswith("refused"):
            print(f"{name} is {outcome}", flush=True)
        counts[outcome.partition(":")[0]] += 1
        progress.finished = number
        progress.show(number)
    progress.close()
    return counts


def main(arguments: list[str]) -> None:
    """Tool share."""
    parser = argparse.ArgumentParser(prog="python -m pipeline share", description=__doc__)
    parser.add_argument("direction", choices=["push", "pull"])
    parser.add_argument("remote", nargs="?", help="a name from `dvc remote list`; without it, DVC's default remote")
    chosen = parser.parse_args(arguments)
    owner = owners(load())
    try:
        with Repo() as repo:
            counts = share(chosen.direction, repo.cloud.get_remote(chosen.remote), owner)
    except DvcException as error:
        raise StageError(f"{error}. To add one: dvc remote add --local --default NAME FOLDER-OR-URL") from None
    print(
        f"share {chosen.direction}:", ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) or "nothing to do"
    )
    if counts["refused"]:
        raise StageError(f"{counts['refused']} files were refused, and are not kept; the lines above say why")
