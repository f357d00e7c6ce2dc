"""The real dvc.yaml in a temporary clone with tiny parameters."""

import pandas as pd
import pytest

from pipeline.figures import registry
from tests.conftest import TINY

TRAIN = {
    f"train@{benchmark}-{family}"
    for benchmark in ("permuted_mnist", "rotated_mnist", "split_mnist")
    for family in ("static", "noracl")
}
ABLATIONS = {f"ablations@{benchmark}" for benchmark in ("permuted_mnist", "rotated_mnist", "split_mnist")}
STRESS = {f"stress_static@{name}" for name in TINY["stress"]["static"]}
GROWING = ABLATIONS | {"stress_noracl", "sensitivity", "cost", "theory", "transfer"}
HEADS = {"cifar10", "cifar10_sizes"}
EXTRACTION = {"features@32", "features@40"}
SUMMARIES = {"summaries@theory", "summaries@transfer"}
FINALISTS = {f"finalists@{benchmark}" for benchmark in ("permuted_mnist", "rotated_mnist", "split_mnist")}
SCREENS = {name.replace("finalists", "screen") for name in FINALISTS} | {"factorial@1", "factorial@2", "promoted"}
STUDY = SCREENS | FINALISTS | {"open_points", "open_points_cifar10"}
FIGURES = {f"figure-{name}" for name in registry()}
READERS = {*SUMMARIES, "reconstruction", "tables", "claims", "report", "check"}
ROTATED = {"train@rotated_mnist-static", "train@rotated_mnist-noracl", "ablations@rotated_mnist"}
UP_TO_DATE = "Data and pipelines are up to date."


def noracl_of(stages):
    return {stage for stage in stages if stage.endswith("-noracl")}


def would_run(clone):
    """The training stages that a change makes stale; what reads their results follows only when those change."""
    return clone.stages_run("dvc", "repro", "--dry") - READERS - FIGURES


