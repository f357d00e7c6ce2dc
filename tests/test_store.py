import dataclasses
import hashlib
import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest
import yaml

from noracl import EpochSignals, GrowthEvent, History, LayerSignal
from noracl.method.initialisers import INITIALISERS
from pipeline import files
from pipeline.config import parse
from pipeline.data.manifests import Pixels
from pipeline.experiments.builder import Builder
from pipeline.runs import canaries, store
from pipeline.runs.provenance import machine
from pipeline.runs.records import Record
from pipeline.runs.run import Run
from tests.conftest import ROOT, merge

#: The choices under which the keys below were written down.
CHOICES = {
    "training": {"init": "glorot", "fisher": {"estimator": "per_sample", "labels": "true"}, "ewc": {"start": "first"}},
    "noracl": {"tau_start": "first"},
}
MAKE = Builder(
    parse(yaml.safe_dump(merge(yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8")), CHOICES))),
    lambda name: Pixels(data="hash of files", limit=None, mean=0.1307, deviation=0.3081),
)


def a_run(**changes) -> Run:
    return dataclasses.replace(MAKE.noracl("", "permuted_mnist")[0], **changes)


def growth(run, **changes):
    return dataclasses.replace(
        run, settings=dataclasses.replace(run.settings, growth=dataclasses.replace(run.settings.growth, **changes))
    )


def record(tasks=10) -> Record:
    """What ``a_run`` may leave: a network that grew by two neurons in task 3."""
    widths = [(32,) if task < 3 else (34,) for task in range(1, tasks + 1)]
    sizes = [784 * width + width * 10 for (width,) in widths]
    rows, plastic = [[0.5] * (t + 1) for t in range(tasks)], [size / 2 for size in sizes]
    history = History(rows, widths, sizes, [(0.25,)] * tasks, plastic, [0.2] * tasks, [0.1] * tasks)
    history.growth.append(GrowthEvent(3, 7, 1, 2, 0.9, 0.8, 0.2, 0.1))
    history.signals.append(EpochSignals(3, 7, (LayerSignal(0.9, 0.8, 0.2, 0.1),)))
    return Record(tasks, history, None, {"total": 1.0}, machine())


def rewrite(path, change):
    """Change the content of a file of the store, and give it the right checksum."""
    content = json.loads(path.read_bytes().partition(b"\n")[2])
    change(content)
    body = json.dumps(content).encode()
    path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def test_a_record_comes_back_as_it_was(tmp_path):
    run = a_run()
    assert store.find(run, tmp_path) is None
    store.save(run, record(), tmp_path)
    assert store.find(run, tmp_path) == record()


def test_the_key_follows_what_decides_the_run_and_nothing_else():
    run = a_run()
    same = [
        a_run(suite="other"),
        a_run(method="other"),
        a_run(benchmark="other"),
        growth(run, loss_window=9),
        growth(run, fixed_neurons=9),
        growth(run, random_scale=9.0),
    ]
    other = [
        a_run(seed=9),
        a_run(outputs=11),
        a_run(data=run.data.model_copy(update={"limit": 600})),
        a_run(data=run.data.model_copy(update={"mean": 0.0})),
        a_run(how="observed"),
        growth(run, gamma=0.8),
        growth(run, scale=0.3),
        growth(run, init="he"),
        growth(run, trigger="none"),
    ]
    assert {r.key for r in same} == {run.key}
    assert len({r.key for r in [run, *other]}) == len(other) + 1
    static = growth(run, trigger="none")
    assert growth(static, gamma=0.1, init="zero").key == static.key
    assert growth(growth(run, init="random"), random_scale=9.0).key != growth(run, init="random").key
    assert growth(growth(run, trigger="loss"), loss_window=9).key != growth(run, trigger="loss").key


def test_finished_runs_are_found_again(monkeypatch):
    """Keys of before: whatever is added to runs must leave them as they are while the canaries are the same."""
    monkeypatch.setattr(canaries, "digest", lambda run: "canary")
    assert MAKE.noracl("", "permuted_mnist")[-1].key == "17747abe8308b63d89c87126d95d8329"
    assert MAKE.static("", "rotated_mnist")[-1].key == "f7475ba26329e0b43e9ffd544c71a178"
    assert MAKE.ablations("", "split_mnist")[-1].key == "59cc9e5a7c98993909617bfb74166d78"


def test_numerics_are_part_of_the_key_of_the_runs_that_use_them(monkeypatch):
    runs = [a_run(), growth(a_run(), init="he"), growth(a_run(), trigger="none")]
    before = [run.key for run in runs]
    original = INITIALISERS["qr"]
    changed = dataclasses.replace(original, columns=lambda *given: 1.001 * original.columns(*given))
    monkeypatch.setitem(INITIALISERS, "qr", changed)
    monkeypatch.setattr(canaries, "compute", canaries.compute.__wrapped__)
    assert [run.key == key for run, key in zip(runs, before, strict=True)] == [False, True, True]


def test_a_long_permuted_stream_serves_its_beginning(tmp_path):
    run = a_run()
    long = a_run(stream=run.stream.model_copy(update={"tasks": 12}))
    assert long.key == run.key
    store.save(run, record(10), tmp_path)
    assert store.find(long, tmp_path) is None, "a short one does not serve a long one"
    store.save(long, record(12), tmp_path)
    assert store.find(run, tmp_path) == record(10)


def test_a_short_record_never_replaces_a_long_one(tmp_path):
    run = a_run()
    long = a_run(stream=run.stream.model_copy(update={"tasks": 100}))
    store.save(long, record(100), tmp_path)
    store.save(run, record(10), tmp_path)
    assert store.find(long, tmp_path) == record(100)
    assert store.find(run, tmp_path) == record(10)


def save_often(folder, tasks, times):
    run = a_run(stream=a_run().stream.model_copy(update={"tasks": tasks}))
    for _ in range(times):
        store.save(run, record(tasks), folder)


def test_two_clients_at_once_leave_the_long_record(tmp_path):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        both = [pool.apply_async(save_often, (tmp_path, tasks, 30)) for tasks in (60, 10)]
        [one.get() for one in both]
    long = a_run(stream=a_run().stream.model_copy(update={"tasks": 60}))
    assert store.find(long, tmp_path) == record(60)


def of(*path, value):
    """A change of one value of a record."""

    def change(content):
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = value

    return change


TASK_BY_TASK = ("accuracy", "widths", "parameters", "locked", "plastic", "zero_shot", "untrained")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c.update(more=1), "more: Unexpected keyword argument"),
        (lambda c: c.pop("machine"), "machine: Field required"),
        (lambda c: c["history"].pop("locked"), "history.locked has 0 tasks, not 10"),
        (lambda c: c["history"].update(extra=[]), "history.extra: Unexpected keyword argument"),
        (lambda c: [c["history"][name].pop() for name in TASK_BY_TASK],
         "history.accuracy has 9 tasks, not 10"),
        (of("tasks", value=9), "tasks is 9, the run has 10"),
        (of("tasks", value=True), "tasks: Input should be a valid integer"),
        (of("history", "accuracy", 4, 2, value=2.5), "history.accuracy after task 5"),
        (of("history", "accuracy", 4, 2, value=-0.1), "history.accuracy after task 5"),
        (of("history", "accuracy", 4, 2, value=float("nan")), "Out of range float values"),
        (of("history", "accuracy", 4, 2, value="0.5"), "history.accuracy.4.2: Input should be a valid number"),
        (of("history", "accuracy", 4, value=[0.5]), "history.accuracy after task 5"),
        (of("history", "widths", 9, value=[99]), "history.widths after task 10 are (99,), growth gives (34,)"),
        (of("history", "widths", 9, value=[34, 34]), "history.widths after task 10"),
        (of("history", "parameters", 9, value=8), "history.parameters after task 10 are 8"),
        (of("history", "plastic", 0, value=1e9), "history.plastic after task 1"),
        (of("history", "locked", 0, value=[1.5]), "history.locked after task 1"),
        (of("history", "zero_shot", 0, value=1.5), "history.zero_shot is"),
        (of("history", "growth", 0, "layer", value=2), "history.growth has the event"),
        (of("history", "growth", 0, "task", value=1), "history.growth has the event"),
        (of("history", "growth", 0, "epoch", value=31), "history.growth has the event"),
        (of("history", "signals", 0, "task", value=11), "history.signals has"),
        (of("seconds", value={}), "seconds are {}"),
        (of("seconds", "total", value=-1.0), "seconds are"),
        (of("machine", value={}), "machine is empty"),
        (of("infeasible", value="no room"), "it must hold a history, or a reason why there is none"),
        (of("history", value=None), "it must hold a history, or a reason why there is none"),
        (of("observation", value={"updates": [], "silenced": []}), "observation is there"),
        (of("format", value=1), "its format is 1, not 2"),
        (lambda c: c.pop("format"), "its format is None, not 2"),
        (of("key", value="0" * 32), "it is the record of another run"),
    ],
)  # fmt: skip
def test_a_whole_file_that_is_no_record_of_the_run_is_told_of_and_computed_again(tmp_path, capsys, change, why):
    run = a_run()
    store.save(run, record(), tmp_path)
    (path,) = tmp_path.iterdir()
    rewrite(path, change)
    assert store.find(run, tmp_path) is None
    (line,) = capsys.readouterr().out.splitlines()
    assert f"is no record of {run.label}, which is computed again: {why}" in line


