import dataclasses
import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from noracl import History
from pipeline import files, store
from pipeline.params import load
from pipeline.runs import Record, Run, machine
from pipeline.suites import ablations, table1


def a_run(**changes) -> Run:
    return dataclasses.replace(table1(load(), "permuted_mnist", "noracl")[0], **changes)


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
        a_run(limit=600),
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


def test_finished_runs_are_found_again():
    """Keys under which results were computed: whatever is added to runs must leave them as they are."""
    choices = {
        **{"data.limit": None, "data.held_out": 0, "inputs.mean": 0.1307, "inputs.deviation": 0.3081},
        **{"network.init": "glorot", "optimisation.clip_penalty": True, "fisher.estimator": "per_sample"},
        **{"fisher.labels": "true", "fisher.batches": 5, "fisher.order": "stored", "ewc.start": "first"},
        **{"noracl.tau_start": "first", "benchmarks.split_mnist.stream.drawn": []},
    }
    params = load().changed(choices)
    assert table1(params, "permuted_mnist", "noracl")[-1].key == "2a4f37b8f226a5b23319d7e6d9260ff3"
    assert table1(params, "rotated_mnist", "static")[-1].key == "116daa9c395df8a477c9ed9836ced26a"
    assert ablations(params, "split_mnist")[-1].key == "db628461d4635fdcd88933ab21833370"


def test_numerics_are_part_of_the_key(monkeypatch):
    before = a_run().key
    monkeypatch.setattr("pipeline.runs.NUMERICS", 10**6)
    assert a_run().key != before


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


def test_files_from_before_keys_stood_in_them_are_still_read(tmp_path):
    run = a_run()
    body = json.dumps({"label": run.label, **record().to_dict()}).encode()
    (tmp_path / f"{run.key}.json").write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert store.find(run, tmp_path) == record()


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
