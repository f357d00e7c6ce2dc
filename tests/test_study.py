"""The reconstruction study on made-up records: what is run, what is near, what is promoted, what is chosen."""

import csv
import io
import math
import re
import statistics
from collections import defaultdict
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import yaml

from noracl import History
from pipeline import study, study_table, tables
from pipeline.params import ParamsError, load
from pipeline.runs import Record
from pipeline.study import FINALISTS, SCREENED, SCREENS, read
from pipeline.study_design import (
    BENCHMARKS,
    Configuration,
    factorial,
    known,
    one_at_a_time,
    open_runs,
    paper_table,
    screened,
    stated,
)
from pipeline.study_rule import distance, distances, equals, finalists, jackknife, promoted, ranking
from tests.test_params import DATA, changed, parse

PARAMS = load()
MACHINE = {"cpu": "c", "instructions": "i", "torch": "t", "python": "p"}
PAPER = pd.DataFrame(
    [("2L small", "b", 10, 2.0), ("2L large", "b", 20, 2.0), ("2L NORACL", "b", 15, 2.0)],
    columns=["row", "benchmark", "acc", "acc_sd"],
).assign(params=[1000, 2000, 1500], params_sd=[math.nan, math.nan, 100])
ACCURACIES = paper_table().set_index(["row", "benchmark"])["acc"].to_dict()
NAMES = {(16, 16): "2L small", (32, 32): "2L medium", (64, 64): "2L large"}


def rows(name, accuracies, params=1500, seeds=5):
    return [
        {"configuration": name, "benchmark": "b", "row": row, "seed": s, "accuracy": a, "params": params}
        for row, a in zip(("2L small", "2L large", "2L NORACL"), accuracies, strict=True)
        for s in range(seeds)
    ]


# The design


def test_configurations_are_named_by_what_they_change():
    assert Configuration.of(PARAMS).name == "base"
    assert Configuration.of(PARAMS, inputs="standardised").departures == 0
    both = Configuration.of(PARAMS, inputs="raw", weights="he")
    assert (both.name, both.departures) == ("inputs: raw, weights: he", 2)
    applied = both.applied(PARAMS, [7])
    assert (applied.inputs.mean, applied.network.init, applied.seeds) == (0.0, "he", (7,))
    assert applied.fisher == Configuration.of(PARAMS).applied(PARAMS, [7]).fisher


def test_params_yaml_does_what_the_study_chose():
    """So that Table 1 is the chosen configuration's, run for run."""
    table = pd.read_csv("reports/tables/reconstruction.csv")
    (chosen,) = table.loc[table["decision"] == "chosen", "configuration"]
    assert known(PARAMS)[chosen].applied(PARAMS, PARAMS.seeds) == PARAMS


def test_cells_that_choose_are_marked_in_the_tables():
    marked = pd.read_csv("reports/paper/selected_on.csv").query("table == 'main'")
    cells = distances(read(FINALISTS), paper_table()).query("choosing")
    assert set(zip(cells["row"], cells["benchmark"], strict=True)) <= set(
        zip(marked["row"], marked["benchmark"], strict=True)
    )


def test_what_the_paper_states_and_what_is_varied_is_not_read_from_params_yaml():
    """So that trying another γ, or adopting what was chosen, leaves the study's runs as they are."""
    others = {"noracl.gamma": 0.5, "ewc.decay": 0.5, "benchmarks.split_mnist.strength": 1.0, "network.init": "he"}
    others |= {key: value for levels in PARAMS.reconstruction.choices.values() for key, value in last(levels).items()}
    assert "benchmarks.split_mnist.outputs" in others
    configuration = Configuration.of(PARAMS, weights="lecun")
    for benchmark in BENCHMARKS:
        keys = [[run.key for run in screened(p, configuration, benchmark)] for p in (PARAMS, PARAMS.changed(others))]
        assert keys[0] == keys[1]


