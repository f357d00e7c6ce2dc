"""Reading files from git repositories that may hold anything: no working tree, no hooks, and limits on time and size.

The objects of one commit are fetched into a bare repository, and files are read from there. Nothing is checked out, so
that no filter, no LFS, no submodule and no code of the repository has anything to do.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from pipeline.data.archives import LIMIT, MEMBERS

FILE = 2**20  # bytes: a file that is read is not larger
LOOK = 0.05  # seconds between two looks at a running git
#: What git asks of its surroundings, apart from what reaches a network through proxies.
ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "https:file",
    "GIT_ASKPASS": "false",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
KEPT = ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
SETTINGS = {
    "core.askPass": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "http.followRedirects": "initial",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    "maintenance.auto": "false",
    "protocol.version": "2",
}
#: A line of `git ls-tree -l`: mode, kind, object, size and path.
ENTRY = re.compile(r"(\d{6}) (\w+) ([0-9a-f]{40}) +(\d+|-)\t(.+)", re.DOTALL)


def size(folder: Path) -> int:
    """Bytes in a folder in which somebody else writes."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size
    return total


def git(store: Path, until: float, *arguments: str, given: bytes = b"") -> bytes:
    """What git prints; OSError with its last words if it fails, takes too long or writes too much."""
    settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    with tempfile.TemporaryFile() as ask, tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as words:
        ask.write(given)
        ask.seek(0)
        process = subprocess.Popen(
            ["git", *settings, f"--git-dir={store}", *arguments],
            env={**kept, **ENVIRONMENT, "HOME": str(store)},
            stdin=ask,
            stdout=said,
            stderr=words,
            start_new_session=True,  # so that its children end with it
        )
        try:
            while process.poll() is None:
                if time.monotonic() >= until:
                    raise OSError(f"git {arguments[0]}: gave up, the time is over")
                if size(store) + os.fstat(said.fileno()).st_size > LIMIT:
                    raise OSError(f"git {arguments[0]}: gave up, more than {LIMIT} bytes are too many to be true")
                time.sleep(LOOK)
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        words.seek(0)
        said.seek(0)
        if process.returncode:
            last = words.read(2**16).decode(errors="replace").strip().splitlines()[-1:]
            raise OSError(f"git {arguments[0]} failed: {''.join(last) or process.returncode}")
        return said.read()


def fetch_commit(url: str, revision: str, store: Path, until: float) -> None:
    """Exactly this commit, without its history, in a bare repository at ``store``."""
    git(store, until, "init", "--quiet", "--bare", "--template=", str(store))
    git(store, until, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", url, revision)
    for name in ("FETCH_HEAD", f"{revision}^{{commit}}"):
        found = git(store, until, "rev-parse", "--verify", "--end-of-options", name).decode().strip()
        if found != revision:
            raise OSError(f"{name} is {found}, not the commit {revision}")


def files_below(store: Path, revision: str, folder: str, name: str, until: float) -> dict[str, bytes]:
    """The content of every file with a name below a folder of a commit, by path."""
    listed = git(store, until, "ls-tree", "-r", "-l", "-z", revision, "--", f"{folder}/").decode(errors="replace")
    entries = [ENTRY.fullmatch(line) for line in listed.split("\0") if line]
    wanted = [entry for entry in entries if entry and entry[5].rpartition("/")[2] == name]
    if len(wanted) > MEMBERS:
        raise OSError(f"{folder} has more than {MEMBERS} files {name}")
    for entry in wanted:
        if entry[1] not in ("100644", "100755") or entry[2] != "blob":
            raise OSError(f"{entry[5]} is no plain file")
        if int(entry[4]) > FILE:
            raise OSError(f"{entry[5]} has {entry[4]} bytes, more than {FILE}")
    if sum(int(entry[4]) for entry in wanted) > LIMIT // 2:
        raise OSError(f"the files {name} in {folder} are too large to be true")
    asked = "".join(f"{entry[3]}\n" for entry in wanted).encode()
    content, found = git(store, until, "cat-file", "--batch", given=asked), dict[str, bytes]()
    for entry in wanted:
        head, _, content = content.partition(b"\n")
        if head.decode() != f"{entry[3]} blob {entry[4]}":
            raise OSError(f"{entry[5]} cannot be read: {head.decode(errors='replace')[:80]}")
        found[entry[5]], content = content[: int(entry[4])], content[int(entry[4]) + 1 :]
    return found
