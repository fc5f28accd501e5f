"""Files of arrays with attributes and named dimensions, as HDF5 and netCDF: tell fields from coordinates and bounds."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod
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
from quadnorm.problems.files.model import MOST_NODES, FieldFile
from quadnorm.problems.files.options import ReadOptions


def xarray_module() -> Any:
    """xarray, or an error that names the extra."""
    try:
        import xarray
    except ImportError as error:
        raise ImportError("reading netCDF and zarr needs xarray: pip install 'quadnorm[data]'") from error
    return xarray


_RANKS = {"latitude": 3, "longitude": 3, "x": 1, "y": 1}  # of coordinates that lie on the dimensions of fields


def read_arrays(
    path: Path,
    layout: str,
    items: Mapping[str, Item],
    notes: Mapping[str, Any],
    options: ReadOptions,
    *,
    vectors: bool = False,
    usual: str | None = None,
    **known: Any,
) -> FieldFile:
    """The fields among the arrays of a file, with their nodes.

    ``notes`` are the attributes of the file; ``usual`` is the placement where there are no coordinates; ``vectors`` as
    in :func:`coordinates_in`, ``known`` as in :func:`read_items`.
    """
    scales = {d.key for i in items.values() for d in i.dims if d.key}
    kinds = {name: kind_of(name, i.attrs) for name, i in items.items() if i.dims and name not in scales}
    kinds = {n: kind for n, kind in kinds.items() if len(items[n].shape) <= _RANKS.get(kind, 0)}
    named = {
        name
        for i in items.values()
        for key in ("bounds", "climatology", "coordinates")
        for name in str({**i.encoding, **i.attrs}.get(key, "")).split()
    }
    named |= auxiliaries(items)
    named |= {f"{group}/{name}" for group in {n.rpartition("/")[0] for n in items} - {""} for name in named}
    others = (scales | set(kinds) | named) - set(options.named)
    described = dict(items)
    if not options.ignore_coordinates:
        described = _with_coordinates(path, items, {n: kind for n, kind in kinds.items() if n not in options.named})
        described, place = _scattered(path, described, others, options.placement == "coordinates")
        if place is not None and len(place.dims) == 1 and options.axes is None:
            options = replace(options, dim=1)
    unnamed = {n: i for n, i in items.items() if not i.dims and n not in scales}
    lines = coordinates_in(path, unnamed, options, vectors=vectors)
    others |= lines.names
    fields = {name: i for name, i in described.items() if name not in others}
    if vectors:  # scalars and vectors, which MATLAB stores as matrices, are no fields unless there is nothing else
        large = {n: i for n, i in fields.items() if n in options.named or prod(i.shape) > max(i.shape, default=1)}
        fields = large or fields
    known = {"law": notes.get("placement") or (None if lines.values else usual), "notes": notes} | known
    file = read_items(path, layout, fields, options, lines, **known)
    if options.ignore_coordinates or not any(i.dims for i in fields.values()):
        return file
    widest = max(file.fields, key=lambda n: len(file.fields[n].shape))
    return replace(file, locate=partial(_located, path, described, others, widest))


def _with_coordinates(path: Path, items: Mapping[str, Item], kinds: Mapping[str, str]) -> dict[str, Item]:
    """The arrays, their dimensions with nodes from coordinates that lie on them without being one: lat(row) and
    lon(col), lat(y, x) and lon(y, x), lat(cell) and lon(cell); and with the cells that bounds state.

    ``kinds``: name → what it is, of the arrays that are coordinates.
    """
    bent: dict[str, list[str]] = {}
    lines: dict[str, list[tuple[str, Dimension]]] = {}
    for name, kind in kinds.items():
        own = items[name].dims
        bare = [d for d in own if d.key and d.values is None and d.kind != "time"]
        if not bare or kind not in FLAT:
            continue
        values = whole(path, name, items[name])
        if len(own) > 1 and own[0].kind == "time" and values.shape[0] and not np.ptp(values, axis=0).any():
            values, own = values[0], own[1:]  # stored once for each time, and they do not change
        axis = axis_of(values) if values.ndim > 1 else 0
        if axis < 0:
            for d in bare:
                bent.setdefault(d.key, []).append(name)
        elif own[axis].values is None:
            line = replace(own[axis], kind=kind, values=line_of(values, axis))
            lines.setdefault(own[axis].key, []).append((name, line))
    found: dict[str, Dimension] = {}
    for key, several in lines.items():
        if len({d.kind for _, d in several}) > 1:  # both coordinates of a point: columns, stations, cells
            bent.setdefault(key, []).extend(name for name, _ in several)
        else:
            found[key] = replace(several[0][1], cells=_bounds(items, several[0][0]))

    def known(d: Dimension) -> Dimension:
        if d.key in found:
            return found[d.key]
        bounds = None if d.values is None else _bounds(items, d.key)
        return replace(d, bent=tuple(bent[d.key])) if d.key in bent else replace(d, cells=bounds)

    return {name: replace(i, dims=tuple(map(known, i.dims))) for name, i in items.items()}


def _bounds(items: Mapping[str, Item], name: str) -> np.ndarray | None:
    """The cells (n, 2) that the bounds of a coordinate state, if they are around its nodes."""
    i = items.get(name)
    stated = "" if i is None else str({**i.encoding, **i.attrs}.get("bounds", ""))
    group = name.rpartition("/")[0]
    b = items.get(f"{group}/{stated}".lstrip("/"))
    if i is None or b is None or b.shape != (*i.shape, 2) or len(i.shape) != 1:
        return None
    return b.whole()


def _scattered(
    path: Path, items: dict[str, Item], others: set[str], assume: bool
) -> tuple[dict[str, Item], Located | None]:
    """Mark the dimensions whose samples have two coordinates each, if the file says where their cells end: by corners,
    areas or a mesh; or if they are points, whose cells are Voronoi's. Without these, straight axes are needed, unless
    cells that end halfway between the nodes may be assumed.
    """
    fields = [n for n, i in items.items() if n not in others and i.dims]
    bent = {d.key for n in fields for d in items[n].dims if d.bent}
    special = any(
        i.attrs.get("cf_role") == "mesh_topology" or i.attrs.get("grid_mapping_name") == "healpix"
        for i in items.values()
    )
    wanted = [n for n in fields if special or any(d.key in bent for d in items[n].dims)]
    for name in sorted(wanted, key=lambda n: -len(items[n].shape)):
        try:
            place = _located(path, items, others, name)
        except ValueError:
            continue
        unknown = place.find is None or (place.evidence.endswith("no corners") and not assume)
        if unknown or not (bent or len(place.dims) == 1):
            continue
        if len(place.dims) == 1 and place.evidence.startswith(f"{place.dims[0].rpartition('/')[2]}:"):
            continue  # an ordinary axis

        marked = {d.key: replace(d, kind=POINTS, bent=(), values=None, located=True) for d in items[name].dims}
        marked = {key: d for key, d in marked.items() if key in place.dims}
        return {n: replace(i, dims=tuple(marked.get(d.key, d) for d in i.dims)) for n, i in items.items()}, place
    return items, None


def _located(path: Path, items: Mapping[str, Item], others: set[str], name: str) -> Located:
    """Where the samples of a field lie, by all the coordinates, bounds and areas of the file."""
    field, group = items[name], f"{name.rpartition('/')[0]}/"  # attributes name arrays of the same group
    names = _unique_names(field.dims, len(field.shape))
    sizes = dict(zip(names, field.shape, strict=True))
    kept: dict[str, Any] = {}
    for other, i in items.items():
        own = _unique_names(i.dims, len(i.shape)) if i.dims else [[], [other], None][min(len(i.shape), 2)]
        if other == name or other not in others or own is None or np.prod(i.shape) > MOST_NODES:
            continue
        if all(sizes.setdefault(d, n) == n for d, n in zip(own, i.shape, strict=True)):
            short = [d.removeprefix(group) for d in own]
            kept[other.removeprefix(group)] = (short, i.whole(), {**i.encoding, **i.attrs})
    with parsing(path, f"its coordinates do not say where the samples of {name!r} lie"):
        full = {d.removeprefix(group): d for d in names}
        zeros = (list(full), np.broadcast_to(0.0, field.shape), {**field.encoding, **field.attrs})
        dataset = xarray_module().Dataset({**kept, name: zeros}).set_coords(list(kept))
        found = located(dataset[name], dataset)
    return replace(found, dims=tuple(full[d] for d in found.dims))


def _unique_names(dims: Dimensions, rank: int) -> list[str]:
    """A name for each dimension of an array; those without one, or with that of another, get a number."""
    names: list[str] = []
    for k in range(rank):
        key = dims[k].key if k < len(dims) else ""
        names.append(key if key and key not in names else f"{key}#{k}")
    return names
