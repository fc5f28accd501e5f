"""Coordinates that lie on dimensions without being one, such as lat(row) and lon(col), or lat(y, x) and lon(y, x)."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from quadnorm.measures.data.names import FLAT
from quadnorm.problems.files.axes.coordinates import axis_of, line_of
from quadnorm.problems.files.axes.dimensions import Dimension, Dimensions

Read = Callable[[str], np.ndarray]


def with_auxiliary(
    dims: Mapping[str, Dimensions], kinds: Mapping[str, str], read: Read, *, ignore: bool = False
) -> dict[str, Dimensions]:
    """The dimensions of every array, with nodes from arrays of coordinates where dimensions have none of their own.

    Args:
        dims: name → dimensions of each array.
        kinds: name → what it is, of the arrays that are coordinates.
        read: gives an array by name.
        ignore: do not read coordinates.
    """
    found: dict[str, Dimension] = {}
    bent: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        own = dims.get(name, ())
        bare = [d for d in own if d.key and d.values is None and d.kind != "time"]
        if ignore or not bare or kind not in FLAT:
            continue
        values = _at_one_time(read(name), own)
        space = [d for d in own if d.kind != "time"] if values.ndim < len(own) else list(own)
        axis = axis_of(values) if values.ndim > 1 else 0
        if axis < 0:
            for d in bare:
                bent.setdefault(d.key, []).append(name)
        elif space[axis].values is None:
            found.setdefault(space[axis].key, replace(space[axis], kind=kind, values=line_of(values, axis)))
    for own in dims.values():
        for d in own:
            if d.key in bent and d.key not in found:
                found[d.key] = replace(d, bent=tuple(bent[d.key]))
    return {name: tuple(found.get(d.key, d) for d in own) for name, own in dims.items()}


def _at_one_time(values: np.ndarray, own: Dimensions) -> np.ndarray:
    """Coordinates that are stored once for each time, if they do not change."""
    if len(own) > 1 and own[0].kind == "time" and values.shape[0] and not np.ptp(values, axis=0).any():
        return np.asarray(values[0])
    return values
