import copy
import csv
import json
from pathlib import Path

import pytest
import yaml
from dvc.utils.serialize import parse_yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from noracl.method.triggers import TRIGGERS
from pipeline.__main__ import main
from pipeline.config import ON_FEATURES, PERMUTED, ParamsError, load, merged, parse
from pipeline.plain_yaml import read

TEXT = Path("params.yaml").read_text(encoding="utf-8")
DATA = yaml.safe_load(TEXT)


def changed(key: str, value: object) -> str:
    data = copy.deepcopy(DATA)
    *path, last = key.split(".")
    place = data
    for part in path:
        place = place[part]
    place[last] = value
    return yaml.safe_dump(data, allow_unicode=True)


def test_the_committed_file_is_valid_and_builds_settings():
    params = load()
    assert params.benchmarks[PERMUTED].stream.kind == "permuted"
    assert params.benchmarks[ON_FEATURES].data.startswith("cifar10_")
    for benchmark, own in params.benchmarks.items():
        made = params.settings(benchmark, (12, 12), trigger="ed")
        assert made.hidden == (12, 12)
        assert made.growth.trigger == "ed"
        assert made.growth.gamma == own.noracl.get("gamma", params.noracl["gamma"])
        assert made.growth.fixed_neurons == params.heuristics["fixed_neurons"]
        assert (made.ewc, made.optimisation) == (params.base[benchmark].ewc, params.base[benchmark].optimisation)


def test_a_benchmark_changes_what_it_names_and_nothing_else():
    plain = load().base["rotated_mnist"]
    own = {"ewc": {"strength": 3.0}, "optimisation": {"epochs_later": 7, "clip": None}}
    params = parse(changed("benchmarks.rotated_mnist.training", own))
    made = params.base["rotated_mnist"]
    assert (made.ewc.strength, made.ewc.decay) == (3.0, plain.ewc.decay)
    assert (made.optimisation.epochs_later, made.optimisation.clip) == (7, None)
    assert made.optimisation.epochs_first == plain.optimisation.epochs_first
    assert made.growth == plain.growth
    assert params.base["split_mnist"] == load().base["split_mnist"]
    old = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merged(old, {"a": {"b": 9}, "d": {"e": 4}}) == {"a": {"b": 9, "c": 2}, "d": {"e": 4}}
    assert old == {"a": {"b": 1, "c": 2}, "d": 3}


