"""Beyond the paper: the runs that each question asks for, and the ways in which they are computed."""

import copy
import dataclasses

import pandas as pd
import pytest
import yaml

from noracl import OptimisationSettings, Settings, learn
from noracl.analysis import controls
from noracl.analysis.upkeep import Dormancy
from noracl.method import bounds
from pipeline.config import ParamsError, load, parse
from pipeline.data.manifests import placeholder, read_manifest
from pipeline.evidence import choices
from pipeline.evidence.claims import load_claims
from pipeline.evidence.results import paper_numbers
from pipeline.experiments.beyond import QUESTIONS
from pipeline.experiments.suites import suites
from pipeline.experiments.train import result_columns, result_rows
from pipeline.paths import QUESTIONS_LIST
from pipeline.report.labels import benchmark_title, table_title
from pipeline.runs import canaries, ways
from pipeline.runs.groups import grouped
from pipeline.runs.records import Invalid, from_plain, to_plain
from pipeline.runs.run import compute, compute_together
from pipeline.sections import Beyond, BeyondStress, Strengths
from tests.conftest import ROOT, merge
from tests.helpers import toy_stream

STRENGTHS = {"L2 towards initialisation": 1e-3, "shrink and perturb": 0.8, "continual backpropagation": 1e-5}
PLAIN = {
    "strengths": {"seeds": [7], "network": "medium", "grid": {"si": [0.1, 0.3], "l2": [1.0]}},
    "regularisers": {"strengths": {"si": 0.1, "online_ewc": 300.0}},
    "bounds": {"networks": {"split_mnist": "large"}},
    "controls": {"benchmarks": ["split_mnist"], "init": ["qr", "he"]},
    "fashion": {"benchmarks": ["permuted_mnist", "rotated_mnist", "split_mnist"]},
}
STRESSED = {
    "oracle": {"seeds": [0], "networks": {"128×128": [128, 128]}},
    "upkeep_strengths": {"seeds": [7], "network": "75x32", "grid": {"shrink and perturb": [0.5]}},
    "upkeep": {"seeds": [0], "network": "75x32", "strengths": STRENGTHS},
}
ASKED = Beyond.model_validate(PLAIN, strict=False)
UNDER_STRESS = BeyondStress.model_validate(STRESSED, strict=False)
PARAMS = load().model_copy(update={"beyond": ASKED, "beyond_stress": UNDER_STRESS, "seeds": (0, 1)})
SUITES = {name: suite.runs() for name, suite in suites(PARAMS, placeholder).items() if name.startswith("beyond/")}
QUICK = Settings(hidden=(6, 5), optimisation=OptimisationSettings(32, epochs_first=2, epochs_later=2))


def test_every_question_has_a_suite():
    assert list(SUITES) == [f"beyond/{name}" for name in QUESTIONS]
    nothing = PARAMS.model_copy(update={"beyond": Beyond(), "beyond_stress": BeyondStress()})
    assert not [name for name in suites(nothing, placeholder) if name.startswith("beyond/")]


def test_strengths_are_chosen_on_images_that_nothing_trains_on():
    runs = SUITES["beyond/strengths"]
    assert [run.method for run in runs] == ["si 0.1", "si 0.3", "l2 1"]
    assert {run.how for run in runs} == {ways.VALIDATE}
    assert {(run.settings.hidden, run.settings.growth.trigger) for run in runs} == {((32, 32), "none")}
    stream = toy_stream(2)
    task, shown = stream.tasks[0], ways.held_out(stream).tasks[0]
    assert len(shown.x) + len(shown.x_test) == len(task.x)
    assert len(shown.x_test) == len(task.x) // 6
    assert shown.x_test.equal(task.x[len(shown.x) :])
    assert shown.y_test.equal(task.y[len(shown.y) :])


