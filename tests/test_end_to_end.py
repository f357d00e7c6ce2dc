"""The real dvc.yaml in a temporary clone with tiny parameters."""

import pandas as pd
import pytest

from tests.conftest import FEW_FIGURES, TINY

BENCHMARKS = ("permuted_mnist", "rotated_mnist", "split_mnist")
HEADS = {"static@split_cifar10", "noracl@split_cifar10"}
COMPARED = {"static@cifar10_128", "noracl@cifar10_128", "image_sizes"}
STATIC_HEADS = {"static@split_cifar10", "static@cifar10_128"}
STATIC = {f"static@{benchmark}" for benchmark in BENCHMARKS}
NORACL = {f"noracl@{benchmark}" for benchmark in BENCHMARKS}
ABLATIONS = {f"ablations@{benchmark}" for benchmark in BENCHMARKS}
READINGS = {f"reading@{name}" for name in TINY["readings"]}
BEYOND = {f"beyond@{name}" for name in TINY["beyond"]}
BEYOND_STRESS = {f"beyond_stress@{name}" for name in TINY["beyond_stress"]}
STRESS = {f"stress_static@{name}" for name in TINY["stress"]["static"]}
GROWING = (
    NORACL
    | ABLATIONS
    | READINGS
    | BEYOND
    | BEYOND_STRESS
    | {"stress_noracl", "sensitivity", "cost", "theory", "transfer"}
)
EXTRACTION = {f"features@{name}" for name in TINY["encoder"]["images"]}
FIGURES = {f"figure@{name}" for name in FEW_FIGURES}
READERS = {"golden", "tables", "claims", "page", "check"}
ROTATED = {"static@rotated_mnist", "noracl@rotated_mnist", "ablations@rotated_mnist"}
UP_TO_DATE = "Data and pipelines are up to date."


def stale(clone, **changes):
    """The stages that changed parameters make stale; what reads their results follows only when those change."""
    clone.change(**changes)
    found = clone.stages_run("dvc", "repro", "--dry") - READERS - FIGURES - {"canaries"}
    clone.run("git", "checkout", "params.yaml")
    return found


def test_everything_runs_then_nothing_then_only_what_depends_on_a_change(clone, tmp_path):
    assert clone.first_run == {
        *("download@mnist", "pixels@mnist", "pixels@fashion_mnist", "canaries", *EXTRACTION, *HEADS, *COMPARED),
        *(*STATIC, *STRESS, *GROWING, *FIGURES, *READERS),
    }
    assert UP_TO_DATE in clone.run("dvc", "repro")
    assert not clone.network_log.exists(), (
        f"only downloads may reach the network: {clone.network_log.read_text(encoding='utf-8')}"
    )

    copy = clone.copy(tmp_path / "changed")
    copy.change(compute={"workers": 2})
    assert copy.stages_run("dvc", "repro") == {"canaries"}, "where a number is computed must not invalidate it"
    copy.commit("two workers")
    assert stale(copy, stress={"short": 1}) == BEYOND_STRESS, "the short stream is the beginning of the long one"
    assert stale(copy, networks={"mlp": {"small": [[5, 5]], "large": [[6, 6]]}}) == STATIC | READINGS | BEYOND
    assert stale(copy, noracl={"gamma": 0.8}) == GROWING | {"noracl@split_cifar10", *COMPARED} - STATIC_HEADS
    assert stale(copy, heuristics={"fixed_neurons": 7}) == ABLATIONS | READINGS | BEYOND
    rotated = {"rotated_mnist": {"training": {"ewc": {"strength": 10.0}}}}
    assert stale(copy, benchmarks=rotated) == ROTATED | READINGS | BEYOND
    assert stale(copy, reading_seeds=[1]) == READINGS
    assert stale(copy, benchmarks={"rotated_mnist": {"title": "Turned MNIST"}}) == set(), "a title decides no number"
    assert stale(copy, benchmarks={"split_cifar10": {"data": "cifar10_64"}}) == HEADS
    other = {"224_bicubic": {"interpolation": "bilinear"}}
    assert stale(copy, encoder={"images": other}) == {"features@224_bicubic"}, "whose manifest makes the others stale"
    assert stale(copy, encoder={"mean": [0.5, 0.5, 0.5]}) >= EXTRACTION
    assert stale(copy, data={"mnist": {"limit": 400}}) == {"pixels@mnist"}, "whose manifest makes the others stale"
    notebook = copy.folder / "reports/notebooks/pareto.ipynb"
    notebook.write_text(
        notebook.read_text(encoding="utf-8").replace("Accuracy against", "Accuracy versus"), encoding="utf-8"
    )
    assert copy.stages_run("dvc", "repro") == {"figure@pareto"}, "a figure alone is drawn again"


