"""Files that are either the old one or the new one, whole, whatever happens in between."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SUFFIX = ".part"  # of files being written; a killed process may leave one behind


def write_atomic(path: Path, data: bytes | str, what: str) -> None:
    """Replace ``path`` by ``data`` in one step: a reader, or a kill at any moment, sees the old file or the new one.

    The data are on disk before the name changes, and the name before this returns. ``what`` names the file in errors.
    """
    part = path.with_name(f".{path.name}{SUFFIX}")
    try:
        with open(part, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise explained(error, f"cannot write {what} {path}") from error


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def explained(error: OSError, what: str) -> OSError:
    """The same kind of error with one readable line: what could not be done, why, and what to do."""
    advice = {
        errno.ENOSPC: "free some space and run again",
        errno.EDQUOT: "free some space and run again",
        errno.EROFS: "choose a folder on a disk that can be written",
        errno.EACCES: "choose a folder that you may write to",
    }.get(error.errno or 0)
    line = f"{what}: {error.strerror or error}" + (f"; {advice}" if advice else "")
    made = type(error)(line)
    made.errno = error.errno
    return made


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make ``folder`` if need be and hold it alone: a second process gets an OSError. A kill lets go of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "a")  # noqa: SIM115 (held while the folder is claimed)
    except OSError as error:
        raise explained(error, f"cannot write to the run's folder {folder}") from error
    with lock:
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            pass
        else:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OSError(
                    f"another process is training in {folder}; wait for it or choose another folder"
                ) from None
        for part in folder.glob(f".*{SUFFIX}"):
            part.unlink(missing_ok=True)
        yield
