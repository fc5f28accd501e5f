"""Files of arrays with attributes and named dimensions, as HDF5 and netCDF: tell fields from coordinates and bounds."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._foreign import parsing
from quadnorm.measures.data.field import auxiliaries
from quadnorm.measures.data.located import Located
from quadnorm.measures.data.measure import located
from quadnorm.measures.data.names import FLAT, POINTS, kind_of
from quadnorm.problems.files.assemble import read_items
from quadnorm.problems.files.axes import Dimension, Dimensions, Item
from quadnorm.problems.files.coordinates import axis_of, coordinates_in, line_of, whole
from quadnorm.problems.files.formats.variables import Variables, loader_of, unique_names, xarray_module
from quadnorm.problems.files.model import MOST_NODES, FieldFile
from quadnorm.problems.files.options import ReadOptions

_OTHERS = ("bounds", "climatology", "coordinates")  # attributes that name arrays which are no fields


def read_described(path: Path, layout: str, variables: Variables, options: ReadOptions) -> FieldFile:
    """The fields of a file with their nodes."""
    arrays, ignore = variables.arrays, options.ignore_coordinates
    items = {
        name: Item(v.shape, partial(loader_of, path, name, v), variables.units(name), variables.dims[name])
        for name, v in arrays.items()
    }
    scales = {d.key for i in items.values() for d in i.dims if d.key}
    kinds = {
        name: kind
        for name in arrays
        if (kind := _coordinate_kind(name, variables)) and name not in scales and name not in options.named
    }
    dims = variables.dims if ignore else _with_coordinates(path, items, kinds)
    others = (scales | set(kinds) | auxiliaries(arrays) | _named_by_attributes(arrays)) - set(options.named)
    if not ignore:
        dims, place = _scattered(path, variables, dims, others, options.placement == "coordinates")
        if place is not None and len(place.dims) == 1 and options.axes is None:
            options = replace(options, dim=1)
    lines = coordinates_in(path, {n: i for n, i in items.items() if not i.dims and n not in scales}, options)
    others |= lines.names
    fields = {name: replace(i, dims=dims[name]) for name, i in items.items() if name not in others}
    notes = variables.notes
    file = read_items(path, layout, fields, options, lines, known=notes.get("placement"), attributes=notes)
    widest = max(file.fields, key=lambda n: len(file.fields[n].shape))
    return replace(file, locate=None if ignore else partial(_located, path, variables, dims, others, widest))


def _coordinate_kind(name: str, variables: Variables) -> str:
    """Latitudes and longitudes on the dimensions of fields, and x and y along one dimension; empty for other arrays."""
    v = variables.arrays[name]
    kind = kind_of(name, v.attrs) if variables.dims[name] else ""
    most = {"latitude": 3, "longitude": 3, "x": 1, "y": 1}.get(kind, 0)
    return kind if v.ndim <= most else ""


def _named_by_attributes(arrays: Mapping[str, Any]) -> set[str]:
    listed = [{**v.encoding, **v.attrs}.get(key) for v in arrays.values() for key in _OTHERS]
    return {name for text in listed if isinstance(text, str) for name in text.split()}


def _with_coordinates(path: Path, items: Mapping[str, Item], kinds: Mapping[str, str]) -> dict[str, Dimensions]:
    """The dimensions of every array, with nodes from coordinates that lie on them without being one: lat(row) and
    lon(col), lat(y, x) and lon(y, x), lat(cell) and lon(cell).

    ``kinds``: name → what it is, of the arrays that are coordinates.
    """
    found: dict[str, Dimension] = {}
    bent: dict[str, list[str]] = {}
    lines: dict[str, list[tuple[str, Dimension]]] = {}
    for name, kind in kinds.items():
        own = items[name].dims
        bare = [d for d in own if d.key and d.values is None and d.kind != "time"]
        if not bare or kind not in FLAT:
            continue
        values = _at_one_time(whole(path, name, items[name]), own)
        space = [d for d in own if d.kind != "time"] if values.ndim < len(own) else list(own)
        axis = axis_of(values) if values.ndim > 1 else 0
        if axis < 0:
            for d in bare:
                bent.setdefault(d.key, []).append(name)
        elif space[axis].values is None:
            line = replace(space[axis], kind=kind, values=line_of(values, axis))
            lines.setdefault(space[axis].key, []).append((name, line))
    for key, several in lines.items():
        if len({d.kind for _, d in several}) > 1:  # both coordinates of a point: columns, stations, cells
            bent.setdefault(key, []).extend(name for name, _ in several)
        else:
            found[key] = several[0][1]
    for d in (d for i in items.values() for d in i.dims):
        if d.key in bent and d.key not in found:
            found[d.key] = replace(d, bent=tuple(bent[d.key]))
    return {name: tuple(found.get(d.key, d) for d in i.dims) for name, i in items.items()}


def _at_one_time(values: np.ndarray, own: Dimensions) -> np.ndarray:
    """Coordinates that are stored once for each time, if they do not change."""
    if len(own) > 1 and own[0].kind == "time" and values.shape[0] and not np.ptp(values, axis=0).any():
        return np.asarray(values[0])
    return values


def _scattered(
    path: Path, variables: Variables, dims: Mapping[str, Dimensions], others: set[str], assume: bool
) -> tuple[Mapping[str, Dimensions], Located | None]:
    """Mark the dimensions whose samples have two coordinates each, if the file says where their cells end: by corners,
    areas or a mesh; or if they are points, whose cells are Voronoi's. Without these, straight axes are needed, unless
    cells that end halfway between the nodes may be assumed.
    """
    fields = [n for n in variables.arrays if n not in others and dims[n]]
    known = variables.arrays
    bent = {d.key for n in fields for d in dims[n] if d.bent}
    topology = any(known[n].attrs.get("cf_role") == "mesh_topology" for n in known)
    wanted = [n for n in fields if any(d.key in bent for d in dims[n]) or topology or _healpix(known)]
    for name in sorted(wanted, key=lambda n: -known[n].ndim):
        try:
            place = _located(path, variables, dims, others, name)
        except ValueError:
            continue
        unknown = place.find is None or (place.evidence.endswith("no corners") and not assume)
        if unknown or not (bent or len(place.dims) == 1):
            continue
        if len(place.dims) == 1 and place.evidence.startswith(f"{place.dims[0]}:"):
            continue  # an ordinary axis
        here = set(place.dims)
        marked = {
            n: tuple(replace(d, kind=POINTS, bent=(), values=None, located=True) if d.key in here else d for d in own)
            for n, own in dims.items()
        }
        return marked, place
    return dims, None


def _healpix(arrays: Mapping[str, Any]) -> bool:
    return any(v.attrs.get("grid_mapping_name") == "healpix" for v in arrays.values())


def _located(path: Path, variables: Variables, dims: Mapping[str, Dimensions], others: set[str], name: str) -> Located:
    """Where the samples of a field lie, by all the coordinates, bounds and areas of the file."""
    x = xarray_module()
    field = variables.arrays[name]
    names = unique_names(dims[name], field.ndim)
    sizes = dict(zip(names, field.shape, strict=True))
    kept: dict[str, Any] = {}
    for other, v in variables.arrays.items():
        own = unique_names(dims[other], v.ndim) if dims[other] else [[], [other], None][min(v.ndim, 2)]
        if other == name or other not in others or own is None or v.size > MOST_NODES:
            continue
        if all(sizes.setdefault(d, n) == n for d, n in zip(own, v.shape, strict=True)):
            kept[other] = (own, np.asarray(v.values), {**v.encoding, **v.attrs})
    zeros = np.broadcast_to(0.0, field.shape)
    with parsing(path, f"its coordinates do not say where the samples of {name!r} lie"):
        dataset = x.Dataset({**kept, name: (names, zeros, {**field.encoding, **field.attrs})}).set_coords(list(kept))
        return located(dataset[name], dataset)
