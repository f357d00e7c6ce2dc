"""Any run can be recomputed and compared, a forged one is found, and the odds of a draw are what it says."""

import itertools

import pytest

from pipeline import verify
from pipeline.config import load
from pipeline.evidence.results import is_missing
from pipeline.experiments.suites import suites
from pipeline.files import StageError
from tests.test_check import broken, elsewhere, set_cell  # noqa: F401

ABLATIONS = "reports/results/ablations/split_mnist/runs.csv"
CHOSEN = ["split_mnist", "trigger fixed", "--suite", "ablations/split_mnist"]
FORGED = "ablations/split_mnist: split_mnist 2L trigger fixed seed 0"


def forge(folder, by):
    """Add to the accuracy after the last task of a run; return what it was."""
    path = folder / ABLATIONS
    row = max(
        number for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()) if ",trigger fixed," in line
    )
    set_cell(path, row, "accuracy", lambda value: f"{float(value) + by:.6f}")


def test_a_run_of_ones_choice_repeats_to_the_digit(broken, capsys):  # noqa: F811
    verify.main(["split_mnist", "2L small", "--seed", "0"])
    said = capsys.readouterr().out
    assert "verify main/split_mnist-static: split_mnist 2L small seed 0: the same digits" in said
    assert "verify: from scratch, 1 to compute" in said


def test_a_forged_run_is_found_with_the_command_that_repeats_it(broken, capsys):  # noqa: F811
    forge(broken, 0.001)
    with pytest.raises(SystemExit, match="1 of 1 recomputed runs differ from the committed ones"):
        verify.main(CHOSEN)
    said = capsys.readouterr()
    assert f"verify {FORGED}: DIFFERENT" in said.out
    difference, again = said.err.splitlines()
    assert difference.strip().startswith("task 2: accuracy 0.")
    assert ", committed 0." in difference
    command = "python -m pipeline verify split_mnist 'trigger fixed' --seed 0 --suite ablations/split_mnist"
    assert again.strip() == f"repeat it: {command}"


def test_results_of_another_kind_of_machine_are_compared_within_the_tolerance(broken, capsys):  # noqa: F811
    elsewhere(broken)
    forge(broken, 0.001)
    verify.main(CHOSEN)
    assert f"verify {FORGED}: within tolerances.golden_… of params.yaml, because another" in capsys.readouterr().out
    forge(broken, load().tolerances.golden_accuracy)
    with pytest.raises(SystemExit):
        verify.main(CHOSEN)


@pytest.fixture
def named(monkeypatch, capsys):
    """A function that returns what would be recomputed, and what is said about it."""
    found = []
    monkeypatch.setattr(verify, "repeat", lambda params, runs, title: found.append(list(runs)) or [])
    monkeypatch.setattr(verify, "here", lambda runs: (list(runs), ""))

    def name(*arguments):
        verify.main(list(arguments))
        return found[-1], capsys.readouterr().out

    return name


def test_a_draw_is_from_all_tables_and_can_be_repeated(named):
    computed = {name: suite for name, suite in suites(load()).items() if not is_missing(name)}
    everything = sum(len(suite.runs()) for suite in computed.values())
    runs, said = named("--sample", "99999")
    assert len(runs) == len(set(runs)) == everything
    assert {run.suite for run in runs} == set(computed)
    assert f"{everything} of {everything} runs are drawn" in said
    first, said = named("--sample", "5")
    again = said.split("python -m pipeline verify ")[1].splitlines()[0].split()
    assert named(*again)[0] == first
    assert named("--sample", "5", "--draw", "1")[0] != named("--sample", "5", "--draw", "2")[0]


def test_a_row_can_be_typed_without_quotes_and_without_a_sign_that_keyboards_lack(named):
    assert named("permuted_mnist", "2L", "small", "--seed", "3") == named("permuted_mnist", "2L small", "--seed", "3")
    assert named("--seed", "3", "permuted_mnist", "2L", "small") == named("permuted_mnist", "2L small", "--seed", "3")
    (run,), _ = named("split_cifar10", "128x128", "--seed", "0")
    assert run.method == "128×128"


def test_slow_runs_can_be_left_out(named):
    runs, said = named("--sample", "99999", "--seconds", "20")
    assert 0 < len(runs) < len(verify.committed_runs(load()))
    assert max(verify.seconds(runs).values()) <= 20
    assert "s; the others are left out" in said


def test_data_that_are_not_here_are_told_of(capsys, monkeypatch):
    runs = verify.committed_runs(load())
    assert len(verify.here([run for run in runs if run.data.kind == "pixels"])[0]) > 100

    def nothing(run):
        raise FileNotFoundError("no data: run `dvc repro`")

    monkeypatch.setattr(verify, "fingerprint", nothing)
    with pytest.raises(StageError, match="there is nothing to recompute"):
        verify.main(["split_cifar10", "NORACL"])
    assert "5 of 5 runs cannot be recomputed here: no data: run `dvc repro`" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "there is no benchmark 'nothing', only permuted_mnist, "),
        (["split_mnist", "3L small"], "there is no row '3L small', only 1L small, "),
        (["split_mnist", "2L small", "--seed", "9"], "there is no seed 9, only 0, "),
        (["--suite", "main/nothing"], "there is no suite 'main/nothing', only main/"),
        (["split_mnist", "--seconds", "0"], "there is nothing to recompute"),
    ],
)
def test_what_is_not_there_is_named_with_what_there_is(arguments, words):
    with pytest.raises(StageError) as error:
        verify.main(arguments)
    assert str(error.value).startswith(words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "name a run"), (["--seconds", "3"], "name a run"), (["--sample", "0"], "--sample must be at least 1, got 0")],
)
def test_nobody_recomputes_everything_by_accident(arguments, words, capsys):
    with pytest.raises(SystemExit):
        verify.main(arguments)
    assert f"error: {words}" in capsys.readouterr().err


@pytest.mark.parametrize(("forged", "sample", "runs"), [(1, 2, 7), (3, 2, 7), (4, 3, 6), (5, 3, 7)])
def test_the_odds_are_those_of_all_draws(forged, sample, runs):
    draws = [min(draw) < forged for draw in itertools.combinations(range(runs), sample)]
    assert verify.found_with(forged, sample, runs) == pytest.approx(sum(draws) / len(draws))


def test_the_odds_in_words():
    assert verify.odds(10, 100) == (
        "10 of 100 runs are drawn. Such a draw finds a forgery among these 100 with probability 10.0% if 1 run is "
        "forged, 67.0% if 10 % of the runs are forged, 99.9% if half are forged."
    )
