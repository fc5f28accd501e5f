"""Dimension scales of HDF5, which are the dimensions of netCDF-4, and labels of dimensions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from quadnorm.measures.data.names import kind_of
from quadnorm.problems.files.axes.coordinates import axis_of, line_of
from quadnorm.problems.files.axes.dimensions import Dimension, Dimensions
from quadnorm.problems.files.formats.hdf5 import attributes
from quadnorm.problems.files.packing import unpacked

_MOST = 2**24  # nodes of an axis
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


def dimensions_of(file: Any, name: str, cache: dict[str, Dimension], *, ignore: bool = False) -> Dimensions:
    """The dimensions of a dataset of an open file; nothing if the file names none of them.

    ``cache`` keeps what was read; with ``ignore``, the nodes are not read.
    """
    dims = tuple(_dimension(file, name, k, cache, ignore) for k in range(file[name].ndim))
    return dims if any(d.name for d in dims) else ()


def _dimension(file: Any, name: str, axis: int, cache: dict[str, Dimension], ignore: bool) -> Dimension:
    here = file[name].dims[axis]
    # a scale that was deleted from the file may still be found here, without a name
    attached = [_scale(file, scale, cache, ignore) for scale in here.values() if scale.name]
    if attached:  # some files attach more than one scale to an axis, as a number and a name that says something
        return max(attached, key=lambda d: (bool(d.kind), d.values is not None))
    label = str(here.label)
    if not label:
        return Dimension()
    twin = _twin(file, name, label, file[name].shape[axis])
    return _scale(file, twin, cache, ignore) if twin is not None else Dimension(label, kind_of(label), label)


def _twin(file: Any, name: str, label: str, count: int) -> Any:
    """The 1-D dataset with the name of a label, in the same group or at the top."""
    for place in (file[name].parent, file):
        twin = place.get(label)
        if getattr(twin, "shape", None) == (count,):
            return twin
    return None


def _scale(file: Any, scale: Any, cache: dict[str, Dimension], ignore: bool) -> Dimension:
    key = str(scale.name).lstrip("/")
    if key not in cache:
        notes = attributes(scale)
        title = str(notes.get("NAME", ""))
        empty = title.startswith(_NO_VARIABLE) or scale.ndim not in (1, 2) or scale.dtype.kind not in "fiu"
        if not empty and scale.size > _MOST:
            raise ValueError(f"{file.filename}: {key!r} has shape {scale.shape}; an axis has at most {_MOST} nodes")
        values = None if empty or ignore or not scale.size else _numbers(scale, notes)
        axis = 0 if values is None or values.ndim == 1 else axis_of(values)
        bent = (key,) if axis < 0 else ()
        values = None if values is None or bent else line_of(values, axis)
        # a scale of zeros is one that was made and never filled
        filled = values is not None and (values.size < 2 or bool(np.ptp(values)))
        last = key.rsplit("/", 1)[-1]
        plain_title = title if title and not title.startswith(_NO_VARIABLE) else ""
        kind = kind_of(last, notes) or kind_of(plain_title)
        cache[key] = Dimension(last, kind, key, values if filled else None, bent)
    return cache[key]


def _numbers(data: Any, notes: dict[str, Any]) -> np.ndarray:
    """The numbers of a dataset of coordinates, unpacked as its attributes say."""
    read: Callable[[Any], np.ndarray] = unpacked(lambda index: np.asarray(data[index]), notes)
    return read(())