def test_all_networks_meet_every_regulariser():
    runs = SUITES["beyond/regularisers"]
    assert len(runs) == 3 * 3 * 4 * 2  # benchmarks, regularisers with none, networks, seeds
    si = next(run for run in runs if run.method == "si NORACL" and run.benchmark == "rotated_mnist")
    assert (si.settings.regulariser, si.settings.ewc.strength) == ("si", 0.1), "not the benchmark's own λ"
    assert si.settings.growth.trigger == "joint"
    assert {run.settings.growth.trigger for run in runs if "NORACL" not in run.method} == {"none"}


def test_bounds_are_those_of_the_library():
    runs = {run.method: run for run in SUITES["beyond/bounds"] if run.benchmark == "split_mnist" and run.seed == 0}
    assert {method: run.how for method, run in runs.items()} == {
        **{"naive": ways.LEARN, "joint": ways.JOINT, "one per task": ways.SEPARATE}
    }
    stream = toy_stream(3)
    for how, function in ((ways.JOINT, bounds.joint), (ways.SEPARATE, bounds.separate)):
        ((found, _),) = ways.outcomes([how], stream, [QUICK], 1)
        assert found.history == function(stream, QUICK, 1).history
    plain = dataclasses.replace(QUICK, regulariser="none", growth=dataclasses.replace(QUICK.growth, trigger="none"))
    assert learn(stream, plain, 1).history == bounds.naive(stream, QUICK, 1).history


def test_one_seed_of_controls_is_one_group():
    groups = grouped([run for run in SUITES["beyond/controls"] if run.seed == 0], 1)
    assert [len(group) for group in groups] == [5]
    keys = {run.key for run in SUITES["beyond/controls"]}
    assert len(keys) == len(SUITES["beyond/controls"]), "controls have the same settings, but are other runs"


def test_fashion_mnist_takes_the_place_of_mnist_and_all_else_is_the_same():
    runs, table = suites(PARAMS)["beyond/fashion"].runs(), suites(PARAMS)
    assert {run.data for run in runs} == {read_manifest("fashion_mnist")}
    for name in ("permuted_mnist", "rotated_mnist", "split_mnist"):
        same = [*table[f"main/{name}-static"].runs(), *table[f"main/{name}-noracl"].runs()]
        expected = {(run.method, run.seed, run.stream, run.outputs, run.settings) for run in same if run.layers == 2}
        own = [run for run in runs if run.benchmark == f"fashion_{name}"]
        assert {(run.method, run.seed, run.stream, run.outputs, run.settings) for run in own} == expected
        assert len(own) == len(expected) == 4 * 2, "networks, seeds"
        assert not {run.key for run in own} & {run.key for run in same}


def test_fashion_mnist_is_called_so_in_tables():
    titles = [
        benchmark_title(name, PARAMS) for name in dict.fromkeys(run.benchmark for run in SUITES["beyond/fashion"])
    ]
    assert titles == ["Permuted Fashion-MNIST", "Rotated Fashion-MNIST", "Binary Split Fashion-MNIST"]
    assert table_title("fashion") == ("Fashion-MNIST in the streams of Table 1", "not in the paper")


def test_fashion_mnist_is_judged_as_mnist_is():
    """By the same statistic of the same cells in the same range, which for accuracies is the paper's, rounded."""
    claims = {name: part for one in load_claims() for name, part in one.parts.items()}
    asked = {name: part for one in load_claims(QUESTIONS_LIST) for name, part in one.parts.items()}
    asked = {name.removeprefix("fashion-"): part for name, part in asked.items() if name.startswith("fashion-")}
    twins = {name: claims.get(name) or claims[f"{name}-2l"] for name in asked}
    assert len(twins) == 6 + 3 + 3
    assert {name for name in claims if name.startswith("geometry-")} < set(twins)
    for name, twin in twins.items():
        assert asked[name].statistic == twin.statistic
        cells = [("beyond", f"fashion_{benchmark}", row.removeprefix("2L ")) for _, benchmark, row in twin.keys]
        assert asked[name].keys == cells
        own, other = (part.range(paper_numbers(), PARAMS.tolerances) for part in (asked[name], twin))
        assert own == dataclasses.replace(other, low=round(other.low, 2)), name


