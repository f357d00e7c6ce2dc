"""Reading gzip files and archives that may hold anything: none is unpacked to disk, and none takes much memory."""

import gzip
import io
import tarfile
import zlib
from pathlib import PurePosixPath

LIMIT = 256 * 2**20  # bytes: nothing here is larger
HEADER = 64 * 2**10  # bytes of a long name, or of other words about a member; they are not used
MEMBERS = 10_000
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_WORDS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)


def gunzip(content: bytes) -> bytes:
    """What a gzip file holds, if that is not too large to be true."""
    found = io.BytesIO()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while part := file.read(1 << 20):
                found.write(part)
                if found.tell() > LIMIT:
                    raise OSError(f"{len(content)} bytes unpack to more than {LIMIT}")
    except (EOFError, zlib.error) as error:
        raise OSError(f"it is no whole gzip file: {error}") from None
    return found.getvalue()


def member(content: bytes, name: str) -> bytes:
    """A file of an archive that gzip packed."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as archive:
        return _member(archive, name)


def plain_member(content: bytes, name: str) -> bytes:
    """A file of an archive that is not packed."""
    return _member(io.BytesIO(content), name)


def _member(archive: gzip.GzipFile | io.BytesIO, name: str) -> bytes:
    """A file of an archive; the archive is refused if it holds anything but plain files and folders below itself.

    ``tarfile`` would read long names of any size, and believe any number of members. Here it reads single headers.
    """
    found = None
    try:
        for _ in range(MEMBERS + 1):
            if not (header := archive.read(tarfile.BLOCKSIZE)).strip(b"\0"):
                break
            one = tarfile.TarInfo.frombuf(header, "utf-8", "replace")
            end = _end(one, archive.tell())
            if one.name == name:
                found = archive.read(one.size) if one.type in _FILES else None
            if archive.seek(end) != end:
                raise EOFError("it ends too early")
        else:
            raise OSError(f"it has more than {MEMBERS} members")
    except (EOFError, zlib.error, tarfile.TarError) as error:
        raise OSError(f"it is no whole archive: {error}") from None
    if found is None:
        raise OSError(f"it has no file {name}")
    return found


def _end(one: tarfile.TarInfo, start: int) -> int:
    """Where a member whose content begins at ``start`` ends; OSError if it may not be in an archive."""
    path, size = PurePosixPath(one.name), 0 if one.type == tarfile.DIRTYPE else one.size
    end = start + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    plain = one.type in (*_FILES, *_WORDS, tarfile.DIRTYPE) and not path.is_absolute() and ".." not in path.parts
    if not plain or not 0 <= size <= (HEADER if one.type in _WORDS else LIMIT) or end > LIMIT:
        raise OSError(f"{one.name} is no plain file or folder below the archive, or too large")
    return end
