"""Whatever params.yaml holds, it runs, or is refused with one message that names the key; nothing runs by halves."""

import copy
import json
import math
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from noracl import (
    EWCSettings,
    FisherSettings,
    GrowthSettings,
    NonFiniteLoss,
    NullSpaceExhausted,
    OptimisationSettings,
    Settings,
    Stream,
    learn,
)
from noracl.method.initialisers import INITIALISERS
from noracl.method.network import WEIGHTS
from noracl.method.regularisers import REGULARISERS
from noracl.method.triggers import TRIGGERS
from pipeline.config import Params, load, parse
from pipeline.data.manifests import placeholder
from pipeline.experiments.suites import suites
from pipeline.plain_yaml import MOST, MOST_WHOLE, ParamsError
from tests.helpers import toy_stream

DATA = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))


def places(data, above=()):
    """Every key, and every position of a list."""
    for name, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*above, name)
        if isinstance(value, dict | list):
            yield from places(value, (*above, name))


NUMBERS = st.integers() | st.floats() | st.sampled_from([10**30, -(10**30), 10**9, 1e308, 5e-324, -1e-300, math.nan])
ODD = ["a/b", "../a", "", "NORACL", "|", "a\0b", "\ud800", "tcp://", "tcp://host", "true", "1e400", "null", "\n"]
ODD += ["x" * 200, "0256", "0o17", "yes", "12:30", "2026-01-01", "online_ewc", "scheduled", "null-space"]
NAMES = sorted({name for place in places(DATA) for name in place if isinstance(name, str)})
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8) | st.sampled_from(ODD + NAMES),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def changed(place, value, data=DATA):
    """The data with another value at a place, and with the file's text."""
    data = copy.deepcopy(data)
    part = data
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    try:
        return yaml.dump(data, Dumper=yaml.CSafeDumper)
    except UnicodeEncodeError:
        return json.dumps(data)


def outcome(text):
    """Params that make suites, or the message of the one error that may come."""
    try:
        params = parse(text)
    except ParamsError as error:
        return str(error)
    assert isinstance(params, Params)
    for suite in suites(params, placeholder).values():
        runs = suite.runs()
        assert all(math.isfinite(run.cost) for run in runs)
        assert len(runs[0].key) == 32, "it is made of JSON"
    return None


def named(place, message):
    """Whether a message names a place, or the key just above it."""
    keys = [str(part) for part in place]
    return ".".join(keys) in message or all(part in message for part in keys[:2] if not part.isdigit())


@given(st.sampled_from(sorted(places(DATA), key=str)), VALUES)
@settings(max_examples=250, deadline=None)
def test_any_value_anywhere_is_accepted_or_refused_with_its_key(place, value):
    message = outcome(changed(place, value))
    assert message is None or named(place, message), message


#: Sections whose keys are names of one's own, or need not be there.
FREE = {("encoder", "weights"), ("encoder", "images"), ("networks",), ("benchmarks",), ("stress", "static")}
FREE |= {("networks", name) for name in DATA["networks"]}
FREE |= {("readings",), ("beyond",), ("beyond_stress",)} | {("readings", name, "changes") for name in DATA["readings"]}
NAMED = ("grid", "networks", "strengths")
FREE |= {(part, name, key) for part in ("beyond", "beyond_stress") for name in DATA[part] for key in NAMED}
KEYS = [p for p in places(DATA) if isinstance(p[-1], str) and p[:-1] not in FREE and p[-1] != "kind"]
KEYS = [p for p in KEYS if not (p[0] == "benchmarks" and {"training", "noracl"} & set(p[2:-1]))]


def test_every_missing_and_every_unknown_key_is_named():
    assert len(KEYS) > 100
    for place in KEYS:
        data = copy.deepcopy(DATA)
        part = data
        for name in place[:-1]:
            part = part[name]
        part[f"{place[-1]}s"] = part.pop(place[-1])
        message = outcome(yaml.dump(data, Dumper=yaml.CSafeDumper))
        assert f"{'.'.join(place)}: this key is missing" in message
        assert f"{'.'.join(place)}s: unknown key" in message


