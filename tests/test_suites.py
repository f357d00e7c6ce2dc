import dataclasses

import pytest

from pipeline.params import load
from pipeline.runs import compute
from pipeline.suites import ablations, sensitivity, stress, stress_names, suites, table1

PARAMS = load()


def test_names_of_rows_are_the_agreed_ones():
    rows = dict.fromkeys(run.method for run in ablations(PARAMS, "split_mnist"))
    assert list(rows) == [
        *("full", "init random", "init he", "init xavier", "init null-space", "init zero"),
        *("trigger ed", "trigger fsat", "trigger fixed", "trigger scheduled", "trigger loss"),
    ]
    rows = dict.fromkeys(run.method for run in sensitivity(PARAMS))
    assert list(rows) == [
        *("default", "gamma=0.80", "gamma=0.85", "gamma=0.95", "p=10", "p=15", "p=20", "p=30"),
        *("eps=0.01", "eps=0.10"),
    ]
    assert stress_names(PARAMS) == ["stress-32×32", "stress-75×32", "stress-64×64", "stress-noracl"]
    assert [(run.method, run.seed) for run in stress(PARAMS, "stress-75×32")] == [("75×32", seed) for seed in range(5)]


def test_shared_runs_have_one_key():
    """The full model of the ablations, the default of the sensitivity study, and the first tasks of the long stream."""
    main = {run.key for run in table1(PARAMS, "permuted_mnist", "noracl") if len(run.settings.hidden) == 2}
    assert {run.key for run in ablations(PARAMS, "permuted_mnist") if run.method == "full"} == main
    assert {run.key for run in sensitivity(PARAMS) if run.method == "default"} == main
    assert {run.key for run in stress(PARAMS, "stress-noracl")} == main
    static = {run.key for run in table1(PARAMS, "permuted_mnist", "static")}
    assert {run.key for name in ("32×32", "64×64") for run in stress(PARAMS, f"stress-{name}")} <= static
    everything = [run.key for runs in suites(PARAMS).values() for run in runs]
    assert len(set(everything)) < len(everything)


@pytest.mark.parametrize(
    ("benchmark", "fixed", "scheduled"),
    [("permuted_mnist", 75600, 93300), ("rotated_mnist", 47600, 54900), ("split_mnist", 29800, 36800)],
)
def test_fixed_and_scheduled_growth_end_at_the_papers_sizes(benchmark, fixed, scheduled, mnist_folder):
    """On few images: the sizes follow from the calendar alone. The paper cuts its counts to hundreds."""
    wanted = {"trigger fixed": fixed, "trigger scheduled": scheduled}
    for run in ablations(PARAMS, benchmark):
        if run.method in wanted and run.seed == 0:
            history = compute(dataclasses.replace(run, limit=300)).history
            assert history.parameters[-1] // 100 * 100 == wanted[run.method]


def test_the_short_stress_stream_is_the_beginning_of_the_long_one(mnist_folder):
    long = stress(PARAMS, "stress-noracl")[0]
    section = long.stream.model_copy(update={"tasks": 4})
    quick = dataclasses.replace(long.settings.optimisation, epochs_first=2, epochs_later=2)
    settings = dataclasses.replace(long.settings, optimisation=quick)
    four = dataclasses.replace(long, stream=section, limit=600, settings=settings)
    two = dataclasses.replace(four, stream=section.model_copy(update={"tasks": 2}))
    assert compute(four).first(2).history == compute(two).history
