"""What reports/DIFFERENCES.md says beside its verdicts is what the results say; tests/test_prose.py compares those."""

import pandas as pd

from pipeline.config import load
from pipeline.evidence import choices, contradictions, results
from pipeline.evidence.statistics.runs import final, grown
from pipeline.experiments.beyond import BOUNDS

PARAMS, CELLS, PAPER = load(), results.results_by_cell(), results.paper_numbers()
CLAIMS = pd.read_csv("reports/claims.csv").set_index("id")
CLAIMS_BEYOND = pd.read_csv("reports/questions.csv").set_index("id")
MNIST = PARAMS.ablations.benchmarks


def mean(column, *key):
    return float(final(CELLS[key], column).mean())


def table(name):
    return pd.read_csv(f"reports/tables/{name}.csv").set_index(["benchmark", "row"])


def test_binary_split():
    ours = table("main").loc["split_mnist"]
    for depth in ("1L", "2L"):
        static = ours.loc[[f"{depth} {name}" for name in ("small", "medium", "large")]]
        assert static["acc_mean"].idxmax() == f"{depth} small"
        assert ours.loc[f"{depth} NORACL", "acc_sd"] > 2 * static["acc_sd"].max(), "varies much over seeds"
    assert (ours.filter(regex="small|medium|large", axis=0)["verdict"] == "higher").mean() > 0.5
    two = CELLS["main", "split_mnist", "2L NORACL"]
    assert (grown(two, 1) > grown(two, 2)).all()
    assert CLAIMS.loc["budget-events", "high"] < 0, "not just no more rarely, but more often"


def test_contradictions():
    assert CLAIMS.loc["gamma-params", "paper_in_range"] == "no", "the paper's own numbers do not fall with every step"
    first = contradictions.find()[0]
    assert "has fewer parameters than both of its neighbours in γ" in first.what


def test_the_spread_over_seeds():
    key = ("main", "permuted_mnist", "2L NORACL")
    runs = pd.concat([final(CELLS[key], column) for column in ("params", "accuracy")], axis=1)
    assert runs["params"].std() > 2 * PAPER.loc[key, "params_sd"]
    assert runs["accuracy"].std() > 2 * PAPER.loc[key, "acc_sd"]
    assert runs.idxmin().nunique() == 1, "the seed with the fewest parameters is the least accurate"


def test_large_static_networks():
    large, usual = table("oracle").loc["permuted_mnist"], table("stress50").loc["permuted_mnist"]
    assert len(large) == len(PARAMS.beyond_stress.oracle.networks) == 3
    before = CELLS["stress", "permuted_mnist", "NORACL"].query("task <= @PARAMS.stress.short")
    ours = final(before, "accuracy")
    for name in large.index:
        theirs = final(CELLS["beyond", "permuted_mnist", name], "accuracy")
        assert (theirs > ours[theirs.index]).all(), "in each seed"
    assert large["acc_mean"].idxmax() != large["params_mean"].idxmax() == "512×512"
    first = usual.loc["32×32"]
    for params in (usual.loc["NORACL", "params_mean"], before["params"].mean()):
        assert (usual.loc["NORACL", "acc_mean"] - 10) / params < (first["acc_mean"] - 10) / first["params_mean"]


def test_other_ways_to_stay_plastic():
    runs = results.suite("beyond/upkeep")
    assert len(PARAMS.beyond_stress.upkeep.strengths) == 3
    newest, tenth = runs.pivot(index=["method", "seed"], columns="task", values="accuracy_newest"), 10
    assert newest.shape[1] == tenth * tenth
    early, late = (newest.iloc[:, part].mean(axis=1) for part in (slice(tenth), slice(-tenth, None)))
    others = list(PARAMS.beyond_stress.upkeep.strengths)
    for name in others:
        assert (early["NORACL"] > early[name]).all()
        assert (late["NORACL"] < late[name]).all() == (name != "shrink and perturb")
    grows = runs[(runs["method"] == "NORACL") & (runs["task"] >= 20)].groupby("seed")[["width_1", "width_2"]].nunique()
    assert (grows == 1).all(axis=None), "it then stops growing"
    last = runs[runs["task"] == 100].groupby("method")
    assert last["accuracy"].mean().idxmax() == "L2 towards initialisation"
    tried = table("upkeep_strengths").loc["permuted_mnist", "acc_mean"]
    shrunk = tried[tried.index.str.startswith("shrink")]
    assert shrunk.max() - shrunk.min() < PARAMS.tolerances.accuracy_points
    gap = table("upkeep").loc["permuted_mnist", "acc_mean"]
    assert abs(gap["shrink and perturb"] - gap["75×32"]) < PARAMS.tolerances.accuracy_points
    assert last[["dormant_1", "dormant_2"]].mean().max(axis=None) < 0.1, "few"
    assert CLAIMS_BEYOND.loc["upkeep-idle-locked-1", "low"] > 0, "not just no less, but more"