def test_the_papers_hyperparameters_are_what_every_benchmark_trains_with():
    """reports/paper/hyperparameters.csv says where each one is written in params.yaml."""
    params = load()
    seen = 0
    with Path("reports/paper/hyperparameters.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        *sections, field = line["params_key"].split(".")
        place = DATA
        for part in sections:
            place = place[part]
        assert place[field] == float(line["mnist"] or line["split_cifar10"]), line
        name = line["hyperparameter"]
        for benchmark, made in params.base.items():
            own = params.benchmarks[benchmark]
            if name.startswith("EWC strength ") and name.removeprefix("EWC strength ") not in own.title:
                continue
            part = made.growth if sections == ["noracl"] else getattr(made, sections[-1])
            assert getattr(part, field) == float(line["mnist" if own.data == "mnist" else "split_cifar10"]), line
            seen += 1
    assert seen == 12 * 5 + 5, "twelve for every benchmark, and λ for each"


# YAML: one dialect for us and for DVC

SIGNS = "0123456789_.:eExXoObB+-~ynaofsrult/×\"' ,[]{}#&*!|>%@`=<?"


@given(st.text(SIGNS, min_size=1, max_size=8), st.sampled_from(["a: {}\n", "a: [{}, 1]\n", "{}: 1\n", "a:\n- {}\n"]))
@example("b:", "a: [{}, 1]\n")
@settings(max_examples=1000, deadline=None)
def test_what_is_read_is_what_dvc_reads(value, line):
    text = line.format(value)
    try:
        ours = read(text)
    except ParamsError:
        return
    assume(ours is not None)  # a file of comments
    assert repr(ours) == repr(parse_yaml(text, "params.yaml"))


@pytest.mark.parametrize(
    "value",
    [
        *("0256", "010", "00", "-012", "0x1F", "0o17", "0b1", "1_000", "1_0e1", ".5", "-.5", ".5e0", "2.5e3", "12:30"),
        *("1:30.5", "yes", "No", "on", "OFF", "2026-01-01", "2026-01-01 10:00:00", "=", "<<"),
    ],
)
@pytest.mark.parametrize("line", ["a: {{b: {}}}", "a:\n  b: {}"], ids=["flow", "block"])
def test_values_that_two_versions_of_yaml_read_differently_are_refused(line, value):
    with pytest.raises(ParamsError) as caught:
        read(line.format(value))
    if " " not in value:  # or a flow mapping has other parts
        assert "a.b: YAML 1.1 and 1.2 read this differently: put text in quotes" in str(caught.value)
        assert f"(got {value!r})" in str(caught.value)
    assert read(line.format(f'"{value}"')) == {"a": {"b": value}}


@pytest.mark.parametrize("value", [".inf", "-.Inf", "+.INF", ".nan", "1e400", "1e31"])
def test_numbers_are_finite(value):
    with pytest.raises(ParamsError, match=r"a\.b: must be a finite number"):
        read(f"a: {{b: {value}}}")


@pytest.mark.parametrize(
    ("text", "value"), [("1e-05", 1e-5), ("1E3", 1000.0), ("-2.5e+1", -25.0), ("5.", 5.0), ("+3", 3.0), ("0", 0.0)]
)
def test_decimal_and_scientific_numbers_are_numbers(text, value):
    """`dvc exp run -S rate=0.00001` writes 1e-05, which PyYAML alone reads as text."""
    found = parse(TEXT.replace("mean: 0.1307", f"mean: {text}")).data.mnist.mean
    assert (found, type(found)) == (value, float)
    assert isinstance(yaml.safe_load("mean: 1e-05")["mean"], str), "the reason for a loader of our own"


def test_the_committed_file_means_the_same_to_dvc():
    assert json.dumps(read(TEXT)) == json.dumps(parse_yaml(TEXT, "params.yaml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold keys and values"),
        ("[1, 2", "not valid YAML"),
        ("seeds: !!python/object/apply:os.system [true]", "seeds: python/object/apply:os.system is no number"),
        ("seeds: !!int 3", "seeds: int is no number, text, list or mapping"),
        (TEXT + "\nseeds: [9]", "the key 'seeds' is written twice"),
        ("a: &a [*a]", "params.yaml is not valid YAML: anchors are not understood"),
        ("a: *b", "anchors are not understood"),
        ("a: {<<: {b: 1}}", "a: a key must be a short text"),
        ("256: 1", "top level: a key must be a short text, in quotes if it looks like a number"),
        ("{}", "seeds: this key is missing"),
        ('a: "\\0"', "a: holds a character that cannot be printed"),
    ],
)
def test_broken_files_get_one_clear_error(text, message):
    with pytest.raises(ParamsError, match=message):
        parse(text)


def test_unquoted_true_labels_are_understood():
    """`-S training.fisher.labels=true` writes a truth value."""
    params = parse(TEXT.replace('labels: "true"', "labels: true", 1))
    assert params.base[PERMUTED].fisher.labels == "true"
    params = parse(changed("benchmarks.split_mnist.training", {"fisher": {"labels": True}}))
    assert params.base["split_mnist"].fisher.labels == "true"