def small(run, images=300):
    """A run of real MNIST that takes a second."""
    by = dataclasses.replace(run.settings.optimisation, epochs_first=1, epochs_later=2)
    real = next(one for one in suites(load())["main/split_mnist-noracl"].runs())
    data = real.data.model_copy(update={"limit": images})
    return dataclasses.replace(run, data=data, settings=dataclasses.replace(run.settings, optimisation=by))


@pytest.mark.parametrize("method", ["joint", "one per task"])
def test_records_of_bounds_are_what_such_a_run_can_leave(method):
    run = small(next(run for run in SUITES["beyond/bounds"] if run.benchmark == "split_mnist" and run.method == method))
    record = compute(run)
    assert from_plain(to_plain(record), run).history == record.history
    other = dataclasses.replace(run, how=ways.SEPARATE if run.how == ways.JOINT else ways.LEARN)
    if method == "one per task":
        with pytest.raises(Invalid, match="widths"):
            from_plain(to_plain(record), other)


def test_records_of_controls_are_what_such_a_run_can_leave():
    runs = [small(run, 600) for run in SUITES["beyond/controls"] if run.seed == 0]
    for run, record in zip(runs, compute_together(runs), strict=True):
        assert from_plain(to_plain(record), run).history == record.history, run.method


def test_ways_to_stay_plastic_are_compared_on_the_long_stream():
    runs = {run.method: run for run in SUITES["beyond/upkeep"]}
    assert list(runs) == ["75×32", "NORACL", *STRENGTHS]
    assert {run.tasks for run in runs.values()} == {100}
    assert runs["NORACL"].settings.growth.trigger == "joint"
    assert {run.settings.hidden for name, run in runs.items() if name != "NORACL"} == {(75, 32)}
    assert ways.kept_up(runs["continual backpropagation"].how) == ("continual backpropagation", 1e-5)
    (tried,) = SUITES["beyond/upkeep_strengths"]
    assert (tried.tasks, tried.how) == (10, "validated upkeep: shrink and perturb 0.5")
    assert len({run.key for run in (*runs.values(), tried)}) == 6
    assert {run.how for run in (*runs.values(), tried)} & {canaries.route_of(run).how for run in runs.values()} == set()


def test_records_of_ways_to_stay_plastic_count_dormant_neurons():
    run = small(next(run for run in SUITES["beyond/upkeep"] if run.method == "NORACL"))
    run = dataclasses.replace(run, stream=run.stream.model_copy(update={"tasks": 2}))
    record = compute(run)
    assert from_plain(to_plain(record), run) == record
    rows = result_rows(run, record, 2)
    assert [row["dormant_1"] for row in rows] == [f"{one[0]:.6f}" for one in record.observation.shares]
    assert list(rows[0]) == result_columns(2, dormant=True)
    plain = dataclasses.replace(run, how=ways.LEARN)
    assert compute(plain).history == record.history
    for wrong in ([], [(0.5, 0.5)], [(0.5, 0.5), (0.5, 2.0)]):
        with pytest.raises(Invalid, match="observation"):
            from_plain(to_plain(dataclasses.replace(record, observation=Dormancy(wrong))), run)
    with pytest.raises(Invalid, match="observation"):
        from_plain(to_plain(record), plain)


def test_if_noracl_fails_every_control_of_it_says_so(monkeypatch):
    def fail(*given):
        raise ArithmeticError("of NORACL")

    monkeypatch.setattr(controls, "learn_controls", fail)
    found = ways.outcomes([f"{ways.CONTROL}init he", f"{ways.CONTROL}init qr"], toy_stream(), [QUICK, QUICK], 0)
    assert [str(one) for one, _ in found] == ["of NORACL"] * 2


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("beyond_stress.upkeep.network must be one of 32x32", {"beyond_stress": {"upkeep": {"network": "9x9"}}}),
        ("beyond.strengths.network must be one of small", {"beyond": {"strengths": {"network": "huge"}}}),
        ("beyond.bounds.networks must be one of perm", {"beyond": {"bounds": {"networks": {"nowhere": "large"}}}}),
        (
            "beyond.bounds.networks.split_mnist must be one of small",
            {"beyond": {"bounds": {"networks": {"split_mnist": "huge"}}}},
        ),
        ("beyond.controls.benchmarks must be one of permuted", {"beyond": {"controls": {"benchmarks": ["nowhere"]}}}),
        ("unknown hope", {"beyond_stress": {"upkeep": {"strengths": {"hope": 1.0}}}}),
    ],
)
def test_what_is_asked_for_must_exist(words, changes):
    def text(*changed):
        content = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
        content |= {"beyond": copy.deepcopy(PLAIN), "beyond_stress": copy.deepcopy(STRESSED)}
        for one in changed:
            for part in one:
                merge(content[part], one[part])
        return yaml.safe_dump(content, sort_keys=False)

    parse(text())
    with pytest.raises(ParamsError, match=words):
        parse(text(changes))


