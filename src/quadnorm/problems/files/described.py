"""Files of arrays with attributes and named dimensions, as HDF5 and netCDF: tell fields from coordinates and bounds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.measures.data.names import kind_of
from quadnorm.problems.files.assemble import Asked, assemble
from quadnorm.problems.files.axes.auxiliary import with_auxiliary
from quadnorm.problems.files.axes.coordinates import coordinates_in, read_checked
from quadnorm.problems.files.axes.dimensions import Dimensions
from quadnorm.problems.files.axes.request import Item, Load, Request
from quadnorm.problems.files.fields import as_fields
from quadnorm.problems.files.model import FieldFile
from quadnorm.problems.files.packing import unpacked

_OTHERS = ("bounds", "climatology", "coordinates")  # attributes that name arrays which are no fields


@dataclass(frozen=True)
class Variable:
    """An array of a file with its attributes and dimensions, not yet read."""

    shape: tuple[int, ...]
    notes: Mapping[str, Any]
    dims: Dimensions
    along: Callable[[int], Load]

    @property
    def units(self) -> str:
        """The units that its attributes state; empty where they state none."""
        return str(self.notes.get("units") or self.notes.get("unit") or "")


def read_described(
    path: Path,
    layout: str,
    variables: Mapping[str, Variable],
    request: Request,
    asked: Asked,
    notes: Mapping[str, Any],
) -> FieldFile:
    """The fields of a file with their nodes; ``notes`` are the attributes of the file."""
    scales = {d.key for v in variables.values() for d in v.dims if d.key}
    kinds = {
        name: kind
        for name, v in variables.items()
        if (kind := _coordinate_kind(name, v)) and name not in scales and name not in request.named
    }
    read = partial(_whole, path, variables)
    ignore = asked.ignore_coordinates
    dims = with_auxiliary({name: v.dims for name, v in variables.items()}, kinds, read, ignore=ignore)
    bare = {name: v.shape for name, v in variables.items() if not v.dims and name not in scales}
    lines = coordinates_in(path, bare, read, request.dim, request.named, ignore=ignore)
    others = (scales | set(kinds) | lines.names | _named_by_attributes(variables)) - set(request.named)
    items = {
        name: Item(v.shape, partial(_along, path, name, v), v.units, dims[name])
        for name, v in variables.items()
        if name not in others
    }
    fields, found = as_fields(path, items, request, lines)
    return assemble(path, layout, fields, asked, found, notes.get("placement"), attributes=notes)


def _coordinate_kind(name: str, v: Variable) -> str:
    """Latitudes and longitudes on the dimensions of fields, and x and y along one dimension; empty for other arrays."""
    kind = kind_of(name, v.notes) if v.dims else ""
    most = {"latitude": 3, "longitude": 3, "x": 1, "y": 1}.get(kind, 0)
    return kind if len(v.shape) <= most else ""


def _named_by_attributes(variables: Mapping[str, Variable]) -> set[str]:
    listed = [v.notes.get(key) for v in variables.values() for key in _OTHERS]
    return {name for text in listed if isinstance(text, str) for name in text.split()}


def _along(path: Path, name: str, v: Variable, axis: int) -> Load:
    try:
        return unpacked(v.along(axis), v.notes)
    except ValueError as error:
        raise ValueError(f"{path}: {name!r}: {error}") from None


def _whole(path: Path, variables: Mapping[str, Variable], name: str) -> np.ndarray:
    return read_checked(path, name, variables[name].shape, lambda n: _along(path, n, variables[n], 0)(slice(None)))
