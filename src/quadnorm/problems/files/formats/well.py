"""The Well's HDF5 files: scalars in ``t0_fields``, vectors in ``t1_fields``, tensors in ``t2_fields``.

A dataset's axes are trajectory, time, space, component; an axis along which the field does not vary is not stored
(attributes ``sample_varying``, ``time_varying``, ``dim_varying``). Coordinates are in ``dimensions``, and
``boundary_conditions`` says which axes are periodic. The files do not say whether the nodes of the other axes are cell
centres or include the ends: the coordinates decide, or the caller.

Release: "The Well: a Large-Scale Collection of Diverse Physics Simulations for Machine Learning",
DOI 10.48550/arXiv.2412.00568.
"""

from pathlib import Path
from typing import Any

from quadnorm.problems.files.assemble import ReadOptions, assemble
from quadnorm.problems.files.axes.coordinates import FileCoordinates
from quadnorm.problems.files.axes.request import choose
from quadnorm.problems.files.formats.hdf5 import attributes, coordinate, loader, opened, units
from quadnorm.problems.files.model import SPACE, Field, FieldFile

_GROUPS = {"t0_fields": "", "t1_fields": "c", "t2_fields": "cd"}


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
            name: _field(path, file[group][name], group, name, len(names))
            for group in _GROUPS
            if group in file
            for name in file[group]
        }
    count = notes.get("n_trajectories")
    for f in readable.values():
        if f.axes.startswith("n") and count is not None and f.shape[0] != count:
            raise ValueError(f"{path}: n_trajectories is {count}, but {f.name!r} holds {f.shape[0]} samples")
    chosen = {name: readable[name] for name in choose(path, options.fields, list(readable))}
    known = [("periodic" if name in periodic else None) if options.placement is None else None for name in names]
    return assemble(path, "the_well", chosen, options.asked, FileCoordinates(coordinates), known, times, notes)


def _periodic(file: Any) -> set[str]:
    """Names of the axes on which every boundary condition is periodic."""
    kinds: dict[str, set[str]] = {}
    for group in file.get("boundary_conditions", {}).values():
        notes = attributes(group)
        for name in notes.get("associated_dims", []):
            kinds.setdefault(str(name), set()).add(str(notes.get("bc_type", "")).lower())
    return {name for name, types in kinds.items() if types == {"periodic"}}


def _field(path: Path, data: Any, group: str, name: str, dim: int) -> Field:
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
