"""Several files with the same fields, one after the other along samples or times, as one: ``era5_*.nc``."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.problems.files.model import Field, FieldFile


def matching(path: Path) -> list[Path]:
    """The files that a pattern with * or ? means, sorted by name; none for a path without these."""
    if path.exists() or not any(sign in path.name for sign in "*?"):
        return []
    return sorted(path.parent.glob(path.name))


def join(pattern: Path, files: Sequence[FieldFile]) -> FieldFile:
    """One file made of several, read lazily; fields without samples or times are those of the first."""
    first = files[0]
    for other in files[1:]:
        if (
            other.resolution != first.resolution
            or other.placement != first.placement
            or not all(map(np.allclose, other.coordinates, first.coordinates))
        ):
            raise ValueError(
                f"{pattern}: {other.path.name} has other nodes than {first.path.name}; they cannot be joined"
            )
        for name, field in first.fields.items():
            here = other.fields.get(name)
            if here is None or here.axes != field.axes or here.shape[1:] != field.shape[1:]:
                got = "no such field" if here is None else f"{here.axes} {here.shape}"
                said = f"{name!r} is {field.axes} {field.shape} in {first.path.name}"
                raise ValueError(f"{pattern}: {said}, {got} in {other.path.name}")
    fields = {name: _joined(pattern, [f[name] for f in files]) for name in first.fields}
    times = [f.times for f in files if f.times is not None]
    return replace(
        first, path=pattern, fields=fields, times=np.concatenate(times) if len(times) == len(files) else None
    )


def _joined(pattern: Path, parts: Sequence[Field]) -> Field:
    if parts[0].axes[:1] not in ("n", "t"):
        return parts[0]
    starts = np.cumsum([0, *(p.shape[0] for p in parts)])
    shape = (int(starts[-1]), *parts[0].shape[1:])
    return replace(parts[0], shape=shape, load=partial(_load, [p.load for p in parts], starts), path=pattern)


def _load(loads: Sequence[Any], starts: np.ndarray, index: Any) -> np.ndarray:
    rows = np.arange(starts[-1])[index]
    owner = np.searchsorted(starts, rows, side="right") - 1
    at = [np.flatnonzero(owner == k) for k in range(len(loads))]
    values = [load(rows[here] - starts[k]) for k, (here, load) in enumerate(zip(at, loads, strict=True)) if here.size]
    if not values:
        return np.asarray(loads[0](slice(0, 0)))
    return np.asarray(np.concatenate(values)[np.argsort(np.concatenate(at), kind="stable")])