def test_the_effective_dimension_never_says_no():
    for benchmark in ("permuted_mnist", "rotated_mnist"):
        signals = results.signals(f"main/{benchmark}-noracl")
        assert set(signals["layer"]) == {1, 2}
        assert (signals["phi"] > PARAMS.noracl["gamma"] * signals["reference"]).all()
        alone = table("ablations").loc[(benchmark, "trigger fsat")]
        assert (alone["verdict"], alone["params_verdict"]) == ("match", "match")
    assert PARAMS.heuristics["fsat_neurons"] == 2, "the released number"


def test_how_strongly_weights_are_protected():
    asked = PARAMS.beyond.regularisers.strengths
    assert asked["online_ewc"] < PARAMS.settings("permuted_mnist", (32, 32)).ewc.strength / 10
    assert asked == choices.chosen("strengths", PARAMS.beyond.strengths.grid)
    ours, usual = table("regularisers").loc["permuted_mnist"]["acc_mean"], table("main").loc["permuted_mnist"]
    assert ours["online_ewc medium"] > max(usual.loc["2L NORACL", ["acc_mean", "paper_acc"]])
    assert abs(ours["none medium"] - usual.loc["2L medium", "acc_mean"]) < PARAMS.tolerances.accuracy_points
    assert ours["none small"] > usual.loc["2L small", "acc_mean"] + PARAMS.tolerances.accuracy_points
    for name in asked:
        permuted, rotated = (CELLS["beyond", benchmark, f"{name} NORACL"] for benchmark in MNIST[:2])
        usual = CELLS["main", "permuted_mnist", "2L NORACL"]
        assert (grown(permuted, 1) + grown(permuted, 2)).mean() < (grown(usual, 1) + grown(usual, 2)).mean() / 4
        assert not (grown(rotated, 1) + grown(rotated, 2)).any()


def test_the_stress_test():
    noracl = CELLS["stress", "permuted_mnist", "NORACL"]
    after = noracl[noracl["task"] >= 20].groupby("seed")[["width_1", "width_2"]].nunique()
    assert (after == 1).all(axis=None), "no seed grows after twenty tasks"
    short = table("stress50").loc[("permuted_mnist", "NORACL")]
    assert (short["verdict"], short["params_verdict"]) == ("match", "match")
    assert CLAIMS.loc["plasticity-50", "high"] < 0, "not just no more, but fewer"
    assert CLAIMS.loc["locked-1", "low"] > 0, "not just not the lowest, but higher"


def test_heuristics():
    fixed, medium = ("ablations", "permuted_mnist", "trigger fixed"), ("main", "permuted_mnist", "2L medium")
    assert PAPER.loc[fixed, "acc"] < PAPER.loc[medium, "acc"]
    assert (final(CELLS[fixed], "accuracy") > final(CELLS[medium], "accuracy")).all()
    assert PARAMS.networks["mlp"]["medium"] == PARAMS.benchmarks["permuted_mnist"].start, "of the starting size"
    assert CLAIMS.loc["ed-only-accuracy", "high"] < 0, "not just no less accurate, but more"


def test_initialisation():
    for init in ("zero", "random"):
        events = [mean("growth_events", "ablations", "permuted_mnist", row) for row in (f"init {init}", "full")]
        assert events[0] < events[1]
    assert list(CLAIMS.loc[["qr-compact-permuted", "qr-compact-rotated"], "paper_in_range"]) == ["no", "no"]
    for benchmark in MNIST:
        others = {init: mean("accuracy", "ablations", benchmark, f"init {init}") for init in PARAMS.ablations.init}
        assert max(others, key=others.get) == ("zero" if benchmark == "split_mnist" else "null-space")
    assert table("ablations").loc[("split_mnist", "init null-space"), "acc_mean":"acc_sd"].isna().all(), "infeasible"
    assert pd.isna(PAPER.loc[("ablations", "split_mnist", "init null-space"), "acc"])


def test_theory():
    assert CLAIMS.loc["gate-default", "high"] < 1, "hardly ever: in fewer than one task of a hundred"
    assert CLAIMS.loc["width-slope", "value"] == 1
    assert (CLAIMS.loc[["recall-ewc", "recall-gd"], "high"] < 0).all()


def test_split_cifar10():
    heads = table("cifar10").loc["split_cifar10"]
    static = heads.drop(["NORACL", *BOUNDS])
    assert set(static["verdict"]) == {"match"}
    assert (static["acc_sd"] > static["paper_acc_sd"]).mean() > 0.5, "most vary more over seeds"
    assert heads.loc["NORACL", "verdict"] == "lower"
    assert heads.loc["NORACL", "params_mean"] > heads.loc["NORACL", "paper_params"]
    before = table("cifar10_128").loc["cifar10_128"]
    assert before.loc["NORACL", "params_mean"] > 1.5 * heads.loc["NORACL", "paper_params"], "well beyond it"
    for head in ("512×512", "1024×1024"):
        gap = heads.loc[head, "paper_acc"] - before.loc[head, "acc_mean"]
        assert gap > heads.loc[head, "paper_acc_sd"], "the two largest fell short"
    sizes = table("cifar10_sizes").xs("NORACL", level="row")["params_mean"]
    assert sizes.idxmax() == PARAMS.benchmarks["cifar10_128"].data.replace("cifar10", "size")
    assert sizes.min() == heads.loc["128×128", "params_mean"], "not at all"
