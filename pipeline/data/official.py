"""Stage official: the authors' released results from their own repository, in place of what is known second-hand.

It reads `results/paper/CONFIG_sSEED/per_task.csv` at a pinned commit and runs no code from there. It needs the network,
so no other stage waits for it, and it was not run where the committed results were made.
"""

import argparse
import csv
import io
import math
import re
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from noracl.method.network import count
from pipeline.committed import announce
from pipeline.config import load
from pipeline.data.download import words
from pipeline.data.repositories import fetch_commit, files_below
from pipeline.files import StageError, write_csv
from pipeline.paths import PAPER
from pipeline.sections import Official

FOLDER, NAME = "results/paper", "per_task.csv"
DEADLINE = 900.0  # seconds for everything
TARGET = PAPER / "released.csv"
COLUMNS = [
    *("config", "table", "row", "benchmark", "seed", "accuracy", "accuracy_sd", "params", "params_sd"),
    *("widths", "source", "where"),
]
INPUTS = {"split_cifar10": (512,), "": (784, 512)}  # of an unknown benchmark: either; of all others: MNIST's
OUTPUTS = (2, 10)
#: What we take names to mean: only bsmnist_2l_noracl and bsmnist_2l_static32 are known, the others are guesses.
BENCHMARKS = {
    **{"bsmnist": "split_mnist", "pmnist": "permuted_mnist", "rmnist": "rotated_mnist"},
    **{"bscifar10": "split_cifar10", "bscifar": "split_cifar10"},
}
METHODS = {
    **{"noracl": ("main", "NORACL"), "static16": ("main", "small"), "static32": ("main", "medium")},
    **{"static64": ("main", "large"), "ed_only": ("ablations", "trigger ed")},
    **{"fisher_only": ("ablations", "trigger fsat"), "fixed_pertask": ("ablations", "trigger fixed")},
    **{"loss_plateau": ("ablations", "trigger loss"), "he_normal": ("ablations", "init he")},
    **{"xavier": ("ablations", "init xavier"), "random": ("ablations", "init random")},
    **{"nullspace": ("ablations", "init null-space"), "zero": ("ablations", "init zero")},
}

Final = tuple[float, int, tuple[int, ...]]  # accuracy in per cent, parameters, widths
Row = dict[str, object]


class OfficialError(StageError):
    """The released files are not what they should be; the message names the file."""


def cell(config: str) -> tuple[str, str, str]:
    """Table, row and benchmark of a configuration; empty where its name does not tell them."""
    parts = re.fullmatch(r"([a-z0-9]+)_([12])l_(\w+)", config)
    benchmark = BENCHMARKS.get(parts[1], "") if parts else ""
    if not parts or not benchmark:
        return "", "", ""
    if benchmark == "split_cifar10":
        size = re.fullmatch(r"static(\d+)", parts[3])
        row = "NORACL" if parts[3] == "noracl" else f"{size[1]}×{size[1]}" if size else ""
        return ("cifar10", row, benchmark) if row and parts[2] == "2" else ("", "", "")
    table, row = METHODS.get(parts[3], ("", ""))
    if table == "main":
        return table, f"{parts[2]}L {row}", benchmark
    return (table, row, benchmark) if table and parts[2] == "2" else ("", "", "")


def layers(config: str) -> int:
    """How many hidden layers the name says; 0 if it does not say."""
    found = re.search(r"(?:^|_)([12])l(?:_|$)", config)
    return int(found[1]) if found else 0


