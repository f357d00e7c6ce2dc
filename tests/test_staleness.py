"""Numbers, not text, tell what is stale: comments change nothing, a changed rule changes its own runs alone."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from noracl.analysis import controls
from pipeline.config import load
from pipeline.experiments import staleness
from pipeline.experiments.suites import suites
from pipeline.runs import canaries, ways
from pipeline.runs.executor import RunFailed, run_all
from tests.conftest import train_stages

PARAMS = load()


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} does not hold {old!r}"
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def copy(clone, tmp_path):
    """A copy of the small clone, with finished runs, in which every growth trigger and initialiser is ablated."""
    return clone.copy(tmp_path / "copy")


def test_a_comment_or_a_refactor_makes_nothing_stale(copy):
    edit(copy.folder / "noracl/method/initialisers/qr.py", "    rows = weight", "    # a comment\n    rows = weight")
    edit(
        copy.folder / "noracl/method/signals.py",
        "neurons, samples = activations.shape",
        "neurons = activations.shape[0]",
    )
    edit(copy.folder / "noracl/method/signals.py", "math.sqrt(samples)", "math.sqrt(activations.shape[1])")
    assert copy.stages_run("dvc", "repro") == {"canaries"}


def test_a_changed_initialiser_makes_its_own_runs_stale_and_nothing_else(copy):
    """And a record that was computed before the change is not used after it."""
    copy.change(
        ablations={"init": ["random", "he"], "benchmarks": ["split_mnist", "rotated_mnist"]}, readings={}, beyond={}
    )
    before = copy.run("dvc", "repro", "ablations@split_mnist", "ablations@rotated_mnist")
    assert "2 of 4 runs are in the run store" in before
    copy.commit("more ablations")
    edit(copy.folder / "noracl/method/initialisers/random.py", "return scale *", "return -scale *")
    copy.run("dvc", "repro", "canaries")
    stages = [f"ablations@{name}" for name in ("rotated_mnist", "split_mnist")]
    assert train_stages(copy.stages_run("dvc", "repro", "--dry")) == set(stages)
    output = copy.run("dvc", "repro", *stages)
    for name in ("rotated_mnist", "split_mnist"):
        told = f"ablations/{name}: 3 of 4 runs are in the run store .runs, 1 to compute"
        assert told in output, "only the runs with that initialiser"


def test_training_refuses_code_that_its_canaries_do_not_know(copy):
    edit(copy.folder / "noracl/method/signals.py", "max(1,", "max(2,")
    output = copy.run("python", "-m", "pipeline", "train", "main/split_mnist-noracl", ok=False)
    assert "reports/canaries/main/split_mnist-noracl.json" in output
    assert "run `dvc repro canaries`" in output
    assert "Traceback" not in output
    assert "0 to compute" in copy.run("python", "-m", "pipeline", "train", "main/split_mnist-static"), "never grows"


def test_force_takes_finished_runs_from_the_store_and_without_a_store_computes_them(copy):
    stage = ("dvc", "repro", "--force", "--single-item", "static@split_mnist")
    assert "2 of 2 runs are in the run store .runs, 0 to compute" in copy.run(*stage)
    copy.run("rm", "-r", ".runs")
    assert "0 of 2 runs are in the run store .runs, 2 to compute" in copy.run(*stage)
    assert copy.run("git", "status", "--porcelain", "reports/results") == "", "with the same bytes"


def test_every_suite_has_its_canaries_and_every_growing_one_grows():
    found = staleness.compute(PARAMS)
    assert {*suites(PARAMS), "theory", "transfer", "features"} == set(found)
    assert staleness.disagreeing(found) == []
    for suite in suites(PARAMS).values():
        for run in suite.runs():
            numbers = found[suite.name][canaries.route_of(run).name]
            static = run.settings.growth.trigger == "none" or run.how == ways.CONTROL + controls.AT_ONCE
            assert bool(numbers["growth"]) != static


@pytest.mark.parametrize("setting", ["ATEN_CPU_CAPABILITY=default", "MKL_CBWR=COMPATIBLE"])
def test_canaries_agree_on_other_processors(setting):
    name, value = setting.split("=")
    script = (
        "from pipeline.config import load; from pipeline.experiments import staleness as s;"
        "print(s.disagreeing(s.compute(load())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, name: value},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_numbers_agree_within_what_processors_differ_in_and_no_further():
    numbers = {"widths": [[3, 4]], "numbers": [100.0, -1e-9, None], "shares": [0.5]}
    near = {"widths": [[3, 4]], "numbers": [100.0005, 1e-9, None], "shares": [0.51]}
    assert canaries.agree(near, numbers)
    for far in (
        {**numbers, "widths": [[3, 5]]},
        {**numbers, "numbers": [100.01, -1e-9, None]},
        {**numbers, "numbers": [100.0, -1e-9, 0.0]},
        {**numbers, "shares": [0.55]},
        {**numbers, "more": []},
        {**numbers, "numbers": [100.0, -1e-9]},
    ):
        assert not canaries.agree(far, numbers)


def test_the_key_holds_the_canary_that_is_committed(monkeypatch, tmp_path):
    run = suites(PARAMS)["main/split_mnist-noracl"].runs()[0]
    known, route = canaries.committed(run.suite), canaries.route_of(run)
    monkeypatch.setattr(canaries, "CANARIES", tmp_path)
    path = canaries.file_of(run.suite)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(known), encoding="utf-8")
    before = run.key
    last_digit = json.loads(json.dumps(known))
    last_digit[route.name]["numbers"][0] *= 1 + 1e-9
    path.write_text(json.dumps(last_digit) + " ", encoding="utf-8")
    assert run.key != before, "keys follow the committed digits, which stay while they agree"
    other = json.loads(json.dumps(known))
    other[route.name]["numbers"][0] += 1.0
    path.write_text(json.dumps(other) + "  ", encoding="utf-8")
    with pytest.raises(RunFailed, match="run `dvc repro canaries`"):
        run_all([run], PARAMS.compute, "test")


def test_digits_that_agree_stay_as_they_are_committed():
    found = staleness.compute(PARAMS)
    kept = staleness.settled(found)
    assert all(kept[suite] == canaries.committed(suite) for suite in found)
    name = canaries.route_of(suites(PARAMS)["main/split_mnist-noracl"].runs()[0]).name
    assert kept["ablations/split_mnist"][name] == kept["main/split_mnist-noracl"][name], "shared runs have one key"


def test_routes_tell_apart_what_decides_numbers_and_nothing_else():
    run = suites(PARAMS)["main/split_mnist-noracl"].runs()[0]

    def route(**changes):
        return canaries.route_of(dataclasses.replace(run, **changes))

    settings, growth = run.settings, run.settings.growth
    quick = dataclasses.replace(
        settings, hidden=(3,), optimisation=dataclasses.replace(settings.optimisation, clip=1.0)
    )
    assert route(seed=9, settings=quick) == route(), "sizes and thresholds are the same code"
    others = [
        dataclasses.replace(settings, init="he"),
        dataclasses.replace(settings, fisher=dataclasses.replace(settings.fisher, estimator="batch")),
        dataclasses.replace(settings, ewc=dataclasses.replace(settings.ewc, start="zero")),
        *(dataclasses.replace(settings, growth=dataclasses.replace(growth, trigger=name)) for name in ("ed", "none")),
        dataclasses.replace(settings, growth=dataclasses.replace(growth, init="zero")),
        dataclasses.replace(settings, growth=dataclasses.replace(growth, tau_start="zero")),
    ]
    names = [route().name, route(how="observed").name, *(route(settings=other).name for other in others)]
    assert len(set(names)) == len(names)
    static = dataclasses.replace(growth, trigger="none", init="zero")
    assert route(settings=dataclasses.replace(settings, growth=static)).name.endswith("first, none")
