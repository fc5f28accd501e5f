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

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._memory import require
from quadnorm.problems.files.assemble import read_items
from quadnorm.problems.files.axes import Item, Shape
from quadnorm.problems.files.coordinates import FileCoordinates
from quadnorm.problems.files.formats.hdf5 import attributes, coordinate, datasets, loader, opened
from quadnorm.problems.files.model import SPACE, FieldFile
from quadnorm.problems.files.options import ReadOptions

_FLOW = {"velocity": "ntxyc", "particles": "ntxyc", "force": "nxyc"}
_GROUPS = {"t0_fields": "", "t1_fields": "c", "t2_fields": "cd"}


def read_pdebench(path: Path, options: ReadOptions) -> FieldFile:
    """One PDEBench file."""
    with opened(path) as file:
        present, notes = datasets(file), attributes(file)
        groups = sorted(name for name in file if name.isdigit() and f"{name}/data" in present)
        names = {a: f"{groups[0]}/grid/{a}" if groups else f"{a}-coordinate" for a in SPACE + "t"}
        values = {a: coordinate(file, name) for a, name in names.items() if len(present.get(name, ())) == 1}
    times = values.pop("t", None)
    if groups:
        items = {"data": _grouped(path, groups, present)}
        letters = {"data": "nt" + SPACE[: len(items["data"].shape) - 3] + "c"}
    else:
        items = {n: Item(shape, partial(loader, path, n)) for n, shape in present.items() if len(shape) >= 3}
        letters = {n: _letters(path, n, i.shape, SPACE[: len(values) or 2]) for n, i in items.items()}
    if not items:
        raise ValueError(f"{path}: no PDEBench arrangement; it holds {', '.join(present) or 'no dataset at all'}")
    options = replace(options, axes=letters)
    lines = FileCoordinates(values)
    return read_items(path, "pdebench", items, options, lines, law="cell", times=times, notes=notes)


def _letters(path: Path, name: str, shape: Shape, space: str) -> str:
    if name in _FLOW and len(shape) == len(_FLOW[name]):
        return _FLOW[name]
    if len(shape) - len(space) not in (1, 2):
        raise ValueError(
            f"{path}: {name!r} has shape {shape}, which fits no PDEBench arrangement on {len(space)} coordinates"
        )
    return ("n" if len(shape) == len(space) + 1 else "nt") + space


def _grouped(path: Path, groups: list[str], present: Mapping[str, Shape]) -> Item:
    shapes = {present[f"{g}/data"] for g in groups}
    if len(shapes) > 1:
        raise ValueError(f"{path}: the samples have different shapes: {', '.join(map(str, sorted(shapes)))}")
    return Item((len(groups), *shapes.pop()), lambda _: partial(_stack, path, groups))


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
        values = {
            letter: coordinate(file, f"dimensions/{name}")
            for letter, name in zip(SPACE, names, strict=False)
            if file[f"dimensions/{name}"].ndim == 1
        }
        times = coordinate(file, "dimensions/time") if "time" in file["dimensions"] else None
        kinds: dict[str, set[str]] = {}  # of the boundary conditions on each axis
        for group in map(attributes, file.get("boundary_conditions", {}).values()):
            for name in map(str, group.get("associated_dims", [])):
                kinds.setdefault(name, set()).add(str(group.get("bc_type", "")).lower())
        found = {
            name: _well_field(path, file[group][name], group, name, len(names))
            for group in _GROUPS
            if group in file
            for name in file[group]
        }
    count = notes.get("n_trajectories")
    for name, (i, letters) in found.items():
        if letters.startswith("n") and count is not None and i.shape[0] != count:
            raise ValueError(f"{path}: n_trajectories is {count}, but {name!r} holds {i.shape[0]} samples")
    options = replace(options, axes={name: letters for name, (_, letters) in found.items()})
    law = ["periodic" if kinds.get(name) == {"periodic"} else None for name in names]
    items, lines = {name: i for name, (i, _) in found.items()}, FileCoordinates(values)
    return read_items(path, "the_well", items, options, lines, law=law, times=times, notes=notes)


def _well_field(path: Path, data: Any, group: str, name: str, dim: int) -> tuple[Item, str]:
    """An array of the Well, and the letters of its axes."""
    notes = attributes(data)
    varies = notes.get("dim_varying", [True] * dim)
    letters = "n" * bool(notes.get("sample_varying", True)) + "t" * bool(notes.get("time_varying", True))
    letters += "".join(letter for letter, v in zip(SPACE, varies, strict=False) if v) + _GROUPS[group]
    if len(letters) != data.ndim:
        raise ValueError(
            f"{path}: {group}/{name} has shape {data.shape}, its attributes promise {len(letters)} axes ({letters}: "
            "n sample, t time, x y z space, c d components)"
        )
    return Item(tuple(data.shape), partial(loader, path, f"{group}/{name}"), (), notes), letters
