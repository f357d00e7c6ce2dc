"""Loaded by every Python process of a clone under test: no network outside the download stages, and faults on demand.

NETWORK_LOG names a file that tells who tried; FAULT is kill:N or full:N, from the N-th file on that is replaced.
"""

import errno
import os
import signal
import socket
import sys

HERE = {None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0", socket.gethostname()}


def refuse(target: object) -> None:
    if log := os.environ.get("NETWORK_LOG"):
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{' '.join(sys.orig_argv)} wanted {target}\n")
    raise OSError(errno.ENETUNREACH, f"the network is cut off here: {target}")


def guarded(original, target_of):
    def call(*args, **kwargs):
        target = target_of(*args)
        if not (
            isinstance(target, str | bytes | None)
            and (target.decode() if isinstance(target, bytes) else target) in HERE
        ):
            refuse(target)
        return original(*args, **kwargs)

    return call


def host(sock, *args):
    """Where a call of a socket's method goes; its address is the last argument."""
    return args[-1][0] if sock.family in (socket.AF_INET, socket.AF_INET6) else None


def failing(original, kind, first):
    calls = 0

    def replace(source, target, **kwargs):
        nonlocal calls
        calls += 1
        if calls == first and kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if calls >= first and kind == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)
        return original(source, target, **kwargs)

    return replace


if os.environ.get("NETWORK") != "on" or sys.orig_argv[-3:-1] != ["pipeline", "download"]:
    for name in ("connect", "connect_ex", "sendto"):
        setattr(socket.socket, name, guarded(getattr(socket.socket, name), host))
    socket.getaddrinfo = guarded(socket.getaddrinfo, lambda name, *rest: name)
if fault := os.environ.get("FAULT"):
    kind, first = fault.split(":")
    os.replace = failing(os.replace, kind, int(first))
