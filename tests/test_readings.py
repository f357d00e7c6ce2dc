"""Every claim under every reading, with made-up results: by slow formulas, with any of the readings missing."""

import csv
import json
import math
import shutil
import statistics
from types import SimpleNamespace

import pandas as pd
import pytest

from pipeline import check, verify
from pipeline.config import load
from pipeline.evidence import completeness, readings, results
from pipeline.evidence.claims import evaluate as evaluate_claims
from pipeline.evidence.claims import load_claims
from pipeline.evidence.readings import (
    DEPENDS,
    EVERY,
    NONE,
    OPEN,
    OUTSIDE,
    WAITING,
    category,
    cells_under,
    evaluate,
    of_claim,
    steps,
    turned,
    where_settled,
)
from pipeline.experiments.suites import suites
from pipeline.experiments.train import result_columns
from pipeline.paths import CLAIMS, RESULTS
from pipeline.report import page, readings_page, readings_table
from pipeline.sections import Reading
from tests.test_page_in_browser import BROWSER, look

CHANGES = {
    "boost": {"noracl.boost": 3.0},
    "from_zero": {"training.ewc.start": "zero", "noracl.tau_start": "zero"},
    "no_half": {"training.ewc.start": "zero", "noracl.tau_start": "zero", "training.ewc.half": False},
    "element_wise": {"training.optimisation.clip_by": "value"},
    "jax_defaults": {"training.optimisation.clip_by": "value", "training.init": "lecun"},
    "ten_outputs": {"benchmarks.split_mnist.outputs": 10},
}
READINGS = {name: Reading(why=f"The paper may mean {name}.", changes=changes) for name, changes in CHANGES.items()}
ALONE = load().model_copy(update={"readings": {}})
PARAMS = ALONE.model_copy(update={"readings": READINGS})
BENCHMARKS = PARAMS.ablations.benchmarks
STATIC = {"small": (60, 10_000), "medium": (65, 20_000), "large": (70, 40_000)}
VARIANTS = [f"init {name}" for name in PARAMS.ablations.init] + [f"trigger {name}" for name in PARAMS.ablations.trigger]
T_95 = {3: 4.302653}  # Student's t by number of seeds


