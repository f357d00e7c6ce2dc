import json
from pathlib import Path

import pytest
import yaml

from pipeline.params import ParamsError, load, parse

TEXT = Path("params.yaml").read_text()
DATA = yaml.safe_load(TEXT)


def changed(key: str | tuple[str, ...], value: object) -> str:
    data = json.loads(json.dumps(DATA))
    *path, last = key.split(".") if isinstance(key, str) else key
    place = data
    for part in path:
        place = place[part]
    place[last] = value
    return yaml.safe_dump(data)


def test_the_committed_file_is_valid_and_builds_settings():
    params = load()
    for benchmark, section in params.benchmarks.items():
        made = params.settings(benchmark, (12, 12), trigger="ed")
        assert made.ewc.strength == section.strength
        assert made.growth.trigger == "ed"
        assert made.optimisation.epochs_later == section.epochs_later


def test_the_papers_hyperparameters_are_the_defaults():
    """reports/paper/hyperparameters.csv says where each one stands in params.yaml."""
    params = load()
    seen = 0
    for line in Path("reports/paper/hyperparameters.csv").read_text().splitlines()[1:]:
        *_, mnist, _, key = line.split(",")
        if not key:
            continue
        names = [key.replace("*", b) for b in params.benchmarks] if "*" in key else [key]
        for name in names:
            value = DATA
            for part in name.split("."):
                value = value[part]
            assert float(value) == float(mnist), name
            seen += 1
    assert seen > 15


@pytest.mark.parametrize(
    ("text", "value"), [("1e-05", 1e-5), ("1E3", 1000.0), ("-2.5e+1", -25.0), (".5e0", 0.5), ("1_0e1", 100.0)]
)
def test_numbers_in_scientific_notation_are_numbers(text, value):
    """`dvc exp run -S rate=0.00001` writes 1e-05, which PyYAML alone reads as text."""
    changed_text = TEXT.replace("mean: 0.1307", f"mean: {text}")
    assert parse(changed_text).inputs.mean == value
    assert isinstance(yaml.safe_load("mean: 1e-05")["mean"], str), "the reason for a loader of our own"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("noracl.gamma", 0.0, r"noracl.gamma must be a number in \(0, 1\]"),
        ("noracl.gamma", "high", "noracl.gamma: Input should be a valid number"),
        ("noracl.gamma", float("nan"), "noracl.gamma: must be a finite number"),
        ("noracl.gamma", True, "noracl.gamma"),
        ("noracl.trigger", "magic", "noracl.trigger must be one of joint"),
        ("noracl.cooldown", 1.5, "noracl.cooldown"),
        ("noracl.colour", 1, "noracl.colour: unknown key"),
        ("seeds", [], "seeds"),
        ("seeds", [1, 1], "seeds: .*must not name a value twice"),
        ("seeds", [-1], "seeds.0"),
        ("seeds", 5, "seeds"),
        ("depths", [0], "depths.0"),
        ("static.widths", {"small": 0}, "static.widths.small"),
        ("static.widths", {}, "static.widths"),
        ("fisher.labels", "guessed", "labels must be one of true, sampled"),
        ("fisher.batches", 0, "batches"),
        ("ewc.decay", 1.5, "ewc.decay"),
        ("optimisation.clip", -1.0, "optimisation.clip"),
        ("network.init", "magic", "network.init: .*must be one of glorot"),
        ("benchmarks.split_mnist.stream.pairs", [[0, 0]], "pairs.*two different digits"),
        ("benchmarks.split_mnist.stream.pairs", [[0, 10]], r"benchmarks.split_mnist.stream.pairs.0.1"),
        ("benchmarks.permuted_mnist.stream.kind", "shuffled", "benchmarks.permuted_mnist.stream"),
        ("benchmarks.permuted_mnist.outputs", 2, "outputs must be at least 10"),
        ("benchmarks.rotated_mnist.stream.angles", [], "angles"),
        ("compute.workers", 0, "compute.workers"),
        ("tolerances.params_share", 2.0, "tolerances.params_share"),
        ("data.limit", 1, "data.limit"),
        ("data", {"mirrors": [], "limit": 600, "held_out": 550}, "held_out must leave 60 of the 600"),
        ("fisher.order", "random", "order must be one of stored, shuffled"),
        ("noracl.tau_start", "half", "noracl.tau_start must be one of first, zero"),
        ("benchmarks.split_mnist.stream.drawn", ["colours"], "benchmarks.split_mnist.stream.drawn.0"),
        ("features.size", 96, "features: .*size must be one of compared, 64, 128, 224, got 96"),
        ("features.compared", [16], "features.compared.0"),
        ("features.weights", {}, "features.weights"),
        ("features.weights.mirror.sha256", "f37072fd", "features.weights.mirror.sha256"),
        ("features.deviation", [0.2, 0.2, 0.0], "features.deviation.2"),
        ("cifar10.gamma", 1.5, "cifar10.gamma must be"),
        ("cifar10.compared_heads", ["1×1"], "compared_heads names 1×1, which static does not have"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(key, value, message):
    with pytest.raises(ParamsError, match=message):
        parse(changed(key, value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold keys and values"),
        ("[1, 2", "not valid YAML"),
        ("seeds: !!python/object/apply:os.system [true]", "seeds: python/object/apply:os.system is no number"),
        (TEXT + "\nseeds: [9]", "'seeds' stands twice"),
        ("a: &a [*a]", "params.yaml"),
        ("[" * 2000, "params.yaml"),
        ("when: 2026-01-01", "no number, text, list or mapping"),
        ("{}", "seeds: this key is missing"),
    ],
)
def test_broken_files_get_one_clear_error(text, message):
    with pytest.raises(ParamsError, match=message):
        parse(text)


def test_unquoted_true_labels_are_understood():
    assert parse(TEXT.replace('labels: "true"', "labels: true", 1)).fisher.labels == "true"
