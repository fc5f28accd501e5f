"""The measure of the coordinates of an xarray object."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import pi
from typing import Any

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.measures.axes import GivenAxis
from quadnorm.measures.base import Measure
from quadnorm.measures.composed import Weights
from quadnorm.measures.data.corners import cell_areas, node_areas, point_areas, shared, vertex_areas
from quadnorm.measures.data.field import AREAS, NOT_SPACE, FieldCoordinates, auxiliaries
from quadnorm.measures.data.lines import line_axis
from quadnorm.measures.data.located import EARTH, Located, of_lines, places_of
from quadnorm.measures.data.names import kind_of
from quadnorm.measures.geometry.spherical import healpix_centres


def measure_of(
    data: Any,
    dataset: Any = None,
    *,
    dims: str | Sequence[str] | None = None,
    placement: str | Mapping[str, str] | None = None,
    domain: Any = None,
) -> Measure:
    r"""The measure of the samples of an xarray object, from its coordinates: areas on the sphere, lengths, volumes.

    .. math:: \int f \, d\mu \approx \sum_i w_i f_i, \qquad \sum_i w_i = 1

    Args:
        data: a DataArray, or a Dataset whose fields lie on one grid.
        dataset: the Dataset that the array is from, if it holds what the array alone does not: cell bounds and corners,
            cell areas (``cell_measures``), a mesh topology (UGRID).
        dims: the dimensions to integrate over, in the array's order. Default: latitude and longitude, the dimension
            of points or cells, x, y and z; or else all that have coordinates and are not time, samples or channels.
        placement: where evenly spaced samples lie, if the coordinates leave it open: ``"cell"``, ``"endpoint"``,
            ``"periodic"``, …; for all axes, or a mapping from dimensions.
        domain: (lo, hi) of a single axis, or a mapping from dimensions, for cells that extend beyond the nodes.

    What is known decides, the most explicit first: cell areas; bounds or corners of cells (CF); the faces of a mesh;
    Gauss quadrature's latitudes; circles of longitudes, with or without the first value repeated; the only placement
    that fits evenly spaced nodes. Otherwise cells end halfway between nodes, and at the outermost nodes. Points on the
    sphere that have no cells get Voronoi cells; grids with two coordinates at each node the quadrilaterals between
    nodes. Degrees and radians are told by ``units``. The shape of the measure is that of ``dims``.

    >>> import numpy as np, xarray
    >>> where = {"lat": [-60.0, 0, 60], "lon": [0.0, 90, 180, 270]}
    >>> t = xarray.DataArray(np.zeros((2, 3, 4)), where, ["time", "lat", "lon"])
    >>> measure_of(t).weights((3, 4)).sum(1)  # sin 30° of the sphere is between 30° S and 30° N
    tensor([0.2500, 0.5000, 0.2500], dtype=torch.float64)
    """
    return located(data, dataset, dims=dims, placement=placement, domain=domain).measure


def located(
    data: Any,
    dataset: Any = None,
    *,
    dims: str | Sequence[str] | None = None,
    placement: str | Mapping[str, str] | None = None,
    domain: Any = None,
) -> Located:
    """Like :func:`measure_of`, with the dimensions that the measure is of and how it is known."""
    if not all(hasattr(data, a) for a in ("dims", "coords", "attrs", "sizes")):
        raise TypeError(
            f"measure_of expects an xarray DataArray or Dataset (pip install 'quadnorm[data]'), got "
            f"{type(data).__name__}; for a mesh use cell_weights or lumped_weights, for points voronoi_weights"
        )
    if hasattr(data, "data_vars"):
        data, dataset = _only_field(data), data
    return _Reading(data, dataset, _names(dims, data), placement, domain).located()


def _names(dims: str | Sequence[str] | None, data: Any) -> tuple[str, ...] | None:
    if dims is None:
        return None
    wanted = (dims,) if isinstance(dims, str) else tuple(dims)
    for name in wanted:
        if name not in data.dims:
            raise ValueError(unknown("dimension", name, [str(d) for d in data.dims]))
    return tuple(str(d) for d in data.dims if d in wanted)


def _only_field(dataset: Any) -> Any:
    """One of the fields of a Dataset, all of which must lie on the same dimensions of space."""
    left_out = auxiliaries(dataset.variables)
    names = [
        n
        for n, v in dataset.data_vars.items()
        if n not in left_out and v.ndim and v.dtype.kind in "fiub" and kind_of(str(n), v.attrs) not in EARTH
    ]
    if not names:  # coordinates alone: the measure of what they lie on
        if not dataset.sizes:
            raise ValueError("the Dataset holds neither fields nor dimensions, so there is nothing to integrate over")
        grid = max((v.dims for v in dataset.coords.values()), key=len, default=())
        grid = grid if len(grid) > 1 else tuple(d for d in dataset.sizes if d in dataset.coords)
        import xarray

        zeros = np.broadcast_to(0.0, tuple(dataset.sizes[d] for d in grid))
        return xarray.DataArray(
            zeros, dims=grid, coords={k: v for k, v in dataset.coords.items() if set(v.dims) <= set(grid)}
        )
    widest = max(names, key=lambda n: dataset[n].ndim)
    space = {n: tuple(d for d in dataset[n].dims if kind_of(str(d)) not in NOT_SPACE) for n in names}
    for n in names:
        if space[n] and not set(space[n]) <= set(space[widest]):
            raise ValueError(
                f"the Dataset's fields lie on different dimensions: {widest!r} on {space[widest]}, {n!r} on "
                f"{space[n]}; choose one: measure_of(ds[{widest!r}], ds)"
            )
    return dataset[widest]


def _whole(notes: Mapping[str, Any], key: str, default: int) -> int:
    """A whole number among attributes, where some files have a list of one."""
    value = np.ravel(notes.get(key, default))
    if value.size != 1 or value.dtype.kind not in "iuf":
        raise ValueError(f"the attribute {key} is {notes[key]!r}, expected a whole number")
    return int(value[0])


def _where(sphere: bool) -> str:
    return "on the sphere" if sphere else "in the plane"


_ORDERS = ("ring", "nested", "nest")  # of HEALPix's pixels


class _Reading(FieldCoordinates):
    """Finds where the samples of one field lie, the most explicit statement first."""

    def __init__(self, data: Any, dataset: Any, dims: tuple[str, ...] | None, placement: Any, domain: Any) -> None:
        super().__init__(data, dataset, dims)
        self.placement, self.domain = placement, domain

    def located(self) -> Located:
        for way in (self._stated_areas, self._mesh, self._healpix, self._by_place):
            found = way()
            if found is not None:
                return found
        return self._lines(self.dims or self.spatial())

    def _stated_areas(self) -> Located | None:
        measures = re.findall(r"(?:area|volume):\s*(\S+)", str(self.notes.get("cell_measures", "")))
        for name in (*measures, *AREAS):
            v = self.known.get(name)
            if v is None or not v.ndim or v.dtype.kind not in "fiu" or not self.fits(v.dims):
                continue
            if name not in measures and len(v.dims) == 1 and kind_of(str(v.dims[0])):
                continue
            values = np.nan_to_num(self.ordered(v))
            if (values >= 0).all() and values.any():
                return self._with_places(Located(self.order(v.dims), Weights(values), f"cell areas in {name!r}"))
        return None

    def _with_places(self, areas: Located) -> Located:
        """The places of samples whose areas are stated, where coordinates say them."""
        try:
            found = self._by_place() or self._lines(areas.dims)
        except ValueError:  # the areas are known all the same
            return areas
        return replace(areas, find=found.find, sphere=found.sphere) if found.dims == areas.dims else areas

    def _mesh(self) -> Located | None:
        topologies = {n: v for n, v in self.known.items() if v.attrs.get("cf_role") == "mesh_topology"}
        name = str(self.notes.get("mesh", ""))
        if name and name not in topologies:
            raise ValueError(
                f"the field lies on the mesh {name!r}, whose topology is not among the array's coordinates; pass the "
                "Dataset as well: measure_of(ds['t'], ds)"
            )
        for topology in [topologies[name]] if name else topologies.values():
            found = self._on_mesh(topology)
            if found is not None:
                return found
        if name:
            raise ValueError(
                f"the field lies on {self.notes.get('location', 'no known part')} of the mesh {name!r}, on dimensions "
                f"{self.data.dims}; measures are known of faces and nodes"
            )
        return None

    def _on_mesh(self, topology: Any) -> Located | None:
        notes = topology.attrs
        if "face_node_connectivity" not in notes:
            raise ValueError(
                f"the mesh has no face_node_connectivity, so its cells are not known; it has {list(notes)}"
            )
        table = self.variable(str(notes["face_node_connectivity"]), "connectivity")
        names = str(notes.get("node_coordinates", "")).split()
        if len(names) < 2:
            raise ValueError(f"the mesh names {names} as coordinates of its nodes; expected two variables")
        nodes = [self.variable(n, "coordinates of nodes") for n in names[:2]]
        node_dim = nodes[0].dims[0]
        face_dim = notes.get("face_dimension") or next((d for d in table.dims if d in self.data.dims), table.dims[0])
        values = table.values if table.dims[0] == face_dim else table.values.T
        faces = np.where(np.isfinite(values), values, -1).astype(np.int64) - _whole(table.attrs, "start_index", 0)
        absent = (faces < 0) | (faces >= len(nodes[0]))
        faces = np.where(absent, faces[:, :1], faces)  # faces with fewer corners repeat one
        first, second, sphere = self.pair(*nodes)
        if face_dim in self.data.dims and self.notes.get("location", "face") in ("face", "volume"):
            areas, dim = cell_areas(first[faces], second[faces], sphere), str(face_dim)
            places = places_of(first, second, sphere)[:, faces].mean(2)
            places = places / np.linalg.norm(places, axis=0) if sphere else places
        elif node_dim in self.data.dims:
            areas, dim = vertex_areas(first, second, faces, sphere), str(node_dim)
            places = places_of(first, second, sphere)
        else:
            return None
        where = f"the {'faces' if dim == face_dim else 'nodes'} of a mesh, {_where(sphere)}"
        return Located((dim,), Weights(areas), where, lambda: places, sphere)

    def _healpix(self) -> Located | None:
        for v in self.known.values():
            if v.attrs.get("grid_mapping_name") != "healpix":
                continue
            dims = self.dims or tuple(d for d in self.data.dims if kind_of(str(d)) not in NOT_SPACE)[-1:]
            n = self.data.sizes[dims[0]]
            nside = _whole(v.attrs, "healpix_nside", 0) or 2 ** _whole(v.attrs, "refinement_level", -1)
            total = 4 * pi * n / (12 * nside**2) if nside >= 1 else 4 * pi
            equal = Located(tuple(map(str, dims)), Weights(np.ones(n), total=total), "HEALPix: equal areas")
            found = self._with_places(equal)
            order = str(v.attrs.get("indexing_scheme", v.attrs.get("healpix_order", ""))).lower()
            if found.find is None and nside & (nside - 1) == 0 and n == 12 * nside**2 and order in _ORDERS:
                return replace(found, find=partial(healpix_centres, nside, order != "ring"), sphere=True)
            return found
        return None

    def _by_place(self) -> Located | None:
        """Two coordinates, of the sphere or the plane, on dimensions of space."""
        for kinds in (EARTH, ("y", "x")):
            pair = [self.coordinate(kind) for kind in kinds]
            if pair[0] is None or pair[1] is None:
                continue
            (name, one), (other, two) = pair[0], pair[1]
            if one.dims == two.dims or set(one.dims) == set(two.dims):
                return self._two_at_each(name, one, other, two)
            if kinds == EARTH and one.ndim == two.ndim == 1 and self.dims is None:
                return self._lines(self.order((*one.dims, *two.dims)))
        return None

    def _two_at_each(self, name: str, one: Any, other: str, two: Any) -> Located:
        dims = self.order(one.dims)
        first, second, sphere = self.pair(one, two)
        if two.dims != one.dims:
            second = np.moveaxis(second, [two.dims.index(d) for d in one.dims], range(second.ndim))
        where = _where(sphere)
        corners = [self.corners(n, v) for n, v in ((name, one), (other, two))]
        if corners[0] is not None and corners[1] is not None:
            a, b = self.degrees(one, corners[0], sphere), self.degrees(two, corners[1], sphere)
            areas = shared(cell_areas(a, b, sphere), first, second, sphere)
            words = f"corners of cells {where}"
        elif first.ndim == 2:
            with np.errstate(invalid="ignore"):  # neighbours on opposite sides
                areas, words = node_areas(first, second, sphere), f"two coordinates at each node {where}, no corners"
            if sphere and not areas.sum() <= 1.05 * 4 * pi:  # no grid at all: elements with their points, as SEAM's
                areas = point_areas(first.ravel(), second.ravel(), sphere).reshape(first.shape)
                words = f"Voronoi cells of points {where}"
        elif first.ndim == 1:
            areas, words = point_areas(first, second, sphere), f"Voronoi cells of points {where}"
        else:
            raise ValueError(f"{name!r} and {other!r} vary along {one.dims}; expected one or two dimensions")
        order = [list(one.dims).index(d) for d in dims]
        places = places_of(np.transpose(first, order), np.transpose(second, order), sphere)
        return Located(dims, Weights(np.transpose(areas, order)), words, lambda: places, sphere)

    def _lines(self, dims: Sequence[str]) -> Located:
        axes = []
        for d in dims:
            v = self.along(d)
            if v is None:
                raise ValueError(
                    f"the dimension {d!r} has no coordinates, so it is not known where its {self.data.sizes[d]} "
                    f"samples lie; give it some (assign_coords), or choose among the others with dims="
                )
            axes.append(self._line(d, *v))
        return of_lines(dims, axes)

    def _line(self, dim: str, name: str, v: Any) -> tuple[str, GivenAxis]:
        kind = kind_of(name, v.attrs) or kind_of(dim)
        if v.dtype.kind == "M":
            values = (v.values - v.values[0]) / np.timedelta64(1, "s")
        elif v.dtype.kind not in "fiu":
            raise ValueError(f"the coordinates {name!r} are {v.dtype}, expected numbers; choose others with dims=")
        else:
            values = np.asarray(v.values, dtype=np.float64)
        cells = self.corners(name, v)
        if kind in EARTH and self.radians(v):
            values, cells = np.degrees(values), None if cells is None else np.degrees(cells)
        placement, domain = (g.get(dim) if isinstance(g, Mapping) else g for g in (self.placement, self.domain))
        return kind, line_axis(values, cells, kind, repr(name), placement, domain)