# Values


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("noracl.gamma", 0.0, r"noracl\.gamma must be a number in \(0, 1\]"),
        ("noracl.gamma", "high", r"noracl\.gamma: Input should be a valid number"),
        ("noracl.gamma", float("nan"), r"noracl\.gamma: must be a finite number"),
        ("noracl.gamma", True, r"noracl\.gamma"),
        ("noracl.trigger", "magic", rf"noracl\.trigger must be one of {', '.join(TRIGGERS)}, got 'magic'"),
        ("noracl.cooldown", 1.5, r"noracl\.cooldown"),
        ("noracl.colour", 1, r"noracl\.colour: unknown key"),
        ("noracl.tau_start", "half", r"noracl\.tau_start must be one of first, zero"),
        ("noracl.fixed_neurons", 3, r"noracl\.fixed_neurons: unknown key"),
        ("heuristics.gamma", 0.5, r"heuristics\.gamma: unknown key"),
        ("heuristics.schedule", [0, -1], r"heuristics\.schedule must be a whole number of at least 0"),
        ("heuristics.fixed_neurons", 10**9, r"heuristics\.fixed_neurons must be at most 4096, got 1000000000"),
        ("heuristics.fsat_neurons", 4097, r"heuristics\.fsat_neurons must be at most 4096, got 4097"),
        ("heuristics.scheduled_neurons", 4097, r"heuristics\.scheduled_neurons must be at most 4096"),
        ("heuristics.loss_neurons", 4097, r"heuristics\.loss_neurons must be at most 4096"),
        ("seeds", [], "seeds"),
        ("seeds", [1, 1], "seeds: .*must not name a value twice"),
        ("seeds", [-1], r"seeds\.0"),
        ("seeds", 5, "seeds"),
        ("networks", {}, "networks"),
        ("networks.mlp", {}, r"networks\.mlp"),
        ("networks.mlp.small", [[0]], r"networks\.mlp\.small\.0\.0"),
        ("networks.mlp.small", [[]], r"networks\.mlp\.small\.0"),
        ("networks.mlp.small", [[3], [4]], r"networks\.mlp\.small: must not name two networks of the same depth"),
        ("training.init", "magic", r"training\.init must be one of glorot, he, lecun, torch, got 'magic'"),
        ("training.regulariser", "magic", r"training\.regulariser must be one of .*online_ewc.*got 'magic'"),
        ("training.colour", 1, r"training\.colour: unknown key"),
        ("training.hidden", [3], r"training\.hidden: unknown key"),
        ("training.fisher.labels", "guessed", r"training\.fisher\.labels must be one of true, sampled"),
        ("training.fisher.batches", 0, r"training\.fisher\.batches"),
        ("training.ewc", {}, r"training\.ewc\.decay: this key is missing"),
        ("training.ewc.decay", 1.5, r"training\.ewc\.decay must be a number in \[0, 1\], got 1.5"),
        ("training.optimisation.clip", -1.0, r"training\.optimisation\.clip"),
        ("training.optimisation.epochs_first", 10**5, r"training\.optimisation\.epochs_first must be at most 10000"),
        ("training.optimisation.epochs_later", 10**5, r"optimisation\.epochs_later must be at most 10000, got 100000"),
        ("benchmarks.split_mnist.stream.pairs", [[0, 0]], r"pairs\.0: must not name a value twice"),
        ("benchmarks.split_mnist.stream.pairs", [[0, 10]], r"benchmarks\.split_mnist\.stream\.pairs\.0\.1"),
        ("benchmarks.permuted_mnist.stream.kind", "shuffled", r"benchmarks\.permuted_mnist\.stream"),
        ("benchmarks.permuted_mnist.outputs", 2, r"benchmarks\.permuted_mnist\.outputs must be at least 10"),
        ("benchmarks.rotated_mnist.stream.angles", [], r"benchmarks\.rotated_mnist\.stream\.angles"),
        ("benchmarks.rotated_mnist.data", "cifar10_64", r"benchmarks\.rotated_mnist: .*only images can be rotated"),
        ("benchmarks.split_mnist.table", "stress", r"benchmarks\.split_mnist\.table must not be one of stress"),
        ("benchmarks.split_mnist.networks", "x", r"benchmarks\.split_mnist\.networks must be one of"),
        ("benchmarks.split_cifar10.data", "cifar10_96", r"data must be one of mnist, .*cifar10_64, got cifar10_96"),
        ("benchmarks.split_cifar10.noracl.gamma", 1.5, r"benchmarks\.split_cifar10\.noracl\.gamma must be"),
        ("benchmarks.rotated_mnist.noracl", {"colour": 1}, r"benchmarks\.rotated_mnist\.noracl\.colour: unknown key"),
        ("benchmarks.rotated_mnist.training.ewc.strength", -1.0, r"rotated_mnist\.training\.ewc\.strength must be"),
        ("benchmarks.rotated_mnist.training.ewc.colour", 1, r"rotated_mnist\.training\.ewc\.colour: unknown key"),
        ("benchmarks.rotated_mnist.training.hidden", [5], r"rotated_mnist\.training\.hidden: unknown key"),
        ("benchmarks.rotated_mnist.training.growth", {}, r"rotated_mnist\.training\.growth: unknown key"),
        ("compute.workers", 0, r"compute\.workers"),
        ("tolerances.params_share", 2.0, r"tolerances\.params_share"),
        ("data.mnist.limit", 1, r"data\.mnist\.limit"),
        ("data.cifar10.limit", 1, r"data\.cifar10\.limit"),
        ("encoder.images.64.size", 16, r"encoder\.images\.64\.size"),
        ("encoder.images.64.interpolation", "cubic", r"encoder\.images\.64\.interpolation"),
        ("encoder.images", {}, r"encoder\.images"),
        ("encoder.weights", {}, r"encoder\.weights"),
        ("encoder.weights.mirror.sha256", "f37072fd", r"encoder\.weights\.mirror\.sha256"),
        ("encoder.deviation", [0.2, 0.2, 0.0], r"encoder\.deviation\.2"),
        ("image_sizes.heads", ["1×1"], r"image_sizes\.heads names 1×1, which cifar10_128 does not have"),
        ("image_sizes.images", ["64", "128", "x"], r"image_sizes\.images names x, which encoder\.images lacks"),
        ("image_sizes.images", ["64", "128"], r"image_sizes\.images"),
        ("ablations.init", ["magic"], r"ablations\.init: unknown magic; there are he, null-space"),
        (
            "ablations.benchmarks",
            ["split_cifar10"],
            r"ablations\.benchmarks names split_cifar10, which is not on mnist",
        ),
        ("ablations.benchmarks", ["x"], r"ablations\.benchmarks names x, which benchmarks does not have"),
        (
            "benchmarks.rotated_mnist.data",
            "fashion",
            r"data must be one of mnist, fashion_mnist, cifar10_.*, got fashion",
        ),
        ("data.fashion_mnist.limit", 1, r"data\.fashion_mnist\.limit"),
        ("beyond.fashion", {}, r"beyond\.fashion\.benchmarks: this key is missing"),
        ("beyond.fashion", {"benchmarks": ["x"]}, r"beyond\.fashion\.benchmarks must be one of .*, got x"),
        ("beyond.fashion", {"benchmarks": ["split_cifar10"]}, r"must be one of .*_mnist, got split_cifar10"),
        ("stress.short", 100, r"stress\.short must be below long"),
        ("stress.long_only", ["x"], r"long_only names x, which static does not have"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(key, value, message):
    with pytest.raises(ParamsError, match=message):
        parse(changed(key, value))


def test_a_stage_gets_one_message_and_no_traceback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"params\.yaml cannot be read: .*No such file"):
        main(["pixels", "mnist"])
    Path("params.yaml").write_text(changed("noracl.gamma", 7.0), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"noracl\.gamma must be .*\nNothing was run\. Mend params\.yaml"):
        main(["pixels", "mnist"])


@pytest.mark.parametrize("text", ["0b3eafec76d6", "0c12", "32x32", "1024×1024", "12ab"])
def test_text_that_begins_with_digits_is_text_to_both(text):
    assert read(f"a: {text}") == parse_yaml(f"a: {text}", "p") == {"a": text}
