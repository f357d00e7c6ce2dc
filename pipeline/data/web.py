"""Fetching from servers that may do anything: one deadline, one limit and one lowest speed for all that they send.

``pooch`` does not help with that: it checks hashes, which takes ``download`` a line, but its transfers have no
deadline, no limit and no lowest speed, and it unpacks archives to disk.
"""

import http.client
import io
import threading
import time
import urllib.request
from concurrent.futures import Future
from functools import partial
from socket import socket
from typing import Any, cast

from pipeline.data.archives import LIMIT

TIMEOUT = 10.0  # seconds without a byte
WINDOW = 30.0  # seconds in which a server must send
LEAST = 30_000  # bytes, whatever they are
HEADER = 64 * 2**10  # bytes before a body begins
REDIRECTS = 5
NEWS = 10.0  # seconds between two lines of progress


class Guard:
    """Counts what comes for a URL (status, headers, chunk sizes, bodies, also of redirects), and gives up."""

    def __init__(self, url: str, until: float) -> None:
        self.url, self.until, self.bytes, self.limit = url, until, 0, LIMIT
        self.answers: list[http.client.HTTPResponse] = []
        self.start = self.told = time.monotonic()
        self.window = self.start, 0  # since when at least LEAST bytes must come, and the bytes before

    def give_up(self, why: str) -> OSError:
        """The error that ends it."""
        return OSError(f"gave up after {time.monotonic() - self.start:.0f} s and {self.bytes} bytes: {why}")

    def patience(self) -> float:
        """Seconds to wait for more; OSError if there was enough."""
        now = time.monotonic()
        if now >= self.until:
            raise self.give_up("the time is over")
        if self.bytes > self.limit:
            raise self.give_up("it is too long to be true")
        if now > self.window[0] + WINDOW:
            if self.bytes < self.window[1] + LEAST:
                raise self.give_up("it is too slow")
            self.window = now, self.bytes
        if now > self.told + NEWS:
            self.told = now
            print(f"{self.url}: {self.bytes >> 20} MB so far", flush=True)
        return min(TIMEOUT, self.until - now)


class _Guarded(io.RawIOBase):
    """What comes from a socket, while a guard counts."""

    def __init__(self, guard: Guard, connection: socket, raw: io.RawIOBase) -> None:
        self.guard, self.connection, self.raw = guard, connection, raw

    def readable(self) -> bool:
        """Nothing else."""
        return True

    def readinto(self, buffer: Any) -> int:
        """What has come, or comes soon."""
        self.connection.settimeout(self.guard.patience())
        try:
            count = cast(int, self.raw.readinto(buffer))
        except TimeoutError:
            self.guard.patience()  # has none left if it was the last wait
            raise self.guard.give_up("nothing more comes") from None
        self.guard.bytes += count
        return count

    def close(self) -> None:
        """The socket's file, with which the socket is closed."""
        self.raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer that is read while a guard counts."""

    def __init__(self, guard: Guard, connection: socket, *given: Any, **named: Any) -> None:
        super().__init__(connection, *given, **named)
        guard.answers.append(self)
        self.guard, guard.limit = guard, min(LIMIT, guard.bytes + HEADER)
        guard.window = time.monotonic(), guard.bytes  # now it can be fast
        self.fp = io.BufferedReader(_Guarded(guard, connection, self.fp.detach()))

    def begin(self) -> None:
        """Read all that comes before the body."""
        super().begin()
        self.guard.limit = LIMIT


class _Http(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Connections whose answers a guard counts."""

    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self.guard = guard

    def do_open(self, http_class: Any, req: urllib.request.Request, **options: Any) -> http.client.HTTPResponse:
        """As ever, but for the class of the answer."""

        def connection(*given: Any, **named: Any) -> http.client.HTTPConnection:
            made: http.client.HTTPConnection = http_class(*given, **named)
            made.response_class = partial(_Answer, self.guard)  # type: ignore[assignment]
            return made

        return super().do_open(connection, req, **options)


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = REDIRECTS


def _read(guard: Guard) -> bytes:
    """The body, from http and https alone: there is no handler for files or anything else."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        *(urllib.request.ProxyHandler(), _Http(guard), _Redirects(), urllib.request.UnknownHandler()),
        *(urllib.request.HTTPDefaultErrorHandler(), urllib.request.HTTPErrorProcessor()),
    ):
        opener.add_handler(handler)
    body = io.BytesIO()
    try:
        with opener.open(guard.url, timeout=guard.patience()) as answer:
            while part := answer.read1(1 << 20):
                body.write(part)
    except http.client.HTTPException as error:
        raise OSError(f"it does not speak HTTP: {str(error) or type(error).__name__}") from None
    finally:
        for one in guard.answers:
            one.close()
    return body.getvalue()


def fetch(url: str, until: float) -> bytes:
    """The body at a URL; OSError if it is not there at ``until``, a time of the monotonic clock, whatever keeps it."""
    guard, found = Guard(url, until), Future[bytes]()

    def transfer() -> None:
        try:
            found.set_result(_read(guard))
        except BaseException as error:
            found.set_exception(error)

    # In a thread, because nothing ends the look-up of a name. Whatever else the thread does, the guard ends.
    threading.Thread(target=transfer, name=f"fetch {url}", daemon=True).start()
    try:
        return found.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        raise guard.give_up("the time is over") from None
