"""Locks between processes: let go by the kernel when the holder dies, taken over where something else kept them.

Not filelock: the core, whose cache of problems takes locks, would depend on it; its files stay in the folders of runs,
and they do not name the holder.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from quadnorm._files import try_lock

_RECHECK = 0.5  # seconds that a lock must have named the same dead process before it is taken over


class LockedError(OSError):
    """Another process holds the lock."""


@contextmanager
def locked(path: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock file ``path`` alone; a second process waits for up to ``patience`` seconds, then gets LockedError.

    The kernel lets go of the lock when its holder dies, however. Should a child of a dead holder still have it open,
    the file names a process that is gone, and the lock is taken over. The file is removed in the end.
    """
    handle = _acquire(path, time.monotonic() + patience)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, f"{socket.gethostname()} {os.getpid()}\n".encode())
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def _acquire(path: Path, until: float) -> int:
    dead_since: tuple[str, float] | None = None
    pause = 0.005
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            if try_lock(handle):
                if _same_file(handle, path):
                    return handle
                os.close(handle)  # its last holder has removed it: this is no longer the lock
                continue
            owner = os.read(handle, 400).decode("utf-8", "replace").strip()
        except BaseException:
            with suppress(OSError):
                os.close(handle)
            raise
        os.close(handle)
        now = time.monotonic()
        if not _gone(owner):
            dead_since = None
        elif dead_since is None or dead_since[0] != owner:
            dead_since = (owner, now)
        elif now - dead_since[1] > _RECHECK:
            with suppress(FileNotFoundError):
                path.unlink()
            continue
        if now > until and dead_since is None:
            raise LockedError(f"{path} is held by another process ({owner or 'unknown'})")
        time.sleep(pause)
        pause = min(2 * pause, 0.2)


def _same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _gone(owner: str) -> bool:
    """Whether a lock names a process of this machine that is no more."""
    host, _, number = owner.rpartition(" ")
    if host != socket.gethostname() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
