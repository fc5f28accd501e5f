"""Instances on disk: made once, checked when read; several processes may share them, and any may be killed.

    <cache>/<problem>/<key>/seed-<s>/block-<b>/   one .npy per array, and block.json with sizes and checksums
    <cache>/<problem>/<key>/problem.json          the parameters, for people

The key is a hash of the problem's parameters and of its version, so a changed solver never reads an old file. A block
holds the instances of the samples b·B … b·B+B−1, before sampling on a grid: every resolution uses the same files. A
block is written under another name and renamed when complete, so a killed writer leaves either nothing or a whole
block. There is a lock for each block, so that concurrent processes share the work.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from quadnorm import _memory
from quadnorm._files import MOST_JSON, DamagedError, read_bytes, require_file, set_aside, write_atomic
from quadnorm._foreign import parsing
from quadnorm._locks import locked
from quadnorm.problems.base import Array, Problem, checked_seed

Progress = Callable[[int, int], None]  # (samples ready, samples wanted)

_log = logging.getLogger("quadnorm")
_FORMAT = 1
_checked: dict[Path, tuple[int, ...]] = {}  # blocks whose checksums this process has verified, with their stamps


def location() -> Path:
    """Where instances are kept: $QUADNORM_CACHE, or the user's cache directory of the platform."""
    given = os.environ.get("QUADNORM_CACHE")
    if given:
        return Path(given).expanduser()
    try:
        from platformdirs import user_cache_path
    except ImportError as error:
        raise ImportError(
            "the cache of solved instances needs platformdirs (pip install 'quadnorm[bench]') or $QUADNORM_CACHE"
        ) from error
    return Path(user_cache_path("quadnorm", appauthor=False))


def folder(p: Problem) -> Path:
    """The directory of a problem with these parameters and its current version."""
    text = json.dumps([_FORMAT, p.key(), p.version])
    return location() / p.name / hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def make(
    p: Problem, count: int, seed: int = 0, *, start: int = 0, workers: int = 1, progress: Progress | None = None
) -> Path:
    """Make the samples start … start+count−1, skipping blocks that exist; returns the directory of the problem.

    If it is killed, the next call continues with the first missing block. ``progress(ready, wanted)`` is called per
    block.
    """
    for _ in instances(p, range(start, start + count), checked_seed(seed), workers=workers, progress=progress):
        pass
    return folder(p)


