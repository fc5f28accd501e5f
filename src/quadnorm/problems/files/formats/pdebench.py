"""PDEBench's HDF5 files, in their four arrangements. All hold cell averages: nodes are cell centres.

| arrangement | datasets |
|---|---|
| steady (Darcy) | ``nu`` (N, X, Y), ``tensor`` (N, 1, X, Y), ``x-coordinate``, ``y-coordinate`` |
| time-dependent | ``tensor`` (N, T, X) or ``density``, ``pressure``, ``Vx``, … (N, T, X, Y, Z), ``t-coordinate`` |
| one group for each sample | ``0000/data`` (T, X, Y, C), ``0000/grid/x``, ``0000/grid/y``, ``0000/grid/t`` |
| incompressible flow | ``velocity`` (N, T, X, Y, 2), ``particles`` (N, T, X, Y, 1), ``force`` (N, X, Y, 2) |

Release: "PDEBench Datasets", DOI 10.18419/darus-2986.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._memory import require
from quadnorm.problems.files.assemble import ReadOptions, assemble
from quadnorm.problems.files.axes.coordinates import FileCoordinates
from quadnorm.problems.files.axes.request import choose
from quadnorm.problems.files.formats.hdf5 import attributes, coordinate, datasets, loader, opened
from quadnorm.problems.files.model import SPACE, Field, FieldFile

_FLOW = {"velocity": "ntxyc", "particles": "ntxyc", "force": "nxyc"}


def read_pdebench(path: Path, options: ReadOptions) -> FieldFile:
    """One PDEBench file."""
    with opened(path) as file:
        present, notes = datasets(file), attributes(file)
        groups = sorted(name for name in file if name.isdigit() and f"{name}/data" in present)
        coordinates, times = _coordinates(file, groups[0] if groups else "", present)
    if groups:
        readable = {"data": _grouped(path, groups, present)}
    else:
        candidates = {name: shape for name, shape in present.items() if len(shape) >= 3}
        dim = len(coordinates) or 2
        readable = {name: _field(path, name, shape, dim) for name, shape in candidates.items()}
    if not readable:
        raise ValueError(f"{path}: no PDEBench arrangement; it holds {', '.join(present) or 'no dataset at all'}")
    chosen = {name: readable[name] for name in choose(path, options.fields, list(readable))}
    return assemble(
        path,
        "pdebench",
        chosen,
        options.asked,
        FileCoordinates(coordinates),
        "cell" if options.placement is None else None,
        times,
        notes,
    )


def _coordinates(file: Any, group: str, present: dict[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    names = {a: f"{group}/grid/{a}" if group else f"{a}-coordinate" for a in SPACE + "t"}
    values = {a: coordinate(file, name) for a, name in names.items() if len(present.get(name, ())) == 1}
    return values, values.pop("t", None)


def _field(path: Path, name: str, shape: tuple[int, ...], dim: int) -> Field:
    space = SPACE[:dim]
    if name in _FLOW and len(shape) == len(_FLOW[name]):
        axes = _FLOW[name]
    elif len(shape) == dim + 1:
        axes = "n" + space
    elif len(shape) == dim + 2:
        axes = "nt" + space
    else:
        raise ValueError(f"{path}: {name!r} has shape {shape}, which fits no PDEBench arrangement on {dim} coordinates")
    return Field(name, axes, shape, loader(path, name), path)


def _grouped(path: Path, groups: list[str], present: dict[str, tuple[int, ...]]) -> Field:
    shapes = {present[f"{g}/data"] for g in groups}
    if len(shapes) > 1:
        raise ValueError(f"{path}: the samples have different shapes: {', '.join(map(str, sorted(shapes)))}")
    (shape,) = shapes
    axes = "nt" + SPACE[: len(shape) - 2] + "c"
    return Field("data", axes, (len(groups), *shape), partial(_stack, path, groups), path)


def _stack(path: Path, groups: list[str], index: Any) -> np.ndarray:
    with opened(path) as file:
        chosen = [file[f"{groups[i]}/data"] for i in np.arange(len(groups))[index]]
        kinds = sorted({str(data.dtype) for data in chosen})
        if len(kinds) > 1:
            raise ValueError(f"{path}: the samples are stored as {' and '.join(kinds)}; store them alike")
        require(sum(data.nbytes for data in chosen), f"{path}: reading {len(chosen)} samples")
        return np.stack([np.asarray(data[()]) for data in chosen])
