"""Stage summaries@transfer: what appendix A.2.2 says of new and old parameters, beside what runs give."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from noracl import theory
from pipeline.files import write_text
from pipeline.params import Params, load_or_exit
from pipeline.paths import RESULTS, TABLES
from pipeline.suites import MNIST_STREAM
from pipeline.tables import machines_of, provenance_line
from pipeline.theory_table import MARKS, mean_interval

EPOCHS = (0, 1, 2, 5, 10, 20, 30, 40)  # after growth, of which the table tells
UPDATES = {"moved": "distance over an epoch", "stepped": "steps, root mean square"}
NORMS = {"norm": "norm", "per weight": "norm per weight"}
PARTS = {"own": "the task they grew in", "earlier": "earlier tasks", "later": "later tasks"}
RATIO_NOTE = (
    "The weights of new neurons over those that were there before, by epochs trained since growth (0 is the first "
    "after it); mean ± deviation over growth events. {events} events in {seeds} runs."
)
CHANGE_NOTE = (
    "Change of final accuracy, in points, on task j without the neurons that grew in task t; mean ± deviation over all "
    "t and runs."
)
VERDICT_NOTE = (
    "In square brackets the 95% interval over runs; ✓ the whole interval is on the side that the paper says, ✗ on the "
    "other, ? on neither. The paper gives no numbers here."
)
NOTHING = "No neuron grew in these runs: there is nothing to compare."


@dataclass(frozen=True)
class Line:
    """One number; ``count`` growth events or pairs of tasks are behind it, the interval is over runs."""

    quantity: str
    x: str
    count: int
    mean: float
    sd: float
    low: float
    high: float
    says: str = ""
    verdict: str = "n/a"


def line(quantity: str, x: object, values: pd.DataFrame, says: str = "", above: float = math.nan) -> Line:
    """Mean and deviation of ``value``, interval over means by seed; ``says`` is that it lies ``above`` something."""
    fit = mean_interval(values.groupby("seed")["value"].mean().tolist())
    mean, sd = float(values["value"].mean()), float(values["value"].std())
    return Line(quantity, str(x), len(values), mean, sd, fit.low, fit.high, says, side(fit, above))


def side(fit: theory.Fit, level: float) -> str:
    """Whether the interval lies above the level; n/a without one."""
    if math.isnan(fit.low) or math.isnan(level):
        return "n/a"
    return "holds" if fit.low > level else "does not hold" if fit.high <= level else "undecided"


def update_ratios(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """New over old, an event and an epoch a row, by name of what is compared."""
    updates = results[results["experiment"] == "update"]
    event = ["seed", "task", "epoch"]
    fewer = updates[updates["quantity"] == "fewer"].set_index(event)["value"].rename("fewer")
    found = {}
    for quantity, name in UPDATES.items():
        rows = updates[updates["quantity"] == quantity].join(fewer, on=event)
        found[f"{name}, {NORMS['norm']}"] = rows
        found[f"{name}, {NORMS['per weight']}"] = rows.assign(value=rows["value"] * rows["fewer"])
    return found


def ratio_lines(results: pd.DataFrame) -> Iterator[Line]:
    """The ratio at some epochs after growth, and where its mean is largest."""
    for name, rows in update_ratios(results).items():
        if rows.empty:
            continue  # growth at the very end has no epoch after it
        means = rows.groupby("x")["value"].mean()
        for epoch in EPOCHS:
            if epoch in means.index:
                yield line(f"new over old: {name}", epoch, rows[rows["x"] == epoch])
        peak = int(means.idxmax())
        yield line(f"largest mean ratio: {name}", f"epoch {peak}", rows[rows["x"] == peak], "exceeds 1", above=1.0)
        first = float(means.index[means > 1].min())  # NaN if there is none
        count, none = int((rows["x"] == 0).sum()), math.nan
        says = "shortly after growth"
        yield Line(f"first epoch with a mean ratio above 1: {name}", "", count, first, none, none, none, says)


def changes(results: pd.DataFrame) -> pd.DataFrame:
    """Change of accuracy in points by offset j − t, with the accuracy that there was."""
    final = results[results["experiment"] == "final"].set_index(["seed", "x"])["value"].rename("final")
    found = results[results["experiment"] == "silenced"].join(final, on=["seed", "x"])
    found = found.assign(offset=found["x"] - found["task"], value=found["value"] * 100)
    part = found["offset"].map(lambda offset: "own" if not offset else "earlier" if offset < 0 else "later")
    return found.assign(part=part)


def contrast(found: pd.DataFrame, more: pd.Series, less: pd.Series) -> pd.DataFrame:
    """By seed: mean over one set of pairs minus that over another; empty if a set is."""
    means = [found[chosen].groupby("seed")["value"].mean() for chosen in (more, less)]
    return (means[0] - means[1]).dropna().rename("value").reset_index()


def change_lines(results: pd.DataFrame, params: Params) -> Iterator[Line]:
    """What silencing does to accuracy, and what the paper says of it."""
    found = changes(results)
    own, next_one, far = (found["offset"] == 0, found["offset"] == 1, found["offset"] > 1)
    earlier, later = (found["part"] == part for part in ("earlier", "later"))
    for part, name in PARTS.items():
        limit = -params.tolerances.accuracy_points if part == "earlier" else math.nan
        says = "negligible or slightly positive" if part == "earlier" else ""
        yield line(f"change of accuracy on {name}", "", found[found["part"] == part], says, above=limit)
    chance = 1 / params.benchmarks[MNIST_STREAM].outputs
    lost = found[own].assign(value=-found["value"] / 100 / (found["final"] - chance))
    yield line("lost on their own task, of what was above chance", "", lost, "the bulk (more than half)", above=0.5)
    says = "own task suffers most"
    yield line("own task suffers more than the next by", "", contrast(found, next_one, own), says, above=0.0)
    says = "later tasks rely far more on them than earlier ones"
    yield line("later tasks suffer more than earlier ones by", "", contrast(found, earlier, later), says, above=0.0)
    says = "decays for more distant tasks"
    yield line("the next task suffers more than those after it by", "", contrast(found, far, next_one), says, above=0.0)
    for offset in sorted(set(found["offset"])):
        yield line("change of accuracy at j − t", offset, found[found["offset"] == offset])


def lines(results: pd.DataFrame, params: Params) -> list[Line]:
    """The whole table; nothing where nothing grew."""
    if not (results["experiment"] == "growth").any():
        return []
    return [one for one in (*ratio_lines(results), *change_lines(results, params)) if one.count]


def _mean(one: Line) -> str:
    return f"{one.mean:.2f}" if math.isnan(one.sd) else f"{one.mean:.2f} ± {one.sd:.2f}"


def to_markdown(table: list[Line], results: pd.DataFrame, machines: list[dict[str, str]]) -> str:
    """For people: the ratios by epoch, what the paper says, changes by distance of tasks."""
    if not table:
        return f"{NOTHING} {provenance_line(machines)}\n"
    ratios = [one for one in table if one.quantity.startswith("new over old: ")]
    offsets = [one for one in table if one.quantity == "change of accuracy at j − t"]
    epochs = [epoch for epoch in map(str, EPOCHS) if any(one.x == epoch for one in ratios)]
    text = [f"| new over old | {' | '.join(epochs)} |", "| --- |" + " --- |" * len(epochs)]
    for name in dict.fromkeys(one.quantity for one in ratios):
        cells = {one.x: _mean(one) for one in ratios if one.quantity == name}
        text.append(f"| {name.partition(': ')[2]} | {' | '.join(cells.get(epoch, '') for epoch in epochs)} |")
    growth = results[results["experiment"] == "growth"]
    events = len(growth.drop_duplicates(["seed", "task", "epoch"]))
    text += ["", RATIO_NOTE.format(events=events, seeds=results["seed"].nunique()), ""]
    text += ["| | ours | paper | |", "| --- | --- | --- | --- |"]
    for one in table:
        if one in ratios or one in offsets:
            continue
        name = f"{one.quantity} ({one.x})" if one.x else one.quantity
        interval = "" if math.isnan(one.low) else f" [{one.low:.3g}, {one.high:.3g}]"
        ours = "none" if math.isnan(one.mean) else f"{one.mean:.3g}{interval}"
        text.append(f"| {name} | {ours} | {one.says} | {MARKS[one.verdict]} |")
    text += ["", VERDICT_NOTE, "", "| j − t | pairs | change |", "| --- | --- | --- |"]
    text += [f"| {one.x} | {one.count} | {_mean(one)} |" for one in offsets]
    return "\n".join([*text, "", f"{CHANGE_NOTE} {provenance_line(machines)}"]) + "\n"


def build(params: Params) -> dict[Path, str]:
    """Both files of the stage, by path."""
    results = pd.read_csv(RESULTS / "transfer.csv")
    table = lines(results, params)
    frame = pd.DataFrame([asdict(one) for one in table], columns=list(Line.__dataclass_fields__))
    content = frame.to_csv(index=False, lineterminator="\n", float_format="%.6g")
    return {
        TABLES / "transfer.csv": content,
        TABLES / "transfer.md": to_markdown(table, results, machines_of("transfer")),
    }


def main() -> None:
    """Command line of the stage."""
    for path, content in build(load_or_exit()).items():
        write_text(path, content)


if __name__ == "__main__":
    main()
