import hashlib
import os
import pickle
import time

import pytest

from pipeline.data import verified
from pipeline.data.verified import Damaged

MEND = "run `dvc repro download@some`"


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_a_file_is_read_only_if_it_has_its_hash(tmp_path, kind):
    path = tmp_path / "some" / "file"
    expected = hashlib.new(kind, b"content").hexdigest()
    with pytest.raises(FileNotFoundError, match=f"some lacks file: {MEND}$"):
        verified.verified(path, expected, MEND)
    path.parent.mkdir()
    for content in (b"", b"conten", b"contenT"):
        path.write_bytes(content)
        with pytest.raises(Damaged, match=f"some/file is damaged: {MEND} after deleting it$") as caught:
            verified.verified(path, expected, MEND)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "workers can send it"
    path.write_bytes(b"content")
    assert verified.verified(path, expected, MEND) == path


def test_a_file_is_hashed_once_while_it_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(verified, "SETTLED", 0)
    read = []

    @verified.remembered
    def content(path):
        read.append(path)
        return path.read_text(encoding="utf-8")

    path = tmp_path / "file"
    path.write_text("before", encoding="utf-8")
    assert [content(path) for _ in range(3)] == ["before"] * 3
    assert len(read) == 1
    monkeypatch.chdir(tmp_path)
    assert content(type(path)("file")) == "before"
    assert len(read) == 1
    times = path.stat()
    time.sleep(0.05)  # longer than a tick of the file system
    path.write_text("behind", encoding="utf-8")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert content(path) == "behind", "of the same size and time"
    assert len(read) == 2


def test_a_file_that_has_just_changed_is_hashed_each_time(tmp_path):
    """Within a tick of the file system it may change again and keep its times."""
    path = tmp_path / "file"
    for content in (b"one", b"two", b"six") * 10:
        path.write_bytes(content)
        assert verified.md5(path) == hashlib.md5(content).hexdigest()
