"""Several files with the same fields, one after the other along samples or times, as one: ``era5_*.nc``."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.problems.files.model import Field, FieldFile


def matching(pattern: str) -> list[Path]:
    """The files that a pattern with * or ? means, sorted by name; none for a path without these."""
    path = Path(pattern).expanduser()
    if path.exists() or not any(sign in path.name for sign in "*?"):
        return []
    return sorted(path.parent.glob(path.name))


def join(pattern: Path, files: Sequence[FieldFile]) -> FieldFile:
    """One file made of several, read lazily; fields without samples or times are those of the first."""
    first = files[0]
    for other in files[1:]:
        if other.resolution != first.resolution or other.placement != first.placement:
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
    times = [f.times for f in files]
    every = None if any(t is None for t in times) else np.concatenate([t for t in times if t is not None])
    return replace(first, path=pattern, fields=fields, times=every)


def _joined(pattern: Path, parts: Sequence[Field]) -> Field:
    if parts[0].axes[:1] not in ("n", "t"):
        return parts[0]
    starts = np.cumsum([0, *(p.shape[0] for p in parts)])
    shape = (int(starts[-1]), *parts[0].shape[1:])
    return replace(parts[0], shape=shape, load=partial(_load, [p.load for p in parts], starts), path=pattern)


def _load(loads: Sequence[Any], starts: np.ndarray, index: Any) -> np.ndarray:
    rows = np.arange(starts[-1])[index]
    owner = np.searchsorted(starts, rows, side="right") - 1
    pieces = [(np.flatnonzero(owner == k), load) for k, load in enumerate(loads)]
    values = [(at, load(rows[at] - starts[owner[at[0]]])) for at, load in pieces if at.size]
    if not values:
        return np.asarray(loads[0](slice(0, 0)))
    back = np.argsort(np.concatenate([at for at, _ in values]), kind="stable")
    return np.asarray(np.concatenate([v for _, v in values])[back])
