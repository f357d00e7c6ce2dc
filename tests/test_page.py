"""The page: whole, the same every time, and on its own."""

import html
import itertools
import json
import math
import os
import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.config import load
from pipeline.experiments import beyond
from pipeline.experiments.suites import suites
from pipeline.paths import CLAIMS, QUESTIONS, RESULTS, TABLES, TIMING
from pipeline.report import charts, figures, page, rendering
from pipeline.report.tables import RELEASED, names, tally

PARAMS = load()
PAGE = page.build(PARAMS)


def test_the_same_files_give_the_same_bytes():
    assert page.build(PARAMS) == PAGE


def parted(found):
    """Names of tables or figures about the paper, and about what goes beyond it."""
    return [[name for name in found if (name in beyond.QUESTIONS) == asked] for asked in (False, True)]


def test_it_needs_no_network():
    """What goes beyond the paper has its tables and figures with its questions, after all of the paper's."""
    linked = re.findall(r"(?:src|href)=\"(?!#|data:)([^\"]*)\"", PAGE)
    paper, more = parted(names(PARAMS))
    drawn, more_drawn = parted(figures.registry())
    assert more
    assert more_drawn
    generated = [
        *("claims.yaml", "claims.csv", "claims.yaml"),
        *(f"tables/{name}.csv" for name in ("readings", "readings_claims", "readings_cells")),
        *(f"tables/{name}.csv" for name in paper),
        *(f"tables/{name}.md" for name in page.OTHER),
        *(f"figures/{name}.{kind}" for name in drawn for kind in ("svg", "csv")),
        *("questions.csv", "questions.yaml"),
        *(f"tables/{name}.csv" for name in more),
        *(f"figures/{name}.{kind}" for name in more_drawn for kind in ("svg", "csv")),
        "tables/contradictions.csv",
    ]
    assert linked[: len(generated)] == generated, "and then links of the notes"
    assert [name for name in linked if not Path("reports", name).exists()] == []
    assert not re.search(r"https?://|@import|url\(", PAGE)


def test_commands_on_it_name_real_stages():
    known = {suite.stage for suite in suites(PARAMS).values()} | {f"figure@{name}" for name in figures.registry()}
    known |= {stage.partition("@")[0] for stage in known}  # all of a kind
    known |= {"cost", "theory", "transfer", "tables", "claims", "page"}
    assert {stage.partition("@")[0] for stage in known} <= set(
        yaml.safe_load(Path("dvc.yaml").read_text(encoding="utf-8"))["stages"]
    )
    commands = re.findall(r"<code>dvc repro( [^<]+)</code>", PAGE)
    assert len(commands) > len(figures.registry()) + len(names(PARAMS)) + len(page.OTHER)
    assert set(" ".join(commands).split()) <= known


def test_every_claim_question_and_cell_is_on_it():
    claims = pd.concat([pd.read_csv(CLAIMS), pd.read_csv(QUESTIONS)])
    assert re.findall(r'<code class="id">(.*?)</code>', PAGE) == claims["id"].tolist()
    commands = re.findall(r"Made by <code>(dvc repro [^<]* claims)</code>", PAGE)
    assert len(commands) == claims["claim"].nunique()
    for command, (_, parts) in zip(commands, claims.groupby("claim", sort=False), strict=True):
        assert set(command.split()) == set(" ".join(parts["command"]).split())
    section = PAGE[PAGE.index('<section id="tables">') :]
    marked = sum(section.count(mark) for mark in ("✓ match</span> ", "▲ higher</span> ", "▼ lower</span> "))
    tables = [pd.read_csv(TABLES / f"{name}.csv", keep_default_na=False) for name in names(PARAMS)]
    judged = sum((table[column] != "n/a").sum() for table in tables for column in ("verdict", "params_verdict"))
    assert marked == judged


def test_what_is_not_computed_is_not_judged():
    section = PAGE[PAGE.index('<section id="beyond">') : PAGE.index('<section id="contradictions">')]
    questions = page.judged(QUESTIONS)
    waiting = [one for one in questions if one["missing"] == len(one["parts"])]
    assert section.count("not computed yet") == len(waiting)
    assert '<details class="fold">' in section, "the page stays short when they are computed"
    assert f"{len(questions) - len(waiting)} of {len(questions)} questions computed" in section
    assert "On the paper's numbers" not in section, "it has none"


def test_released_numbers_and_contradicted_misses_are_on_it():
    tables = [pd.read_csv(TABLES / f"{name}.csv", keep_default_na=False) for name in names(PARAMS)]
    released = sum((table[f"released_{what}"] != "").sum() for table in tables for what in ("params", "acc"))
    assert PAGE.count("<small>released ") == released > 0
    missed = sum(
        ((table[verdict].isin(["higher", "lower"])) & table["contradicted"].str.contains(rf"\b{what}\b")).sum()
        for table in tables
        for what, verdict in (("params", "params_verdict"), ("acc", "verdict"))
    )
    shown = PAGE[PAGE.index('<section id="tables">') :]
    assert shown.count('title="the paper contradicts itself here">†</a>') == missed
    section = PAGE[PAGE.index('<section id="contradictions">') : PAGE.index('<section id="chosen"')]
    assert section.count("<tr>") == len(pd.read_csv(TABLES / "contradictions.csv")) + 1
    (source,) = set().union(*(table["released_source"] for table in tables)) - {""}
    assert " ".join(RELEASED[source].split()) in html.unescape(PAGE)
    assert "it has not been run here" in PAGE


