"""Published collections in HDF5: PDEBench's four arrangements and the Well.

PDEBench holds cell averages, so that nodes are cell centres:

| arrangement | datasets |
|---|---|
| steady (Darcy) | ``nu`` (N, X, Y), ``tensor`` (N, 1, X, Y), ``x-coordinate``, ``y-coordinate`` |
| time-dependent | ``tensor`` (N, T, X) or ``density``, ``pressure``, ``Vx``, … (N, T, X, Y, Z), ``t-coordinate`` |
| one group for each sample | ``0000/data`` (T, X, Y, C), ``0000/grid/x``, ``0000/grid/y``, ``0000/grid/t`` |
| incompressible flow | ``velocity`` (N, T, X, Y, 2), ``particles`` (N, T, X, Y, 1), ``force`` (N, X, Y, 2) |

The Well: scalars in ``t0_fields``, vectors in ``t1_fields``, tensors in ``t2_fields``.

A dataset's axes are trajectory, time, space, component; an axis along which the field does not vary is not stored
(attributes ``sample_varying``, ``time_varying``, ``dim_varying``). Coordinates are in ``dimensions``, and
``boundary_conditions`` says which axes are periodic. The files do not say whether the nodes of the other axes are cell
centres or include the ends: the coordinates decide, or the caller.

Releases: "PDEBench Datasets", DOI 10.18419/darus-2986; "The Well: a Large-Scale Collection of Diverse Physics
Simulations for Machine Learning", DOI 10.48550/arXiv.2412.00568.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._memory import require
from quadnorm.problems.files.assemble import assemble, choose
from quadnorm.problems.files.coordinates import FileCoordinates
from quadnorm.problems.files.formats.hdf5 import attributes, coordinate, datasets, loader, opened, units
from quadnorm.problems.files.model import SPACE, Field, FieldFile
from quadnorm.problems.files.options import ReadOptions

_FLOW = {"velocity": "ntxyc", "particles": "ntxyc", "force": "nxyc"}
_GROUPS = {"t0_fields": "", "t1_fields": "c", "t2_fields": "cd"}


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
    chosen = {name: readable[name] for name in choose(path, options, list(readable))}
    return assemble(
        path,
        "pdebench",
        chosen,
        options,
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


def read_well(path: Path, options: ReadOptions) -> FieldFile:
    """One file of the Well."""
    with opened(path) as file:
        absent = [name for name in ("dimensions", "t0_fields") if name not in file]
        if absent:
            raise ValueError(f"{path}: not a file of the Well: no group {absent[0]!r}; it holds {', '.join(file)}")
        notes = attributes(file)
        names = [str(n) for n in attributes(file["dimensions"]).get("spatial_dims", [])]
        if not names or any(n not in file["dimensions"] for n in names):
            raise ValueError(
                f"{path}: dimensions/spatial_dims names {names}, the group holds {list(file['dimensions'])}"
            )
        coordinates = {
            letter: coordinate(file, f"dimensions/{name}")
            for letter, name in zip(SPACE, names, strict=False)
            if file[f"dimensions/{name}"].ndim == 1
        }
        times = coordinate(file, "dimensions/time") if "time" in file["dimensions"] else None
        periodic = _periodic(file)
        readable = {
            name: _well_field(path, file[group][name], group, name, len(names))
            for group in _GROUPS
            if group in file
            for name in file[group]
        }
    count = notes.get("n_trajectories")
    for f in readable.values():
        if f.axes.startswith("n") and count is not None and f.shape[0] != count:
            raise ValueError(f"{path}: n_trajectories is {count}, but {f.name!r} holds {f.shape[0]} samples")
    chosen = {name: readable[name] for name in choose(path, options, list(readable))}
    known = [("periodic" if name in periodic else None) if options.placement is None else None for name in names]
    return assemble(path, "the_well", chosen, options, FileCoordinates(coordinates), known, times, notes)


def _periodic(file: Any) -> set[str]:
    """Names of the axes on which every boundary condition is periodic."""
    kinds: dict[str, set[str]] = {}
    for group in file.get("boundary_conditions", {}).values():
        notes = attributes(group)
        for name in notes.get("associated_dims", []):
            kinds.setdefault(str(name), set()).add(str(notes.get("bc_type", "")).lower())
    return {name for name, types in kinds.items() if types == {"periodic"}}


def _well_field(path: Path, data: Any, group: str, name: str, dim: int) -> Field:
    notes = attributes(data)
    varies = notes.get("dim_varying", [True] * dim)
    axes = "n" * bool(notes.get("sample_varying", True)) + "t" * bool(notes.get("time_varying", True))
    axes += "".join(letter for letter, v in zip(SPACE, varies, strict=False) if v) + _GROUPS[group]
    if len(axes) != data.ndim:
        raise ValueError(
            f"{path}: {group}/{name} has shape {data.shape}, its attributes promise {len(axes)} axes ({axes}: "
            "n sample, t time, x y z space, c d components)"
        )
    return Field(name, axes, tuple(data.shape), loader(path, f"{group}/{name}"), path, units(data))
