"""Every number and every verdict in the documents: recomputed here, or with the month in which it was found.

A number in prose is in a phrase of ``FACTS``, made from params.yaml, the paper's tables or our results, or its
paragraph says when it was found. A part of a claim is named with the sign of its verdict, as in `stress-50` ?
"""

import re
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from noracl.method.backprop import WIDE
from noracl.method.memory import VECTORS
from pipeline.config import load
from pipeline.data.cifar10 import WIDTH
from pipeline.evidence.intervals import FAILS, MARKS
from pipeline.report.costs_table import CORES
from pipeline.report.figures import registry
from pipeline.runs.canaries import RELATIVE
from pipeline.runs.groups import MOST, PARAMETERS

RECONSTRUCTION, DIFFERENCES = "reports/RECONSTRUCTION.md", "reports/DIFFERENCES.md"
#: All that speaks of results or settings; docs/reconstruction-study.md names the commit that all its numbers are from.
DOCUMENTS = ["README.md", DIFFERENCES, RECONSTRUCTION, "docs/hours.md", "docs/portability.md", "docs/staleness.md"]
PARAMS, VERDICTS = load(), pd.read_csv("reports/claims.csv").set_index("id")["verdict"]
ANSWERS = pd.read_csv("reports/questions.csv").set_index("id")["verdict"]
EVIDENCE = pd.concat([VERDICTS, ANSWERS])
PAPER = {
    name: pd.read_csv(f"reports/paper/{name}.csv").set_index(["benchmark", "row"])
    for name in ("main", "cifar10", "ablations", "stress50")
}
MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December) 20\d\d"
#: Numbers that are names: of things, of places in the paper, and of networks by their widths.
NAMES = (
    r"CIFAR-10|ResNet18|L2 towards initialisation|Python 3\.\d+(?: to 3\.\d+)?"
    r"|arXiv 2604\.27031|\d+×\d+|1 − γ|±1|label 0|[Ss]ections? [A\d][.\d]*"
    r"|appendix A[.\d]*|(?:Table|[Ff]igure|Eq\.|Theorem|Corollary|Algorithm|layer|task) \d"
)


