"""The page: whole, the same every time, and on its own."""

import itertools
import math
import re
import subprocess

import pandas as pd
import pytest
import yaml

from pipeline import report, words
from pipeline.params import load
from pipeline.paths import CLAIMS, RESULTS, TABLES

PAGE = report.build(load())


def test_the_same_files_give_the_same_bytes():
    assert report.build(load()) == PAGE


def test_it_needs_no_network():
    assert re.findall(r"(?:src|href)=\"(?!#|data:)([^\"]*)\"", PAGE) == [
        *("claims.yaml", "claims.csv", "claims.yaml"),
        *(f"tables/{table['name']}.csv" for table in map(report.table_of, report.suites_of_tables(load()))),
        *(f"tables/{table['name']}.csv" for table in report.other_tables({})),
        *(f"figures/{figure['name']}.csv" for figure in report.figures() if figure["name"] != report.STUDY),
        *([f"figures/{report.STUDY}.csv", f"tables/{report.STUDY}.csv"] if report.study({})["body"] else []),
    ]
    assert not re.search(r"https?://|@import|url\(", PAGE)


def test_every_claim_and_every_cell_is_on_it():
    claims = pd.read_csv(CLAIMS)
    assert re.findall(r'<code class="id">(.*?)</code>', PAGE) == claims["id"].tolist()
    commands = re.findall(r"Made by <code>(dvc repro [^<]* claims)</code>", PAGE)
    assert len(commands) == claims["claim"].nunique()
    for command, (_, parts) in zip(commands, claims.groupby("claim", sort=False), strict=True):
        assert set(command.split()) == set(" ".join(parts["command"]).split())
    marked = PAGE.count("✓ match</span> ") + PAGE.count("▲ higher</span> ") + PAGE.count("▼ lower</span> ")
    tables = [pd.read_csv(TABLES / f"{name}.csv", keep_default_na=False) for name in report.suites_of_tables(load())]
    judged = sum((table[column] != "n/a").sum() for table in tables for column in ("verdict", "params_verdict"))
    assert marked == judged


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
    names = ["main", "sensitivity"]
    both = report.tally(names)["accuracy"]["all"]["cells"]
    alone = [report.tally([name])["accuracy"]["all"]["cells"] for name in names]
    table = pd.read_csv(TABLES / "sensitivity.csv")
    assert both == sum(alone)
    assert alone[1] == len(table) - 1, "the default row is NORACL's of Table 1"


def test_the_drawing_of_an_interval():
    part = {"low": 1.0, "high": 3.0, "value": 2.0, "at_least": 0.0, "at_most": math.inf, "paper_value": math.nan}
    drawn = report.whisker(part)
    assert "paper_value" not in drawn
    assert drawn["from"] == drawn["at_least"] < drawn["low"] < drawn["value"] < drawn["high"] < drawn["to"] == 100
    assert report.whisker({**part, "low": math.nan}) is None


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [(2.588, "points", "+2.59"), (-0.04, "points", "−0.04"), (77.66, "%", "77.7"), (-12.34, "%", "−12.3")],
)
def test_numbers_for_people(value, unit, expected):
    assert report.signed(value, unit) == expected


def test_markdown():
    text = "# One\n\n`par-x` and `other-y` <script>\n\n| a |\n| --- |\n| b |\n"
    html = words.markdown(text, {"par-x": "holds"})
    assert "<h2>One</h2>" in html
    assert '<a class="part" href="#par-x">par-x\N{NO-BREAK SPACE}✓</a> and <code>other-y</code> &lt;script&gt;' in html
    assert '<div class="scroll" tabindex="0"><table>' in html
    assert '<th scope="col">a</th>' in html


def test_a_section_that_is_gone_is_missed(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("# T\n\n## First\none\n\n## Second\ntwo\n")
    assert words.section_of(path, "First") == "one\n\n"
    assert words.section_of(path, "Second") == "two\n"
    with pytest.raises(ValueError, match="has no section 'Third'"):
        words.section_of(path, "Third")


def test_the_digest_is_the_one_that_the_page_says_how_to_get():
    command = f"cat {RESULTS}/* | sha256sum"
    done = subprocess.run(command, shell=True, env={"LC_ALL": "C"}, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == report.digest(RESULTS)
    assert report.digest(RESULTS) in PAGE


@pytest.fixture
def one_figure(tmp_path, monkeypatch):
    entry = {"name": "f", "title": "A title", "paper": "Figure 9", "caption": "It <shows>.", "reads": []}
    (tmp_path / "figures.yaml").write_text(yaml.safe_dump([entry]))
    (tmp_path / "f.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>")
    monkeypatch.setattr(report, "REGISTRY", tmp_path / "figures.yaml")
    monkeypatch.setattr(report, "FIGURES", tmp_path)
    return tmp_path


def test_figures_are_embedded(one_figure):
    page = report.build(load())
    assert '<img src="data:image/svg+xml;base64,' in page
    assert 'alt="A title: It &lt;shows&gt;."' in page
    assert "dvc repro figure-f" in page
    assert '<a href="#figures">' in page
    (one_figure / "f.svg").unlink()
    with pytest.raises(FileNotFoundError):
        report.figures()


def test_tables_of_another_shape_are_shown_when_they_have_been_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "TABLES", tmp_path)
    assert report.other_tables({}) == []
    (tmp_path / "cost.md").write_text("| component |\n| --- |\n| SGD |\n")
    (only,) = report.other_tables({})
    assert (only["name"], only["command"]) == ("cost", "dvc repro cost")
    assert "<td>SGD</td>" in only["body"]


def test_the_reconstruction_study_has_a_section_with_its_figure_once_it_has_been_computed(one_figure, monkeypatch):
    monkeypatch.setattr(report, "STUDY", "f")
    without = report.build(load())
    assert '<section id="study">' not in without
    assert "A title" not in without, "the study's figure stands in its own section"
    folder = one_figure / "tables"
    folder.mkdir()
    for path in TABLES.iterdir():
        (folder / path.name).symlink_to(path.resolve())
    (folder / "f.md").write_text("7 configurations were run.\n\n## Finalists\n| a |\n| --- |\n| b |\n")
    monkeypatch.setattr(report, "TABLES", folder)
    page = report.build(load())
    section = page[page.index('<section id="study">') : page.index('<section id="chosen"')]
    assert '<a href="#study">' in page
    assert "7 configurations were run." in section
    assert "<h3>Finalists</h3>" in section
    assert page.count("A title: ") == section.count("A title: ") == 1
