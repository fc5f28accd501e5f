"""Records that a command is given: folders, packs, or folders of packs such as this repository's ``results``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage, rmtree
from tempfile import TemporaryDirectory, gettempdir

PACKS = "*.tar.xz"
_MEMORY = Path("/dev/shm")  # a folder whose files are kept in memory, on Linux
_OURS = re.compile(r"quadnorm-records-(\d+)-\w+")


def sources(given: Sequence[Path]) -> list[Path]:
    """The folders and packs that are meant: a folder that has packs and no runs stands for its packs."""
    found: list[Path] = []
    for path in given:
        packs = [] if (path / "runs").is_dir() or not path.is_dir() else sorted(path.glob(PACKS))
        found.extend(packs or [path])
    return found


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder to unpack to, in memory where the system has one there: a pack is thousands of small files."""
    from quadnorm.lab.studies.pack import MOST_BYTES

    where = Path(gettempdir())
    with suppress(OSError):
        if os.access(_MEMORY, os.W_OK | os.X_OK) and disk_usage(_MEMORY).free > 4 * MOST_BYTES:
            where = _MEMORY
    _remove_leftovers(where)
    with TemporaryDirectory(prefix=f"quadnorm-records-{os.getpid()}-", dir=where) as folder:
        yield Path(folder)


def _remove_leftovers(where: Path) -> None:
    """Remove the folders of commands that were killed."""
    with suppress(OSError):
        for folder in where.iterdir():
            name = _OURS.fullmatch(folder.name)
            if name and not folder.is_symlink() and folder.lstat().st_uid == os.getuid() and _gone(int(name[1])):
                rmtree(folder, ignore_errors=True)


def _gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """A folder with all records of a folder, a pack or a folder of packs; packs are unpacked while it is open."""
    from quadnorm.lab.studies.pack import unpack

    packs = [source for source in sources([path]) if source.is_file()]
    if not packs:
        yield path
        return
    with scratch_folder() as scratch:
        for pack in packs:
            unpack(pack, scratch)
        yield scratch