def test_the_tables_hold_what_the_small_runs_give(clone):
    tables = clone.folder / "reports/tables"
    ablations = pd.read_csv(tables / "ablations.csv").set_index(["row", "benchmark"])
    assert ablations.loc[("trigger fixed", "split_mnist"), "params_mean"] == 784 * 10 + 10 * 10 + 10 * 2
    table = pd.read_csv(tables / "main.csv")
    assert sorted(set(table["row"])) == ["2L NORACL", "2L large", "2L small"]
    assert set(table.seeds) == {1}
    results = pd.read_csv(clone.folder / "reports/results/main/permuted_mnist-noracl/runs.csv")
    assert results[["seed", "task", "layers"]].values.tolist() == [[0, 1, 2], [0, 2, 2]]

    stress = pd.read_csv(tables / "stress3.csv").set_index("row")
    assert stress.loc["5×5", "params_mean"] == 784 * 5 + 5 * 5 + 5 * 10
    assert "5×5" not in set(pd.read_csv(tables / "stress2.csv")["row"])

    heads = pd.read_csv(tables / "cifar10.csv").set_index("row")
    assert list(heads.index) == ["128×128", "256×256", "512×512", "1024×1024", "172×134", "NORACL"]
    assert heads.loc["172×134", "params_mean"] == 512 * 5 + 5 * 4 + 4 * 2
    compared = pd.read_csv(tables / "cifar10_128.csv").set_index("row")
    assert set(compared.index) == set(heads.index)
    assert compared["paper_acc"].isna().all(), "the paper has no such table"
    sizes = pd.read_csv(tables / "cifar10_sizes.csv").set_index(["row", "benchmark"])
    for row in ("128×128", "NORACL"):
        assert sizes.loc[(row, "size_128"), "acc_mean"] == compared.loc[row, "acc_mean"]
    for page in ("README.md", "reports/index.html"):
        assert "ResNet18 weights made up (sha256 " in (clone.folder / page).read_text(encoding="utf-8")

    transfer = pd.read_csv(clone.folder / "reports/results/transfer/transfer.csv")
    final = transfer[transfer["experiment"] == "final"]["value"]
    assert final.mean() == pytest.approx(results["accuracy"].iloc[-1], abs=1e-6), "a look at a run leaves it as it is"
    assert set(pd.read_csv(tables / "theory.csv")["width"]) == {8}
    claims = pd.read_csv(clone.folder / "reports/claims.csv")
    assert set(claims[claims["seeds"] == 1]["verdict"]) == {"undecided"}, "one seed decides nothing"
    assert claims[claims["value"].isna()]["reason"].str.startswith("not computed: no results of ").any()
    assert "one seed gives no interval" in (clone.folder / "reports/index.html").read_text(encoding="utf-8")


def test_a_fresh_clone_trains_nothing(clone, tmp_path):
    """Committed results are found up to date without data or weights; then the download alone runs."""
    clone.run("git", "clone", "-q", ".", str(tmp_path / "fresh"))
    fresh = type(clone)(tmp_path / "fresh")
    assert fresh.stages_run("dvc", "repro", "--allow-missing") == set()
    assert not (fresh.folder / "data").exists()
    output = fresh.run("dvc", "repro", "--keep-going", "encoder", "download@mnist", ok=False)
    assert "encoder.weights.made up.file: nowhere.pt, sha256 " in output, "weights that nobody has"
    assert "Running stage 'download@mnist'" in output, "all the same"
    assert sorted(path.name for path in (fresh.folder / "data").iterdir()) == ["mnist"]
    output = fresh.run("python", "-m", "pipeline", "check")
    assert "check golden_runs_repeat: ok" in output
    assert "match the paper" in output
    assert fresh.run("git", "status", "--porcelain") == ""
