"""Finished runs and features go through a folder that is a DVC remote; what is wrong stays out, and is named."""

import shutil

import numpy as np
import pytest
from dvc.repo import Repo

from pipeline.config import load
from pipeline.data import cifar10
from pipeline.data.manifests import read_manifest
from pipeline.experiments.suites import suites
from pipeline.files import StageError
from pipeline.paths import RUNS
from pipeline.runs import store
from pipeline.tools.share import main
from tests.conftest import ROOT
from tests.test_store import record, rewrite

PARAMS = load()
RUN, OTHER = suites(PARAMS)["main/permuted_mnist-noracl"].runs()[:2]
CHUNK = cifar10.chunks(read_manifest(PARAMS.benchmarks["split_cifar10"].data))[-1]
RECORD = RUNS / f"{RUN.key}-10.json"


@pytest.fixture
def machines(tmp_path, monkeypatch):
    """Goes to a clone by its name, with the remote "group"; the first has a finished run and features."""
    (tmp_path / "remote").mkdir()

    def go(name):
        folder = tmp_path / name
        if not folder.exists():
            for part in ("reports/data", "reports/canaries"):
                shutil.copytree(ROOT / part, folder / part)
            shutil.copy(ROOT / "params.yaml", folder)
            with Repo.init(folder, no_scm=True) as repo, repo.config.edit("local") as config:
                config["remote"]["group"] = {"url": str(tmp_path / "remote")}
        monkeypatch.chdir(folder)

    go("first")
    store.save(RUN, record())
    draw = np.random.default_rng(0)
    CHUNK.save(draw.normal(size=(len(CHUNK), cifar10.WIDTH)).astype(np.float32), draw.integers(0, 10, len(CHUNK)))
    return go


def sent(tmp_path):
    return tmp_path / "remote" / "noracl"


def test_what_one_machine_sends_another_has(machines, tmp_path, capsys):
    main(["push", "group"])
    assert "share push: 2 sent\n" in capsys.readouterr().out
    main(["push", "group"])
    assert "share push: 2 there already\n" in capsys.readouterr().out
    machines("second")
    assert store.find(RUN) is None
    main(["pull", "group"])
    assert "share pull: 2 fetched\n" in capsys.readouterr().out
    assert store.find(RUN) == record()
    assert CHUNK.read() is not None
    assert cifar10.describes_what_is_there(CHUNK.manifest), "or extraction would begin anew"
    main(["pull", "group"])
    assert "share pull: 2 here already\n" in capsys.readouterr().out


def truncate(path):
    path.write_bytes(path.read_bytes()[:-9])


def lie(path):
    rewrite(path, lambda content: content["history"]["accuracy"][3].__setitem__(0, 7.5))


def rename(path):
    path.rename(path.with_stem(f"{OTHER.key}-10"))


def lengthen(path):
    path.rename(path.with_stem(f"{RUN.key}-50"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (truncate, "the file is damaged"),
        (lie, "history.accuracy after task 4 is"),
        (rename, "it is the record of another run"),
        (lengthen, "it has 10 tasks"),
    ],
)
def test_a_record_that_is_not_what_its_name_says_is_refused(damage, words, machines, tmp_path, capsys):
    main(["push", "group"])
    damage(sent(tmp_path) / RECORD)
    machines("second")
    with pytest.raises(StageError, match="1 files were refused"):
        main(["pull", "group"])
    said = capsys.readouterr().out
    assert f"refused: {words}" in said
    assert "1 fetched, 1 refused" in said
    assert list(RUNS.iterdir()) == []


def test_features_that_are_damaged_are_refused_and_good_ones_replace_them(machines, tmp_path, capsys):
    main(["push", "group"])
    truncate(sent(tmp_path) / CHUNK.path)
    machines("second")
    with pytest.raises(StageError, match="1 files were refused"):
        main(["pull", "group"])
    wrong = f"the features that reports/data/cifar10_{CHUNK.manifest.name}.json describes"
    assert f"{CHUNK.path} is refused: it does not hold {wrong}" in capsys.readouterr().out
    assert not CHUNK.path.exists()
    machines("first")
    (sent(tmp_path) / CHUNK.path).unlink()
    main(["push", "group"])
    machines("second")
    CHUNK.path.write_bytes(b"damaged")
    main(["pull", "group"])
    assert CHUNK.read() is not None


def test_what_nobody_asked_for_and_what_is_damaged_here_stays_where_it_is(machines, tmp_path, capsys):
    shutil.copy(RECORD, RUNS / f"{'0' * 32}-10.json")
    truncate(RECORD)
    with pytest.raises(StageError, match="1 files were refused"):
        main(["push", "group"])
    assert "1 not asked for by params.yaml, 1 refused, 1 sent" in capsys.readouterr().out
    outside = sent(tmp_path) / "params.yaml"
    outside.write_text("seeds: []", encoding="utf-8")
    main(["pull", "group"])
    assert "1 here already, 1 not asked for by params.yaml" in capsys.readouterr().out


def test_without_a_remote_it_says_how_to_add_one(machines):
    with pytest.raises(StageError, match="dvc remote add --local --default NAME"):
        main(["push"])
    with pytest.raises(StageError, match="dvc remote add --local --default NAME"):
        main(["push", "nobody"])
