"""Stage reconstruction: every configuration that was run, its distance to the paper on both halves, and the choice."""

import itertools
import math
from pathlib import Path

import pandas as pd

from pipeline.files import write_text
from pipeline.params import Params, load_or_exit
from pipeline.paths import PAPER, TABLES
from pipeline.study import FINALISTS, OPEN_POINTS, SCREENED, read
from pipeline.study_design import BASE, DEPTH, Configuration, factorial, paper_table
from pipeline.study_rule import distance, distances, equals, finalists, jackknife
from pipeline.study_text import HALVES, to_markdown
from pipeline.tables import machines_of


def over(cells: pd.DataFrame) -> pd.DataFrame:
    """A row a configuration: its distance over all cells, over each half, and over each half a benchmark at a time."""
    parts = {"all": cells}
    for half, part in halves(cells).items():
        parts |= {half: part} | {f"{half} {name}": some for name, some in part.groupby("benchmark", sort=False)}
    return pd.DataFrame({f"distance_{name}": distance(part) for name, part in parts.items()})


def halves(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The cells that choose, and those that were held back."""
    return dict(zip(HALVES, (cells[cells["choosing"]], cells[~cells["choosing"]]), strict=True))


def summary(results: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """A row a configuration: runs, distances with what seeds do to them, every cell's accuracy and parameters."""
    runs, seeds = results.groupby("configuration", sort=False), sorted(set(results["seed"]))
    cells = distances(results, paper)
    table = pd.DataFrame({"seeds": runs["seed"].nunique(), "diverged": runs["accuracy"].agg(lambda a: a.isna().sum())})
    table = table.join(over(cells))
    left_out = [results[results["seed"] != seed] for seed in seeds if len(seeds) > 1]
    without = [over(distances(rest, paper)) for rest in left_out]
    for half, part in halves(cells).items():
        spread = [jackknife([rest.loc[name, f"distance_{half}"] for rest in without]) for name in table.index]
        table[f"error_{half}"], table[f"cells_{half}"] = spread, part.groupby("configuration", sort=False).size()
    columns = {}
    for (benchmark, row), cell in results.groupby(["benchmark", "row"], sort=False):
        found = cell.groupby("configuration", sort=False)[["accuracy", "params"]]
        for name, numbers in (("", found.mean(skipna=False)), (" deviation", found.std(skipna=False))):
            columns[f"{benchmark} {row} accuracy{name}"] = 100 * numbers["accuracy"]
            columns[f"{benchmark} {row} params{name}"] = numbers["params"]
    return table.join(pd.DataFrame(columns))


def configurations(params: Params, paper: pd.DataFrame) -> pd.DataFrame:
    """Every configuration as it was screened, and the finalists once more with all seeds and all of Table 1."""
    screened, final = read(SCREENED), read(FINALISTS)
    last = finalists(params, screened, paper)
    equal = [one.name for one in equals(final, paper, last)]
    promoted = set(read(["promoted"])["configuration"])
    reached = dict.fromkeys(promoted, "promoted") | {one.name: "finalist" for one in last}
    decided = {one.name: "farther" for one in last} | dict.fromkeys(equal, "not told apart") | {equal[0]: "chosen"}
    parts = (("screen", screened, reached), ("finalist", final, decided))
    found = []
    for part, results, decision in parts:
        rows = summary(results, paper).reset_index()
        rows.insert(1, "part", part)
        rows.insert(2, "decision", [decision.get(name, "") for name in rows["configuration"]])
        found.append(rows)
    return pd.concat(found, ignore_index=True)


def seeds_alone(params: Params, paper: pd.DataFrame) -> pd.DataFrame:
    """The base with every draw of as many seeds as a screen has: what seeds alone do to a distance."""
    final = read(FINALISTS)
    base = final[(final["configuration"] == BASE) & final["row"].str.startswith(f"{DEPTH}L")]
    seeds = sorted(set(base["seed"]))
    draws = itertools.combinations(seeds, min(len(params.reconstruction.seeds), len(seeds)))
    rows = [
        {"seeds": " ".join(map(str, draw)), **over(distances(base[base["seed"].isin(draw)], paper)).loc[BASE]}
        for draw in draws
    ]
    return pd.DataFrame(rows)


def open_points(params: Params) -> pd.DataFrame:
    """One row per open point: ours, as the tables have it and the paper's; where it has a deviation, the distance."""
    results = read(OPEN_POINTS)
    results["row"] = results["method"]
    rows = []
    for name, point in params.reconstruction.open_points.items():
        runs = results[results["configuration"] == name]
        place = (runs["benchmark"].iloc[0], point.row)
        paper = pd.read_csv(PAPER / f"{point.table}.csv")
        printed = paper.set_index(["benchmark", "row"]).loc[place]
        usual = pd.read_csv(TABLES / f"{point.table}.csv").set_index(["benchmark", "row"]).loc[place]
        errors = distances(runs, paper).set_index("quantity")["errors"].reindex(["acc", "params"])
        row: dict[str, object] = {"reading": name, "table": point.table, "row": point.row, "seeds": len(runs)}
        for quantity, column, unit in (("acc", "accuracy", 100), ("params", "params", 1)):
            row[quantity] = unit * runs[column].mean(skipna=False)
            row[f"usual_{quantity}"], row[f"paper_{quantity}"] = usual[f"{quantity}_mean"], printed[quantity]
            row[f"errors_{quantity}"] = errors[quantity]
        rows.append(row)
    return pd.DataFrame(rows)


def moves(params: Params, table: pd.DataFrame) -> pd.DataFrame:
    """A row a choice: the least and the greatest distance, over all screened cells, that its levels alone give.

    Levels with which training diverges have no distance.
    """
    reached = table[table["part"] == "screen"].set_index("configuration")["distance_all"]
    rows = []
    for choice in params.reconstruction.one_at_a_time:
        levels = params.reconstruction.choices[choice]
        found = [reached[Configuration.of(params, **{choice: level}).name] for level in levels]
        known = [value for value in found if not math.isnan(value)]
        rows.append(
            {"choice": choice, "least": min(known), "greatest": max(known), "diverged": len(known) < len(found)}
        )
    frame = pd.DataFrame(rows)
    frame["moves"] = frame["greatest"] - frame["least"]
    return frame.sort_values("moves", ascending=False, kind="stable", ignore_index=True)


def effects(params: Params, table: pd.DataFrame) -> pd.DataFrame:
    """A row a level of the factorial: the mean over its combinations, and its choice's share of their variance.

    The design is balanced, so that a choice's share is the variance of its levels' means over that of all combinations;
    what is left of 1 are interactions and seeds. Combinations that diverged count in neither.
    """
    design = params.reconstruction.factorial
    crossed = factorial(params)
    ours = [column for column in table if column.startswith(f"{design.benchmark} {DEPTH}L")]
    varied = [column for column in ours if column.endswith(("accuracy", "NORACL params"))]
    columns = [*varied, f"distance_choosing {design.benchmark}"]
    screened = table[table["part"] == "screen"].set_index("configuration")
    cells = screened.loc[[one.name for one in crossed], columns].reset_index(drop=True)
    rows = []
    for choice, levels in design.levels.items():
        means = cells.groupby([dict(one.levels)[choice] for one in crossed], sort=False).mean()
        shares = means.var(ddof=0) / cells.var(ddof=0)
        for level in levels:
            row: dict[str, object] = {"choice": choice, "level": level, "combinations": len(cells) // len(levels)}
            rows.append(row | means.loc[level].to_dict() | {f"share of {c}": share for c, share in shares.items()})
    return pd.DataFrame(rows)


def build(params: Params) -> dict[Path, str]:
    """The files of the stage, by path."""
    paper = paper_table()
    table, alone, points = configurations(params, paper), seeds_alone(params, paper), open_points(params)
    main = effects(params, table)
    frames = {"": table, "-effects": main, "-seeds": alone, "-open": points}
    files = {
        TABLES / f"reconstruction{name}.csv": frame.to_csv(index=False, lineterminator="\n", float_format="%.6g")
        for name, frame in frames.items()
    }
    machines = machines_of(*(f"reconstruction-{part}" for part in (*SCREENED, *FINALISTS, *OPEN_POINTS)))
    text = to_markdown(params, paper, table, moves(params, table), main, alone, points, machines)
    return {**files, TABLES / "reconstruction.md": text}


def main() -> None:
    """Command line of the stage."""
    for path, content in build(load_or_exit()).items():
        write_text(path, content)


if __name__ == "__main__":
    main()