def words(path):
    """A document without code blocks, generated tables and the targets of links."""
    text = re.sub(r"<!-- table.*?<!-- end -->|```.*?```", "", Path(path).read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def paragraphs(path):
    """Its paragraphs, each in one line; a table belongs to the paragraph above it."""
    return [" ".join(part.split()) for part in re.split(r"\n\n(?!\|)|\n(?=- )|\n(?=#)", words(path))]


def count(*sizes, biases=False):
    """Parameters of a network."""
    return sum(a * b + b * biases for a, b in pairwise(sizes))


def truncated(number):
    """Thousands as Table 1 prints them."""
    return f"{number // 100 / 10:.1f}k"


def printed(table, benchmark, row):
    """A parameter count as the paper prints it."""
    return f"{PAPER[table].loc[(benchmark, row), 'params'] / 1000:.1f}k"


def end_widths(rule):
    """The width of both layers after the last task, decoded from the counts that the paper prints for a simple rule."""
    counts = [printed("ablations", name, f"trigger {rule}") for name in STREAMS]
    found = [[w for w in range(200) if truncated(count(784, w, w, 10)) == size] for size in counts]
    return [width for (width,) in found]


def listed(values, last=" and "):
    *first, end = map(str, values)
    return ", ".join(first) + last + end


RULES, STRESS, HEADS = PARAMS.heuristics, PARAMS.stress, list(PARAMS.image_sizes.heads)
STREAMS, MLP = PARAMS.ablations.benchmarks, PARAMS.networks["mlp"]
SPLIT, CIFAR = PARAMS.benchmarks["split_mnist"], PARAMS.benchmarks["split_cifar10"]
STARTS = [PARAMS.benchmarks[name].start[-1][0] for name in STREAMS]
TASKS = [PARAMS.benchmarks[name].stream.tasks for name in STREAMS]
PER_TASK = {"fixed": RULES["fixed_neurons"], "scheduled": RULES["scheduled_neurons"] * len(RULES["schedule"])}
BATCHES, PAIRS = PARAMS.training["fisher"]["batches"], ", ".join(f"({a},{b})" for a, b in SPLIT.stream.pairs[:2])
SIZES = pd.read_csv("reports/tables/cifar10_sizes.csv").set_index("row").loc[HEADS].groupby("benchmark")["acc_mean"]
OURS = [f"{SIZES.mean()[f'size_{size}']:.1f}" for size in PARAMS.image_sizes.images]
THEIRS = PAPER["cifar10"].loc["split_cifar10"].loc[HEADS, "acc"]
FLAT = [PAPER["main"].loc[("split_mnist", f"2L {name}"), "acc"] for name in MLP]
#: Verdicts on accuracies of Binary Split MNIST that nobody had looked at when it got two outputs.
UNSEEN = pd.concat([pd.read_csv(f"reports/tables/{name}.csv") for name in ("main", "ablations")])
UNSEEN = UNSEEN[(UNSEEN["benchmark"] == "split_mnist") & (UNSEEN["selected_on"] == "no")]
UNSEEN = UNSEEN.dropna(subset="paper_acc")["verdict"]
STEPS = [RULES[f"{rule}_neurons"] for rule in ("fsat", "loss", "fixed")]
#: Phrases, and the numbers in them as params.yaml, the paper's tables, our tables or the code have them.
FACTS = {
    "README.md": [
        ("the {} features of a frozen", WIDTH),
        ("at most {:g} point of accuracy", PARAMS.tolerances.accuracy_points),
        ("or {:g} % of the parameters", 100 * PARAMS.tolerances.params_share),
        ("[stress tests of {}] and [{} tasks]", STRESS.short, STRESS.long),
        ("[CIFAR-10 at {} pixels]", PARAMS.encoder.images["128"].size),
    ],
    DIFFERENCES: [],
    RECONSTRUCTION: [
        ("| outputs on Binary Split MNIST | 2 | {} |", SPLIT.outputs),
        (
            "F_sat alone: {}; loss-based: {}; fixed: {}, which",
            *(RULES[f"{r}_neurons"] for r in ("fsat", "loss", "fixed")),
        ),
        ("Of the {} accuracies that the paper gives for them, {} match", len(UNSEEN), (UNSEEN == "match").sum()),
        ("784·64 + 64·64 + 64·10 = 54 912, the table's {}; biases", printed("main", "split_mnist", "2L large")),
        ("add 64 + 64 + 10 = 138 and give {} (counts", truncated(count(784, 64, 64, 10, biases=True))),
        ("784·16 + 16·16 + 16·10 = 12 960, the table's {} |", printed("main", "split_mnist", "2L small")),
        ("counts for 10 outputs on all MNIST streams",),
        ("| {} and", printed("ablations", "split_mnist", "trigger fixed")),
        ("{} in the ablations fit", printed("ablations", "split_mnist", "trigger scheduled")),
        ("10 outputs and not {}; but the released configuration of Binary Split has {}", SPLIT.outputs, SPLIT.outputs),
        ("| {} outputs on Split CIFAR-10 |", CIFAR.outputs),
        ("512·128 + 128·128 + 128·2 = 82 176, the table's {}", printed("cifar10", "split_cifar10", "128×128")),
        ("{} neurons per layer on Permuted and Rotated, with {} on Binary Split", STARTS[0], STARTS[2]),
        ("fixed growth ends at widths {} and", listed(end_widths("fixed"), ", ")),
        ("scheduled growth at {}: only {} fit both", listed(end_widths("scheduled"), ", "), listed(STARTS, ", ")),
        ("fixed growth adds {} neurons per layer", RULES["fixed_neurons"]),
        ("the schedule {{{}}} counts epochs", listed(RULES["schedule"], ", ")),
        ("with {} neurons per layer each time", RULES["scheduled_neurons"]),
        ("| {} + {}·{} = 104, and likewise", STARTS[0], TASKS[0] - 1, PER_TASK["scheduled"]),
        ("true label, on the first {} mini-batches", BATCHES),
        ("the digit pairs are {}, … in this order", PAIRS),
        ("heads on {} features", WIDTH),
        ("the 32 × 32 images",),
        ("(`image_sizes` in `params.yaml`: {})", listed(PARAMS.image_sizes.images)),
        ("The paper reports {} % for these, a mean of {:.1f} %", listed(THEIRS), THEIRS.mean()),
        ("Our means at the three sizes are {} %", listed(OURS)),
        ("class pairs are {}, … in this order", PAIRS),
        ("all 50 000 training images are used",),
        ("the Fisher check on the first {} mini-batches", BATCHES),
        ("uses Eq. 4, k is at least 1.",),
        ("30·(1 − 0.9) is 3, not 2.999…",),
        ("after {} tasks", STRESS.short),
        ('("∼{:.0f}%")', PAPER["stress50"].loc[("permuted_mnist", "NORACL"), "acc"]),
        ("its {}-task figure", STRESS.long),
        ("the same {} mini-batches", BATCHES),
        ("window ({} epochs) and improvement ({:g} %)", RULES["loss_window"], 100 * RULES["loss_improvement"]),
        ("its step ({} neurons)", RULES["loss_neurons"]),
        ("flat {} % for widths {}", listed(FLAT, " / ").replace(",", " /"), listed(one[-1][0] for one in MLP.values())),
    ],
    "docs/hours.md": [
        ("on {} cores", listed(CORES)),
        ("narrower than {} share", WIDE),
        ("at most {} runs, and networks of at most {:g} million", MOST, PARAMETERS / 1e6),
        ("takes {} bytes (nine vectors", 4 * VECTORS),
        ("less than {} MB beside", -(-4 * VECTORS * PARAMETERS // 10**7) * 10),
    ],
    "docs/portability.md": [],
    "docs/staleness.md": [("a relative tolerance of {}", f"{RELATIVE:.0e}".replace("e-0", "e-"))],
}
PHRASES = {path: [phrase.format(*numbers) for phrase, *numbers in facts] for path, facts in FACTS.items()}


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_says_what_params_and_tables_say(path):
    text = " ".join(words(path).split())
    assert [phrase for phrase in PHRASES[path] if phrase not in text] == []


def unexplained(paragraph, phrases):
    """The numbers of a paragraph that no phrase has, if it has no date."""
    if re.search(MONTH, paragraph):
        return []
    for phrase in sorted(phrases, key=len, reverse=True):
        paragraph = paragraph.replace(phrase, "")
    return re.findall(r"\S*\d\S*", re.sub(rf"`[^`]*`|{NAMES}", "", paragraph))


@pytest.mark.parametrize("path", DOCUMENTS)
def test_no_number_is_without_a_source_or_a_date(path):
    found = {paragraph: unexplained(paragraph, PHRASES[path]) for paragraph in paragraphs(path)}
    assert {paragraph: numbers for paragraph, numbers in found.items() if numbers} == {}, (
        "make its phrase in FACTS, give its paragraph a month and a year, or leave the number out"
    )


def test_a_number_without_a_source_is_found():
    assert unexplained("NORACL has 12.2k in layer 1 of Table 1, as in `a1`, and 75×32 has more.", []) == ["12.2k"]
    assert unexplained("It had 12.2k in May 2026.", []) == []
    assert unexplained("It has 12.2k and 3 more.", ["12.2k and"]) == ["3"]


@pytest.mark.parametrize("path", [*DOCUMENTS, "docs/reconstruction-study.md", "CONTRIBUTING.md"])
def test_a_part_of_a_claim_is_named_with_its_verdict(path):
    signs = {part: MARKS[verdict] for part, verdict in EVIDENCE.items()}
    named = re.findall(
        rf"`([a-z]\w*(?:-\w+)+)`(?:\s([{''.join(MARKS.values())}]))?", Path(path).read_text(encoding="utf-8")
    )
    assert [(name, mark) for name, mark in named if name != "like-this" and mark != signs.get(name)] == []


def test_every_part_that_does_not_hold_is_told_of_as_a_difference():
    text = Path(DIFFERENCES).read_text(encoding="utf-8")
    assert [part for part, verdict in VERDICTS.items() if verdict == FAILS and f"`{part}`" not in text] == []


def test_every_difference_has_evidence():
    sections = Path(DIFFERENCES).read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) > 5
    assert [text.splitlines()[0] for text in sections if not any(f"`{part}`" in text for part in EVIDENCE.index)] == []


def test_equations_are_right():
    found = re.findall(r"([\d·+ ]+?) = ([\d ]+\d)", Path(RECONSTRUCTION).read_text(encoding="utf-8"))
    assert len(found) == 5
    for left, right in found:
        assert eval(left.replace("·", "*")) == int(right.replace(" ", "")), left


def test_what_the_counts_decode():
    """No biases, ten outputs, and the first widths: other readings give other counts than the paper prints."""
    for name, (one, two) in MLP.items():
        for widths, row in ((one, f"1L {name}"), (two, f"2L {name}")):
            assert truncated(count(784, *widths, 10)) == printed("main", "split_mnist", row)
            with_biases = truncated(count(784, *widths, 10, biases=True)) == printed("main", "split_mnist", row)
            assert with_biases == (row == f"1L {name}"), "counts of one-layer networks fit both"
    for rule, neurons in PER_TASK.items():
        widths = end_widths(rule)
        assert [width - (tasks - 1) * neurons for width, tasks in zip(widths, TASKS, strict=True)] == STARTS
        two_outputs = truncated(count(784, widths[2], widths[2], 2))
        assert two_outputs != printed("ablations", "split_mnist", f"trigger {rule}")
    head = count(512, 128, 128, 2)
    assert f"{head / 1000:.1f}k" == printed("cifar10", "split_cifar10", "128×128") != truncated(head), "rounded"


def test_choices_without_a_number_are_those_of_params():
    made = PARAMS.training
    assert (made["init"], made["fisher"]["estimator"], made["fisher"]["labels"]) == ("glorot", "per_sample", "true")
    assert (made["ewc"]["start"], PARAMS.noracl["tau_start"]) == ("first", "first")
    assert (made["ewc"]["half"], made["optimisation"]["clip_by"], PARAMS.noracl["boost"]) == (True, "norm", 1.0)
    own = [name for name, one in PARAMS.benchmarks.items() if one.noracl.get("ed_layers") == "own"]
    assert (PARAMS.noracl["ed_layers"], own) == ("any", ["cifar10_128"])
    assert RULES["random_scale"] == 1, "a standard normal"
    assert PARAMS.benchmarks["rotated_mnist"].stream.interpolation == "bilinear"
    assert PARAMS.data.mnist.limit is PARAMS.data.cifar10.limit is None, "all images"
    assert list(STRESS.static) == ["32x32", "75x32", "64x64"], "the third is assumed"
    assert CIFAR.stream.pairs == SPLIT.stream.pairs
    selected = pd.read_csv("reports/paper/selected_on.csv")
    assert list(selected[selected["table"] == "cifar10"]["row"]) == HEADS, "the other heads played no part"


def test_heads_are_compared_as_the_notes_say():
    recipe = PARAMS.encoder.images[CIFAR.data.removeprefix("cifar10_")]
    assert (recipe.size, recipe.interpolation) == (224, "bicubic")
    sizes = [PARAMS.encoder.images[name] for name in PARAMS.image_sizes.images]
    assert {image.interpolation for image in sizes} == {"bilinear"}
    compared = PARAMS.benchmarks["cifar10_128"]
    assert compared.noracl == CIFAR.noracl | {"ed_layers": "own"}, "the growth rule of that time"
    same = {"title": "", "table": "", "data": "", "noracl": {}}
    assert compared.model_copy(update=same) == CIFAR.model_copy(update=same), "apart from that, the same"


def test_captions_judge_nothing():
    """They say what is drawn and what the paper says of it; the claims judge."""
    captions = {name: figure.caption for name, figure in registry().items()}
    judging = re.compile(r"\b(?:holds?|beats?|confirm\w*|undecided|claim\w*)\b")
    assert {name: judging.findall(caption) for name, caption in captions.items() if judging.search(caption)} == {}
