"""The reconstruction study on made-up records: what is run, what is near, what is chosen."""

import io
import math

import pandas as pd
import pytest

from noracl import History
from pipeline import study, study_table
from pipeline.params import ParamsError, load
from pipeline.runs import Record
from pipeline.study import Configuration, Study, chosen, distance, distances, factorial, one_at_a_time, ranking
from tests.test_params import changed, parse

PARAMS = load()
MACHINE = {"cpu": "c", "instructions": "i", "torch": "t", "python": "p"}
PAPER = pd.DataFrame(
    [("2L small", "b", 10, 2.0), ("2L large", "b", 20, 2.0), ("2L NORACL", "b", 15, 2.0)],
    columns=["row", "benchmark", "acc", "acc_sd"],
).assign(params=[1000, 2000, 1500], params_sd=[math.nan, math.nan, 100])


def rows(name, accuracies, params=1500, seeds=5):
    return [
        {
            "part": "finalist",
            "configuration": name,
            "benchmark": "b",
            "row": row,
            "seed": s,
            "accuracy": a,
            "params": params,
        }
        for row, a in zip(("2L small", "2L large", "2L NORACL"), accuracies, strict=True)
        for s in range(seeds)
    ]


def test_configurations_are_named_by_what_they_change():
    assert Configuration.of(PARAMS).name == "base"
    assert Configuration.of(PARAMS, inputs="standardised").departures == 0
    both = Configuration.of(PARAMS, inputs="raw", weights="he")
    assert (both.name, both.departures) == ("inputs: raw, weights: he", 2)
    applied = both.applied(PARAMS, [7])
    assert (applied.inputs.mean, applied.network.init, applied.seeds) == (0.0, "he", (7,))
    assert applied.fisher == PARAMS.fisher


def test_the_base_is_what_params_yaml_does():
    """So that the study's base is Table 1, run for run."""
    assert Configuration.of(PARAMS).applied(PARAMS, PARAMS.seeds) == PARAMS


def test_the_designs_hold_every_level():
    levels = PARAMS.reconstruction.choices
    assert len(one_at_a_time(PARAMS)) == 1 + sum(len(names) - 1 for names in levels.values())
    crossed = factorial(PARAMS)
    design = PARAMS.reconstruction.factorial.levels
    assert len({c.name for c in crossed}) == len(crossed) == math.prod(len(names) for names in design.values())


def test_distances_by_hand():
    """Deviation 2 on both sides and 5 seeds each: the standard error of a difference is 2·sqrt(2/5)."""
    cells = distances(pd.DataFrame(rows("base", (0.12, 0.20, 0.15), params=1600)), PAPER)
    error = 2 * math.sqrt(2 / 5)
    found = cells.set_index(["row", "quantity"])["errors"].to_dict()
    assert found == pytest.approx(
        {
            ("2L small", "acc"): 2 / error,
            ("2L large", "acc"): 0,
            ("2L NORACL", "acc"): 0,
            ("2L NORACL", "params"): 100 / (100 * math.sqrt(2 / 5)),
        }
    )
    assert cells.set_index(["row", "quantity"])["choosing"].to_dict()["2L NORACL", "acc"] == False  # noqa: E712
    assert distance(cells[cells["choosing"]]) == pytest.approx(2 / error / math.sqrt(2))
    assert math.isnan(distance(cells.iloc[:0]))


def test_only_whole_configurations_are_ranked_and_held_back_cells_do_not_count():
    frame = pd.DataFrame(
        rows("far", (0.30, 0.40, 0.15)) + rows("near", (0.11, 0.21, 0.90)) + rows("partial", (0.10, 0.20, 0.15))[:5]
    )
    assert list(ranking(frame, PAPER, ["b"]).index) == ["near", "far"]


def test_the_simplest_of_equals_is_chosen():
    base, other, both = (
        Configuration.of(PARAMS),
        Configuration.of(PARAMS, inputs="raw"),
        Configuration.of(PARAMS, inputs="raw", weights="he"),
    )

    def frame(*accuracies):
        found = pd.DataFrame([r for c, a in zip((base, other, both), accuracies, strict=True) for r in rows(c.name, a)])
        found["accuracy"] += (found["seed"] - 2) * 0.01  # the seeds' own spread
        return found

    near, close, far = (0.10, 0.20, 0.5), (0.105, 0.205, 0.5), (0.2, 0.3, 0.5)
    assert chosen(frame(close, near, near), PAPER, [base, other, both]) == base
    assert chosen(frame(far, close, near), PAPER, [base, other, both]) == other
    assert chosen(frame(far, far, near), PAPER, [base, other, both]) == both


def fake(monkeypatch, accuracy):
    """Every run ends at an accuracy that its settings decide; how often each was asked for is counted."""
    asked = []

    def run_all(runs, compute, title):
        asked.append((title, list(runs)))
        return [
            Record(1, History(accuracy=[[accuracy(run)]], parameters=[1000]), None, {"total": 1.0}, MACHINE)
            for run in runs
        ]

    monkeypatch.setattr(study, "run_all", run_all)
    return asked


def test_all_parts_lead_to_the_right_choice(monkeypatch, tmp_path, capsys):
    """A world in which the paper had drawn its weights as torch does: that is found, and nothing else."""
    paper = pd.read_csv("reports/paper/main.csv").set_index(["row", "benchmark"])["acc"]

    def accuracy(run):
        true = run.settings.init == "torch" and run.inputs.mean == 0.1307 and run.outputs == 10
        names = {(16, 16): "2L small", (32, 32): "2L medium", (64, 64): "2L large"}
        row = names.get(run.settings.hidden) if run.method != "NORACL" else None
        return (paper[row, run.benchmark] if row and true else 30.0) / 100

    asked = fake(monkeypatch, accuracy)
    found = Study(PARAMS)
    found.all_parts()
    assert "chosen: weights: torch" in capsys.readouterr().out
    parts = dict(asked)
    assert len(parts["reconstruction, finalist"]) <= 4 * 24 * 5
    different = {frozenset(r.key for r in found.screened(c, "permuted_mnist")[1]) for c in factorial(PARAMS)}
    assert len(different) > PARAMS.reconstruction.promoted, "or the limit was not tried"
    assert found.results("promoted")["configuration"].nunique() >= 1
    for module in (study, study_table):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    study.write(found)
    tables = {path.name: text for path, text in study_table.build(PARAMS).items()}
    csv = pd.read_csv(io.StringIO(tables["reconstruction.csv"]))
    assert len(csv) == len({c.name for c in (*one_at_a_time(PARAMS), *factorial(PARAMS))}), "all that was run is shown"
    best = csv.set_index("configuration").loc["weights: torch"]
    assert (best["distance_choosing"], best["part"], best["seeds"]) == (0, "finalist", 5)
    assert best["cells_choosing"] == 9
    assert "Open points" in tables["reconstruction.md"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("reconstruction.choices.inputs.raw", {"inputs.colour": 1}, "reconstruction.choices.inputs.raw: .*no key"),
        ("reconstruction.choices.inputs.raw", {"inputs.deviation": -1}, "reconstruction.choices.inputs.raw"),
        ("reconstruction.base.inputs", "odd", "choices.inputs has no level 'odd'"),
        ("reconstruction.one_at_a_time", ["odd"], "odd is not among choices"),
    ],
)
def test_a_wrong_level_is_named(key, value, message):
    with pytest.raises(ParamsError, match=message):
        parse(changed(key, value))