def rows_of(path: str, content: bytes, needed: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a CSV that has these columns, each once."""
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig")), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise OfficialError(f"{path} is no CSV: {words(error)}") from None
    heads = [name.strip() for name in rows[0]] if rows else []
    for name in needed:
        if heads.count(name) != 1:
            raise OfficialError(f"{path} {'lacks' if name not in heads else 'repeats'} the column {name}")
    lines = [line for line in rows[1:] if line]
    if not lines:
        raise OfficialError(f"{path} has no rows below its columns {', '.join(needed)}")
    if any(len(line) != len(heads) for line in lines):
        raise OfficialError(f"{path} has rows that do not fit its {len(heads)} columns")
    return [dict(zip(heads, line, strict=True)) for line in lines]


def numbers(path: str, rows: list[dict[str, str]], column: str) -> list[float]:
    """A column of finite numbers."""
    found = []
    for row in rows:
        try:
            value = float(row[column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise OfficialError(f"{path}: {column} holds {row[column][:40]!r}, which is no finite number")
        found.append(value)
    return found


def whole(path: str, rows: list[dict[str, str]], column: str) -> list[int]:
    """A column of whole numbers above 0."""
    found = numbers(path, rows, column)
    if wrong := [value for value in found if value < 1 or value != int(value)]:
        raise OfficialError(f"{path}: {column} holds {wrong[0]:g}, which is no whole number above 0")
    return [int(value) for value in found]


def percentages(path: str, values: list[float], column: str) -> list[float]:
    """Accuracies in per cent; the whole file is one of shares or one of percentages."""
    if all(0 < value <= 1 for value in values):
        return [100 * value for value in values]
    if all(1 < value <= 100 for value in values):
        return values
    raise OfficialError(f"{path}: {column} from {min(values):g} to {max(values):g} is neither shares nor percentages")


def widths_of(path: str, config: str, rows: list[dict[str, str]]) -> list[tuple[int, ...]]:
    """Widths of the hidden layers in every row; a network of one layer has nothing, or 0, for the second."""
    one = whole(path, rows, "width_l0")
    second = {row.get("width_l1", "").strip() for row in rows}
    if second <= {"", "0", "0.0"} and layers(config) != 2:
        return [(width,) for width in one]
    if layers(config) == 1:
        raise OfficialError(f"{path}: width_l1 holds {sorted(second)[-1]!r} in a network of one layer")
    return list(zip(one, whole(path, rows, "width_l1"), strict=True))


def final_state(path: str, config: str, content: bytes) -> tuple[Final, set[tuple[int, int]]]:
    """The last row of a file, all of whose rows hold; and with which inputs and outputs its parameters add up."""
    needed = ["avg_accuracy", "width_l0", "total_params", *(["width_l1"] if layers(config) == 2 else [])]
    rows = rows_of(path, content, needed)
    accuracy = percentages(path, numbers(path, rows, "avg_accuracy"), "avg_accuracy")
    widths, params = widths_of(path, config, rows), whole(path, rows, "total_params")
    benchmark = cell(config)[2]
    sizes = [(inputs, outputs) for inputs in INPUTS.get(benchmark, (784,)) for outputs in OUTPUTS]
    for inner, size in zip(widths, params, strict=True):
        sizes = [(inputs, outputs) for inputs, outputs in sizes if count((inputs, *inner, outputs)) == size]
        if not sizes:
            shape = "×".join(map(str, inner))
            raise OfficialError(f"{path}: total_params {size} is not what widths {shape} add up to")
    return (accuracy[-1], params[-1], widths[-1]), set(sizes)


def by_config(paths: Iterable[str], seeds: Iterable[int]) -> dict[str, dict[int, str]]:
    """The path of every seed of every configuration; each must have exactly these seeds."""
    found: dict[str, dict[int, str]] = {}
    for path in sorted(paths):
        parts = re.fullmatch(rf"{FOLDER}/([A-Za-z0-9_.-]{{1,80}})_s(\d{{1,4}})/{re.escape(NAME)}", path)
        if not parts:
            raise OfficialError(f"{words(OSError(path))} is not named {FOLDER}/CONFIG_sSEED/{NAME}")
        own, seed = found.setdefault(parts[1], {}), int(parts[2])
        if seed in own:
            raise OfficialError(f"{path}: seed {seed} of {parts[1]} is there twice, also as {own[seed]}")
        own[seed] = path
    if not found:
        raise OfficialError(f"there is no {FOLDER}/CONFIG_sSEED/{NAME}")
    for config, own in found.items():
        if set(own) != set(seeds):
            has, needs = (", ".join(map(str, sorted(some))) for some in (own, seeds))
            raise OfficialError(f"{FOLDER}/{config}_s*/{NAME} has seeds {has}, not {needs}")
    return found


def rows_of_config(config: str, finals: dict[int, Final], paths: dict[int, str], at: str) -> list[Row]:
    """A row per seed, and one of means."""
    table, row, benchmark = cell(config)
    same: Row = {"config": config, "table": table, "row": row, "benchmark": benchmark, "source": "official"}
    found: list[Row] = []
    for seed, (accuracy, params, widths) in sorted(finals.items()):
        own = {"seed": seed, "accuracy": round(accuracy, 4), "params": params, "widths": "×".join(map(str, widths))}
        found.append({**same, **own, "where": f"{paths[seed]} at {at}"})
    accuracies, sizes, shapes = (list(column) for column in zip(*finals.values(), strict=True))
    mean: Row = {"seed": "mean", "accuracy": round(statistics.mean(accuracies), 4)}
    mean |= {"params": round(statistics.mean(sizes)), "where": f"{FOLDER}/{config}_s*/{NAME} at {at}"}
    if len(finals) > 1:
        mean["accuracy_sd"] = round(statistics.stdev(accuracies), 4)
        mean["params_sd"] = round(statistics.stdev(sizes)) if len(set(sizes)) > 1 else ""
    if len(set(shapes)) == 1:
        mean["widths"] = "×".join(map(str, shapes[0]))
    return [*found, {**same, **mean}]


def released(files: dict[str, bytes], seeds: Iterable[int], at: str) -> list[Row]:
    """All rows of released.csv."""
    found, cells = list[Row](), dict[tuple[str, str, str], str]()
    for config, paths in by_config(files, seeds).items():
        if cell(config)[0] and (other := cells.setdefault(cell(config), config)) != config:
            raise OfficialError(f"{config} and {other} in {FOLDER} are both {'/'.join(cell(config))}")
        states = {seed: final_state(path, config, files[path]) for seed, path in paths.items()}
        if not set.intersection(*(sizes for _, sizes in states.values())):
            raise OfficialError(f"{FOLDER}/{config}_s*/{NAME}: total_params has other outputs in some seeds")
        found += rows_of_config(config, {seed: final for seed, (final, _) in states.items()}, paths, at)
    return found


def obtain(official: Official) -> dict[str, bytes]:
    """The files at the pinned commit."""
    until = time.monotonic() + DEADLINE
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "store.git"
        try:
            fetch_commit(official.url, official.revision, store, until)
            return files_below(store, official.revision, FOLDER, NAME, until)
        except OSError as error:
            raise OfficialError(f"{official.url} at {official.revision}: {words(error)}") from None


def main(arguments: list[str]) -> None:
    """Stage official."""
    argparse.ArgumentParser(prog="python -m pipeline official", description=__doc__).parse_args(arguments)
    official = load().official
    announce("official", official.model_dump(mode="json"), "released results are read from there")
    rows = released(obtain(official), official.seeds, official.revision[:12])
    write_csv(TARGET, rows, COLUMNS)
    configs = {str(row["config"]) for row in rows}
    unknown = sorted(config for config in configs if not cell(config)[0])
    print(f"{TARGET}: {len(configs)} configurations; {len(unknown)} belong to no cell that we know of", *unknown)
    print("Look at it, pin it as CONTRIBUTING.md says, and run `dvc repro`.")