def instances(
    p: Problem, indices: Sequence[int], seed: int = 0, *, workers: int = 1, progress: Progress | None = None
) -> Iterator[dict[str, Array]]:
    """Instances of the samples, in the given order, some at a time: read from the cache, or made and stored.

    A problem that reads its instances from files (``kept`` is False) is never copied into the cache.
    """
    wanted, ready = p.indices(indices), 0
    if not p.kept:
        for read_part in p._blocks(wanted, seed, workers):
            ready += len(next(iter(read_part.values())))
            if progress is not None:
                progress(ready, len(wanted))
            yield read_part
        return
    for number, run in groupby(wanted, key=lambda i: i // p.block):
        part = [i - number * p.block for i in run]
        block = _read(p, seed, number)
        if block is None:
            block = _make(p, seed, number, workers)
        ready += len(part)
        if progress is not None:
            progress(ready, len(wanted))
        whole = part == list(range(part[0], part[0] + len(part)))  # a slice stays a view of the mapped file
        at: Any = slice(part[0], part[0] + len(part)) if whole else part
        yield {name: array[at] for name, array in block.items()}


def clean(p: Problem | None = None) -> int:
    """Delete the instances of one problem (these parameters, its current version) or all; returns the bytes freed."""
    where = location() if p is None else folder(p)
    if p is None and where.exists() and not _ours(where):
        raise ValueError(
            f"{where} holds files that do not belong to this cache; nothing was deleted. Set $QUADNORM_CACHE to a "
            f"directory that nothing else uses, or delete what you do not need by hand"
        )
    before = size(p)
    shutil.rmtree(where, ignore_errors=True)
    _checked.clear()
    if where.exists():
        try:
            shutil.rmtree(where)
        except OSError as error:
            left = size(p)
            raise OSError(
                f"{(before - left) / 2**20:.1f} MiB freed; {left / 2**20:.1f} MiB could not be deleted, the first of "
                f"it: {error.filename}: {error.strerror}"
            ) from error
    return before


def size(p: Problem | None = None) -> int:
    """Bytes on disk, of one problem or of everything."""
    where = location() if p is None else folder(p)
    total = 0
    for folder_, _, files in os.walk(where):
        for name in files:
            with suppress(OSError):  # another process may be at work
                total += os.lstat(os.path.join(folder_, name)).st_size
    return total


def ready(p: Problem, seed: int = 0) -> int:
    """How many samples of a seed are on disk (unchecked)."""
    return p.block * sum(1 for _ in _seed(p, seed).glob("block-??????/block.json"))


def _ours(where: Path) -> bool:
    from quadnorm.problems import problem_names

    return all(entry.is_dir() and entry.name in problem_names() for entry in where.iterdir())


def _seed(p: Problem, seed: int) -> Path:
    return folder(p) / f"seed-{seed}"


def _block(p: Problem, seed: int, number: int) -> Path:
    return _seed(p, seed) / f"block-{number:06d}"


def _read(p: Problem, seed: int, number: int) -> dict[str, Array] | None:
    """A block, memory-mapped, if it is complete and its checksums agree; else None."""
    path = _block(p, seed, number)
    try:
        return _open(path)
    except (FileNotFoundError, NotADirectoryError):
        if not path.exists():
            return None
        problem = "files are missing"
    except DamagedError as error:
        problem = error.reason
    try:
        aside = set_aside(path)
    except FileNotFoundError:  # another process has just done so
        return None
    _log.warning("%s is damaged (%s): set aside as %s, its samples are made again", path, problem, aside)
    return None


def _open(path: Path) -> dict[str, Array]:
    """A block, memory-mapped; a DamagedError if its files are not what was written."""
    text = read_bytes(path / "block.json", MOST_JSON)
    with parsing(path, "its files are not those of a block", DamagedError):
        checksums = json.loads(text)["checksums"]
        files = {name: path / f"{name}.npy" for name in checksums}
        if not files or any(file.name != f"{name}.npy" for name, file in files.items()):
            raise ValueError("block.json lists no arrays, or arrays elsewhere")
        stats = [require_file(f).stat() for f in files.values()]
        stamp = tuple(v for s in stats for v in (s.st_size, s.st_mtime_ns))
        if _checked.get(path) != stamp:  # a checksum costs as much as reading the file: once per process and file
            for name, file in files.items():
                if _checksum(file) != checksums[name]:
                    raise ValueError(f"checksum of {file.name} does not agree")
            _checked[path] = stamp
        return {name: np.load(file, mmap_mode="r", allow_pickle=False) for name, file in files.items()}


def _make(p: Problem, seed: int, number: int, workers: int) -> dict[str, Array]:
    """Solve a block and store it; if another process is solving it, wait for its result."""
    path = _block(p, seed, number)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f".{path.name}.lock"), patience=inf):
            _remove_leftovers(path)
            block = _read(p, seed, number)
            if block is None:
                _write(p, path, p.instances(range(number * p.block, (number + 1) * p.block), seed, workers=workers))
    except OSError as error:
        raise OSError(
            f"cannot keep instances in {path.parent}: {error}; set $QUADNORM_CACHE to a writable directory with space"
        ) from error
    return _open(path)


def _remove_leftovers(path: Path) -> None:
    """Delete half-written copies of a block. The caller holds its lock, so their writers must have been killed."""
    form = re.compile(rf"\.{re.escape(path.name)}-[0-9a-f]{{32}}")
    for entry in path.parent.iterdir():
        if form.fullmatch(entry.name) and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)


def _write(p: Problem, path: Path, block: Mapping[str, Array]) -> None:
    temporary = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        temporary.mkdir()
        checksums = {}
        for name, array in block.items():
            file = temporary / f"{name}.npy"
            np.save(file, np.asarray(array, dtype=p.stored.get(name, array.dtype)), allow_pickle=False)
            checksums[name] = _checksum(file)
        write_atomic(temporary / "block.json", json.dumps({"checksums": checksums}), "the block's checksums")
        _describe(p)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _describe(p: Problem) -> None:
    file = folder(p) / "problem.json"
    if not file.exists():
        text = json.dumps(
            {"problem": p.name, "parameters": p.parameters(), "version": p.version}, indent=2, default=str
        )
        write_atomic(file, text, "the problem's parameters")


def _checksum(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def spilled(need: int, what: str) -> Callable[..., Tensor]:
    """A function like :func:`torch.empty` that allocates on the cache's disk; an error if ``need`` bytes are not free.

    The operating system keeps the parts that are used in memory; the file is deleted together with the tensor.
    """
    folder = location()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if need > free:
        raise ValueError(
            f"{what} would need {_memory.size(need)}; {_memory.size(_memory.available() or 0)} of memory and "
            f"{_memory.size(free)} of disk in {folder} "
            "are free (QUADNORM_CACHE names another folder)"
        )
    _log.info("%s: %s, more than memory holds; kept on disk in %s", what, _memory.size(need), folder)

    def empty(shape: tuple[int, ...], *, dtype: torch.dtype) -> Tensor:
        with tempfile.TemporaryFile(dir=folder) as file:
            numbers: Any = np.memmap(file, str(dtype).removeprefix("torch."), "w+", shape=shape)
        return torch.from_numpy(numbers)

    return empty