SPLIT = DATA["benchmarks"]["split_mnist"]
LATER = "benchmarks.split_cifar10.training.optimisation.epochs_later must be at most 10000, got 1000000000"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("seeds", [10**30], "seeds.0: whole numbers are at most"),
        ("networks.mlp.small", [[10**9]], "networks.mlp.small.0.0: Input should be less than or equal to 4096"),
        ("networks.mlp.small", [[8] * 99], "networks.mlp.small.0: Tuple should have at most 10 items"),
        ("networks.mlp", {"NORACL": [[8]]}, "networks.mlp: must not call a static network NORACL"),
        ("networks.mlp", {"a|b": [[8]]}, "networks.mlp.a|b: String should match"),
        ("networks.a/b", {"a": [[8]]}, "networks.a/b: String should match"),
        ("encoder.images.64.size", 10**6, "encoder.images.64.size: Input should be less than or equal to 512"),
        ("benchmarks.permuted_mnist.stream.tasks", 10**9, "permuted_mnist.stream.tasks: Input should be less"),
        ("benchmarks.permuted_mnist", SPLIT, "benchmarks.permuted_mnist must be a permuted stream"),
        ("benchmarks.a/b", SPLIT, "benchmarks.a/b: String should match"),
        ("benchmarks.rotated_mnist.start", [[10**9]], "rotated_mnist.start.0.0: Input should be less than or equal"),
        ("benchmarks.rotated_mnist.stream.angles", [1e308], "angles.0: must be a finite number of at most 1e+30"),
        ("benchmarks.rotated_mnist.stream.angles", [1e20], "angles.0: Input should be less than or equal to 360"),
        ("benchmarks.split_mnist.stream.pairs", [[]], "benchmarks.split_mnist.stream.pairs.0.0: this key is missing"),
        ("benchmarks.split_cifar10.training.optimisation.epochs_later", 10**9, LATER),
        ("training.optimisation.epochs_later", 10**9, "training.optimisation.epochs_later must be at most 10000"),
        ("heuristics.fixed_neurons", 10**9, "heuristics.fixed_neurons must be at most 4096, got 1000000000"),
        ("data.mirrors", ["a\0b"], "data.mirrors.0: holds a character that cannot be printed"),
        ("data.mnist.limit", 10**9, "data.mnist.limit: Input should be less than or equal to 60000"),
        ("data.mnist.deviation", 1e-300, "data.mnist.deviation: Input should be greater than or equal to"),
        ("stress.static", {"32\n32": [32]}, "stress.static: a key must be a short text"),
        ("stress.static", {"x": [8] * 99}, "stress.static.x: Tuple should have at most 10 items"),
        ("stress.static.noracl", [8], "static must not call a network noracl"),
        ("sensitivity.epsilon", [1e-300], "sensitivity.epsilon: rows are named by two decimals"),
        ("sensitivity.gamma", [0.8, 0.8], "sensitivity.gamma: must not name a value twice"),
        ("ablations.init", ["he", "he"], "ablations.init: must not name a value twice"),
        ("theory.tasks", 10**8, "theory.tasks: Input should be less than or equal to 10000"),
        ("compute.workers", 10**6, "compute.workers: Input should be less than or equal to 1024"),
        ("compute.scheduler", "http://host:1", "compute.scheduler: String should match"),
        ("heuristics.schedule", [30, 99], "heuristics.schedule must name an epoch below epochs_later, which is 30"),
        ("heuristics.schedule", [], "heuristics.schedule must name an epoch below epochs_later"),
        ("training.optimisation.epochs_later", 5, "accepted"),
        (
            "benchmarks.permuted_mnist.noracl",
            {"trigger": "scheduled", "schedule": [99]},
            "benchmarks.permuted_mnist.noracl.schedule must name an epoch below epochs_later",
        ),
    ],
)
def test_absurd_values_are_refused_by_name(place, value, message):
    assert message in (outcome(changed(place.split("."), value)) or "accepted")


TOKENS = ["&a ", "*a", "!!int ", "!!python/name:os.system ", "!!timestamp x", "<<: ", "? ", "- ", "{", "[", "]", '"']
TOKENS += ["|", "\t", "\0", "\x85", "---\n", "%YAML 2\n", "2026-13-45", "1:99", "0x", "!!binary x", "!!set {a}"]
TOKENS += ["\ufeff", "0256 ", "yes "]
TEXT = yaml.safe_dump({name: DATA[name] for name in ("seeds", "data", "noracl", "compute")})


@given(st.lists(st.tuples(st.integers(0, len(TEXT)), st.sampled_from(TOKENS)), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_broken_yaml_gets_one_error(insertions):
    text = TEXT
    for place, token in insertions:
        text = text[:place] + token + text[place:]
    assert outcome(text).startswith("params.yaml ")


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        "x: " + "[" * 5000,
        "x: " + "{a: " * 500,
        "x: 1\n" * 3000,
        "\n" * (10**5 + 1),
    ],
    ids=["nine to the power of nine", "deep", "deep mappings", "one key often", "long"],
)
def test_files_made_to_hurt_are_refused_soon(text):
    assert outcome(text).startswith("params.yaml ")


