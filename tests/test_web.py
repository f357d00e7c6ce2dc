"""Servers that mean harm, on this machine: whatever they send, and however slowly, a download ends."""

import itertools
import socket
import threading
import time

import pytest

from pipeline.data import web

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PAUSE = 0.02  # seconds between two pieces that drip


class Server:
    """Sends what a script gives for a path, piece by piece, but no more than 10 s or 64 MB of it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.over, self.asked, self.script, self.pause = threading.Event(), [], None, 0.0
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self):
        while not self.over.is_set():
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        sent, end = 0, time.monotonic() + 10
        with connection:
            try:
                asked = connection.recv(1 << 16)
                self.asked.append(asked.split(b" ")[1].decode() if asked.startswith(b"GET") else "")
                for piece in self.script(self.asked[-1]):
                    connection.sendall(piece)
                    sent += len(piece)
                    if self.over.wait(self.pause) or sent > 64 << 20 or time.monotonic() > end:
                        return
            except OSError:
                return

    def fetch(self, *pieces, path="/", pause=0.0, seconds=60.0, scheme="http"):
        """What a client gets from a script, or from these pieces."""
        self.pause = pause
        self.script = pieces[0] if callable(pieces[0]) else lambda path: pieces
        return web.fetch(f"{scheme}://{self.address}{path}", time.monotonic() + seconds)


@pytest.fixture
def server():
    found = Server()
    yield found
    found.over.set()
    found.listener.close()
    end = time.monotonic() + 30
    while any(thread.name.startswith("fetch") for thread in threading.enumerate()):
        assert time.monotonic() < end, "a transfer was left behind"
        time.sleep(0.01)


def drip(start, *again):
    """A script: the start at once, then the same bytes or lines again and again."""
    return lambda path: itertools.chain([start], itertools.cycle(again))


DRIPS = {
    "status line": drip(b"HTTP/1.1 200 ", b"O"),
    "header": drip(OK + b"X: ", b"y"),
    "header lines": drip(OK, b"X: y\r\n"),
    "continue": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunk size": drip(CHUNKED, b"0"),
    "chunk extension": drip(CHUNKED + b"1;", b"x"),
    "chunks": drip(CHUNKED, b"1\r\nx\r\n"),
    "trailer": drip(CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n"),
    "body": drip(OK + b"\r\n", b"x"),
    "body of a redirect": drip(b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", b"x"),
}


@pytest.mark.parametrize("script", DRIPS.values(), ids=DRIPS)
def test_whatever_drips_is_given_up_at_the_deadline(server, script):
    """Each byte comes soon enough; all of them together never do."""
    with pytest.raises(OSError, match=r"gave up after . s and [0-9]+ bytes: the time is over"):
        server.fetch(script, pause=PAUSE, seconds=0.5)


def test_a_handshake_that_drips_is_given_up_at_the_deadline(server, monkeypatch):
    monkeypatch.setattr(web, "TIMEOUT", 1000.0)
    with pytest.raises(OSError, match=r"the time is over|handshake operation timed out"):
        server.fetch(drip(b"\x16\x03\x03\x40\x00", b"\2"), pause=PAUSE, seconds=0.5, scheme="https")


def test_a_name_that_nobody_finds_is_given_up_at_the_deadline(monkeypatch):
    over = threading.Event()

    def look_up(*args, **kwargs):
        over.wait(10)
        raise OSError("there is no such name")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        with pytest.raises(OSError, match=r"gave up after . s and 0 bytes: the time is over"):
            web.fetch("http://example.org/", time.monotonic() + 0.3)
    finally:
        over.set()


def flood(start, again, times=1000):
    return lambda path: itertools.chain([start], itertools.repeat(again * times, 64 << 20))


FLOODS = {
    "long header lines": flood(OK, b"X: " + b"y" * 60000 + b"\r\n", 1),
    "continue": flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": flood(OK + b"\r\n", b"x"),
    "chunks": flood(CHUNKED, b"1\r\nx\r\n"),
    "trailer": flood(CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n"),
    "body of a redirect": flood(b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", b"x"),
}


@pytest.mark.parametrize("script", FLOODS.values(), ids=FLOODS)
def test_whatever_never_ends_is_cut(server, monkeypatch, script):
    monkeypatch.setattr(web, "LIMIT", 1 << 20)
    with pytest.raises(OSError, match="it is too long to be true"):
        server.fetch(script)


def test_a_header_is_cut_long_before_a_body(server):
    with pytest.raises(OSError, match="it is too long to be true") as caught:
        server.fetch(FLOODS["continue"])
    assert int(str(caught.value).split()[6]) < 4 * web.HEADER


def test_a_server_that_falls_silent_is_left(server, monkeypatch):
    monkeypatch.setattr(web, "TIMEOUT", 0.2)
    with pytest.raises(OSError, match="nothing more comes"):
        server.fetch(b"HTTP/1.1 ", b"200 OK", pause=5)


def test_a_server_must_send_something_in_every_window(monkeypatch, capsys):
    """By a clock of our own: 1200 bytes a second go on, 800 do not."""
    now = 0.0
    monkeypatch.setattr(web.time, "monotonic", lambda: now)
    for rate, enough in ((1200, True), (800, False)):
        now = 0.0
        guard = web.Guard("http://somewhere", until=1000.0)
        ended = None
        while ended is None and now < 900:
            now += 5
            guard.bytes += 5 * rate
            try:
                assert guard.patience() == web.TIMEOUT
            except OSError as error:
                ended = str(error)
        assert ended == (None if enough else "gave up after 35 s and 28000 bytes: it is too slow")
    assert "http://somewhere: 1 MB so far" in capsys.readouterr().out
    now = 995.0
    assert web.Guard("http://somewhere", until=1000.0).patience() == 5.0


# Redirects


def to(place):
    return f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()


def test_a_few_redirects_are_followed_and_no_more(server):
    def hops(path):
        return [to(f"/{int(path[1:]) - 1}") if path != "/0" else OK + b"\r\nthere"]

    assert server.fetch(hops, path=f"/{web.REDIRECTS}") == b"there"
    server.asked.clear()
    with pytest.raises(OSError, match="HTTP Error 302"):
        server.fetch(hops, path="/99")
    assert len(server.asked) == web.REDIRECTS + 1
    with pytest.raises(OSError, match="HTTP Error 302"):
        server.fetch(to("/"))


def test_only_the_web_is_asked(server, tmp_path):
    """Neither files of this machine nor anything else that has a URL."""
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    for place in (f"{tmp_path.as_uri()}/secret", f"ftp://{server.address}/x", "data:,x"):
        with pytest.raises(OSError, match="unknown url type"):
            web.fetch(place, time.monotonic() + 60)
        with pytest.raises(OSError, match=r"unknown url type|is not allowed"):
            server.fetch(to(place))
    assert set(server.asked) == {"/"}


# What is meant well


def test_bodies_come_as_they_were_sent(server):
    body = bytes(range(256)) * 1000
    assert server.fetch(OK + b"\r\n", body) == body
    assert server.fetch(OK + b"Content-Length: 256000\r\n\r\n", body) == body
    assert server.fetch(CHUNKED, b"3e800\r\n", body, b"\r\n0\r\nX: y\r\n\r\n") == body
    assert server.fetch(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"\r\n") == b""


@pytest.mark.parametrize("answer", [b"", b"\0\1\2", b"SSH-2.0\r\n", b"HTTP/1.1 abc\r\n\r\n", CHUNKED + b"zz\r\n"])
def test_what_is_no_http_is_an_error_in_words(server, answer):
    with pytest.raises(OSError, match=r"Remote end closed|does not speak HTTP"):
        server.fetch(answer)


def test_a_page_that_is_missing_is_an_error(server):
    with pytest.raises(OSError, match="HTTP Error 404: gone"):
        server.fetch(b"HTTP/1.1 404 gone\r\n\r\n")