def leaves(section, name):
    """Every value under a section of params.yaml, by key."""
    if not isinstance(section, dict):
        return {name}
    return {leaf for key, value in section.items() for leaf in leaves(value, f"{name}.{key}")}


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("stage", ["screen", "finalists"])
def test_stages_track_what_decides_a_run_and_nothing_that_the_study_sets_itself(stage, benchmark):
    """Or a change would go unnoticed, or adopting what was chosen would make the study stale."""
    entry = yaml.safe_load(Path("dvc.yaml").read_text())["stages"][stage]
    item = entry["foreach"][benchmark]
    tracked = [key.replace("${key}", benchmark) for key in entry["do"]["params"]]
    tracked = [key.replace("${item[0]}", item[0]).replace("${item[1]}", item[1]) for key in tracked]
    ours = {key for levels in PARAMS.reconstruction.choices.values() for level in levels.values() for key in level}
    ours |= set(stated())
    sections = ["inputs", "network", "optimisation", "fisher", "ewc", "static", "noracl", "data"]
    read = {leaf for section in sections for leaf in leaves(DATA[section], section)} - {"data.mirrors"}
    read |= leaves(DATA["benchmarks"][benchmark], f"benchmarks.{benchmark}")
    seen = {leaf for leaf in read for key in tracked if leaf == key or leaf.startswith(f"{key}.")}
    assert read - seen - ours == set()
    assert seen & ours == set()


def last(levels):
    return list(levels.values())[-1]


def test_the_designs_hold_every_level():
    levels = PARAMS.reconstruction.choices
    assert len(one_at_a_time(PARAMS)) == 1 + sum(len(names) - 1 for names in levels.values())
    crossed = factorial(PARAMS)
    design = PARAMS.reconstruction.factorial.levels
    assert len({c.name for c in crossed}) == len(crossed) == math.prod(len(names) for names in design.values())
    assert list(dict.fromkeys(paper_table()["benchmark"])) == list(BENCHMARKS)


def test_there_is_a_sentence_for_every_level():
    sentences = yaml.safe_load(Path("reports/sentences.yaml").read_text())
    assert {c: list(s) for c, s in sentences.items()} == {
        c: list(levels) for c, levels in PARAMS.reconstruction.choices.items()
    }
    told = [sentence for levels in sentences.values() for sentence in levels.values()]
    assert len(set(told)) == len(told)


def test_what_cannot_be_run_is_named():
    few = PARAMS.changed({"data.limit": 300})
    with pytest.raises(ParamsError, match=r"'validation: 10000 images' of `reconstruction`(.|\n)*held_out must leave"):
        Configuration.of(few, validation="10000 images").applied(few, [0])
    without = PARAMS.changed({"ablations.trigger": ["ed"]})
    with pytest.raises(ParamsError, match="asks for 'trigger loss', which ablations lacks"):
        open_runs(without, "loss", PARAMS.reconstruction.open_points["loss, window 3"])


# The rule


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
    assert distance(cells[cells["choosing"]]).to_dict() == pytest.approx({"base": 2 / error / math.sqrt(2)})


def test_only_whole_configurations_are_ranked_and_held_back_cells_do_not_count():
    frame = pd.DataFrame(
        rows("far", (0.30, 0.40, 0.15)) + rows("near", (0.11, 0.21, 0.90)) + rows("partial", (0.10, 0.20, 0.15))[:5]
    )
    assert list(ranking(frame, PAPER, ["b"]).index) == ["near", "far"]


def test_a_configuration_with_a_run_that_diverged_is_not_ranked():
    frame = pd.DataFrame(rows("far", (0.30, 0.40, 0.15)) + rows("wild", (0.10, 0.20, 0.15)))
    frame.loc[(frame["configuration"] == "wild") & (frame["row"] == "2L small") & (frame["seed"] == 3), "accuracy"] = (
        None
    )
    assert list(ranking(frame, PAPER, ["b"]).index) == ["far"]
    assert math.isnan(distance(distances(frame, PAPER))["wild"]), "not the distance of what is left"


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = [1.0, 2.0, 4.0, 8.0]
    without = [statistics.mean(values[:i] + values[i + 1 :]) for i in range(4)]
    assert jackknife(without) == pytest.approx(statistics.stdev(values) / 2)
    assert math.isnan(jackknife([]))


