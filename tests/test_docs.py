"""Pages and notebooks about the library: their code runs, their numbers are right, and the reference is complete."""

import ast
import contextlib
import dataclasses
import importlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest

import noracl
from noracl.method.initialisers import INITIALISERS
from noracl.method.regularisers import REGULARISERS
from noracl.method.signals import new_neurons
from noracl.method.triggers import TRIGGERS
from pipeline.config import load
from pipeline.tools import reference
from tests.conftest import ROOT
from tests.test_prose import paragraphs, unexplained

PAGES = sorted(Path("docs/library").glob("*.md"))
NOTEBOOKS = sorted(Path("docs/examples").glob("*.ipynb"))
BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:(?!```)[^\n]*\n)?(?:^```text\n(.*?)^```\n)?", flags=re.DOTALL | re.MULTILINE
)


# The reference


def things():
    """All that is public, by name."""
    for module in ("noracl", *reference.MODULES):
        yield from reference.public(importlib.import_module(module)).items()


def parts(thing):
    """Public methods, properties and fields of a class, found without the source: its own and those it inherits."""
    for owner in thing.__mro__ if isinstance(thing, type) else ():
        if owner.__module__.startswith(("noracl", __name__)):
            for name, value in vars(owner).items():
                if not name.startswith("_") and (callable(value) or isinstance(value, property | classmethod)):
                    yield owner, name, value
            for field in dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ():
                yield owner, field.name, None


def undocumented(name, thing):
    """What of it says nothing about itself; the docstring that dataclasses write themselves does not count."""
    own = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    found = [] if own and not own.startswith(f"{name}(") else [name]
    return found + [
        f"{name}.{one}" for _, one, value in parts(thing) if value is not None and not inspect.getdoc(value)
    ]


def absent(name, thing, page):
    """What of it the page does not show, in its own entry or in that of a base."""
    entries = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, flags=re.DOTALL | re.MULTILINE))
    found = [] if name in entries else [name]
    for owner, one, _ in parts(thing):
        shown = entries.get(name, "") + entries.get(owner.__name__, "")
        if not re.search(rf"^(?:- |\| )`{one}[`(]", shown, flags=re.MULTILINE):
            found.append(f"{name}.{one}")
    return found


def test_the_reference_is_what_the_code_gives():
    assert reference.REFERENCE.read_text(encoding="utf-8") == reference.build(), "run: python -m pipeline reference"


def test_everything_public_says_what_it_is():
    assert [words for name, thing in things() for words in undocumented(name, thing)] == []


def test_the_reference_leaves_nothing_out():
    page = reference.REFERENCE.read_text(encoding="utf-8")
    assert [words for name, thing in things() for words in absent(name, thing, page)] == []
    named = set(re.findall(r"^### (\w+)$", page, flags=re.MULTILINE))
    assert named == {name for name, _ in things()} >= set(noracl.__all__)


def test_every_field_says_what_it_means():
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| (.*) \|$", reference.REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert len(rows) > 50
    assert [name for name, meaning in rows if not meaning or meaning.startswith("`")] == []


@dataclasses.dataclass
class Silent:
    size: int = 1

    def grow(self):
        pass


def test_what_is_silent_or_left_out_is_noticed():
    assert undocumented("Silent", Silent) == ["Silent", "Silent.grow"]
    assert absent("Silent", Silent, "### Silent\n| `size` | `int` |\n") == ["Silent.grow"]
    assert absent("Silent", Silent, "### Other\n- `grow()`\n") == ["Silent", "Silent.grow", "Silent.size"]


def test_an_entry_shows_arguments_fields_and_comments():
    page = reference.build()
    for words in (
        "`split(data: Task, pairs: Iterable[Sequence[int]], classes: int = 2, **scaling: float) → Stream`",
        "- `learn(x: Any, y: Any = None, x_test: Any = None, y_test: Any = None, *, columns: Any = None) → Self`: ",
        "| `epoch` | `int` |  | the last epoch that was trained before the event; 0 is the start of the task |",
        "| `optimisation` | `OptimisationSettings` | `OptimisationSettings()` |",
        "- `from_dict(data: dict[str, Any]) → History`: The inverse of `to_dict`.",
        "- `widths`: Neurons in each hidden layer.",
        "It also has all that [Regulariser](#regulariser) has.",
        "(θᵢ − θᵢ\\*)²",
    ):
        assert words in page


def test_the_command_writes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    reference.main([])
    assert reference.REFERENCE.read_text(encoding="utf-8") == (ROOT / reference.REFERENCE).read_text(encoding="utf-8")
    assert capsys.readouterr().out == "reference: docs/library/reference.md\n"


# The pages


def shape(text):
    """Lines with # for each number or list of numbers, which differ between processors; equal lines count once."""
    return {re.sub(r"-?\d[\d.]*(?:e[-+]\d+)?(?:, -?\d[\d.]*)*", "#", line) for line in text.splitlines()}


@pytest.fixture
def registries():
    """What a page registers is forgotten after it."""
    before = [(registry, dict(registry)) for registry in (REGULARISERS, TRIGGERS, INITIALISERS)]
    yield
    for registry, content in before:
        registry.clear()
        registry.update(content)


@pytest.mark.parametrize("page", [*PAGES, Path("CONTRIBUTING.md")], ids=str)
def test_the_code_of_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch, registries):
    blocks, space = BLOCK.findall(page.read_text(encoding="utf-8")), {"__name__": "page"}
    assert blocks or page == reference.REFERENCE
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for code, shown in blocks:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, space)
            assert shape(printed.getvalue()) == shape(shown)