def test_everything_runs_then_nothing_then_only_what_depends_on_a_change(clone, tmp_path):
    assert clone.first_run == {
        *("download@mnist", *TRAIN, *EXTRACTION, *HEADS, *STRESS, *GROWING, *STUDY, *FIGURES, *READERS),
    }
    assert UP_TO_DATE in clone.run("dvc", "repro")
    assert not clone.network_log.exists(), f"only downloads may reach the network: {clone.network_log.read_text()}"

    ablations = pd.read_csv(clone.folder / "reports/tables/ablations.csv").set_index(["row", "benchmark"])
    assert ablations.loc[("trigger fixed", "split_mnist"), "params_mean"] == 784 * 10 + 10 * 10 + 10 * 10
    table = pd.read_csv(clone.folder / "reports/tables/main.csv")
    assert sorted(set(table["row"])) == ["2L NORACL", "2L large", "2L small"]
    assert set(table.seeds) == {1}
    results = pd.read_csv(clone.folder / "reports/results/permuted_mnist-noracl.csv")
    assert results[["seed", "task", "layers"]].values.tolist() == [[0, 1, 2], [0, 2, 2]]

    stress = pd.read_csv(clone.folder / "reports/tables/stress3.csv").set_index("row")
    assert stress.loc["64×64", "params_mean"] == 784 * 5 + 5 * 5 + 5 * 10
    assert "64×64" not in set(pd.read_csv(clone.folder / "reports/tables/stress2.csv")["row"])

    heads = pd.read_csv(clone.folder / "reports/tables/cifar10.csv").set_index("row")
    assert list(heads.index) == ["128×128", "256×256", "512×512", "1024×1024", "172×134", "NORACL"]
    assert heads.loc["172×134", "params_mean"] == 512 * 5 + 5 * 4 + 4 * 2
    sizes = pd.read_csv(clone.folder / "reports/tables/cifar10_sizes.csv").set_index(["row", "benchmark"])
    for row in ("128×128", "NORACL"):
        assert sizes.loc[(row, "size_32"), "acc_mean"] == heads.loc[row, "acc_mean"]
    assert "ResNet18 weights made up (sha256 " in (clone.folder / "README.md").read_text()
    assert "ResNet18 weights made up (sha256 " in (clone.folder / "reports/index.html").read_text()

    transfer = pd.read_csv(clone.folder / "reports/results/transfer.csv")
    final = transfer[transfer["experiment"] == "final"]["value"]
    assert final.mean() == pytest.approx(results["accuracy"].iloc[-1], abs=1e-6), "a look at a run leaves it as it is"
    theory = pd.read_csv(clone.folder / "reports/tables/theory.csv").set_index("quantity")
    assert set(theory["width"]) == {8}
    assert theory.loc["Theorem 1: exponent in ε of the change of old weights", "verdict"] == "holds"
    claims = pd.read_csv(clone.folder / "reports/claims.csv")
    assert set(claims[claims["seeds"] == 1]["verdict"]) == {"undecided"}, "one seed decides nothing"
    assert claims[claims["value"].isna()]["reason"].str.startswith("not computed: no results of ").any()
    assert "one seed gives no interval" in (clone.folder / "reports/index.html").read_text()

    study = pd.read_csv(clone.folder / "reports/tables/reconstruction.csv").set_index(["part", "configuration"])
    assert set(study.loc["screen"].index) >= {"base", "averages: τ from zero", "inputs: raw", "outputs: two"}
    assert study.loc[("finalist", "base"), "decision"] == "chosen", "one seed decides nothing"
    assert '<section id="study">' in (clone.folder / "reports/index.html").read_text()

    copy = clone.copy(tmp_path / "changed")
    copy.change(compute={"workers": 2})
    assert UP_TO_DATE in copy.run("dvc", "repro"), "where a number is computed must not invalidate it"
    copy.change(stress={"short": 1})
    assert would_run(copy) == set(), "the short stream is the beginning of the long one"
    copy.change(static={"widths": {"small": 5}})
    assert would_run(copy) == TRAIN - noracl_of(TRAIN) | SCREENS | FINALISTS
    copy.run("git", "checkout", "params.yaml")
    copy.change(noracl={"gamma": 0.8})
    assert would_run(copy) == noracl_of(TRAIN) | GROWING, "the study keeps to what the paper states"
    copy.run("git", "checkout", "params.yaml")
    copy.change(benchmarks={"rotated_mnist": {"strength": 10.0}}, compute={"workers": 2})
    assert would_run(copy) == ROTATED
    copy.run("git", "checkout", "params.yaml")
    copy.change(features={"size": 40})
    assert would_run(copy) == {"cifar10", "open_points_cifar10"}, "the features are there"
    copy.run("git", "checkout", "params.yaml")
    copy.change(features={"mean": [0.5, 0.5, 0.5]})
    assert would_run(copy) >= EXTRACTION


def test_a_fresh_clone_trains_nothing(clone, tmp_path):
    """Committed results are found up to date without data or weights; then the download alone runs."""
    clone.run("git", "clone", "-q", ".", str(tmp_path / "fresh"))
    fresh = type(clone)(tmp_path / "fresh")
    assert fresh.stages_run("dvc", "repro", "--allow-missing") == set()
    assert not (fresh.folder / "data").exists()
    output = fresh.run("dvc", "repro", "--keep-going", "weights", "download@mnist", ok=False)
    assert "features.weights.made up.file: nowhere.pt, sha256 " in output, "weights that nobody has"
    assert "Running stage 'download@mnist'" in output, "all the same"
    assert sorted(path.name for path in (fresh.folder / "data").iterdir()) == ["mnist"]
    output = fresh.run("python", "-m", "pipeline.check")
    assert "check golden_runs_repeat: ok" in output
    assert "match the paper" in output
    assert fresh.run("git", "status", "--porcelain") == ""