def write(folder, reading, noracl, size, spread=0.1):
    """A reading in which NORACL has this accuracy and size everywhere, and all variants are at 50 % with 9000 more."""
    rows = []
    methods = {**STATIC, "full": (noracl, size), **dict.fromkeys(VARIANTS, (50, size + 9000))}
    for benchmark in BENCHMARKS:
        for method, (accuracy, params) in methods.items():
            for seed in PARAMS.reading_seeds:
                for task in (1, 2):
                    share = (accuracy + spread * seed * (method == "full")) / 100 - 0.1 * (task == 1)
                    grown = 10 * (task == 2) * (method not in STATIC)
                    row = [benchmark, method, 2, seed, task, share, 0.9, 0.9, params + 100 * seed, 20 + grown, 20]
                    rows.append([*row, grown, 0.1, 0.1, 100.0])
    (folder / "readings" / reading).mkdir(parents=True)
    frame = pd.DataFrame(rows, columns=result_columns(2))
    frame.to_csv(folder / "readings" / reading / "runs.csv", index=False)


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Base as committed; boost is good, no_half is bad, from_zero does not decide; the others are not computed."""
    folder = tmp_path / "results"
    shutil.copytree(RESULTS, folder, ignore=shutil.ignore_patterns("readings"))
    for module in (results, completeness):
        monkeypatch.setattr(module, "RESULTS", folder)
    write(folder, "boost", 80, 30_000)
    write(folder, "no_half", 60, 60_000)
    write(folder, "from_zero", 75, 36_000, spread=20)
    return folder


def table(params=PARAMS):
    return evaluate(load_claims(), cells_under(params), params)


def last(folder, reading, benchmark, method, column):
    """A column after the last task by seed, without pandas."""
    found = {}
    with open(folder / "readings" / reading / "runs.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if (row["benchmark"], row["method"]) == (benchmark, method):
                found[row["seed"]] = float(row[column])
    return found


def by_hand(values):
    mean = statistics.mean(values)
    half = T_95[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


@pytest.mark.parametrize("reading", ["boost", "no_half", "from_zero"])
def test_numbers_by_hand(made_up, reading):
    found = table().set_index(["part", "reading"])

    def cell(method, column, benchmark="permuted_mnist"):
        return last(made_up, reading, benchmark, method, column)

    gaps = [100 * (cell("full", "accuracy")[s] - cell("large", "accuracy")[s]) for s in ("0", "1", "2")]
    saved = [100 * (1 - cell("full", "params")[s] / cell("large", "params")[s]) for s in ("0", "1", "2")]
    beaten = [100 * (cell("full", "accuracy")[s] - cell("trigger fixed", "accuracy")[s]) for s in ("0", "1", "2")]
    more = [
        statistics.mean((cell("trigger ed", "params", b)[s] - cell("full", "params", b)[s]) / 1000 for b in BENCHMARKS)
        for s in ("0", "1", "2")
    ]
    expected = {"par-permuted-2l": gaps, "gain-permuted": gaps, "fewer-permuted-2l": saved}
    expected |= {"heuristics-permuted": beaten, "ed-only-params": more}
    for part, values in expected.items():
        row = found.loc[(part, reading)]
        assert (row["value"], row["low"], row["high"]) == pytest.approx(by_hand(values), abs=1e-4), part
        assert row["seeds"] == 3
    low = by_hand(gaps)[1:]
    verdict = "holds" if low[0] >= 5 else "does not hold" if low[1] < 5 else "undecided"  # "~6%", minus one point
    assert found.loc[("gain-permuted", reading), "verdict"] == verdict
    assert verdict == {"boost": "holds", "no_half": "does not hold", "from_zero": "undecided"}[reading]


def test_what_no_reading_replaces_is_left_out_and_what_is_missing_is_said(made_up):
    found = table().set_index(["part", "reading"])["verdict"]
    for part in ("par-permuted-1l", "cifar-par", "stress-50", "gamma-range", "ewc-share-late", "overhead-permuted"):
        assert set(found[part]) == {"n.a."}, "under base too: like is compared with like"
    assert found["par-permuted-2l", "element_wise"] == found["qr-compact-split", "jax_defaults"] == "not computed"
    numbers = table()
    unknown = numbers[numbers["verdict"].isin(["n.a.", "not computed"])]
    assert unknown[["value", "low", "high"]].isna().all(axis=None), "no number that was not computed"


def test_base_is_what_the_claims_table_says(made_up):
    ours = table()
    base = ours[(ours["reading"] == "base") & (ours["verdict"] != "n.a.")].set_index("part")
    claims = evaluate_claims(load_claims(), results.results_by_cell(), PARAMS).set_index("id").loc[base.index]
    for column in ("value", "low", "high", "verdict", "seeds"):
        assert base[column].tolist() == claims[column].tolist()


def test_all_readings_together(made_up):
    found = readings_table.claims_table(load_claims(), table()).set_index(["claim", "reading"])
    assert found.loc[("gain", "boost"), "category"] == DEPENDS
    assert found.loc[("gain", "no_half"), "verdict"] == "does not hold"
    assert found.loc[("cifar", "base"), "category"] == OUTSIDE
    assert found.loc[("par", "base"), ["parts", "compared"]].tolist() == [6, 3]
    base = found.loc[("gain", "base"), "verdict"]
    assert found.loc[("gain", "boost"), "turns"] == ("no" if base == "holds" else "yes")
    counted = found.groupby("claim").first()["category"].value_counts()
    assert counted.sum() == len(load_claims())


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("holds holds holds", EVERY),
        ("holds holds not-computed", EVERY),
        ("does-not-hold does-not-hold", NONE),
        ("holds undecided does-not-hold", DEPENDS),
        ("undecided holds does-not-hold", DEPENDS),
        ("holds undecided", OPEN),
        ("does-not-hold undecided", OPEN),
        ("undecided undecided", OPEN),
        ("holds not-computed not-computed", WAITING),
        ("not-computed holds", WAITING),
        ("n.a. n.a.", OUTSIDE),
    ],
)
def test_categories(verdicts, expected):
    given = [verdict.replace("-", " ") for verdict in verdicts.split()]
    assert category(dict(zip(("base", "a", "b"), given, strict=False))) == expected
    assert expected in readings.CATEGORIES


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["n.a.", "n.a."], "n.a."),
        (["n.a.", "holds"], "holds"),
        (["holds", "undecided"], "undecided"),
        (["holds", "not computed"], "not computed"),
        (["does not hold", "not computed"], "does not hold"),
    ],
)
def test_a_claim_under_a_reading(verdicts, expected):
    assert of_claim(verdicts) == expected


def test_who_turns_a_verdict_round():
    base = {"base": "holds", "a": "does not hold", "b": "undecided", "c": "holds", "d": "not computed"}
    assert turned(base) == ["a"]
    assert turned({**base, "base": "undecided"}) == ["a", "c"]
    assert (where_settled(base), where_settled({"base": "undecided", "b": "holds"})) == ("", "holds")


def test_the_choice_is_what_the_nearest_reading_does_not_change():
    changes = {"zero": {"start": "zero"}, "half": {"start": "zero", "half": False}, "clip": {"clip": "value"}}
    yes, no, open_ = "holds", "does not hold", "undecided"

    def found(**verdicts):
        return [(step.reading, step.against, step.keys) for step in steps(changes, {"c": verdicts})]

    assert found(base=yes, zero=yes, half=no, clip=yes) == [("half", "zero", ("half",))]
    assert found(base=yes, zero=no, half=no, clip=yes) == [("zero", "base", ("start",))]
    assert found(base=yes, zero=open_, half=no, clip=yes) == [("half", "base", ("half", "start"))]
    assert found(base=open_, zero=open_, half=no, clip=yes) == []
    assert found(base=no, zero="not computed", half="not computed", clip=yes) == [("clip", "base", ("clip",))]


def test_readings_are_in_no_other_table(made_up):
    assert not set(results.runs()["suite"]) & {"readings/boost", "readings/no_half"}
    assert ("main", "permuted_mnist", "2L NORACL") in (cells := results.results_by_cell())
    assert not [key for key in cells if key[0] == "readings"]


def test_a_reading_without_a_folder_is_no_error_and_one_with_an_empty_folder_is(made_up, monkeypatch):
    def lines(name):
        return [line for line in completeness.problems(PARAMS) if f"readings/{name}" in line]

    assert lines("jax_defaults") == []
    (made_up / "readings" / "jax_defaults").mkdir()
    (line,) = lines("jax_defaults")
    assert "holds nothing" in line
    assert "dvc repro reading@jax_defaults" in line
    stale = {f"reading@{name}": ["changed checksum"] for name in ("boost", "element_wise")}
    done = SimpleNamespace(returncode=0, stdout=json.dumps(stale))
    monkeypatch.setattr(check.subprocess, "run", lambda *_, **__: done)
    monkeypatch.delenv("DVC_STAGE", raising=False)
    assert check.results_are_fresh(PARAMS) == ["changed checksum: stale: reading@boost: run `dvc repro`"]


def test_a_suite_that_is_half_done_is_not_computed(made_up):
    path = made_up / "readings/boost/runs.csv"
    path.write_text(
        "".join(line for line in path.read_text(encoding="utf-8").splitlines(True) if ",trigger ed," not in line),
        encoding="utf-8",
    )
    found = table().set_index(["part", "reading"])
    assert found.loc[("ed-only-params", "boost"), "verdict"] == "not computed"
    assert found.loc[("gain-permuted", "boost"), "verdict"] == "holds"


@pytest.fixture
def shown(made_up, tmp_path, monkeypatch):
    """What the page says about the made-up readings."""
    for path, content in readings_table.build(PARAMS).items():
        (tmp_path / path.name).write_text(content, encoding="utf-8")
    for name in ("PARTS", "CLAIMS", "CELLS"):
        monkeypatch.setattr(readings_page, name, tmp_path / getattr(readings_page, name).name)
    return readings_page.comparison(page.judged(CLAIMS), PARAMS)


def test_the_page_has_every_number_of_every_reading(shown, made_up):
    views = {view["name"]: view for view in shown["views"]}
    assert list(views) == ["base", *PARAMS.readings]
    assert shown["computed"] == ["boost", "from zero", "no half"]
    assert "JAX defaults" in shown["missing"]
    main, ablations = views["no_half"]["tables"]
    assert [row["name"] for row in main["rows"]] == ["2L small", "2L medium", "2L large", "2L NORACL"]
    assert len(ablations["rows"]) == 1 + len(VARIANTS)
    own = list(last(made_up, "no_half", "permuted_mnist", "full", "accuracy").values())
    cell = f"{100 * statistics.mean(own):.1f} ± {100 * statistics.stdev(own):.1f}"
    assert main["rows"][3]["cells"][1]["ours"] == ablations["rows"][0]["cells"][1]["ours"] == cell
    assert [table["rows"] for table in views["jax_defaults"]["tables"]] == [[], []]
    assert not any(part["known"] for parts in views["jax_defaults"]["parts"].values() for part in parts)
    changes = views["no_half"]["changes"]
    assert {"key": "training.ewc.half", "base": "true", "own": "false"} in changes


def test_the_page_names_the_choice(shown):
    words = " ".join(choice for one in shown["decided"] for choice in one["choices"])
    assert shown["turned"], "some claim depends on the reading"
    assert "the factor ½" in words or "learning rate" in words


@pytest.mark.parametrize("reading", {**load().readings, **READINGS})
def test_every_choice_has_words(reading):
    for key in {**load().readings, **READINGS}[reading].changes:
        assert key not in readings_page.choice(key, PARAMS)
    assert "seeds" in readings_page.choice("seeds", PARAMS), "what nobody foresaw is named by its key"


def test_the_page_without_any_reading_claims_nothing(made_up, shown, tmp_path):
    shutil.rmtree(made_up / "readings")
    for path, content in readings_table.build(PARAMS).items():
        (tmp_path / path.name).write_text(content, encoding="utf-8")
    text = page.build(PARAMS)
    found = readings_page.comparison(page.judged(CLAIMS), PARAMS)
    assert (found["computed"], found["decided"], found["kept"]) == ([], [], [])
    assert not found["by_kind"][EVERY]
    assert f"of {len(PARAMS.readings)} other readings of the paper none is computed yet." in text
    assert "no claim about growth is known to survive" in text
    assert text.count("<strong>Not computed yet.</strong>") == len(PARAMS.readings)


def test_the_page_of_a_paper_that_is_read_in_one_way_only(made_up, shown, tmp_path):
    shutil.rmtree(made_up / "readings")
    for path, content in readings_table.build(ALONE).items():
        (tmp_path / path.name).write_text(content, encoding="utf-8")
    text = page.build(ALONE)
    assert "is not known: no other reading of it is listed yet." in text
    assert '<option value="base">base</option></select>' in text
    assert set(readings_page.comparison(page.judged(CLAIMS), ALONE)["by_kind"][EVERY]) == set()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_reader_chooses_a_reading(shown, tmp_path, width, dark):
    seen, console = look(tmp_path, width, dark, text=page.build(PARAMS))
    assert (seen["errors"], console, seen["wide"], seen["faint"], seen["page"]) == ([], [], [], [], width)
    for one, view in zip(seen["readings"], shown["views"], strict=True):
        assert one["shown"] == [one["name"]] == [view["name"]]
        assert one["says"].startswith(view["title"])
        assert one["chosen"] == len(shown["claims"])
        if not view["computed"]:
            assert "Not computed yet." in one["words"]
            assert (one["noracl"], one["chips"]) == ([], [])
            continue
        ours = [cell["ours"] for cell in view["tables"][0]["rows"][-1]["cells"]]
        assert all(text.startswith(number) for text, number in zip(one["noracl"], ours, strict=True))
        verdicts = [shown["verdicts"][claim["claim"]][view["name"]] for claim in shown["claims"]]
        assert [chip.split(" ", 1)[1] for chip in one["chips"]] == verdicts


def test_a_run_under_another_reading_comes_out_as_committed(mnist_folder, capsys):
    """And not as under the base: the reading changes it."""
    params = load()
    (name, *_) = [name for name in params.readings if not results.is_missing(f"readings/{name}")]
    verify.main(["split_mnist", "small", "--seed", "0", "--suite", f"readings/{name}"])
    assert f"verify readings/{name}: split_mnist 2L small seed 0: " in capsys.readouterr().out
    runs = suites(params)[f"readings/{name}"].runs()
    (ours,) = [run for run in runs if (run.benchmark, run.method, run.seed) == ("split_mnist", "small", 0)]
    assert ours.key not in {run.key for run in suites(params)["main/split_mnist-static"].runs()}
