"""The paper's numbers, a second time: as its tables print them, to be compared with reports/paper value by value."""

import hashlib
import math
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from pipeline import check
from pipeline.evidence import results

MNIST = ["permuted_mnist", "rotated_mnist", "split_mnist"]
#: Benchmarks, and rows as printed: parameters and accuracy on each of them.
PRINTED = {
    "main": (
        MNIST,
        """
        1L small  | 12.7k       | 44.0 ± 0.9 | 12.7k       | 56.3 ± 1.7 | 12.7k       | 71.6 ± 1.9
        1L medium | 25.4k       | 60.3 ± 1.9 | 25.4k       | 63.7 ± 2.3 | 25.4k       | 72.8 ± 0.9
        1L large  | 50.8k       | 76.0 ± 0.8 | 50.8k       | 73.6 ± 1.2 | 50.8k       | 70.0 ± 2.7
        1L NORACL | 47.6k ± 1.6 | 79.9 ± 0.5 | 42.2k ± 2.1 | 72.6 ± 2.4 | 23.8k ± 2.2 | 72.1 ± 1.8
        2L small  | 12.9k       | 41.9 ± 1.3 | 12.9k       | 56.1 ± 1.4 | 12.9k       | 72.1 ± 1.8
        2L medium | 26.4k       | 56.5 ± 1.1 | 26.4k       | 63.3 ± 1.7 | 26.4k       | 71.2 ± 2.6
        2L large  | 54.9k       | 73.3 ± 1.8 | 54.9k       | 75.2 ± 0.8 | 54.9k       | 72.5 ± 1.8
        2L NORACL | 49.2k ± 3.2 | 79.4 ± 0.7 | 42.9k ± 2.7 | 74.9 ± 1.7 | 23.3k ± 3.1 | 73.9 ± 2.5
        """,
    ),
    "cifar10": (
        ["split_cifar10"],
        """
        128×128   | 82.2k       | 85.0 ± 1.9
        256×256   | 197k        | 85.2 ± 0.9
        512×512   | 525k        | 85.3 ± 1.2
        1024×1024 | 1.5M        | 84.7 ± 0.3
        172×134   | 111k        | 85.4 ± 0.8
        NORACL    | 105k ± 5.7k | 86.3 ± 1.1
        """,
    ),
    "ablations": (
        MNIST,
        """
        full              | 49.2k        | 79.4 ± 0.7 | 42.9k       | 74.9 ± 1.7 | 23.3k        | 73.9 ± 2.5
        init random       | 47.4k ± 2.6  | 65.9 ± 2.5 | 36.0k ± 1.3 | 67.6 ± 3.6 | 40.9k ± 9.2  | 71.5 ± 4.8
        init he           | 64.3k ± 2.4  | 76.1 ± 0.8 | 38.0k ± 1.3 | 71.0 ± 1.7 | 34.0k ± 6.6  | 71.1 ± 3.8
        init xavier       | 64.2k ± 5.8  | 76.5 ± 1.2 | 38.6k ± 1.7 | 70.0 ± 2.6 | 35.7k ± 6.3  | 71.5 ± 3.2
        init null-space   | 58.0k ± 2.8  | 78.1 ± 0.9 | 41.8k ± 2.8 | 72.6 ± 3.6 | N/A          | N/A
        init zero         | 39.3k ± 3.3  | 63.0 ± 3.7 | 35.4k ± 0.8 | 67.7 ± 2.4 | 31.3k ± 3.4  | 70.7 ± 3.8
        trigger ed        | 356.8k ± 7.2 | 81.2 ± 0.4 | 114k ± 6.2  | 72.8 ± 2.4 | 78.2k ± 20.6 | 70.7 ± 2.9
        trigger fsat      | 46.3k ± 2.8  | 74.2 ± 1.1 | 37.2k ± 1.3 | 71.5 ± 2.6 | 30.7k ± 4.3  | 70.0 ± 2.8
        trigger fixed     | 75.6k        | 53.8 ± 0.6 | 47.6k       | 62.3 ± 1.2 | 29.8k        | 59.0 ± 0.3
        trigger scheduled | 93.3k        | 77.5 ± 0.2 | 54.9k       | 71.4 ± 2.7 | 36.8k        | 61.4 ± 0.5
        trigger loss      | 42.2k ± 1.5  | 74.4 ± 2.1 | 35.5k ± 1.8 | 70.6 ± 2.3 | 16k ± 2      | 70.9 ± 3.4
        """,
    ),
    "sensitivity": (
        ["permuted_mnist"],
        """
        default    | 49.2k ± 3.2 | 79.4 ± 0.7
        gamma=0.80 | 67.7k ± 7.4 | 81.2 ± 1.2
        gamma=0.85 | 64.1k ± 3.3 | 80.3 ± 1.6
        gamma=0.95 | 54.0k ± 3.7 | 79.4 ± 1.4
        p=10       | 34.1k ± 3.6 | 68.0 ± 5.0
        p=15       | 41.6k ± 3.9 | 73.9 ± 2.8
        p=20       | 53.7k ± 2.7 | 77.4 ± 1.2
        p=30       | 70.3k ± 1.7 | 79.0 ± 1.8
        eps=0.01   | 61.6k ± 3.3 | 80.9 ± 1.6
        eps=0.10   | 58.4k ± 2.7 | 79.8 ± 1.2
        """,
    ),
}
#: Seconds and per cent of all; the last two are in the note below the table.
COST = """
    SGD training                                | 481.8 | 72.5
    Validation eval                             | 133.9 | 20.1
    EWC consolidation                           | 2.0   | 0.3
    CL evaluation                               | 12.2  | 1.8
    ED / SVD monitoring                         | 6.1   | 0.9
    Fisher growth-check                         | 13.8  | 2.1
    Neurogenesis                                | 15.3  | 2.3
    NORACL overhead                             | 35.1  | 5.3
    Total wall-clock                            | 664.9 | 100.0
    NORACL overhead, % of the shared components | 5.6   | N/A
    growth events                               | 12    | N/A
"""
#: On MNIST, and on Split CIFAR-10.
HYPERPARAMETERS = """
    ED discount                     | 0.9   | 0.8
    SVD threshold                   | 0.05  | 0.05
    Fisher percentile               | 25    | 50
    Cooldown epochs                 | 3     | 3
    Init scale                      | 0.2   | 0.2
    Fisher EMA decay                | 0.9   | 0.9
    EWC strength Permuted MNIST     | 500   | N/A
    EWC strength Rotated MNIST      | 2000  | N/A
    EWC strength Binary Split MNIST | 5000  | N/A
    EWC strength Split CIFAR-10     | N/A   | 5000
    Learning rate (task 1)          | 1e-1  | 1e-1
    Learning rate (later tasks)     | 5e-3  | 5e-3
    Gradient clipping               | 5.0   | 5.0
    Batch size                      | 256   | 256
    Epochs (task 1)                 | 10    | 10
    Epochs (later tasks)            | 30    | 80
"""