def three(*accuracies, spread=0.01, seeds=5):
    """Results of the base, of one departure and of two."""
    configurations = [
        Configuration.of(PARAMS),
        Configuration.of(PARAMS, inputs="raw"),
        Configuration.of(PARAMS, inputs="raw", weights="he"),
    ]
    pairs = zip(configurations, accuracies, strict=True)
    found = pd.DataFrame([r for c, a in pairs for r in rows(c.name, a, seeds=seeds)])
    found["accuracy"] += (found["seed"] - (seeds - 1) / 2) * spread
    return [one.name for one in equals(found, PAPER, configurations)]


def test_the_simplest_of_equals_is_chosen():
    near, close, far = (0.10, 0.20, 0.5), (0.105, 0.205, 0.5), (0.2, 0.3, 0.5)
    assert three(close, near, near) == ["base", "inputs: raw", "inputs: raw, weights: he"]
    assert three(far, close, near) == ["inputs: raw", "inputs: raw, weights: he"]
    assert three(far, far, near) == ["inputs: raw, weights: he"]


def test_what_is_equal_hangs_on_the_seeds():
    near, close = (0.10, 0.20, 0.5), (0.105, 0.205, 0.5)
    assert three(close, near, near, spread=1e-4) == ["inputs: raw", "inputs: raw, weights: he"]
    assert three(close, near, near, spread=1e-4, seeds=1)[0] == "base", "one seed decides nothing"


def test_held_back_cells_do_not_choose():
    near, spoilt, far = (0.10, 0.20, 0.5), (0.10, 0.20, 0.99), (0.2, 0.3, 0.15)
    assert three(far, near, far) == three(far, spoilt, far) == ["inputs: raw"]


def screen_of(benchmarks, accuracies):
    """Results of a screen: so many points off everywhere, by configuration."""
    table = paper_table()
    choosing = table[table["benchmark"].isin(benchmarks) & table["row"].isin(NAMES.values())]
    return pd.DataFrame(
        {"configuration": name, "benchmark": cell.benchmark, "row": cell.row, "seed": seed, "params": 1}
        | {"accuracy": (cell.acc + off) / 100}
        for name, off in accuracies.items()
        for cell in choosing.itertuples()
        for seed in (0, 1)
    )


def test_the_nearest_are_promoted_as_long_as_they_ask_for_few_different_runs():
    """What differs on Binary Split MNIST alone asks for nothing new elsewhere, and so does what was asked for."""
    order = ["digits: order drawn", "base", "inputs: raw", "inputs: raw, digits: order drawn", "outputs: two"]
    order += ["weights: torch", "averages: both from zero", "inputs: raw, digits: pairs drawn"]
    params = PARAMS.changed({"reconstruction.promoted": 3})
    results = screen_of(["split_mnist"], {name: i for i, name in enumerate(order)}).sample(frac=1, random_state=0)
    assert [one.name for one in promoted(params, results, paper_table())] == order[:6]
    assert [one.name for one in promoted(PARAMS, results, paper_table())] == order


def test_finalists_differ_in_what_chooses():
    """The start of τ is nothing to static networks: to run it as a finalist would be to run the base twice."""
    order = ["averages: τ from zero", "inputs: raw", "base", "weights: he", "clipping: none"]
    results = screen_of(BENCHMARKS, {name: i for i, name in enumerate(order)})
    found = [one.name for one in finalists(PARAMS, results, paper_table())]
    assert found == ["base", "inputs: raw", "weights: he"]


# All of it, in a world where the answer is known


