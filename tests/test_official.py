"""The stage official on made-up repositories of the released layout: what it reads, and all that it refuses."""

import itertools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.config import load, parse
from pipeline.data import official, repositories
from pipeline.data.official import OfficialError, cell, final_state
from pipeline.evidence import results
from pipeline.plain_yaml import ParamsError
from tests.conftest import ROOT

ACCURACIES = [75.17, 73.53, 71.26, 71.95, 74.27]
WIDTHS = [(24, 38), (23, 38), (23, 36), (23, 36), (23, 37)]
ELSEWHERE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}


def size(inputs, *widths, outputs):
    sizes = (inputs, *widths, outputs)
    return sum(a * b for a, b in itertools.pairwise(sizes))


def csv(*rows, heads="task,avg_accuracy,width_l0,width_l1,total_params,wall"):
    return "".join(",".join(map(str, row)) + "\n" for row in (heads.split(","), *rows))


def made_up():
    """Files by path: two layers that grow, a static one, one layer, heads on features, a configuration of no cell."""
    files = {}
    for seed, (accuracy, (one, two)) in enumerate(zip(ACCURACIES, WIDTHS, strict=True)):
        start = [1, 0.99, 12, 12, size(784, 12, 12, outputs=2), 3.5]
        last = [2, accuracy / 100, one, two, size(784, one, two, outputs=2), 3.5]
        files[f"bsmnist_2l_noracl_s{seed}"] = csv(start, last)
        files[f"bsmnist_2l_static32_s{seed}"] = csv([1, 69 + seed, 32, 32, 26176, 1])
        files[f"pmnist_1l_static16_s{seed}"] = csv(
            [1, 0.44, 16, size(784, 16, outputs=10)], heads="task,avg_accuracy,width_l0,total_params"
        )
        files[f"bscifar10_2l_noracl_s{seed}"] = csv([1, 86.0, 172, 134, size(512, 172, 134, outputs=2), 1])
        files[f"stress50_noracl_s{seed}"] = csv([1, 0.48, 75, 32, size(784, 75, 32, outputs=10), 1])
    return {f"results/paper/{name}/per_task.csv": text for name, text in files.items()}


