"""The folder of a run: its files by name, and one process at a time that trains in it."""

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
    """Make ``folder`` if need be and hold it alone: a second process gets an OSError. A kill lets go of it."""
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
    """Remove what a claimed folder holds of an earlier run."""
    for name in (LAST, BEST, METRICS):
        (folder / name).unlink(missing_ok=True)