def test_a_number_that_there_is_not_is_given_with_its_reason(tmp_path, monkeypatch):
    table = pd.read_csv(CLAIMS, dtype={"reason": str})
    table.loc[0, ["value", "low", "high"]], table.loc[1, ["value", "low", "high"]] = math.nan, math.inf
    table.loc[0, "reason"] = "the statistic is infinite in 2 of 5 seeds"
    table.to_csv(tmp_path / "claims.csv", index=False)
    monkeypatch.setattr(page, "CLAIMS", tmp_path / "claims.csv")
    text = page.build(PARAMS)
    assert '<td class="muted" colspan="2">the statistic is infinite in 2 of 5 seeds</td>' in text
    assert "<small>[+∞, +∞], 5 seeds</small>" in text
    assert not re.search(r"\b(?:nan|inf)\b", text[text.index('id="claims"') : text.index('id="tables"')])


def test_links_within_it_lead_somewhere():
    anchors = re.findall(r'id="([^"]+)"', PAGE)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]+)"', PAGE)) <= set(anchors)


def test_headings_step_down_one_at_a_time_and_headers_have_a_scope():
    levels = [int(level) for level in re.findall(r"<h(\d)", PAGE)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert not re.search(r"<th(?![^>]*scope=)[ >]", PAGE)


def test_a_cell_that_two_tables_print_counts_once():
    found = {name: pd.read_csv(TABLES / f"{name}.csv", keep_default_na=False) for name in ("main", "sensitivity")}
    alone = [tally({name: table})["accuracy"]["all"]["cells"] for name, table in found.items()]
    assert tally(found)["accuracy"]["all"]["cells"] == sum(alone)
    assert alone[1] == len(found["sensitivity"]) - 1, "the default row is NORACL's of Table 1"


def test_it_counts_matches_in_one_way_and_never_of_nothing():
    total = tally({name: pd.read_csv(TABLES / f"{name}.csv", keep_default_na=False) for name in names(PARAMS)})
    of_all = f"{total['accuracy']['all']['match']} of {total['accuracy']['all']['cells']}"
    assert f"match the paper&#39;s in {of_all} cells" in PAGE
    assert f"<span>{of_all} accuracies and " in PAGE, "the head of the tables says the same"
    each = [
        int(cells)
        for cells in re.findall(r"(\d+) accurac(?:y|ies)", " ".join(re.findall(r"<span>(.*) match</span>", PAGE)))
    ]
    assert sum(each) == 2 * total["accuracy"]["all"]["cells"], "and so do the tables, added up"
    assert " of 0 " not in PAGE


def test_results_that_the_same_machines_made_are_one_row():
    rows = page.provenance()
    assert len({row["machines"] for row in rows}) == len(rows) < 10
    suites = {f"{table}/{name}".rstrip("/") for row in rows for table, some in row["suites"].items() for name in some}
    assert suites == {path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("provenance.json")}
    seconds = [pd.read_csv(path)["total"] for path in TIMING.rglob("*.csv") if path.parent.name != "cost"]
    assert sum(row["runs"] for row in rows) == sum(map(len, seconds))
    assert sum(row["hours"] for row in rows) == pytest.approx(sum(map(sum, seconds)) / 3600)
    assert "Hours of wall-clock" in PAGE


def test_charts_have_the_numbers_of_their_figures():
    found = json.loads(charts.embedded(list(figures.registry()), PARAMS))
    assert list(found) == list(charts.CHARTS)
    points = {
        name: sum(len(one["x"]) for option in chart["options"] for panel in option["panels"] for one in panel["series"])
        for name, chart in found.items()
    }
    assert points["fig2"] == 2 * len(pd.read_csv(figures.FIGURES / "fig2.csv"))
    steps = sum(len(option["panels"][0]["series"][0]["x"]) for option in found["pareto"]["options"])
    assert points["pareto"] == len(pd.read_csv(figures.FIGURES / "pareto.csv")) + steps
    assert [option["name"] for option in found["timeline"]["options"]] == list(map(str, PARAMS.seeds))
    first = pd.read_csv(figures.FIGURES / "timeline.csv")
    panels = found["timeline"]["options"][0]["panels"]
    signal, _, above, growth = panels[1]["series"]
    layer = first[first["layer"] == 1]
    assert signal["y"] == pytest.approx(layer["percentile"].tolist(), rel=1e-3)
    limits = layer.groupby("task")["tau"].transform("max")
    assert len(above["x"]) == (layer["percentile"] > limits).sum() > 0
    assert growth["names"] == [f"layer 1 grows by {neurons}" for neurons in layer["neurons"] if neurons]
    assert "<" not in charts.embedded(list(figures.registry()), PARAMS)


def test_charts_of_what_nobody_foresaw(tmp_path, monkeypatch):
    """A method with a look of its own, and a rule that looks at no signal."""
    table = pd.read_csv(figures.FIGURES / "fig2.csv").replace({"method": {"large": "128×128"}})
    table.to_csv(tmp_path / "fig2.csv", index=False)
    monkeypatch.setattr(charts, "FIGURES", tmp_path)
    (line,) = (one for one in charts.accuracy(PARAMS)["options"][0]["panels"][0]["series"] if "128×128" in one["name"])
    assert re.fullmatch(r"\d+( \d+)+", line["dash"])
    signals = charts.results.signals("main/permuted_mnist-noracl")
    monkeypatch.setattr(charts.results, "signals", lambda _: signals.iloc[:0])
    assert charts.timeline(PARAMS)["options"] == []


def test_the_drawing_of_an_interval():
    part = {"low": 1.0, "high": 3.0, "value": 2.0, "at_least": 0.0, "at_most": math.inf, "paper_value": math.nan}
    drawn = page.whisker(part)
    assert "paper_value" not in drawn
    assert drawn["from"] == drawn["at_least"] < drawn["low"] < drawn["value"] < drawn["high"] < drawn["to"] == 100
    assert page.whisker({**part, "low": math.nan}) is None
    assert page.whisker({**part, "low": math.inf, "high": math.inf, "value": math.inf}) is None


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (2.588, "points", "+2.59"),
        (-0.04, "points", "−0.04"),
        (77.66, "%", "77.7"),
        (-12.34, "%", "−12.3"),
        (math.inf, "%", "∞"),
    ],
)
def test_numbers_for_people(value, unit, expected):
    assert page.signed(value, unit) == expected