def test_shapes_see_more_than_numbers():
    assert (
        shape("φ 0.89, F 2.1e-06, [(8, 8), (9, 9)]")
        == shape("φ 1, F 1.4e-06, [(18, 8), (9, 10)]")
        == {"φ #, F #, [(#), (#)]"}
    )
    assert shape("a 1\na 2\n") == shape("a 3\n") != shape("b 3\n")


def test_links_into_the_reference_have_a_target():
    heads = {
        name.lower()
        for name in re.findall(r"^### (\w+)$", reference.REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    links = [
        link for page in PAGES for link in re.findall(r"\((?:reference\.md)?#(\w+)\)", page.read_text(encoding="utf-8"))
    ]
    assert links
    assert set(links) <= heads


def test_every_page_and_notebook_can_be_reached_from_the_readme():
    linked = re.findall(r"\]\((docs/[^)#]+)", Path("README.md").read_text(encoding="utf-8"))
    assert {str(path) for path in (*PAGES, *NOTEBOOKS)} <= set(linked)


def test_the_page_on_rules_names_all_of_them():
    text = Path("docs/library/your-own-rule.md").read_text(encoding="utf-8")
    for words, registry in (("rules", TRIGGERS), ("initialisers", INITIALISERS)):
        (sentence,) = re.findall(rf"The {words} that have a name are ([^.]*)\.", text)
        assert set(re.findall(r"`([\w-]+)`", sentence)) == set(registry)


def phrases():
    """What the pages say about a run and about defaults, from its signals and from the settings."""
    growth, by = noracl.GrowthSettings(), noracl.OptimisationSettings()
    run = pd.read_csv("reports/results/main/permuted_mnist-noracl/signals.csv")
    run = run[(run["seed"] == load().seeds[0]) & (run["layers"] == 2)]
    checks = run.set_index(["layer", "task", "epoch"])
    one, two, nine, other = (checks.loc[at] for at in ((1, 2, 1), (1, 2, 5), (1, 2, 9), (2, 2, 1)))
    widths = [load().benchmarks["permuted_mnist"].start[-1][0]]
    for seen in (one, two):
        widths.append(widths[-1] + int(seen["neurons"]))
        assert seen["neurons"] == new_neurons(widths[-2], seen["phi"], seen["reference"], growth.gamma)
        assert seen["percentile"] > seen["tau"]
    later = run[(run["layer"] == 1) & (run["task"] == 2) & (run["epoch"] > 5)]
    assert (later["percentile"] < later["tau"]).all()
    assert list(later["epoch"]) == list(range(9, by.epochs_later + 1))
    assert round(nine["phi"] * widths[2]) == widths[2] - 1, "one is redundant"
    assert (run["phi"] > growth.gamma * run["reference"]).all(), "effective dimension decides nothing"
    open_ = run["percentile"] > run["tau"]
    assert not open_[run["layer"] == 2].any()
    limit = f"{growth.gamma * one['reference']:.3f}"
    steps, first, later = -(-60_000 // by.batch_size), by.rate_first * by.epochs_first, by.rate_later * by.epochs_later
    return {
        "growth.md": [
            f"γ is `gamma`, {growth.gamma}; ε in φ is `epsilon`, {growth.epsilon}",
            f"p is `percentile`, {growth.percentile:g}",
            f"With p = {growth.percentile:g}, if even this low value",
            "With φ = 1 each neuron does work of its own; with φ = 0.5 half of them could go",
            "with seed 0.",
            f"None of the {widths[0]} neurons is redundant: φ is {one['phi']:.3f}.",
            f"φ⁰ is {one['reference']:.3f}, so the threshold γφ⁰ is {limit}",
            f"The percentile is {one['percentile']:.5f} and τ is {one['tau']:.5f}, so",
            f"⌊{widths[0]}·({one['phi']:.3f} − {limit})⌋ = {one['neurons']:.0f} neurons.",
            f"**Epochs 2 to {1 + growth.cooldown}.** Cooldown",
            f"**Epoch 5.** The layer has {widths[1]} neurons, and φ is {two['phi']:.3f} again",
            f"has fallen to {two['percentile']:.5f}, which is still above τ",
            f"⌊{widths[1]}·({two['phi']:.3f} − {limit})⌋ = {two['neurons']:.0f} more neurons.",
            f"**Epochs 9 to {by.epochs_later}.** At epoch 9 one of the {widths[2]} neurons is redundant",
            f"but φ = {nine['phi']:.3f} is still above {limit}",
            f"The percentile is {nine['percentile']:.5f} now",
            f"At epoch 1 its φ is {other['phi']:.3f}, which is above {growth.gamma * other['reference']:.3f}",
            f"its percentile is {other['percentile']:.5f}, far below its τ of {other['tau']:.5f}",
            f"above its threshold at all {len(run)} checks",
            f"above τ at {open_.sum()} of {len(run) // 2} checks, in layer 2 at none",
            "- **Epoch 1.**",
            "1. Does the layer use",
            "2. Does the new task need",
        ],
        "quick-start.md": [
            f"in mini-batches of {by.batch_size}.",
            "MNIST: 60 000 images",
            *(f"{number}. **" for number in range(1, 6)),
            "16 or 32 for a few hundred samples",
            "at least 5 in task 1 and between 5 and 50 in later tasks",
            f"The defaults give {first * steps:.0f} and {later * steps:.0f} on MNIST",
            "Below 1 the learner warns",
            "powers of ten from 100 on",
        ],
        "one-by-one.md": ["whole numbers from 0 to classes − 1"],
        "your-own-rule.md": ["which counts from 0"],
    }


@pytest.mark.parametrize("name", [page.name for page in PAGES if page != reference.REFERENCE])
def test_numbers_have_a_source_or_a_date(name):
    page, known = Path("docs/library", name), phrases()[name]
    said = " ".join(paragraphs(page))
    assert [phrase for phrase in known if phrase not in said] == []
    found = {paragraph: unexplained(paragraph, known) for paragraph in paragraphs(page)}
    assert {paragraph: numbers for paragraph, numbers in found.items() if numbers} == {}


# The notebooks


def code_of(path, cell):
    cells = {one["id"]: "".join(one["source"]) for one in json.loads(path.read_text(encoding="utf-8"))["cells"]}
    return cells[cell]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=str)
def test_notebooks_are_committed_without_outputs(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert re.fullmatch(r"[a-z_]+", cell["id"])
        assert cell["metadata"] == {}
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)


def printed_by(path, folder):
    """What a notebook prints and how many pictures it draws, run without the user's own kernels and settings."""
    own = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    environment = {name: value for name, value in os.environ.items() if name != "JUPYTER_PATH"}
    command = [sys.executable, "-m", "papermill", str(path), str(folder / path.name), "-k", "python3"]
    done = subprocess.run(
        [*command, "--no-progress-bar"],
        env=environment | dict.fromkeys(own, str(folder)),
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads((folder / path.name).read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"], "no warnings"
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    return "".join("".join(output.get("text", "")) for output in outputs), len(pictures)


def test_digits_are_remembered_and_the_network_grows(tmp_path):
    words, pictures = printed_by(Path("docs/examples/digits.ipynb"), tmp_path)
    (final,) = re.findall(r"accuracy on each task: \[(.*)\]", words)
    accuracies = [float(one.strip("'")) for one in final.split(", ")]
    assert len(accuracies) == 5
    assert min(accuracies) > 0.6, "clearly better than a coin"
    assert len(re.findall(r"^λ = ", words, flags=re.MULTILINE)) == 5
    assert re.search(r"^task \d, epoch \d+, layer \d: \+\d", words, flags=re.MULTILINE), "it grew"
    assert pictures == 1


def test_a_regulariser_of_ones_own_takes_twenty_lines_and_protects(tmp_path):
    path = Path("docs/examples/own_regulariser.ipynb")
    code = code_of(path, "regulariser")
    assert "Regulariser" in {base.id for node in ast.parse(code).body for base in getattr(node, "bases", [])}
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    words, pictures = printed_by(path, tmp_path)
    rows = re.findall(r"^([\w ]+?)(?:, λ = \S+)?: all tasks (\S+), the first (\S+)$", words, flags=re.MULTILINE)
    first = {name: max(float(row[2]) for row in rows if row[0] == name) for name, *_ in rows}
    assert set(first) == {"none", "online EWC", "Slow"}
    assert min(first["Slow"], first["online EWC"]) > first["none"] + 0.03
    assert pictures == 1
