"""The folder of a run: names of its files, and a lock so that one process at a time trains in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from quadnorm._files import explained, remove_leftovers
from quadnorm._locks import LockedError, locked

LAST, BEST = "last.safetensors", "best.safetensors"
METRICS = "metrics.jsonl"
GRACE = 3.0  # seconds: workers of a process that was killed need a moment to notice


@contextmanager
def claimed(folder: Path, patience: float = GRACE) -> Iterator[None]:
    """Make ``folder`` if needed and lock it: a second process gets an OSError. Killing the process frees the lock."""
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(folder / ".lock", patience))
        except LockedError:
            raise OSError(f"another process is training in {folder}; wait for it or choose another folder") from None
        except OSError as error:
            raise explained(error, f"cannot write to the run's folder {folder}") from error
        remove_leftovers(folder)
        yield


def forget(folder: Path) -> None:
    """Remove the files of an earlier run from a claimed folder."""
    for name in (LAST, BEST, METRICS):
        (folder / name).unlink(missing_ok=True)
