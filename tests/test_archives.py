"""Archives and gzip files that mean harm: they are refused, before they take memory or time."""

import gzip
import io
import tarfile
import tracemalloc
from contextlib import contextmanager

import pytest

from pipeline.data import archives

MILLION = gzip.compress(bytes(1 << 20))  # gzip files can be strung together: 1 kB for each MB of zeros
WANTED = b"what is wanted" * 100


@contextmanager
def little_memory():
    """Fails unless what happens inside takes less than 16 MB."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def header(name, size=0, kind=tarfile.REGTYPE):
    one = tarfile.TarInfo(name)
    one.size, one.type = size, kind
    return one.tobuf(tarfile.GNU_FORMAT)


def packed(members, **options):
    """A packed archive; a member is its content, or the place that it links to."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", **options) as tar:
        for name, content in members.items():
            one = tarfile.TarInfo(name)
            if isinstance(content, str):
                one.type, one.linkname = tarfile.SYMTYPE, content
            one.size = len(content) if isinstance(content, bytes) else 0
            tar.addfile(one, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_kind_of_archive_is_read(form):
    """Words about members, such as long names, are passed over."""
    names = ["a/" + 90 * "b"] if form == tarfile.USTAR_FORMAT else ["a/" + 200 * "b", "ä" * 90]
    content = packed({**dict.fromkeys(names, b"x" * 1000), "in/it": WANTED, "last": b""}, format=form)
    assert archives.member(content, "in/it") == WANTED
    assert archives.member(content, "last") == b""
    assert archives.plain_member(gzip.decompress(content), "in/it") == WANTED
    with pytest.raises(OSError, match="it has no file it"):
        archives.member(content, "it")


def test_folders_are_no_files():
    content = gzip.compress(header("a", kind=tarfile.DIRTYPE) + header("a/b", len(WANTED)) + WANTED + bytes(2000))
    assert archives.member(content, "a/b") == WANTED
    with pytest.raises(OSError, match="it has no file a"):
        archives.member(content, "a")


@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"g"], ids=["long name", "long link", "pax", "global pax"])
def test_words_without_end_are_refused_unread(kind):
    """1 GB of them, packed into 1 MB."""
    content = gzip.compress(header("././@LongLink", 1 << 30, kind)) + MILLION * 1024
    assert len(content) < 2 << 20
    with little_memory(), pytest.raises(OSError, match="too large"):
        archives.member(content, "any")
    content = gzip.compress(header("././@LongLink", 128 << 20, kind)) + MILLION * 130
    with little_memory(), pytest.raises(OSError, match="too large"):
        archives.member(content, "any")


def test_members_without_end_are_not_counted():
    many = gzip.compress(header("empty") * 1000)
    assert archives.member(gzip.compress(header("a", 1) + b"b" + bytes(511)) + many * 9 + MILLION, "a") == b"b"
    with little_memory(), pytest.raises(OSError, match="it has more than 10000 members"):
        archives.member(many * 300, "empty")


@pytest.mark.parametrize("size", [257 << 20, 1 << 60, -1, -(1 << 60)])
def test_sizes_that_cannot_be_are_refused(size):
    content = gzip.compress(header("a", size)) + MILLION * 300
    with little_memory(), pytest.raises(OSError, match="too large"):
        archives.member(content, "a")


def test_members_that_are_too_large_together_are_refused():
    half = gzip.compress(header("a", 100 << 20)) + MILLION * 100
    with little_memory(), pytest.raises(OSError, match="too large"):
        archives.member(half * 3, "b")


@pytest.mark.parametrize("kind", [b"1", b"2", b"3", b"4", b"6", b"7", b"S", b"X", b"?"])
def test_only_plain_files_and_folders_may_be_there(kind):
    content = gzip.compress(header("a", len(WANTED)) + WANTED + bytes(136) + header("b", kind=kind) + bytes(1024))
    with pytest.raises(OSError, match="b is no plain file or folder below the archive"):
        archives.member(content, "a")


def test_archives_that_end_too_early_or_are_none_are_refused():
    whole = packed({"a": bytes(5000), "b": WANTED})
    plain = gzip.decompress(whole)
    broken = [b"", b"<html>", WANTED, whole[: len(whole) // 2], whole[:20] + b"\xff" * 20, plain]
    broken += [gzip.compress(plain[:end]) for end in (100, 512, 600, 5632, 6000)]
    broken.append(gzip.compress(plain[:-100].replace(b"ustar", b"urani")))
    for content in broken:
        with pytest.raises(OSError, match=r"whole archive|gzipped|no file b"):
            archives.member(content, "b")


def test_gzip_files_that_unpack_to_too_much_are_refused(monkeypatch):
    assert archives.gunzip(MILLION * 3) == bytes(3 << 20)
    monkeypatch.setattr(archives, "LIMIT", 3 << 20)
    assert archives.gunzip(MILLION * 3) == bytes(3 << 20)
    with little_memory(), pytest.raises(OSError, match="unpack to more than 3145728"):
        archives.gunzip(MILLION * 1024)
    with pytest.raises(OSError, match="no whole gzip file"):
        archives.gunzip(MILLION[:-10])
