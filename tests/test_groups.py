"""Which runs a worker computes together."""

import itertools
from dataclasses import replace

import pytest

from pipeline.config import load
from pipeline.data.manifests import placeholder
from pipeline.experiments.suites import suites
from pipeline.experiments.transfer import runs as observed_runs
from pipeline.runs.groups import LONGEST, MOST, PARAMETERS, company, cost, grouped
from tests.conftest import ROOT

PARAMS = load(ROOT / "params.yaml")
SUITES = {name: suite.runs() for name, suite in suites(PARAMS, placeholder).items()}


@pytest.mark.parametrize("workers", [1, 2, 3, 16, 1000])
@pytest.mark.parametrize("name", SUITES)
def test_every_run_is_in_one_group_with_runs_that_see_the_same(name, workers):
    runs = SUITES[name]
    groups = grouped(runs, workers)
    assert sorted(map(id, itertools.chain(*groups))) == sorted(map(id, runs))
    for group in groups:
        assert len({company(run) for run in group}) == 1
        assert len({(run.seed, run.benchmark) for run in group}) == 1
        assert len(group) <= MOST
        assert len(group) == 1 or sum(run.settings.hidden[0] * run.inputs for run in group) <= PARAMETERS * 1.5
        assert len(group) == 1 or cost(group) <= LONGEST
    assert [cost(group) for group in groups] == sorted(map(cost, groups), reverse=True)
    assert len(groups) % workers == 0 or len(groups) == len(runs) or all(len(group) == 1 for group in groups)


def test_two_workers_get_about_the_same():
    groups = grouped(SUITES["main/permuted_mnist-static"], 2)
    assert sorted(map(len, groups)) == [3, 3, 6, 6, 6, 6]
    halves = [sum(map(cost, groups[start::2])) for start in (0, 1)]
    assert max(halves) < 1.2 * min(halves)


def test_long_runs_are_computed_by_themselves():
    """A killed worker loses its group, and cores share hours of work well only in small parts."""
    stream = PARAMS.benchmarks["permuted_mnist"].stream.model_copy(update={"tasks": 50})
    runs = [replace(run, stream=stream) for run in SUITES["main/permuted_mnist-static"] if run.seed == 0]
    wide = [replace(runs[0], settings=replace(runs[0].settings, hidden=(size, size))) for size in (256, 512)]
    assert max(map(len, grouped(wide, 1))) == 1
    assert max(map(len, grouped(runs, 1))) > 1


def test_what_cannot_share_mini_batches_stays_apart():
    (run, *_) = SUITES["main/permuted_mnist-static"]
    by = run.settings.optimisation
    others = [
        replace(run, seed=9),
        replace(run, outputs=12),
        replace(run, stream=run.stream.model_copy(update={"tasks": 3})),
        replace(run, data=run.data.model_copy(update={"limit": 600})),
        *(
            replace(run, settings=replace(run.settings, optimisation=replace(by, **{name: 7})))
            for name in ("batch_size", "epochs_first", "epochs_later")
        ),
    ]
    assert len(grouped([run, *others], 1)) == 1 + len(others)
    rate = replace(run, settings=replace(run.settings, optimisation=replace(by, rate_later=0.5)))
    assert len(grouped([run, rate], 1)) == 1, "rates may differ"


def test_runs_that_are_observed_stay_alone():
    assert all(len(group) == 1 for group in grouped(observed_runs(PARAMS, placeholder), 1))
