"""The page as a reader sees it: in a real browser, wide and narrow, light and dark."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline.paths import PAGE
from pipeline.report.charts import CHARTS
from pipeline.report.page import figures

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FINDINGS = Path(__file__).parent / "page_findings.js"
AROUND = """<!doctype html><body style="margin:0"><iframe src="page.html" width="{width}" height="{height}"
style="border:0;display:block"></iframe><script>addEventListener("message", (event) => {{
const found = document.createElement("pre"); found.textContent = event.data; document.body.append(found);
}});</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")


def look(folder, width, dark=False, old="", new="", text=None):
    """What the injected script finds, and what the browser logs; a picture is left in ``folder``."""
    height = 2400
    page = text or PAGE.read_text(encoding="utf-8")
    page = page.replace(old, new, 1).replace(
        "<head>", f"<head><script>{FINDINGS.read_text(encoding='utf-8')}</script>", 1
    )
    (folder / "page.html").write_text(page, encoding="utf-8")
    (folder / "around.html").write_text(AROUND.format(width=width, height=height), encoding="utf-8")
    command = [
        *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
        *(f"--user-data-dir={folder / 'profile'}", f"--window-size={max(width, 500)},{height}"),
        *(
            "--virtual-time-budget=10000",
            "--enable-logging=stderr",
            f"--screenshot={folder / 'page.png'}",
            "--dump-dom",
        ),
        *(["--force-dark-mode"] if dark else []),
        (folder / "around.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    found = re.search(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)
    assert found, f"the page did not come to its end\n{done.stderr[-2000:]}"
    return json.loads(html.unescape(found[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_reader_sees_all_of_it(tmp_path, width, dark):
    seen, console = look(tmp_path, width, dark)
    assert (seen["errors"], console) == ([], [])
    assert (seen["width"], seen["dark"]) == (width, dark)
    assert seen["background"] == ("rgb(21, 24, 27)" if dark else "rgb(252, 252, 250)")
    assert (seen["images"], seen["broken"], seen["silent"]) == (len(figures()), [], 0)
    assert (seen["wide"], seen["page"]) == ([], width), "the page scrolls sideways"
    assert seen["faint"] == []

    assert seen["height"] < (9000 if width > 700 else 14000), "folded, the page is a few screens long"
    assert seen["first"] or width < 700, "the answer is on the first screen"
    assert {"beyond", "contradictions", "chosen", "differences", "provenance"} <= set(seen["folded"])
    assert seen["bar"] == 0, "the contents stay in sight"
    assert seen["charts"] == [f"figure-{name}" for name in CHARTS]
    assert len(seen["shown"]) == len(figures()) - len(CHARTS), "a chart takes the place of its picture"
    for one in seen["shown"]:
        assert one["drawn"] == max(one["room"], 576), "as wide as there is room, and legible on a phone"
        assert one["scrolls"] == (one["room"] < 576)
    assert seen["full"] >= 960, "a picture opens at full size"
    assert not seen["again"], "and closes"
    assert seen["redrawn"], "another seed has another timeline"
    assert [one["inside"] for one in seen["tips"]] == [True] * len(CHARTS)
    assert all(re.search(r": [\d.]+k?( ± [\d.]+)? \(", one["says"]) for one in seen["tips"])
    assert all(one["wide"] > width * 0.7 or one["wide"] > 800 for one in seen["tips"])

    order = seen["sorted"]
    assert order["ascending"] == sorted(order["printed"]) != order["printed"]
    assert order["descending"] == sorted(order["printed"], reverse=True)
    assert order["again"] == order["printed"]
    assert [order[f"{name}_says"] for name in ("ascending", "descending", "again")] == ["ascending", "descending", None]
    assert seen["focus"], "a keyboard cannot reach the sort button"
    assert seen["verdicts"] == sorted(seen["verdicts"], key=lambda words: words.split(" ", 1)[1])
    assert seen["together"], "a claim has lost its parts"
    assert seen["closed"] == seen["opened"] > 20, "claims are closed at first, and open at a click"
    assert seen["followed"], "a link to a part opens its claim"
    assert [one["shown"] for one in seen["readings"]] == [[one["name"]] for one in seen["readings"]]
    assert seen["linked"] == ["base"], "a click on a head of the grid chooses its reading"
    assert seen["reached"], "a keyboard cannot reach the list of readings, or it has no label"
    assert (tmp_path / "page.png").stat().st_size > 50_000


def test_the_look_sees_what_is_wrong(tmp_path):
    wrong = """<img alt="broken" src="data:image/png;base64,AAAA"><script>nothing.there()</script>
    <p style="width:900px;max-width:none;color:#ccc">faint</p></main>"""
    seen, _ = look(tmp_path, 390, old="</main>", new=wrong)
    assert any("nothing is not defined" in error for error in seen["errors"])
    assert seen["broken"] == ["broken"]
    assert seen["page"] > 390
    assert any(">faint" in one for one in seen["wide"])
    assert any(">faint" in one for one in seen["faint"])
