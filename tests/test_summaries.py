"""The tables of the theory and of its transfer, from made-up results with a known answer."""

import dataclasses
import math

import pandas as pd
import pytest

from noracl import GrowthEvent, History
from noracl.theory import Fit
from noracl.transfer import Observation, Update
from pipeline import store, theory_table, transfer, transfer_table
from pipeline.params import load
from pipeline.runs import Record, machine
from pipeline.tables import machines_of

PARAMS = load()


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-1.1, -0.9, "match"), (-0.8, -0.6, "higher"), (-3, -2, "lower"), (math.nan,) * 2 + ("n/a",)],
)
def test_a_number_matches_when_its_interval_has_it(low, high, verdict):
    assert theory_table.against(Fit(-1.0, low, high), -1.0) == verdict


def test_intervals_take_four_seeds():
    assert math.isnan(theory_table.mean_interval([1.0, 2.0, 3.0]).low)
    assert theory_table.mean_interval([1.0, 2.0, 3.0]).exponent == 2
    assert math.isnan(theory_table.mean_interval([]).exponent)
    found = theory_table.mean_interval([1.0, 2.0, 3.0, 2.0])
    assert found.low < 1 < 3 < found.high


def theory_lines(change):
    """The lines of the committed results after a change of their values, by name and width."""
    results = pd.read_csv("reports/results/theory.csv")
    lines = theory_table.lines(theory_table.Results(change(results)), PARAMS)
    assert len({(line.quantity, line.width) for line in lines}) == len(lines)
    return {(line.quantity, line.width): line for line in lines}


def test_theory_lines_say_what_the_results_say():
    lines = theory_lines(lambda results: results)
    tail = lines["EWC: exponent of the stored share, t/M⁰ = 100 to 1000", 128]
    assert tail.low < -1 < tail.high
    assert (tail.verdict, tail.expected, tail.source) == ("match", "-1", "paper")
    assert lines["EWC: exponent of the stored share, t/M⁰ = 1 to 10", 128].verdict == "higher"
    assert lines["NORACL, ε → 0: t/M⁰ at which retention breaks", 32].verdict == "does not hold"
    assert lines["Growth: neurons a task, with fractions of neurons", 32].verdict == "match"
    assert lines["Growth: neurons a task, with whole neurons, Eq. 4", 32].verdict == "higher"


def test_theory_verdicts_follow_the_results():
    def never_and_open(results):
        broken = results["experiment"].isin(["break", "lifetime"]) & results["method"].str.startswith("noracl")
        results.loc[broken, "value"] = math.nan
        results.loc[results["experiment"] == "gate", "value"] = 1.0
        results.loc[(results["experiment"] == "theorem") & (results["quantity"] == "old"), "value"] = 0.5
        return results

    lines = theory_lines(never_and_open)
    assert lines["NORACL, ε → 0: t/M⁰ at which retention breaks", 32].verdict == "holds"
    assert lines["Gate: share of tasks that open it, p = 25, Fishers averaged", 64].verdict == "holds"
    assert lines["Theorem 1: relative change of old weights, ε = 1e-10", 32].verdict == "does not hold"
    lost = [line for (name, _), line in lines.items() if "until a pattern is lost" in name]
    assert {line.verdict for line in lost} == {"holds"}
    assert theory_table.cell(lost[0]) == "– ✓ (never)"


def record(growth=(), updates=(), silenced=(), tasks=3) -> Record:
    history = History([[0.6] * (t + 1) for t in range(tasks)], [(4, 4)] * tasks, growth=list(growth))
    return Record(tasks, history, None, {"total": 1.0}, machine(), Observation(list(updates), list(silenced)))


#: Neurons of task 2: new weights move 3 times as far as the 4 times as many old ones; task 2 is lost without them.
GROWN = record(
    [GrowthEvent(2, 1, 1, 1), GrowthEvent(2, 1, 2, 2)],
    [Update(2, 1, [1.0], [1.0], [16]), Update(2, 2, [4.0, 36.0], [4.0, 1.0], [16, 4])],
    [(2, [0.61, 0.1, 0.5])],
)


def summary(*records):
    rows = [row for seed, one in enumerate(records) for row in transfer.rows(seed, one)]
    results = pd.DataFrame(rows, columns=transfer.COLUMNS)
    return transfer_table.lines(results, PARAMS), results


