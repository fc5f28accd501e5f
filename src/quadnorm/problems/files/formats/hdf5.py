"""HDF5 and netCDF-4: open files, read datasets and attributes, and name the dimensions of arrays.

A file is open only while it is read, every error names it, and it must not lead to other files. Dimensions are found
here, because h5netcdf refuses arrays of which only some axes have a scale, and does not know labels; what packed and
missing values mean is xarray's ``decode_cf_variable``, of the part of an array that is read.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._files import require_file
from quadnorm._foreign import parsing
from quadnorm._memory import require
from quadnorm.measures.data.names import kind_of
from quadnorm.problems.files.axes import Dimension, Item
from quadnorm.problems.files.coordinates import axis_of, line_of
from quadnorm.problems.files.formats.labelled import decoded
from quadnorm.problems.files.model import MOST_NODES

_MOST_LEVELS = 16  # of groups in groups
_MOST_ITEMS = 100_000
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
_contained: dict[Path, tuple[int, ...]] = {}  # files that passed the check, with their size and time of change


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An HDF5 file open for reading."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError("reading HDF5 needs h5py: pip install 'quadnorm[data]'") from error
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
        data = file[key]
        if not data.ndim:
            return np.asarray(data[()])
        stored = data.ndim - 1 - axis if reverse else axis
        rows = np.arange(data.shape[stored])[index].size
        row = data.size // max(data.shape[stored], 1) * data.dtype.itemsize
        require(rows * row, f"{path}: reading {rows} samples of {key!r}, {data.shape},")
        with parsing(path, f"dataset {key!r} cannot be read, the file is damaged"):
            values = np.asarray(data[(*[slice(None)] * stored, index)])
    values = np.moveaxis(values.T if reverse else values, axis, 0)
    return values if inverse is None else values[inverse]


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


def attributes(item: Any) -> dict[str, Any]:
    """All attributes of a file, group or dataset."""
    return {name: text(value) for name, value in item.attrs.items()}


def _notes(item: Any) -> dict[str, Any]:
    """The attributes of a dataset; a text in an array of its own, as some programs write it, is a text."""
    notes = attributes(item)
    return {k: v[0] if isinstance(v, list) and len(v) == 1 and isinstance(v[0], str) else v for k, v in notes.items()}


def described_items(path: Path, *, ignore: bool = False) -> tuple[dict[str, Item], dict[str, Any]]:
    """The arrays of an HDF5 or netCDF-4 file, in all its groups, with their dimensions, and the file's attributes;
    with ``ignore``, the nodes of the dimensions are not read.
    """
    with opened(path) as file:
        scales: dict[str, Dimension] = {}
        items = {}
        for name, shape in datasets(file).items():
            dims = tuple(_dimension(file, name, k, scales, ignore) for k in range(len(shape)))
            dims = dims if any(d.name for d in dims) else ()
            i = Item(shape, partial(loader, path, name), dims, _notes(file[name]))
            items[name] = decoded(path, name, i, file[name].dtype)
        return items, attributes(file)


def _dimension(file: Any, name: str, axis: int, cache: dict[str, Dimension], ignore: bool) -> Dimension:
    """The dimension along an axis of a dataset, by its scales or its label; without a name if there is neither."""
    here = file[name].dims[axis]
    # a scale that was deleted from the file may still be found here, without a name
    attached = [_scale(file, scale, cache, ignore) for scale in here.values() if scale.name]
    if attached:  # some files attach more than one scale to an axis, as a number and a name that says something
        return max(attached, key=lambda d: (bool(d.kind), d.values is not None))
    label = str(here.label)
    for place in (file[name].parent, file) if label else ():  # the 1-D dataset of that name, in its group or at the top
        twin = place.get(label)
        if getattr(twin, "shape", None) == (file[name].shape[axis],):
            return _scale(file, twin, cache, ignore)
    return Dimension(label, kind_of(label), label)


def _scale(file: Any, scale: Any, cache: dict[str, Dimension], ignore: bool) -> Dimension:
    key = str(scale.name).lstrip("/")
    if key not in cache:
        notes, last = _notes(scale), key.rsplit("/", 1)[-1]
        title = str(notes.get("NAME", ""))
        bare = title.startswith(_NO_VARIABLE)
        line = Dimension(last, kind_of(last, notes) or ("" if bare else kind_of(title)), key)
        if not bare and scale.ndim in (1, 2) and scale.dtype.kind in "fiu":
            if scale.size > MOST_NODES:
                raise ValueError(
                    f"{file.filename}: {key!r} has shape {scale.shape}; an axis has at most {MOST_NODES} nodes"
                )
            if not ignore and scale.size:
                i = Item(scale.shape, partial(loader, Path(file.filename), key), (), notes)
                values = decoded(Path(file.filename), key, i, scale.dtype).whole()
                axis = 0 if values.ndim == 1 else axis_of(values)
                x = line_of(values, axis)
                # a scale of zeros is one that was made and never filled
                filled = axis >= 0 and (x.size < 2 or bool(np.ptp(x)))
                line = replace(line, values=x if filled else None, bent=() if axis >= 0 else (key,))
        cache[key] = line
    return cache[key]