def test_markdown():
    text = "# One\n\n`par-x` and `other-y` <script>, (`par-x` ?,\n`par-x`\n✗)\n\n| a |\n| --- |\n| b |\n"
    html = rendering.markdown(text, {"par-x": "holds"})
    assert "<h2>One</h2>" in html
    assert '<a class="part" href="#par-x">par-x\N{NO-BREAK SPACE}✓</a> and <code>other-y</code> &lt;script&gt;' in html
    link = '<a class="part" href="#par-x">par-x\N{NO-BREAK SPACE}✓</a>'
    assert f"({link},\n{link})" in html, "the page's own mark, in place of the one that is written"
    assert '<div class="scroll" tabindex="0"><table>' in html
    assert '<th scope="col">a</th>' in html


def test_a_section_that_is_gone_is_missed(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("# T\n\n## First\none\n\n## Second\ntwo\n", encoding="utf-8")
    assert rendering.section_of(path, "First") == "one\n\n"
    assert rendering.section_of(path, "Second") == "two\n"
    with pytest.raises(ValueError, match="has no section 'Third'"):
        rendering.section_of(path, "Third")


def test_the_digest_is_the_one_that_the_page_says_how_to_get():
    command = f"find {RESULTS} -type f | sort | xargs cat | sha256sum"
    assert f"<code>{command}</code>" in PAGE
    done = subprocess.run(
        command, shell=True, env={**os.environ, "LC_ALL": "C"}, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.split()[0] == page.digest(RESULTS)
    assert page.digest(RESULTS) in PAGE


def test_figures_are_embedded(tmp_path, monkeypatch):
    entry = {"title": "A title", "paper": "Figure 9", "caption": "It <shows>.", "reads": "", "params": ""}
    (tmp_path / "figures.yaml").write_text(yaml.safe_dump({"figures": {"f": entry}}), encoding="utf-8")
    (tmp_path / "f.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", encoding="utf-8")
    monkeypatch.setattr(figures, "REGISTRY", tmp_path / "figures.yaml")
    monkeypatch.setattr(page, "FIGURES", tmp_path)
    text = page.build(PARAMS)
    assert text.count('<img src="data:image/svg+xml;base64,') == 1
    assert 'alt="A title: It &lt;shows&gt;."' in text
    assert "dvc repro figure@f" in text
    assert '<a href="#figures">' in text
    (tmp_path / "f.svg").unlink()
    with pytest.raises(FileNotFoundError):
        page.figures()


def test_tables_of_another_shape_are_shown_as_they_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "TABLES", tmp_path)
    for name in page.OTHER:
        (tmp_path / f"{name}.md").write_text(f"| component |\n| --- |\n| {name} `par-x` |\n", encoding="utf-8")
    found = page.other_tables({"par-x": "holds"})
    assert [(one["name"], one["command"]) for one in found] == [
        ("cost", "dvc repro cost tables"),
        ("theory", "dvc repro theory tables"),
        ("hours", "dvc repro tables"),
    ]
    assert all(f'<td>{one["name"]} <a class="part" href="#par-x">' in one["body"] for one in found)
    (tmp_path / "cost.md").unlink()
    with pytest.raises(FileNotFoundError):
        page.other_tables({})
