"""The one way this package writes and reads files: written whole or not at all, read within bounds, and checked."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from quadnorm._memory import require, size

# Files being written. Only names of exactly this form are ever removed as leftovers of a killed process.
PART = re.compile(r"\.quadnorm-[0-9a-f]{16}\.part")
_SMALL = 2**24  # bytes that are read without asking how much memory there is
MOST_JSON = 2**26  # bytes of a JSON file that are read; records have a thousandth of it


class DamagedError(ValueError):
    """A file whose contents are not what was written; ``path`` names it, ``reason`` says what is wrong."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path, self.reason = path, reason


def write_atomic(path: Path, data: bytes | str, what: str) -> None:
    """Replace ``path`` by ``data`` in one step: a reader, or a kill at any moment, sees the old file or the new one.

    The data are on disk before the name changes, and the name before this returns. The temporary file has a random
    name, is created anew (never through a link) and is locked while it is written, so that processes do not meet.
    ``what`` names the file in errors.
    """
    try:
        _refuse_special(path)
        _write(path, data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise explained(error, f"cannot write {what} {path}") from error


def _write(path: Path, data: bytes) -> None:
    handle, part = _create(path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if os.name == "posix":  # while the lock is held: nobody takes the file for a leftover
                os.replace(part, path)
        if os.name != "posix":  # an open file cannot be renamed there
            os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    sync_folder(path.parent)


def _create(folder: Path) -> tuple[int, Path]:
    """A new, locked temporary file: its handle and its name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        part = folder / f".quadnorm-{secrets.token_hex(8)}.part"
        handle = os.open(part, flags, 0o666)
        if try_lock(handle) and part.exists():  # else another process takes it for a leftover, or has removed it
            return handle, part
        os.close(handle)


def _refuse_special(path: Path) -> None:
    """Devices, pipes and folders are not replaced by a file, whoever asks."""
    try:
        mode = path.stat().st_mode
    except OSError:  # no such file, or a link to nothing: the link is replaced, never followed
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file")


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files that a killed process left in a folder; those still being written stay."""
    with suppress(OSError):
        for part in folder.iterdir():
            if PART.fullmatch(part.name):
                with suppress(OSError):
                    handle = os.open(part, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
                    try:
                        if try_lock(handle):
                            part.unlink()
                    finally:
                        os.close(handle)


def try_lock(handle: int) -> bool:
    """Lock an open file without waiting; True where the system has no such locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_ADVICE = {
    errno.ENOSPC: "free some space and run again",
    errno.EDQUOT: "free some space and run again",
    errno.EFBIG: "the system limits the size of files (ulimit -f)",
    errno.EROFS: "choose a folder on a disk that can be written",
    errno.EACCES: "choose a folder that you may write to",
    errno.ENOENT: "make its folder first",
    errno.EISDIR: "give the name of a file",
}


def explained(error: OSError, what: str) -> OSError:
    """The same kind of error with one readable line: what could not be done, why, and what to do."""
    return _one_line(error, what, _ADVICE.get(error.errno or 0))


def _unreadable(error: OSError, path: Path) -> OSError:
    advice = "give the name of a file" if error.errno == errno.EISDIR else None
    return _one_line(error, f"cannot read {path}", advice)


def _one_line(error: OSError, what: str, advice: str | None) -> OSError:
    line = f"{what}: {error.strerror or error}" + (f"; {advice}" if advice else "")
    same_kind = type(error)(line)
    same_kind.errno = error.errno
    return same_kind


# --- Reading within bounds ------------------------------------------------------------------------------------------


def require_file(path: Path) -> Path:
    """The path, if it or what it links to is a regular file; for libraries that open files by name.

    A device or a pipe may never end, and a pipe may never begin.
    """
    try:
        _refuse_unreadable(os.stat(path).st_mode)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except OSError as error:
        raise _unreadable(error, path) from error
    return path


def _refuse_unreadable(mode: int, pipes: bool = False) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode) and not (pipes and stat.S_ISFIFO(mode)):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file")


def open_file(path: Path, *, pipes: bool = False) -> BinaryIO:
    """A regular file open for reading, checked after it was opened; ``pipes``: or a pipe, as a shell makes them."""
    at_once = 0 if pipes else getattr(os, "O_NONBLOCK", 0)  # nobody may ever write to a pipe
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | at_once)
        try:
            _refuse_unreadable(os.fstat(handle).st_mode, pipes)
            return open(handle, "rb")
        except BaseException:
            os.close(handle)
            raise
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except OSError as error:
        raise _unreadable(error, path) from error


def read_bytes(path: Path, most: int | None = None, *, pipes: bool = False) -> bytes:
    """The contents of a file of at most ``most`` bytes, by default as many as it has now and as fit into memory.

    Raises a ValueError that names a larger file, and an OSError with one readable line for one that cannot be read.
    """
    with open_file(path, pipes=pipes) as file:
        try:
            there = os.fstat(file.fileno()).st_size
            limit = there if most is None else most
            if there <= limit:
                if there > _SMALL:
                    require(there, f"{path}: reading it")
                data = file.read(there + 1)
                if there < len(data) <= limit:  # a pipe, or a file of the system, which tells no size
                    data += file.read(limit + 1 - len(data))
                there = len(data)
        except OSError as error:
            raise _unreadable(error, path) from error
    if there > limit:
        grows = (
            "it grows while it is read" if most is None else f"it has more than {size(limit)}, the most that is read"
        )
        raise ValueError(f"{path}: {grows}")
    return data


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder, so that a good one can be made in its place; returns its new name."""
    aside = path.with_name(f"{path.name}.damaged-{secrets.token_hex(4)}")
    os.rename(path, aside)
    return aside


# --- JSON with a checksum --------------------------------------------------------------------------------------------

_SEAL = re.compile(rb'"blake2b": "([0-9a-f]{40})"\s*}\n$')
_BLANK = b"0" * 40


def content_hash(data: bytes) -> str:
    """A hash against damage, 40 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def sealed(value: Mapping[str, Any], indent: int | None = None) -> bytes:
    r"""A JSON object as a file that knows its own hash: its last key is that of all other bytes.

    >>> sealed({"a": 1})
    b'{"a": 1, "blake2b": "11a7414a40cd514c640eafa2e544f973d7cd5cf0"}\n'
    >>> unsealed(sealed({"a": 1}), Path("x.json"))
    {'a': 1}
    """
    text = json.dumps({**value, "blake2b": _BLANK.decode()}, indent=indent, allow_nan=False).encode() + b"\n"
    head, _, tail = text.rpartition(_BLANK)
    return head + content_hash(text).encode() + tail


def unsealed(data: bytes, path: Path) -> dict[str, Any]:
    """The object in a sealed file, without its hash; a :class:`DamagedError` where a single bit has changed."""
    seal = _SEAL.search(data)
    if seal is None:
        raise DamagedError(path, "it is cut short, or has no checksum")
    start, end = seal.span(1)
    if content_hash(data[:start] + _BLANK + data[end:]) != seal[1].decode():
        raise DamagedError(path, "its checksum does not agree with its contents")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, f"it is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise DamagedError(path, "it is not a JSON object")
    del value["blake2b"]
    return value


def read_sealed(path: Path) -> dict[str, Any]:
    """As :func:`unsealed`, from disk. A file that is not there is a FileNotFoundError."""
    return unsealed(read_bytes(path, MOST_JSON), path)
