"""Every stage depends on all of params.yaml that decides its runs: whatever changes a run makes its stage stale."""

import json
import shutil

import pytest
import yaml
from dvc.repo import Repo

from pipeline.config import ParamsError, parse
from pipeline.data.manifests import placeholder
from pipeline.experiments.suites import suites
from tests.conftest import ROOT
from tests.test_beyond import PLAIN, STRESSED

#: Parts of params.yaml that decide runs; data and encoder reach training through manifests.
PARTS = ("seeds", "training", "noracl", "heuristics", "networks", "benchmarks", "image_sizes", "stress", "ablations")
PARTS += ("sensitivity", "reading_seeds", "readings", "beyond", "beyond_stress")
NOT_HERE = ("title", "table", "why", "long_only", "data", "networks")  # words, and what chooses dependencies
#: Other values of what is not a number, by the last part of the key.
OTHER = {
    "init": "he", "regulariser": "si", "clip_by": "value", "estimator": "batch", "labels": "sampled", "start": "zero",
    "trigger": "ed", "tau_start": "zero", "ed_layers": "own", "interpolation": "nearest",
    "network": "small", "kind": None,
}  # fmt: skip


def leaves(data, path=()):
    """Every value of nested keys, with its path; lists are values."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from leaves(value, (*path, key))
    else:
        yield path, data


def other(path, value):
    """Another value, or None where there is no simple one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 0.9 if isinstance(value, float) else value + 1
    if isinstance(value, list) and value and all(isinstance(one, int | float) for one in value):
        return [other(path, value[0]), *value[1:]]
    if isinstance(value, list) and len(value) > 1:
        return value[:-1]
    return OTHER.get(path[-1]) if isinstance(value, str) else None


def replaced(data, path, value):
    """A copy of nested keys with another value at a path."""
    first, *rest = path
    return {**data, first: replaced(data[first], rest, value) if rest else value}


def runs_of(data):
    """All runs of every suite, by stage."""
    found = suites(parse(yaml.safe_dump(data, allow_unicode=True)), placeholder).values()
    return {suite.stage: suite.runs() for suite in found}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """params.yaml with all that goes beyond the paper, and what each stage of dvc.yaml reads of it."""
    folder = tmp_path_factory.mktemp("stages")
    data = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    name, reading = next(iter(data["readings"].items()))
    few = {"seeds": [0], "reading_seeds": [0], "readings": {name: reading}}
    few |= {"beyond": PLAIN, "beyond_stress": STRESSED}
    data = json.loads(json.dumps(data | few))
    (folder / "reports").mkdir()
    for name in ("dvc.yaml", "reports/figures.yaml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "params.yaml").write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    with Repo.init(str(folder), no_scm=True) as repo:
        reads = {
            stage.name: {key for dep in stage.deps for key in getattr(dep, "params", ())} for stage in repo.index.stages
        }
    return data, reads


def test_whatever_changes_a_run_makes_its_stage_stale(everything):
    data, reads = everything
    before, tried, missed = runs_of(data), 0, []
    for path, value in leaves({part: data[part] for part in PARTS}):
        changed = None if path[-1] in NOT_HERE else other(path, value)
        if changed is None:
            continue
        try:
            after = runs_of(replaced(data, path, changed))
        except ParamsError:  # not a value that could be there
            continue
        tried += 1
        name = ".".join(path)
        for stage, runs in after.items():
            if not any(name == key or name.startswith(f"{key}.") for key in reads[stage]):
                old = before.get(stage, [])
                if runs != old and [run.key for run in runs] != [run.key for run in old]:
                    missed.append(f"{stage} does not depend on {name}")
    assert missed == []
    assert tried > 80