def world(run):
    """The paper had drawn its weights as torch does; raw inputs, other Fishers and no clipping spoil things."""
    row = NAMES.get(run.settings.hidden) if run.method != "NORACL" else None
    if run.settings.optimisation.clip is None and run.benchmark == "rotated_mnist":
        return None
    off = {"torch": 0, "glorot": 2, "he": 3, "lecun": 3}[run.settings.init]
    off += 30 * (run.inputs.mean == 0) + 10 * (run.settings.fisher.estimator != "per_sample")
    return (ACCURACIES.get((row, run.benchmark), 70.0) + off + 0.2 * (run.seed - 2)) / 100


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The whole study, part after part, with made-up records; what was computed in each part."""
    folder, computed = tmp_path_factory.mktemp("study"), {}

    def run_all(runs, compute, title, diverging):
        computed[title.removeprefix("reconstruction, ")] = runs
        assert diverging
        assert len({run.key for run in runs}) == len(runs), "computed twice"
        ends = [world(run) for run in runs]
        histories = [None if end is None else History(accuracy=[[end]], parameters=[40000]) for end in ends]
        return [Record(1, history, None, {"total": 1.0, "cpu": 1.0}, MACHINE) for history in histories]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "run_all", run_all)
        for module in (study, tables):
            patch.setattr(module, "RESULTS", folder)
        patch.setattr(study, "TIMING", folder / "timing")
        for part, plan in study.parts(PARAMS).items():
            study.compute(PARAMS, part, plan())
        yield folder, computed
        files.cache_clear()


@cache
def files():
    return {path.name: text for path, text in study_table.build(PARAMS).items()}


def table(name="reconstruction.csv"):
    """A file of the finished study's table."""
    text = files()[name]
    return text if name.endswith("md") else pd.read_csv(io.StringIO(text))


