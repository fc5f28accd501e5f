"""Packed values and fill values of HDF5 datasets, after the CF conventions of netCDF files.

A dataset with the attributes ``scale_factor`` s and ``add_offset`` o stands for s·v + o; values that equal
``_FillValue`` or ``missing_value`` are missing, and are read as NaN.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Load = Callable[[Any], np.ndarray]
_MISSING = ("_FillValue", "missing_value")
_PACKED = ("scale_factor", "add_offset")


def unpacked(load: Load, notes: Mapping[str, Any]) -> Load:
    """The function that reads a dataset, with its values unpacked as its attributes say.

    >>> read = unpacked(lambda index: np.array([[1, 2, -9]])[index], {"scale_factor": 0.5, "_FillValue": -9})
    >>> read([0])
    array([[0.5, 1. , nan]])
    """
    if not any(name in notes for name in (*_MISSING, *_PACKED)):
        return load
    missing = [n for name in _MISSING for n in _numbers(notes, name)]
    scale, offset = (next(iter(_numbers(notes, name)), None) for name in _PACKED)

    def read(index: Any) -> np.ndarray:
        stored = load(index)
        absent = np.isin(stored, np.asarray(missing, dtype=stored.dtype)) if _fits(missing, stored.dtype) else None
        values = stored
        if scale is not None or offset is not None:
            values = stored * (1.0 if scale is None else scale) + (0.0 if offset is None else offset)
        if absent is None or not absent.any():
            return values
        wide = values if values.dtype.kind == "f" else values.astype(np.float64)
        return np.where(absent, np.asarray(np.nan, wide.dtype), wide)

    return read


def _fits(missing: list[float], dtype: np.dtype[Any]) -> bool:
    return bool(missing) and (dtype.kind == "f" or (dtype.kind in "iu" and all(float(m).is_integer() for m in missing)))


def _numbers(notes: Mapping[str, Any], name: str) -> list[float]:
    """An attribute as numbers; files hold one number, or a list."""
    value = notes.get(name, [])
    each = value if isinstance(value, list) else [value]
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in each):
        raise ValueError(f"the attribute {name} of a dataset is {value!r}, expected a number")
    return each