@pytest.mark.parametrize("body", [b"[]", b"null", b"no JSON", b"\xff"])
def test_a_whole_file_of_something_else_is_computed_again(tmp_path, body):
    run = a_run()
    (tmp_path / f"{run.key}-10.json").write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert store.find(run, tmp_path) is None


def test_a_file_of_before_there_were_formats_is_computed_again(tmp_path, capsys):
    run = a_run()
    store.save(run, record(), tmp_path)
    (path,) = tmp_path.iterdir()
    rewrite(path, lambda content: content.pop("format"))
    path.rename(tmp_path / f"{run.key}.json")
    assert store.find(run, tmp_path) is None
    assert "its format is None, not 2" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "garbage"])
def test_damaged_files_are_never_read_as_results(tmp_path, damage):
    run = a_run()
    store.save(run, record(), tmp_path)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "truncate":
        content = content[:-10]
    elif damage == "flip":
        content[len(content) // 2] ^= 1
    else:
        content = bytearray(b"" if damage == "empty" else b"{}")
    path.write_bytes(content)
    assert store.find(run, tmp_path) is None


def test_the_file_of_another_run_is_not_read_as_this_one(tmp_path):
    run, other = a_run(), a_run(seed=9)
    store.save(other, record(), tmp_path)
    (tmp_path / f"{other.key}-10.json").rename(tmp_path / f"{run.key}-10.json")
    assert store.find(run, tmp_path) is None


def test_scraps_of_killed_writers_are_swept_when_they_are_old(tmp_path):
    for name, age in ((".old.json.x.tmp", 7200), (".new.json.x.tmp", 60), ("kept.json", 7200)):
        (tmp_path / name).write_text("half", encoding="utf-8")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    (tmp_path / ".folder.x.tmp").mkdir()
    os.utime(tmp_path / ".folder.x.tmp", (0, 0))
    files.sweep(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".new.json.x.tmp", "kept.json"]
    ignored = (Path(name).read_text(encoding="utf-8").split() for name in (".gitignore", ".dvcignore"))
    assert all(f".*{files.SCRAP}" in lines for lines in ignored)


def test_infeasible_runs_are_remembered(tmp_path):
    run, none = a_run(), Record(10, None, "no room", {"total": 1.0}, machine())
    store.save(run, none, tmp_path)
    assert store.find(run, tmp_path) == none


def test_a_failing_write_leaves_the_old_file_and_no_scrap(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    files.write_json(path, {"old": 1})

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_json(path, {"new": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]