def test_strengths_are_those_that_the_rule_has_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "RESULTS", tmp_path)
    assert choices.problems(PARAMS) == [], "nothing is computed"
    rows = [f"permuted_mnist,{method},2,7,{task},{accuracy}" for method, accuracy, task in (
        *(("si 0.1", 0.9, 1), ("si 0.1", 0.5, 2), ("si 0.3", 0.8, 1), ("si 0.3", 0.6, 2), ("si 1", 0.6, 2)),
        *(("si 3", 0.1, 2), ("l2 1", 0.7, 2)),
    )]  # fmt: skip
    (tmp_path / "beyond/strengths").mkdir(parents=True)
    (tmp_path / "beyond/strengths/runs.csv").write_text(
        "\n".join(["benchmark,method,layers,seed,task,accuracy", *rows]), encoding="utf-8"
    )
    grid = Strengths.model_validate(
        {**PLAIN["strengths"], "grid": {"si": [3.0, 0.1, 1.0, 0.3], "l2": [1.0]}}, strict=False
    )
    params = PARAMS.model_copy(update={"beyond": ASKED.model_copy(update={"strengths": grid})})
    wider = grid.model_copy(update={"grid": grid.grid | {"l2": (1.0, 2.0)}})
    more = PARAMS.model_copy(update={"beyond": ASKED.model_copy(update={"strengths": wider})})
    assert choices.problems(more) == ["beyond.strengths: l2 2 is not computed: run `dvc repro beyond@strengths`"]
    assert choices.chosen("strengths", grid.grid) == {"si": 0.3, "l2": 1.0}, "after the last task; the smaller if equal"
    assert choices.problems(params) == [
        "beyond.regularisers.strengths.si is 0.1, but beyond.strengths has chosen 0.3",
        "beyond.strengths.grid.l2: 1 is best and an end of the grid: add two more values",
        "beyond.regularisers.strengths.l2 is None, but beyond.strengths has chosen 1",
    ]


def test_a_strength_that_does_nothing_is_not_chosen():
    off, little, much, other = (pd.DataFrame(rows) for rows in ([[1, 0.9]], [[1, 0.8]], [[1, 0.6]], [[0.7, 0.8]]))
    assert choices.best({1e-8: off, 1e-7: off.copy(), 1e-6: little, 1e-5: much}) == 1e-6
    assert choices.best({1e-7: off, 1e-6: little, 1e-5: much}) == 1e-7, "nobody knows that it does nothing"
    assert choices.best({1e-6: much, 1e-5: other, 1e-4: little}) == 1e-5, "equal in the end, but not all along"


def test_questions_ask_for_runs_that_params_can_ask_for():
    every = {f"beyond/{run.benchmark}/{run.method}" for runs in SUITES.values() for run in runs}
    asked = {"/".join(key) for one in load_claims(QUESTIONS_LIST) for part in one.parts.values() for key in part.keys}
    known = {name.rsplit("/", 1)[1] for name in every}
    wanted = {key.rsplit("/", 1)[1] for key in asked if key.startswith("beyond/")}
    unknown = {
        name for name in wanted - known if name.split()[0] not in ("mas", "l2", "si", "online_ewc", "none", "init")
    }
    assert unknown == {"256×256", "512×512"}, "which are not in the small version above"
