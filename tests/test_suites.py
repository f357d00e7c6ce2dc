import dataclasses

import pytest

from pipeline.config import load
from pipeline.experiments.suites import suites
from pipeline.runs.run import compute

SUITES = suites(load())


def few(run, images):
    return dataclasses.replace(run, data=run.data.model_copy(update={"limit": images}))


def test_names_of_rows_are_the_agreed_ones():
    rows = dict.fromkeys(run.method for run in SUITES["ablations/split_mnist"].runs())
    assert list(rows) == [
        *("full", "init random", "init he", "init xavier", "init null-space", "init zero"),
        *("trigger ed", "trigger fsat", "trigger fixed", "trigger scheduled", "trigger loss"),
    ]
    rows = dict.fromkeys(run.method for run in SUITES["sensitivity/permuted_mnist"].runs())
    assert list(rows) == [
        *("default", "gamma=0.80", "gamma=0.85", "gamma=0.95", "p=10", "p=15", "p=20", "p=30"),
        *("eps=0.01", "eps=0.10"),
    ]
    names = [name for name, suite in SUITES.items() if suite.table == "stress"]
    assert names == ["stress/32x32", "stress/75x32", "stress/64x64", "stress/noracl"]
    assert [(run.method, run.seed) for run in SUITES["stress/75x32"].runs()] == [("75×32", seed) for seed in range(5)]
    assert all(run.suite == name for name, suite in SUITES.items() for run in suite.runs())


def test_shared_runs_have_one_key():
    """The full model of the ablations, the default of the sensitivity study, and the first tasks of the long stream."""
    keys = {name: [run.key for run in suite.runs()] for name, suite in SUITES.items()}
    main = {run.key for run in SUITES["main/permuted_mnist-noracl"].runs() if run.layers == 2}
    for suite, method in (("ablations", "full"), ("sensitivity", "default")):
        assert {run.key for run in SUITES[f"{suite}/permuted_mnist"].runs() if run.method == method} == main
    assert set(keys["stress/noracl"]) == main
    assert {*keys["stress/32x32"], *keys["stress/64x64"]} <= set(keys["main/permuted_mnist-static"])
    assert all(len(set(own)) == len(own) for own in keys.values())


@pytest.mark.parametrize(
    ("benchmark", "fixed", "scheduled"),
    [("permuted_mnist", 75600, 93300), ("rotated_mnist", 47600, 54900), ("split_mnist", 29800, 36800)],
)
def test_fixed_and_scheduled_growth_end_at_the_papers_sizes(benchmark, fixed, scheduled, mnist_folder):
    """On few images: the sizes follow from the calendar alone. The paper cuts its counts to hundreds."""
    wanted = {"trigger fixed": fixed, "trigger scheduled": scheduled}
    for run in SUITES[f"ablations/{benchmark}"].runs():
        if run.method in wanted and run.seed == 0:
            history = compute(few(run, 300)).history
            more = history.widths[-1][-1] * (10 - run.outputs)  # the paper counts ten outputs, also where two are used
            assert (history.parameters[-1] + more) // 100 * 100 == wanted[run.method]


def test_the_short_stress_stream_is_the_beginning_of_the_long_one(mnist_folder):
    long = SUITES["stress/noracl"].runs()[0]
    section = long.stream.model_copy(update={"tasks": 4})
    quick = dataclasses.replace(long.settings.optimisation, epochs_first=2, epochs_later=2)
    settings = dataclasses.replace(long.settings, optimisation=quick)
    four = dataclasses.replace(few(long, 600), stream=section, settings=settings)
    two = dataclasses.replace(four, stream=section.model_copy(update={"tasks": 2}))
    assert compute(four).first(2).history == compute(two).history