#: What is known second-hand of the authors' released results: seed, accuracy, parameters, widths.
RELEASED = {
    ("bsmnist_2l_noracl", "2L NORACL", "split_mnist"): """
        0    | 75.17        | 19804       | 24×38
        1    | 73.53        | N/A         | N/A
        2    | 71.26        | N/A         | N/A
        3    | 71.95        | N/A         | N/A
        4    | 74.27        | N/A         | N/A
        mean | 73.24 ± 1.62 | 19255 ± 456 | N/A
    """,
    ("bsmnist_2l_static32", "2L medium", "split_mnist"): "mean | 69.75 ± 3.39 | 26176 | 32×32",
    ("", "2L NORACL", "permuted_mnist"): "mean | 77.41 ± 2.08 | N/A | N/A",
}
#: Numbers of the text that no table has, and the words around them.
PROSE = {
    ("2L NORACL", "permuted_mnist"): ("60×32", "(from ∼32 to ∼60 neurons over 10 tasks) while layer 2 remains flat"),
    ("2L NORACL", "rotated_mnist"): ("44×37", "(∼44 vs. ∼37)"),
    ("2L NORACL", "split_mnist"): ("23×36", "Layer 2 grows faster than layer 1 (∼36 vs. ∼23)"),
    ("1L small", "split_mnist"): ("16", "hidden widths of 16, 32, and 64 neurons per layer"),
    ("1L medium", "split_mnist"): ("32", "hidden widths of 16, 32, and 64 neurons per layer"),
    ("1L large", "split_mnist"): ("64", "hidden widths of 16, 32, and 64 neurons per layer"),
    ("2L small", "split_mnist"): ("16×16", "hidden widths of 16, 32, and 64 neurons per layer"),
    ("2L medium", "split_mnist"): ("32×32", "hidden widths of 16, 32, and 64 neurons per layer"),
    ("2L large", "split_mnist"): ("64×64", "hidden widths of 16, 32, and 64 neurons per layer"),
    ("all", "split_mnist"): ("2", "binary classification over disjoint digit pairs"),
    ("init zero", "all"): ("0", "the new neurons are permanently inert"),
}


