"""Open HDF5 files and read datasets and attributes. A file is open only while it is read, and every error names it."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._files import require_file
from quadnorm._foreign import parsing
from quadnorm._memory import require
from quadnorm.problems.files.model import MOST_NODES

_MOST_LEVELS = 16  # of groups in groups
_MOST_ITEMS = 100_000
_contained: dict[Path, tuple[int, ...]] = {}  # files that passed the check, with their size and time of change


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An HDF5 file open for reading."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError("reading HDF5 needs h5py: pip install 'quadnorm[bench]'") from error
    require_file(path)
    with parsing(path, "not a readable HDF5 file, damaged or cut short"), h5py.File(path, "r") as file:
        _check_contained(path, file)
        yield file


def _check_contained(path: Path, file: Any) -> None:
    """Refuse a file that links to other files or whose groups contain themselves; once until the file changes."""
    state = path.stat()
    stamp = (state.st_ino, state.st_size, state.st_mtime_ns)
    if _contained.get(path) == stamp:
        return
    import h5py

    seen, todo = 0, [("", file, 0)]
    while todo:
        where, group, depth = todo.pop()
        if depth > _MOST_LEVELS:
            raise ValueError(f"{path}: groups are nested more than {_MOST_LEVELS} levels deep, or in a circle")
        for name in group:
            seen += 1
            if seen > _MOST_ITEMS:
                raise ValueError(f"{path}: it holds more than {_MOST_ITEMS} groups and datasets")
            full, link = f"{where}/{name}".lstrip("/"), group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise ValueError(
                    f"{path}: {full!r} is a link to another file, {link.filename!r}; links are not followed"
                )
            if isinstance(link, h5py.SoftLink):  # its target is in this file and is checked there
                continue
            item = group[name]
            if isinstance(item, h5py.Group):
                todo.append((full, item, depth + 1))
            elif isinstance(item, h5py.Dataset):
                _check_own_storage(path, full, item)
    _contained[path] = stamp


def _check_own_storage(path: Path, name: str, data: Any) -> None:
    others = [entry[0] for entry in data.external or ()]
    if data.is_virtual:
        others += [source.file_name for source in data.virtual_sources() if source.file_name != "."]
    if others:
        raise ValueError(f"{path}: the values of {name!r} are in another file, {others[0]!r}, which is not read")


def loader(path: Path, key: str, axis: int = 0, *, reverse: bool = False) -> Callable[[Any], np.ndarray]:
    """A function that reads samples of one dataset, which run along ``axis``, and puts that axis first.

    ``reverse`` for MATLAB, which stores the axes last to first.
    """
    return partial(_load, path, key, axis, reverse)


def _load(path: Path, key: str, axis: int, reverse: bool, index: Any) -> np.ndarray:
    inverse = None
    if isinstance(index, np.ndarray):  # HDF5 takes indices only in increasing order, each once
        index, inverse = np.unique(index, return_inverse=True)
    with opened(path) as file:
        rank = file[key].ndim
    stored = rank - 1 - axis if reverse else axis
    values = read_some(path, key, (*[slice(None)] * stored, index) if rank else ())
    values = np.moveaxis(values.T if reverse else values, axis, 0) if rank else values
    return values if inverse is None else values[inverse]


def read_some(path: Path, key: str, index: tuple[Any, ...]) -> np.ndarray:
    """The part of a dataset at an index that HDF5 takes: slices, whole numbers, one increasing list."""
    with opened(path) as file:
        data = file[key]
        sizes = [np.arange(n)[i].size for n, i in zip(data.shape, index, strict=False)]
        count = math.prod(sizes) * math.prod(data.shape[len(index) :])
        partial_ = [n for n, i in zip(sizes, index, strict=False) if not (isinstance(i, slice) and i == slice(None))]
        rows = (partial_ or sizes or [1])[0]
        require(count * data.dtype.itemsize, f"{path}: reading {rows} samples of {key!r}, {data.shape},")
        with parsing(path, f"dataset {key!r} cannot be read, the file is damaged"):
            return np.asarray(data[index])


def coordinate(file: Any, key: str) -> np.ndarray:
    """A 1-D dataset as an array; a ValueError if it is not 1-D or too long."""
    data = file[key]
    if data.ndim > 1 or data.size > MOST_NODES:
        raise ValueError(f"{file.filename}: {key!r} has shape {data.shape}; coordinates are 1-D, at most {MOST_NODES}")
    return np.asarray(data[()])


def datasets(file: Any) -> dict[str, tuple[int, ...]]:
    """Every numeric dataset of an open file: path inside it → shape."""
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: Any) -> None:
        if hasattr(item, "shape") and item.shape is not None and item.dtype.kind in "fiub":
            shapes[name] = tuple(item.shape)

    file.visititems(visit)
    return shapes


def text(value: Any) -> Any:
    """An attribute in Python's own types: bytes become str, arrays become lists.

    >>> text("°C".encode()), text("°C".encode("latin-1"))
    ('°C', '°C')
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:  # older programs write Latin-1
            return value.decode("latin-1")
    if isinstance(value, np.ndarray):
        return [text(v) for v in value.tolist()]
    return value.item() if isinstance(value, np.generic) else value


def units(item: Any) -> str:
    """The units of a dataset, from its attribute ``units`` or ``unit``; empty where it has none."""
    notes = attributes(item)
    return str(notes.get("units") or notes.get("unit") or "")


def attributes(item: Any) -> dict[str, Any]:
    """All attributes of a file, group or dataset."""
    return {name: text(value) for name, value in item.attrs.items()}
