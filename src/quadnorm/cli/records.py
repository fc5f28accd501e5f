"""Records that a command is given: folders, packs, or folders of packs such as this repository's ``results``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

PACKS = "*.tar.xz"


def sources(given: Sequence[Path]) -> list[Path]:
    """The folders and packs that are meant: a folder that has packs and no runs stands for its packs."""
    found: list[Path] = []
    for path in given:
        packs = [] if (path / "runs").is_dir() or not path.is_dir() else sorted(path.glob(PACKS))
        found.extend(packs or [path])
    return found


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """A folder with all records of a folder, a pack or a folder of packs; packs are unpacked while it is open."""
    from quadnorm.lab.studies.pack import unpack

    packs = [source for source in sources([path]) if source.is_file()]
    if not packs:
        yield path
        return
    with TemporaryDirectory() as scratch:
        for pack in packs:
            unpack(pack, Path(scratch))
        yield Path(scratch)