def real(low, high):
    return st.floats(low, high) | st.sampled_from([x for x in (low, high, 1e-300, 1e-8, 1.0, 1e8) if low <= x <= high])


def whole(low, high=MOST_WHOLE):
    return st.integers(low, low + 4) | st.just(high)


POSITIVE = real(5e-324, MOST)
STARTS = st.sampled_from(["first", "zero"])
SETTINGS = st.builds(
    Settings,
    hidden=st.sampled_from([(3,), (4, 3)]),
    init=st.sampled_from(list(WEIGHTS)),
    regulariser=st.sampled_from(list(REGULARISERS)),
    optimisation=st.builds(
        OptimisationSettings,
        batch_size=whole(1),
        rate_first=POSITIVE,
        rate_later=POSITIVE,
        epochs_first=st.just(1),
        epochs_later=st.integers(1, 3),
        clip=st.none() | POSITIVE,
    ),
    fisher=st.builds(
        FisherSettings,
        estimator=st.sampled_from(["per_sample", "batch"]),
        labels=st.sampled_from(["true", "sampled"]),
        batches=whole(1),
    ),
    ewc=st.builds(EWCSettings, strength=real(0, MOST), decay=real(0, 1), start=STARTS),
    growth=st.builds(
        GrowthSettings,
        trigger=st.sampled_from(list(TRIGGERS)),
        init=st.sampled_from(list(INITIALISERS)),
        gamma=real(5e-324, 1),
        epsilon=POSITIVE,
        percentile=real(0, 100),
        cooldown=whole(0),
        scale=real(0, MOST),
        fsat_neurons=st.none() | whole(1, 50),
        tau_start=STARTS,
        random_scale=real(0, MOST),
        fixed_neurons=whole(1, 50),
        scheduled_neurons=whole(1, 50),
        schedule=st.lists(whole(0), max_size=3).map(lambda epochs: (0, *epochs)),
        loss_window=whole(1),
        loss_improvement=real(0, 1),
        loss_neurons=whole(1, 50),
    ),
)


@given(SETTINGS, real(-MOST, MOST), real(1e-6, MOST))
@settings(max_examples=120, deadline=None)
def test_what_is_accepted_runs_or_says_why_not(chosen, mean, deviation):
    """The errors that the executor explains, and no others; what comes out can be kept."""
    stream = Stream(toy_stream(2, rows=40).tasks, 3, scale=1 / (255 * deviation), shift=-mean / deviation)
    try:
        history = learn(stream, chosen).history
    except (NonFiniteLoss, NullSpaceExhausted, RuntimeError):
        return
    json.dumps(asdict(history), allow_nan=False)


@pytest.mark.parametrize(
    ("command", "content", "message"),
    [
        (
            "train main/split_mnist-noracl",
            changed(("noracl", "gamma"), 7).encode(),
            "noracl.gamma must be a number in (0, 1]",
        ),
        (
            "theory",
            b"seeds: !!python/object/apply:os.system [touch evil]",
            "seeds: python/object/apply:os.system is no",
        ),
        ("download mnist", b"\x93\xff\0", "params.yaml cannot be read: 'utf-8' codec can't decode"),
    ],
)
def test_a_stage_stops_before_it_runs(tmp_path, command, content, message):
    (tmp_path / "params.yaml").write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *command.split()],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path.cwd()), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.endswith("Nothing was run. Mend params.yaml and start again.\n")
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["params.yaml"]


def test_a_pipe_or_an_endless_file_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("params.yaml")
    with pytest.raises(ParamsError, match=r"params.yaml cannot be read: it is no file"):
        load()
    Path("params.yaml").unlink()
    Path("params.yaml").symlink_to("/dev/zero")
    with pytest.raises(ParamsError, match=r"params.yaml cannot be read: it is no file"):
        load()
    Path("params.yaml").unlink()
    with pytest.raises(ParamsError, match=r"params.yaml cannot be read: .*No such file"):
        load()
    with Path("params.yaml").open("wb") as file:
        file.truncate(2**40)  # a hole, not a disk full of zeros
    with pytest.raises(ParamsError, match=r"params.yaml is larger than 100000 characters"):
        load()
