"""`make bench` in short, and how it decides whether a limit is kept."""

import itertools
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import binom

from pipeline.config import load
from pipeline.experiments.suites import suites
from pipeline.runs.groups import MOST
from pipeline.tools import bench, suites_bench
from pipeline.tools.rounds import Found, Line, at_least, at_most, compare, in_turns, of_median, timed
from tests.test_requirements import pins

LOOKS = (8, 16, 32)


@pytest.mark.parametrize("looks", [1, 3])
def test_the_interval_is_the_narrowest_with_enough_coverage(looks):
    for rounds in range(1, 60):
        found = of_median([float(i) for i in range(rounds)], looks)
        outside = [k for k in range(1, (rounds + 1) // 2 + 1) if 2 * binom.cdf(k - 1, rounds, 0.5) <= 0.05 / looks]
        expected = (outside[-1] - 1, rounds - outside[-1]) if outside else (-math.inf, math.inf)
        assert (found.low, found.high) == expected
        assert (found.median, found.rounds) == ((rounds - 1) / 2, rounds)


def decided(ratios, limit, looks=LOOKS):
    rounds = ((ratio, 1.0) for ratio in ratios)
    return compare("made up", limit, rounds, looks, "{:.2f} against {:.2f} s".format)


STEADY, NOISY = [1.04, 1.05] * 16, [1.0, 1.2, 1.04, 1.07] * 8


@pytest.mark.parametrize(
    ("ratios", "limit", "mark", "rounds"),
    [
        (STEADY, at_most(1.056), "ok", 8),
        (STEADY, at_most(1.05), "ok", 8),
        (STEADY, at_most(1.03), "MISS", 32),
        (STEADY, at_least(1.03), "ok", 8),
        (STEADY, at_least(1.056), "MISS", 32),
        (NOISY, at_most(1.056), "?", 32),
        (NOISY, at_least(1.056), "?", 32),
        ([9.0] * 2 + STEADY, at_most(1.056), "ok", 16),
        ([9.0] * 8 + STEADY, at_most(1.056), "ok", 32),
        ([9.0] * 9 + STEADY, at_most(1.056), "?", 32),
    ],
)
def test_a_limit_is_missed_only_if_all_of_the_interval_misses_it(ratios, limit, mark, rounds):
    line = decided(ratios, limit)
    assert (line.mark, line.found.rounds) == (mark, rounds)
    assert str(line).startswith(f"{mark:4} made up: {line.found.median:.3f} [{line.found.low:.3f}, ")
    assert ("more rounds needed" in str(line)) == (mark == "?")


def test_what_has_no_limit_is_measured_and_not_judged():
    line = decided(NOISY, None)
    found = line.found
    assert (line.mark, found.rounds) == ("", LOOKS[0])
    ratio = f"{found.median:.3f} [{found.low:.3f}, {found.high:.3f}]"
    assert str(line).startswith(f"     made up: {ratio}; {LOOKS[0]} rounds, ")


def test_sides_are_measured_in_turns_and_change_places():
    calls = []
    rounds = in_turns(lambda: calls.append("a") or 2.0, lambda: calls.append("b") or 1.0)
    assert list(itertools.islice(rounds, 4)) == [(2.0, 1.0)] * 4
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab" + "ba"


def test_seconds_are_the_processors(monkeypatch):
    monkeypatch.setattr("pipeline.tools.rounds.process_time", iter([1.0, 3.5]).__next__)
    assert timed(lambda: None)() == 2.5


KEPT = Line("kept", at_most(2.0), Found(1.0, 1.0, 1.0, 8), "")
OPEN = Line("open", at_most(2.0), Found(2.0, 1.0, 3.0, 8), "")
ABSENT = Line("absent", at_most(2.0), None, "not installed")
MISSED = Line("missed", at_most(2.0), Found(3.0, 3.0, 3.0, 8), "")


@pytest.mark.parametrize(
    ("lines", "code"), [([KEPT, OPEN, ABSENT], 0), ([KEPT, MISSED, KEPT], 1), ([OPEN], 0), ([MISSED], 1)]
)
def test_only_a_miss_is_a_failure(lines, code, monkeypatch, capsys):
    monkeypatch.setattr(bench, "lines", lambda scale: iter(lines))
    with pytest.raises(SystemExit) as stopped:
        bench.main([])
    assert int(stopped.value.code) == code
    assert capsys.readouterr().out.splitlines()[1:] == [str(line) for line in lines]


def test_a_library_is_compared_if_it_is_there(mnist_folder, monkeypatch):
    made_up = lambda setting: timed(setting.autograd)  # noqa: E731
    monkeypatch.setattr(bench, "PEERS", [("json", "json", made_up, 1e-9), ("none", "no_such_package", made_up, 1.0)])
    there, absent = bench.peer_lines(bench.SHORT)
    assert (there.mark, there.found.rounds) == ("ok", 6)
    assert str(absent) == "–    epoch, 32×32, none against ours: ≥ 1; not installed: `make bench` installs it"


def test_jax_is_compared_for_one_network_and_for_five_if_it_is_there(mnist_folder, monkeypatch):
    names = ["32×32, JAX 0.10.2 (jit, scan)", "64×64, JAX 0.10.2 (jit, scan)"]
    names += [f"5 networks of {size} in lock-step, JAX 0.10.2 (vmap)" for size in ("32×32", "64×64")]
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    absent = [f"–    step, {name} against ours: no limit; {bench.ABSENT}" for name in names]
    assert [str(line) for line in bench.jax_lines(bench.SHORT)] == absent
    calls = []
    monkeypatch.setattr(bench, "find_spec", lambda name: name)
    monkeypatch.setattr(bench.Setting, "jax", lambda self, networks: lambda: calls.append((*self.sizes[1:3], networks)))
    there = list(bench.jax_lines(replace(bench.SHORT, steps=1)))
    assert [line.what for line in there] == [f"step, {name} against ours" for name in names]
    assert list(dict.fromkeys(calls)) == [(32, 32, 1), (64, 64, 1), (32, 32, 5), (64, 64, 5)]


def test_one_seed_has_every_run_of_its_suites_once_and_all_are_small():
    every, seed = suites(load()), load().seeds[0]
    keys = {run.key for name in suites_bench.SUITES for run in every[name].runs() if run.seed == seed}
    runs = suites_bench.one_seed(bench.SHORT.suites)
    assert len(runs) == len({run.key for run in runs}) == len(keys) > 20
    assert {(run.tasks, run.data.limit, run.seed) for run in runs} == {(2, 256, seed)}
    assert {(by.epochs_first, by.epochs_later) for by in (run.settings.optimisation for run in runs)} == {(1, 1)}


def test_in_groups_gives_what_one_by_one_gives(mnist_folder):
    runs = suites_bench.one_seed(replace(bench.SHORT.suites, images=300))
    alone, grouped = suites_bench.one_by_one(runs), suites_bench.in_groups(runs)
    assert [(r.tasks, r.history, r.infeasible) for r in alone] == [(r.tasks, r.history, r.infeasible) for r in grouped]


def test_the_short_form_measures_every_line(mnist_folder):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "pipeline", "bench", "--short"]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=600)
    assert "Traceback" not in done.stderr, done.stderr
    head, *lines = done.stdout.splitlines()
    assert "one process, one thread" in head
    number = r"\d+\.\d{3}"
    measured = re.compile(rf"(ok  |MISS|\?   ) .+: {number} \[{number}, {number}\] [≤≥] [\d.]+; (\d) rounds?, .+")
    missing = re.compile(r"–    .+: (≥ 10|no limit); not installed: `make bench` installs it")
    found = [measured.fullmatch(line) or missing.fullmatch(line) for line in lines]
    assert all(found), done.stdout
    assert len(found) == 13
    assert done.returncode == any(line.startswith("MISS") for line in lines), done.stdout
    once = (
        "step, 32×32, ours",
        "64×64, autograd",
        "Avalanche",
        "growth checks",
        "1 × 32×32, in GB",
        f"{MOST} × 32×32, in GB",
        "in groups: ",
    )
    assert [sum(words in line for line in lines) for words in once] == [1] * len(once)
    assert sum("JAX" in line for line in lines) == 4


def test_what_is_compared_is_pinned_by_hash_and_installed_beside_the_rest():
    here, there = pins("requirements-common.txt"), pins("requirements-bench.txt")
    assert not set(here) & set(there), "torch and the rest are those of the main environment"
    version = there["avalanche-lib"][2]
    assert [name.split()[:2] for name, *_ in bench.PEERS] == [["Avalanche", f"{version},"]]
    assert [f"JAX {there[name][2]}" for name in ("jax", "jaxlib")] == [bench.JAX, bench.JAX]
    assert {"numpy", "scipy"} <= set(here), "JAX needs them"
    assert {"ml-dtypes", "opt-einsum"} <= set(there), "JAX needs them"
    (install,) = [
        line
        for line in Path("Makefile").read_text(encoding="utf-8").splitlines()
        if "-r requirements-bench.txt" in line
    ]
    assert "$(PIP) --no-deps --target $(VENV)/bench " in install