def rows(text):
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


def both(cell):
    """A number and its deviation as written in reports/paper; deviations of thousands are printed with or without k."""
    value, _, deviation = ("nan" if cell == "N/A" else cell).partition(" ± ")
    unit = {"k": 1e3, "M": 1e6}.get(value[-1], 1)
    found = [round(float(number.rstrip("kM")) * unit, 6) for number in (value, deviation or "nan")]
    return ["" if math.isnan(number) else number for number in found]


def as_printed(table):
    """By row and column, what reports/paper/TABLE.csv must hold."""
    benchmarks, text = PRINTED[table]
    return {
        (row, benchmark, name): number
        for row, *cells in rows(text)
        for benchmark, params, acc in zip(benchmarks, cells[::2], cells[1::2], strict=True)
        for name, number in zip(("params", "params_sd", "acc", "acc_sd"), [*both(params), *both(acc)], strict=True)
    }


def as_transcribed(table, index):
    """By row and column, what reports/paper/TABLE.csv holds."""
    frame = pd.read_csv(f"reports/paper/{table}.csv").set_index(index)
    assert frame.index.is_unique
    cells = frame.select_dtypes("number").astype(object).where(frame.notna(), "").stack()
    return {(*(name if isinstance(name, tuple) else (name,)),): value for name, value in cells.items()}


@pytest.mark.parametrize("table", PRINTED)
def test_every_number_is_the_one_that_the_paper_prints(table):
    assert as_transcribed(table, ["row", "benchmark"]) == as_printed(table)


@pytest.mark.parametrize(
    ("table", "columns", "text"),
    [("cost", ("seconds", "share_percent"), COST), ("hyperparameters", ("mnist", "split_cifar10"), HYPERPARAMETERS)],
)
def test_costs_and_hyperparameters_are_the_ones_that_the_paper_prints(table, columns, text):
    printed = {
        (row, name): both(cell)[0] for row, *cells in rows(text) for name, cell in zip(columns, cells, strict=True)
    }
    assert as_transcribed(table, pd.read_csv(f"reports/paper/{table}.csv").columns[0]) == printed


def test_the_stress_tables_hold_what_the_text_says_and_sizes_that_follow_from_widths():
    for table in ("stress50", "stress100"):
        for line in results.paper(table).itertuples():
            one, two = map(int, (line.row if line.row != "NORACL" else "75×32").split("×"))  # "NORACL's max final size"
            assert line.params == (784 * one + one * two + two * 10) // 100 * 100, "truncated, as Table 1 is"
            assert math.isnan(line.acc) == ((table, line.row) != ("stress50", "NORACL"))
    assert results.paper("stress50").set_index("row").loc["NORACL", "acc"] == 48, "the text's ∼48%"


def released_rows():
    return pd.read_csv("reports/paper/released.csv", dtype={"seed": str}, keep_default_na=False)


def test_what_is_known_second_hand_is_what_was_told():
    """Until the stage `official` replaces it, all of it at once."""
    found = released_rows()
    (source,) = set(found["source"])
    told = [
        [config, "main", row, benchmark, seed, *both(accuracy), *both(params), "" if widths == "N/A" else widths]
        for (config, row, benchmark), text in RELEASED.items()
        for seed, accuracy, params, widths in rows(text)
    ]
    columns = [
        "config",
        "table",
        "row",
        "benchmark",
        "seed",
        "accuracy",
        "accuracy_sd",
        "params",
        "params_sd",
        "widths",
    ]
    here = [[float(x) if n in range(5, 9) and x != "" else x for n, x in enumerate(r)] for r in found[columns].values]
    assert source == "official" or here == told
    assert source == "official" or set(found["where"].str.partition(": ")[0]) == {
        "github.com/in-c0/modular-consolidation"
    }


def test_released_means_are_those_of_their_seeds():
    seeds = 0
    for _, cells in released_rows().groupby("config"):
        values = pd.to_numeric(cells[cells["seed"] != "mean"]["accuracy"])
        (mean,) = cells[cells["seed"] == "mean"].to_dict("records")
        if len(values):
            seeds += 1
            assert float(mean["accuracy"]) == pytest.approx(values.mean(), abs=0.006)
            assert float(mean["accuracy_sd"]) == pytest.approx(values.std(), abs=0.006)
    assert seeds