def test_transfer_by_hand():
    lines, results = summary(GROWN, GROWN, GROWN, GROWN)
    found = {(line.quantity, line.x): line for line in lines}
    for name, value in (
        ("distance over an epoch, norm", 3.0),
        ("distance over an epoch, norm per weight", 6.0),
        ("steps, root mean square, norm", 0.5),
        ("steps, root mean square, norm per weight", 1.0),
    ):
        one = found[f"new over old: {name}", "0"]
        assert (one.mean, one.sd, one.count) == (pytest.approx(value), 0, 4)
        verdict = found[f"largest mean ratio: {name}", "epoch 0"].verdict
        assert verdict == ("holds" if value > 1 else "does not hold")
    assert found["change of accuracy on the task they grew in", ""].mean == pytest.approx(-50)
    assert found["change of accuracy on earlier tasks", ""].mean == pytest.approx(1)
    assert found["change of accuracy on earlier tasks", ""].verdict == "holds"
    assert found["change of accuracy on later tasks", ""].mean == pytest.approx(-10)
    assert found["lost on their own task, of what was above chance", ""].mean == pytest.approx(1)
    assert found["own task suffers more than the next by", ""].mean == pytest.approx(40)
    assert found["later tasks suffer more than earlier ones by", ""].mean == pytest.approx(11)
    assert ("the next task suffers more than those after it by", "") not in found, "there are none after it"
    assert found["change of accuracy at j − t", "-1"].mean == pytest.approx(1)
    text = transfer_table.to_markdown(lines, results, [machine()])
    assert "4 events in 4 runs" in text
    assert "| distance over an epoch, norm | 3.00 ± 0.00 |" in text


def test_a_statement_may_stay_undecided():
    flat = dataclasses.replace(GROWN, observation=dataclasses.replace(GROWN.observation, silenced=[(2, [0.6] * 3)]))
    lines, _ = summary(GROWN, GROWN, flat, flat)
    assert {line.quantity: line.verdict for line in lines}["own task suffers more than the next by"] == "undecided"
    lines, _ = summary(GROWN)
    assert {line.verdict for line in lines} == {"n/a"}, "one run has no interval"


def test_runs_without_growth_give_a_table_that_says_so(tmp_path, monkeypatch):
    lines, results = summary(record(updates=[Update(2, 1, [1.0], [1.0], [16])]))
    assert lines == []
    assert "No neuron grew" in transfer_table.to_markdown(lines, results, [machine()])
    late = record([GrowthEvent(3, 2, 1, 1)], [Update(3, 2, [1.0], [1.0], [16])], [(3, [0.6, 0.6, 0.5])])
    lines, results = summary(late)
    assert not [line for line in lines if "new over old" in line.quantity], (
        "growth at the very end has no epoch after it"
    )
    assert transfer_table.to_markdown(lines, results, [machine()])


def test_observed_runs_have_a_place_of_their_own_in_the_store(tmp_path):
    run = transfer.runs(PARAMS)[0]
    plain = dataclasses.replace(run, observed=False)
    longer = dataclasses.replace(run, stream=run.stream.model_copy(update={"tasks": run.tasks + 1}))
    assert len({run.key, plain.key, longer.key}) == 3
    long = record(GROWN.history.growth, GROWN.observation.updates, [(2, [0.5] * run.tasks)], tasks=run.tasks)
    store.save(run, long, tmp_path)
    assert store.find(run, tmp_path) == long
    assert store.find(plain, tmp_path) is None


def test_the_committed_transfer_runs_are_those_of_table_1():
    transferred = pd.read_csv("reports/results/transfer.csv")
    final = transferred[transferred["experiment"] == "final"].groupby("seed")["value"].mean()
    main = pd.read_csv("reports/results/permuted_mnist-noracl.csv")
    last = main[(main["layers"] == 2) & (main["task"] == main["task"].max())].set_index("seed")["accuracy"]
    same = machines_of("transfer") == machines_of("permuted_mnist-noracl")
    atol = 1e-6 if same else PARAMS.tolerances.golden_accuracy
    pd.testing.assert_series_equal(final, last, check_names=False, rtol=0, atol=atol)