def commit(folder, files):
    """A repository that holds these files, and its commit, which is not its last one."""
    folder.mkdir()
    others = {
        ".gitattributes": "*.csv filter=trap\n",
        "setup.py": "raise SystemExit('ran')\n",
        "results/paper/a.md": "x",
    }
    others[".gitmodules"] = f'[submodule "x"]\n\tpath = x\n\turl = {folder.parent}/nowhere\n'
    for path, text in {**others, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")

    def run(*arguments):
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
        done = subprocess.run(command, cwd=folder, env=ELSEWHERE, capture_output=True, encoding="utf-8", check=True)
        return done.stdout.strip()

    run("init", "-q", "-b", "main")
    run("add", "-A")
    run("commit", "-q", "-m", "released")
    revision = run("rev-parse", "HEAD")
    (folder / "later").write_text("", encoding="utf-8")
    run("add", "-A")
    run("commit", "-q", "-m", "later")
    return revision


def trap(folder, monkeypatch):
    """Settings of the user that leave a file if git follows them: a hook and a filter."""
    (folder / "trap").write_text(f'#!/bin/sh\ntouch {folder}/trapped\nexec "$@"\n', encoding="utf-8")
    (folder / "trap").chmod(0o755)
    settings = f'[uploadpack]\npackObjectsHook = {folder}/trap\n[filter "trap"]\nsmudge = {folder}/trap cat\n'
    (folder / "gitconfig").write_text(settings, encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(folder / "gitconfig"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder in which the stage runs, with the committed numbers."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "reports/paper", tmp_path / "reports/paper")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def point_to(url, revision):
    path = Path("params.yaml")
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    found["official"] |= {"url": str(url), "revision": revision}
    path.write_text(yaml.safe_dump(found), encoding="utf-8")


@pytest.mark.parametrize("kind", ["path", "relative", "file"])
def test_released_numbers_come_from_the_pinned_commit(place, capsys, monkeypatch, kind):
    revision = commit(place / "theirs", made_up())
    trap(place, monkeypatch)
    url = {"path": place / "theirs", "relative": "./theirs", "file": (place / "theirs").as_uri()}[kind]
    point_to(url, revision)
    official.main([])
    found = pd.read_csv("reports/paper/released.csv", dtype={"seed": str}, keep_default_na=False)
    assert list(found) == official.COLUMNS
    assert set(found["source"]) == {"official"}
    assert len(found) == 5 * (5 + 1)
    own = found[found["config"] == "bsmnist_2l_noracl"]
    assert [float(x) for x in own["accuracy"]] == pytest.approx([*ACCURACIES, 73.236])
    assert float(own["accuracy_sd"].iloc[-1]) == pytest.approx(1.617, abs=1e-3)
    assert (own["params"].iloc[0], own["widths"].iloc[0]) == (19804, "24×38")
    assert own["where"].iloc[0] == f"results/paper/bsmnist_2l_noracl_s0/per_task.csv at {revision[:12]}"
    cells = found.drop_duplicates("config").set_index("config")[["table", "row", "benchmark"]]
    assert cells.loc["bscifar10_2l_noracl"].tolist() == ["cifar10", "NORACL", "split_cifar10"]
    assert cells.loc["stress50_noracl"].tolist() == ["", "", ""]
    static = results.released("main").set_index(["row", "benchmark"]).loc[("2L medium", "split_mnist")]
    assert (static["acc"], static["params"], static["source"]) == (71, 26176, "official")
    assert not (place / "trapped").exists(), "no program of the user's settings ran"
    assert "1 belong to no cell that we know of stress50_noracl" in capsys.readouterr().out


def refused(place, files):
    """What is said of these files; released.csv stays as it was."""
    before = Path("reports/paper/released.csv").read_bytes()
    point_to(place / "theirs", commit(place / "theirs", files))
    with pytest.raises(OfficialError) as error:
        official.main([])
    assert Path("reports/paper/released.csv").read_bytes() == before
    assert sorted(path.name for path in Path("reports/paper").iterdir()) == sorted(os.listdir(ROOT / "reports/paper"))
    return str(error.value)


FIRST = "results/paper/bsmnist_2l_noracl_s0/per_task.csv"
GOOD = [1, 0.5, 12, 12, size(784, 12, 12, outputs=2), 1]


def row(**changes):
    """A row that holds but for these columns."""
    heads = ["task", "avg_accuracy", "width_l0", "width_l1", "total_params", "wall"]
    return list((dict(zip(heads, GOOD, strict=True)) | changes).values())


@pytest.mark.parametrize("column", ["avg_accuracy", "width_l0", "width_l1", "total_params"])
def test_a_missing_and_a_repeated_column_are_named(place, column):
    text = csv(GOOD)
    said = refused(place, made_up() | {FIRST: text.replace(column, "other", 1)})
    assert said == f"{FIRST} lacks the column {column}"
    with pytest.raises(OfficialError, match=f"repeats the column {column}"):
        final_state(FIRST, "bsmnist_2l_noracl", text.replace("wall", column).encode())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (csv(row(total_params=9700)), ": total_params 9700 is not what widths 12×12 add up to"),
        (csv(row(width_l1=13), GOOD), ": total_params 9576 is not what widths 12×13 add up to"),
        (csv(GOOD, row(total_params=size(784, 12, 12, outputs=10))), ": total_params 9672 is not what widths"),
        (csv(row(total_params=size(512, 12, 12, outputs=2))), ": total_params 6312 is not what widths"),
        (csv(row(avg_accuracy="nan")), ": avg_accuracy holds 'nan', which is no finite number"),
        (csv(row(avg_accuracy="inf")), ": avg_accuracy holds 'inf', which is no finite number"),
        (csv(row(total_params="")), ": total_params holds '', which is no finite number"),
        (csv(row(width_l0="twelve")), ": width_l0 holds 'twelve', which is no finite number"),
        (csv(row(width_l0=12.5)), ": width_l0 holds 12.5, which is no whole number above 0"),
        (csv(row(width_l1=-12)), ": width_l1 holds -12, which is no whole number above 0"),
        (csv(row(width_l1="")), ": width_l1 holds '', which is no finite number"),
        (csv(row(), row(avg_accuracy=55)), ": avg_accuracy from 0.5 to 55 is neither shares nor percentages"),
        (csv(row(avg_accuracy=101)), ": avg_accuracy from 101 to 101 is neither shares nor percentages"),
        (csv(row(avg_accuracy=-0.5)), ": avg_accuracy from -0.5 to -0.5 is neither shares nor percentages"),
        (csv(row(avg_accuracy=0)), ": avg_accuracy from 0 to 0 is neither shares nor percentages"),
        (csv(), " has no rows below its columns avg_accuracy"),
        (csv([*GOOD, 7]), " has rows that do not fit its 6 columns"),
        ("", " lacks the column avg_accuracy"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", " lacks the column avg_accuracy"),
        (csv(GOOD) + '"', " is no CSV: unexpected end of data"),
    ],
)
def test_a_file_that_cannot_be_is_named_with_its_column(place, text, said):
    assert refused(place, made_up() | {FIRST: text}).startswith(FIRST + said)


def test_a_seed_that_is_missing_doubled_or_too_many(place):
    fewer = {path: text for path, text in made_up().items() if path != FIRST}
    said = "results/paper/bsmnist_2l_noracl_s*/per_task.csv has seeds"
    assert refused(place, fewer) == f"{said} 1, 2, 3, 4, not 0, 1, 2, 3, 4"
    for path, expected in (
        ("bsmnist_2l_noracl_s00", f"{FIRST.replace('s0', 's00')}: seed 0 of bsmnist_2l_noracl is there twice"),
        ("bsmnist_2l_noracl_s5", f"{said} 0, 1, 2, 3, 4, 5, not 0, 1, 2, 3, 4"),
        ("bsmnist_2l_noracl", "results/paper/bsmnist_2l_noracl/per_task.csv is not named results/paper/CONFIG_sSEED"),
        ("deeper/bsmnist_2l_noracl_s0", "results/paper/deeper/bsmnist_2l_noracl_s0/per_task.csv is not named"),
    ):
        shutil.rmtree(place / "theirs")
        assert refused(place, made_up() | {f"results/paper/{path}/per_task.csv": csv(GOOD)}).startswith(expected)


def test_seeds_of_one_configuration_have_the_same_outputs(place):
    files = made_up() | {FIRST: csv(row(total_params=size(784, 12, 12, outputs=10)))}
    assert "bsmnist_2l_noracl_s*/per_task.csv: total_params has other outputs in some seeds" in refused(place, files)


def test_two_configurations_of_one_cell_and_a_repository_without_results(place):
    more = {path.replace("bscifar10", "bscifar"): text for path, text in made_up().items() if "bscifar10" in path}
    said = "bscifar_2l_noracl and bscifar10_2l_noracl in results/paper are both cifar10/NORACL/split_cifar10"
    assert refused(place, made_up() | more) == said
    shutil.rmtree(place / "theirs")
    assert refused(place, {"README.md": "nothing"}) == "there is no results/paper/CONFIG_sSEED/per_task.csv"


def test_a_link_in_place_of_a_file(place):
    path = place / "theirs" / FIRST
    commit(place / "theirs", made_up())
    path.unlink()
    path.symlink_to("/etc/passwd")
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["add", "-A"], ["commit", "-qm", "link"]):
        subprocess.run([*command, *words], cwd=place / "theirs", env=ELSEWHERE, check=True)
    done = subprocess.run(
        [*command, "rev-parse", "HEAD"],
        cwd=place / "theirs",
        env=ELSEWHERE,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    point_to(place / "theirs", done.stdout.strip())
    with pytest.raises(OfficialError, match=f"{FIRST} is no plain file"):
        official.main([])


def test_another_commit_no_repository_and_a_tag_are_refused(place):
    commit(place / "theirs", made_up())
    for url, revision in ((place / "theirs", "0" * 40), (place / "nowhere", "0" * 40)):
        point_to(url, revision)
        with pytest.raises(OfficialError, match=r"git fetch failed: .+"):
            official.main([])
    tag = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "tag", "-a", "v1", "-m", "tagged"]
    subprocess.run(tag, cwd=place / "theirs", env=ELSEWHERE, check=True)
    done = subprocess.run(
        ["git", "rev-parse", "v1"],
        cwd=place / "theirs",
        env=ELSEWHERE,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    point_to(place / "theirs", done.stdout.strip())
    with pytest.raises(OfficialError, match="not the commit"):
        official.main([])


def test_time_and_size_are_limited(place, monkeypatch):
    point_to(place / "theirs", commit(place / "theirs", made_up()))
    monkeypatch.setattr(official, "DEADLINE", 0.0)
    with pytest.raises(OfficialError, match="the time is over"):
        official.main([])
    monkeypatch.undo()
    monkeypatch.chdir(place)
    monkeypatch.setattr(repositories, "FILE", 10)
    with pytest.raises(OfficialError, match="bytes, more than 10"):
        official.main([])


def test_whatever_hangs_or_never_ends_is_ended_with_its_children(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\nsleep 1000 & echo $! > $0.child\nwait\n", encoding="utf-8")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    store = tmp_path / "store"
    store.mkdir()
    start = time.monotonic()
    with pytest.raises(OSError, match="git fetch: gave up, the time is over"):
        repositories.git(store, start + 1, "fetch")
    assert time.monotonic() - start < 10
    child = int((tmp_path / "git.child").read_text(encoding="utf-8"))
    for _ in range(100):
        state = (
            Path(f"/proc/{child}/stat").read_text(encoding="utf-8").split()[2]
            if Path(f"/proc/{child}").exists()
            else "Z"
        )
        if state == "Z":
            break
        time.sleep(0.05)
    assert state == "Z", "its child ended as well"
    monkeypatch.setattr(repositories, "LIMIT", 100_000)
    (tmp_path / "git").write_text("#!/bin/sh\nexec yes\n", encoding="utf-8")
    with pytest.raises(OSError, match="more than 100000 bytes are too many to be true"):
        repositories.git(store, time.monotonic() + 60, "fetch")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("bsmnist_2l_noracl", ("main", "2L NORACL", "split_mnist")),
        ("bsmnist_2l_static32", ("main", "2L medium", "split_mnist")),
        ("rmnist_1l_static64", ("main", "1L large", "rotated_mnist")),
        ("pmnist_2l_zero", ("ablations", "init zero", "permuted_mnist")),
        ("pmnist_1l_zero", ("", "", "")),
        ("bscifar10_2l_static512", ("cifar10", "512×512", "split_cifar10")),
        ("bscifar10_2l_zero", ("", "", "")),
        ("bsmnist_2l_something", ("", "", "")),
        ("fmnist_2l_noracl", ("", "", "")),
        ("noracl", ("", "", "")),
    ],
)
def test_names_tell_cells_or_nothing(config, expected):
    assert cell(config) == expected


def test_every_cell_that_a_name_can_tell_is_one_of_the_paper():
    known = results.paper_numbers().index
    names = [f"{prefix}_{n}l_{name}" for prefix in official.BENCHMARKS for n in (1, 2) for name in official.METHODS]
    cells = [cell(name) for name in names if cell(name)[0] not in ("", "cifar10")]
    assert len(cells) > 30
    assert [one for one in cells if (one[0], one[2], one[1]) not in known] == []


@pytest.mark.parametrize("url", ["ext::sh -c true", "-u", "--upload-pack=x", "ssh://x/y", "git@x:y", "http://x/y", ""])
def test_addresses_that_could_run_something_are_refused(url):
    found = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    found["official"]["url"] = url
    with pytest.raises(ParamsError, match=r"official\.url"):
        parse(yaml.safe_dump(found))


def test_nobody_waits_for_it():
    """Frozen, without outputs: `dvc repro` neither runs it nor says that it made what somebody wrote by hand."""
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]["official"]
    assert stage["frozen"] is True
    assert not {"outs", "deps", "metrics", "plots"} & set(stage)
    for command in (["repro", "official"], ["repro", "--dry", "official"]):
        done = subprocess.run([sys.executable, "-m", "dvc", *command], cwd=ROOT, capture_output=True, encoding="utf-8")
        assert done.returncode == 0
        assert "Running stage" not in done.stdout
        assert "Data and pipelines are up to date." in done.stdout
    assert "official" not in yaml.safe_load((ROOT / "dvc.lock").read_text(encoding="utf-8"))["stages"]


def test_the_committed_pin():
    pinned = load(ROOT / "params.yaml").official
    assert pinned.url == "https://github.com/karthik-charan/NORACL"
    assert pinned.revision in (ROOT / "reports/RECONSTRUCTION.md").read_text(encoding="utf-8")