def test_released_numbers_of_a_table_are_means_by_cell():
    main = results.released("main").set_index(["row", "benchmark"])
    assert main.index.is_unique
    if set(main["source"]) == {"second-hand"}:
        assert main.loc[("2L NORACL", "split_mnist"), "params":"acc_sd"].tolist() == [19255, 456, 73.24, 1.62]
        assert results.released("cifar10").empty
    full = results.released("ablations").set_index(["row", "benchmark"])
    for benchmark in ("split_mnist", "permuted_mnist"):
        assert full.loc[("full", benchmark)].equals(main.loc[("2L NORACL", benchmark)]), "the same runs"


def test_numbers_of_the_text_are_the_ones_that_it_has():
    found = pd.read_csv("reports/paper/prose.csv", dtype=str).set_index(["row", "benchmark"])
    assert found["value"].to_dict() == {key: value for key, (value, _) in PROSE.items()}
    assert [key for key, (_, words) in PROSE.items() if words not in found.loc[key, "quote"]] == []
    assert not found[["where", "quote", "exact"]].isna().any(axis=None)


def test_every_table_is_transcribed_twice():
    stated = {*PRINTED, "cost", "hyperparameters", "stress50", "stress100", "released", "prose"}
    ours = {"selected_on"}  # which cells helped us to choose
    assert {path.stem for path in Path("reports/paper").glob("*.csv")} == stated | ours


# The pins

PIN = "undo that, or, if the paper says so, pin it with `cd reports/paper && sha256sum *.csv > SHA256SUMS`"


@pytest.fixture
def copied(tmp_path, monkeypatch):
    shutil.copytree("reports/paper", tmp_path / "reports/paper")
    monkeypatch.chdir(tmp_path)
    return Path("reports/paper")


def test_a_changed_a_missing_and_an_unknown_file_are_named_with_what_to_do(copied):
    assert check.paper_is_as_pinned(None) == []
    (copied / "main.csv").write_text(
        (copied / "main.csv").read_text(encoding="utf-8").replace("79.9", "77.9"), encoding="utf-8"
    )
    (copied / "cost.csv").unlink()
    (copied / "table9.csv").write_text("row,benchmark\n", encoding="utf-8")
    assert check.paper_is_as_pinned(None) == [
        f"reports/paper/cost.csv is missing: {PIN}",
        f"reports/paper/main.csv differs from reports/paper/SHA256SUMS: {PIN}",
        f"reports/paper/table9.csv is not in reports/paper/SHA256SUMS: {PIN}",
    ]
    (copied / "SHA256SUMS").unlink()
    assert len(check.paper_is_as_pinned(None)) == len(list(copied.glob("*.csv")))


def test_the_command_that_it_names_pins_what_is_there(copied):
    (copied / "main.csv").write_text(
        (copied / "main.csv").read_text(encoding="utf-8").replace("79.9", "77.9"), encoding="utf-8"
    )
    (command,) = re.findall(r"`(.*)`", PIN)
    subprocess.run(command, shell=True, check=True)
    assert check.paper_is_as_pinned(None) == []
    assert hashlib.sha256((copied / "main.csv").read_bytes()).hexdigest() in (copied / "SHA256SUMS").read_text(
        encoding="utf-8"
    )


def test_a_changed_number_fails_the_check_after_everything_was_made_from_it(clone, tmp_path):
    copy = clone.copy(tmp_path / "copy")
    path = copy.folder / "reports/paper/main.csv"
    path.write_text(
        path.read_text(encoding="utf-8").replace(
            "2L small,permuted_mnist,12900,,41.9", "2L small,permuted_mnist,12900,,91.9"
        ),
        encoding="utf-8",
    )
    copy.run("dvc", "repro", "tables", "claims")
    for command in (("dvc", "repro", "--single-item", "check"), ("python", "-m", "pipeline", "check", "--quick")):
        output = copy.run(*command, ok=False)
        assert "check paper_is_as_pinned: FAILED" in output
        assert f"reports/paper/main.csv differs from reports/paper/SHA256SUMS: {PIN}" in output
        assert "check tables_are_generated: ok" in output, "what was made from it agrees with it"
        assert "check claims_are_generated: ok" in output
        assert "the reported numbers are not what the code computes" in output
