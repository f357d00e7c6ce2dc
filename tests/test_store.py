import dataclasses
import json
import os
import time
from pathlib import Path

import pytest
import yaml

from noracl import History
from noracl.method.initialisers import INITIALISERS
from pipeline import files
from pipeline.config import parse
from pipeline.data.manifests import Pixels
from pipeline.experiments.suites import Builder
from pipeline.runs import canaries, store
from pipeline.runs.provenance import machine
from pipeline.runs.run import Record, Run
from tests.conftest import ROOT, merge

#: The choices under which the keys below were written down.
CHOICES = {
    "training": {"init": "glorot", "fisher": {"estimator": "per_sample", "labels": "true"}, "ewc": {"start": "first"}},
    "noracl": {"tau_start": "first"},
}
MAKE = Builder(
    parse(yaml.safe_dump(merge(yaml.safe_load((ROOT / "params.yaml").read_text()), CHOICES))),
    lambda name: Pixels(data="hash of files", limit=None, mean=0.1307, deviation=0.3081),
)


def a_run(**changes) -> Run:
    return dataclasses.replace(MAKE.noracl("", "permuted_mnist")[0], **changes)


def growth(run, **changes):
    return dataclasses.replace(
        run, settings=dataclasses.replace(run.settings, growth=dataclasses.replace(run.settings.growth, **changes))
    )


def record(tasks=10) -> Record:
    history = History(
        [[0.5] * (t + 1) for t in range(tasks)], [(4,)] * tasks, [8] * tasks, [(0.0,)] * tasks, [8.0] * tasks
    )
    return Record(tasks, history, None, {"total": 1.0}, machine())


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
        a_run(observed=True),
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
    assert MAKE.noracl("", "permuted_mnist")[-1].key == "975bf5b19f3d6428b7cf5466c7aeafaa"
    assert MAKE.static("", "rotated_mnist")[-1].key == "f7475ba26329e0b43e9ffd544c71a178"
    assert MAKE.ablations("", "split_mnist")[-1].key == "aac04f908e3008d75e9d648466cff594"


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
    store.save(long, record(12), tmp_path)
    assert store.find(run, tmp_path) == record(10)
    store.save(run, record(10), tmp_path)
    assert store.find(long, tmp_path) is None, "a short one does not serve a long one"


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
    (tmp_path / f"{other.key}.json").rename(tmp_path / f"{run.key}.json")
    assert store.find(run, tmp_path) is None


def test_scraps_of_killed_writers_are_swept_when_they_are_old(tmp_path):
    for name, age in ((".old.json.x.tmp", 7200), (".new.json.x.tmp", 60), ("kept.json", 7200)):
        (tmp_path / name).write_text("half")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    (tmp_path / ".folder.x.tmp").mkdir()
    os.utime(tmp_path / ".folder.x.tmp", (0, 0))
    files.sweep(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".new.json.x.tmp", "kept.json"]
    ignored = (Path(name).read_text().split() for name in (".gitignore", ".dvcignore"))
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
    assert json.loads(path.read_text()) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]