def runs_by_hand(folder, part):
    with (folder / f"reconstruction-{part}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_right_choice_is_found(finished):
    shown = table()
    final = shown[shown["part"] == "finalist"].set_index("configuration")
    assert final.index[0] == "base"
    assert len(final) == 1 + PARAMS.reconstruction.finalists
    assert final["decision"].value_counts()["chosen"] == 1
    best = final.loc["weights: torch"]
    assert (best["decision"], best["seeds"], best["cells_choosing"]) == ("chosen", 5, 9)
    assert best["cells_held_back"] == 3 * (3 + 2 * 2), "one-layer networks, and NORACL's accuracies and parameters"
    assert best["distance_choosing"] == pytest.approx(0, abs=1e-6)
    assert "Chosen, by the choosing half alone: **weights: torch**, at a distance of 0.0" in table("reconstruction.md")


def test_parts_share_what_they_can(finished):
    folder, computed = finished
    assert len(computed) == 11
    for benchmark, different in zip(BENCHMARKS, (17, 17, 22), strict=True):
        runs = computed[f"screen-{benchmark}"]
        assert len({(run.settings, run.stream, run.outputs, run.inputs, run.held_out) for run in runs}) >= different
        static = [run for run in runs if run.method != "NORACL"]
        assert len(static) == (different - 1) * 3 * 2, "the start of τ is nothing to a static network"
        assert len(runs_by_hand(folder, f"screen-{benchmark}")) == len(one_at_a_time(PARAMS)) * 4 * 2
    assert len(computed["factorial-1"]) + len(computed["factorial-2"]) == len(factorial(PARAMS)) * 4 * 2
    assert all(run.benchmark != "split_mnist" for run in computed["promoted"])
    assert {run.seed for run in computed["finalists-rotated_mnist"]} == set(PARAMS.seeds)
    timing = pd.read_csv(folder / "timing/reconstruction-screen-rotated_mnist.csv")
    assert len(timing) == len(computed["screen-rotated_mnist"]) - 4 * 2, "what diverged took no time worth telling"


def test_every_configuration_that_was_run_is_in_the_table(finished):
    folder, _ = finished
    shown = table()
    assert shown.groupby("part", sort=False)["configuration"].nunique().to_dict() == {
        "screen": len(known(PARAMS)),
        "finalist": 1 + PARAMS.reconstruction.finalists,
    }
    for part, names in (("screen", SCREENED), ("finalist", FINALISTS)):
        run = {row["configuration"] for name in names for row in runs_by_hand(folder, name)}
        assert set(shown.loc[shown["part"] == part, "configuration"]) == run
    points = {row["configuration"] for part in study.OPEN_POINTS for row in runs_by_hand(folder, part)}
    assert set(table("reconstruction-open.csv")["reading"]) == points == set(PARAMS.reconstruction.open_points)
    assert f"{len(known(PARAMS))} configurations were run" in table("reconstruction.md")


def slow_distance(runs, choosing):
    """The distance over a list of CSV rows, and over how many cells, without pandas."""
    with Path("reports/paper/main.csv").open(newline="") as file:
        paper = {(row["benchmark"], row["row"]): row for row in csv.DictReader(file)}
    cells, squares = defaultdict(list), []
    for run in runs:
        cells[run["benchmark"], f"{run['layers']}L {run['method']}"].append(run)
    for (benchmark, row), cell in cells.items():
        if choosing != (row in NAMES.values()):
            continue
        error = math.sqrt(1 / len(cell) + 1 / 5)
        quantities = [("acc", "accuracy", 100), *([("params", "params", 1)] if "NORACL" in row else [])]
        for name, column, unit in quantities:
            theirs, deviation = (float(paper[benchmark, row][column]) for column in (name, f"{name}_sd"))
            ours = statistics.mean(unit * float(run[column]) for run in cell)
            squares.append(((ours - theirs) / deviation / error) ** 2)
    return math.sqrt(statistics.mean(squares)), len(squares)


@pytest.mark.parametrize(
    ("part", "names", "name"),
    [
        ("screen", SCREENS, "base"),
        ("screen", SCREENS, "inputs: raw"),
        ("screen", SCREENED[3:5], "inputs: raw, weights: torch, digits: order drawn"),
        ("finalist", FINALISTS, "base"),
        ("finalist", FINALISTS, "weights: torch"),
    ],
)
def test_the_tables_distances_by_a_slow_formula(finished, part, names, name):
    folder, _ = finished
    runs = [row for one in names for row in runs_by_hand(folder, one) if row["configuration"] == name]
    shown = table()
    shown = shown[(shown["part"] == part) & (shown["configuration"] == name)].iloc[0]
    seeds = {row["seed"] for row in runs}
    for half, choosing in (("choosing", True), ("held_back", False)):
        expected, cells = slow_distance(runs, choosing)
        assert shown[f"distance_{half}"] == pytest.approx(expected, abs=1e-5, rel=1e-5)
        assert shown[f"cells_{half}"] == cells
        without = [slow_distance([row for row in runs if row["seed"] != seed], choosing)[0] for seed in seeds]
        spread = statistics.pvariance(without) * (len(seeds) - 1)
        assert shown[f"error_{half}"] == pytest.approx(math.sqrt(spread), abs=1e-5, rel=1e-4)
    first = next(row for row in runs if row["seed"] == "0" and row["method"] == "small")
    column = f"{first['benchmark']} {first['layers']}L small accuracy"
    alike = [float(r["accuracy"]) for r in runs if all(r[k] == first[k] for k in ("benchmark", "method", "layers"))]
    assert shown[column] == pytest.approx(100 * statistics.mean(alike), rel=1e-5)


def test_effects_of_the_factorial_by_hand(finished):
    folder, _ = finished
    effects = table("reconstruction-effects.csv").set_index(["choice", "level"])
    levels = PARAMS.reconstruction.factorial.levels
    assert list(effects.index) == [(choice, level) for choice in levels for level in levels[choice]]
    combinations = factorial(PARAMS)
    runs = [row for part in study.FACTORIAL for row in runs_by_hand(folder, part) if row["method"] == "small"]
    of = {
        one.name: statistics.mean(100 * float(r["accuracy"]) for r in runs if r["configuration"] == one.name)
        for one in combinations
    }
    means = {}
    for level in levels["inputs"]:
        means[level] = statistics.mean(of[one.name] for one in combinations if dict(one.levels)["inputs"] == level)
        assert effects.loc[("inputs", level), "split_mnist 2L small accuracy"] == pytest.approx(means[level], rel=1e-5)
    share = statistics.pvariance(means.values()) / statistics.pvariance(of.values())
    assert effects.loc[("inputs", "raw"), "share of split_mnist 2L small accuracy"] == pytest.approx(share, rel=1e-4)
    shares = effects.groupby("choice").first().filter(like="share of split_mnist 2L small accuracy").sum().item()
    assert shares == pytest.approx(1, rel=1e-4), "this world is additive"
    assert f"| *share of inputs* | {100 * share:.0f} % |" in table("reconstruction.md")


def test_finalists_are_shown_beside_the_paper_cell_by_cell(finished):
    folder, _ = finished
    runs = [r for r in runs_by_hand(folder, "finalists-rotated_mnist") if r["method"] == "large" and r["layers"] == "2"]
    cells = []
    for name in table().query("part == 'finalist'")["configuration"]:
        found = [100 * float(run["accuracy"]) for run in runs if run["configuration"] == name]
        cells.append(f"{statistics.mean(found):.1f} ± {statistics.stdev(found):.1f}")
    assert f"| Rotated MNIST, 2L large, accuracy % | 75.2 ± 0.8 | {' | '.join(cells)} |" in table("reconstruction.md")
    assert "| Binary Split MNIST, 1L NORACL, params | 23.8k ± 2.2 | 40.0k | 40.0k | 40.0k |" in table(
        "reconstruction.md"
    )


def test_what_seeds_alone_do(finished):
    folder, _ = finished
    alone = table("reconstruction-seeds.csv").set_index("seeds")
    assert len(alone) == math.comb(5, 2)
    base = [row for part in FINALISTS for row in runs_by_hand(folder, part) if row["configuration"] == "base"]
    some = [row for row in base if row["layers"] == "2" and row["seed"] in "13"]
    for half, choosing in (("choosing", True), ("held_back", False)):
        assert alone.loc["1 3", f"distance_{half}"] == pytest.approx(slow_distance(some, choosing)[0], rel=1e-5)
    assert "the base itself comes out at distances" in table("reconstruction.md")
    screened = table().query("part == 'screen' and configuration == 'base'")
    assert alone.loc["0 1", "distance_choosing"] == pytest.approx(screened["distance_choosing"].item(), rel=1e-5)


def test_open_points_by_hand(finished):
    """Fixed growth's size is given, so that the paper has no deviation of it, and there is no distance."""
    points = table("reconstruction-open.csv").set_index("reading")
    fixed, loss = points.loc["fixed, no penalty"], points.loc["loss, window 3"]
    assert (fixed["params"], fixed["paper_params"]) == (40000, 75600)
    assert math.isnan(fixed["errors_params"])
    assert fixed["acc"] == pytest.approx(56.5 + 2 + 0.2 * -1.5), "made up from its width"
    assert fixed["errors_acc"] == pytest.approx((fixed["acc"] - 53.8) / (0.6 * math.sqrt(1 / 2 + 1 / 5)), rel=1e-4)
    assert loss["errors_params"] == pytest.approx((40000 - 42200) / (1500 * math.sqrt(1 / 2 + 1 / 5)), rel=1e-4)
    with open("reports/tables/ablations.csv", newline="") as file:
        rows = {(row["row"], row["benchmark"]): row for row in csv.DictReader(file)}
    assert loss["usual_acc"] == float(rows["trigger loss", "permuted_mnist"]["acc_mean"])
    line = next(line for line in table("reconstruction.md").splitlines() if line.startswith("| fixed, no penalty"))
    assert " | 40.0k | – | " in line
    assert "nan" not in table("reconstruction.md")


def test_choices_that_do_no_more_than_seeds_are_told(finished):
    """This world knows nothing of digits, averages and the like; He's weights it does."""
    line = next(line for line in table("reconstruction.md").splitlines() if line.startswith("- Each of these, "))
    told = set(re.findall("“(.*?)”", line))
    single = {one.name for one in one_at_a_time(PARAMS)}
    matter = {"base", "weights: he", "weights: lecun", "weights: torch", "inputs: raw", "clipping: none"}
    matter |= {name for name in single if name.startswith("fisher: batch gradient")}
    assert told == single - matter


def test_what_diverged_is_told_and_neither_ranked_nor_shown_as_near(finished):
    shown = table().query("part == 'screen'").set_index("configuration").loc["clipping: none"]
    assert shown["diverged"] == 4 * 2
    assert pd.isna(shown["decision"]), "neither promoted nor a finalist"
    assert math.isnan(shown["distance_choosing"])
    assert shown["distance_choosing split_mnist"] > 0
    text = table("reconstruction.md")
    assert "Training diverged, so that there is no distance, with “clipping: none”." in text
    assert "| clipping: none | diverged | diverged |" in text


def test_the_sentences_are_those_of_the_choices_that_move_most(finished):
    shown = table()
    ordered = study_table.moves(PARAMS, shown)
    screened = shown.query("part == 'screen'").set_index("configuration")["distance_all"]
    levels = ["base", "inputs: raw", "inputs: from -1 to 1"]
    inputs = ordered.set_index("choice").loc["inputs"]
    assert inputs["moves"] == pytest.approx(max(screened[levels]) - min(screened[levels]))
    assert ordered["choice"].tolist()[:3] == ["inputs", "fisher", "weights"]
    text = table("reconstruction.md")
    assert "1. “Pixels are divided by 255, then standardised" in text
    assert "2. “The diagonal Fisher is the mean over samples" in text
    assert "3. “Weights are initialised as PyTorch's linear layers are.”" in text, "as the chosen configuration has it"
    assert "(clipping)" not in text, "it does not count as a choice that moves little"
    assert "With other levels of clipping training diverges." in text


def test_ties_are_told(finished, monkeypatch):
    """In this world the two-layer static networks cannot see what the finalists beside the best differ in."""
    monkeypatch.setattr(study_table, "equals", lambda results, paper, last: last[:2])
    files.cache_clear()
    final = table().query("part == 'finalist'")
    assert final["decision"].tolist() == ["chosen", "not told apart", "farther"]
    one = final["configuration"].tolist()[1]
    text = table("reconstruction.md")
    assert f"does not tell it from “{one}”: “weights: torch”, the nearest, is at 0.0 ± 0." in text
    assert "The paper does not decide between them, and the simplest is kept." in text
    files.cache_clear()


def test_results_that_the_rule_does_not_ask_for_are_noticed(finished, monkeypatch, tmp_path):
    folder, _ = finished
    assert study.unexpected(PARAMS) == []
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    path = tmp_path / "reconstruction-finalists-split_mnist.csv"
    text = path.read_text()
    path.unlink()
    path.write_text(text.replace("\nbase,", "\nweights: he,"))
    lacks, has = study.unexpected(PARAMS)
    assert lacks.startswith(f"{path.name} lacks 40 runs, such as base split_mnist NORACL 1 0")
    assert has.startswith(f"{path.name} has, unasked, 40 runs, such as weights: he split_mnist NORACL 1 0")
    assert has.endswith("run `dvc repro finalists@split_mnist`")


def test_a_part_asks_for_those_before_it(monkeypatch, tmp_path):
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    for part in ("promoted", *FINALISTS):
        with pytest.raises(FileNotFoundError, match=r"screen-permuted_mnist.csv is missing: run `dvc repro screen@"):
            study.parts(PARAMS)[part]()


def test_what_several_parts_ask_for_counts_once(finished):
    everything = read(SCREENED)
    assert not everything.duplicated(["configuration", "benchmark", "row", "seed"]).any()
    assert len(everything) < sum(len(read([part])) for part in SCREENED)


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
