"""The coordinates of one field of a Dataset: which variables they are, their order, units, bounds and corners."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from quadnorm.measures.data.corners import staggered
from quadnorm.measures.data.located import EARTH
from quadnorm.measures.data.names import kind_of
from quadnorm.measures.data.placements import LATITUDE, LONGITUDE, whole_circle

NOT_SPACE = ("time", "lead", "sample", "channel")
AREAS = ("area", "areacell", "areacella", "areacello", "cell_area", "areaCell", "area_p", "TAREA")
_CORNERS = ("{}_bnds", "{}_bounds", "{}_vertices", "{}_corners", "{}_b", "bounds_{}", "vertices_{}", "{}_bnd")
_SCRIP = {"grid_center_lat": "grid_corner_lat", "grid_center_lon": "grid_corner_lon"}


def auxiliaries(variables: Mapping[Any, Any]) -> set[str]:
    """Names that variables describe others with: bounds, corners, areas, topologies, projections."""
    found: set[str] = set()
    for name, v in variables.items():
        notes = {**v.encoding, **v.attrs}
        for key in ("bounds", "climatology", "grid_mapping", "node_coordinates", "face_coordinates", "mesh"):
            found |= set(str(notes.get(key, "")).replace(":", " ").split())
        if notes.get("cf_role") == "mesh_topology":
            found |= {str(name)} | {w for key in notes if key.endswith("connectivity") for w in str(notes[key]).split()}
            found |= set(str(notes.get("edge_coordinates", "")).split())
        if "grid_mapping_name" in notes or "cf_role" in notes or str(name) in AREAS:
            found.add(str(name))
        found |= set(re.findall(r":\s*(\S+)", str(notes.get("cell_measures", ""))))
        if kind_of(str(name), v.attrs) in EARTH:
            found |= {c.format(name) for c in _CORNERS}
    return found | set(_SCRIP.values())


class FieldCoordinates:
    """One field with all that is known of its coordinates; ``dims`` are those that may be integrated over."""

    def __init__(self, data: Any, dataset: Any, dims: tuple[str, ...] | None) -> None:
        self.data, self.dims = data, dims
        self.known: dict[str, Any] = {str(k): v for k, v in getattr(dataset, "variables", {}).items()}
        self.known |= {str(k): v.variable for k, v in data.coords.items()}
        self.notes = {**data.encoding, **data.attrs}

    def spatial(self) -> tuple[str, ...]:
        """The dimensions of space, where they are not latitude and longitude."""
        every = [
            str(d)
            for d in self.data.dims
            if kind_of(str(d), getattr(self.known.get(str(d)), "attrs", None)) not in NOT_SPACE
        ]
        found = tuple(d for d in every if self.along(d) is not None)
        if not found:
            raise ValueError(
                f"no dimension of {tuple(map(str, self.data.dims))} has coordinates of space, so it is not known where "
                "the samples lie; give them some: data.assign_coords(x=…)"
            )
        return found

    def along(self, dim: str) -> tuple[str, Any] | None:
        """The 1-D coordinates along a dimension: its own, or the only others of space."""
        if dim in self.known and self.known[dim].dims == (dim,):
            return dim, self.known[dim]
        others = [
            (n, v)
            for n, v in self.known.items()
            if v.dims == (dim,) and n in self.data.coords and kind_of(n, v.attrs) not in ("", *NOT_SPACE)
        ]
        return others[0] if len(others) == 1 else None

    def coordinate(self, kind: str) -> tuple[str, Any] | None:
        """The coordinate of a kind: those that the field names first, then those with units or a standard name."""
        named = str(self.notes.get("coordinates", "")).split()
        found = [
            (n, v)
            for n, v in self.known.items()
            if v.dtype.kind in "fiu" and v.ndim and self.fits(v.dims) and kind_of(n, v.attrs) == kind
        ]
        tests: list[Callable[[str, Any], bool]] = [
            lambda n, v: n in v.dims and bool(v.attrs.get("standard_name") or v.attrs.get("units")),
            lambda n, v: n in named,
            lambda n, v: bool(kind_of("", v.attrs)),
            lambda n, v: n in v.dims,
            lambda n, v: n in self.data.coords,
        ]
        for is_better in tests:
            best = [item for item in found if is_better(*item)]
            if len(best) == 1:
                return best[0]
            found = best or found
        if len(found) > 1 and kind in EARTH and len({v.dims for _, v in found}) == 1:
            raise ValueError(
                f"the {kind} may be {' or '.join(repr(n) for n, _ in found)}; name those of the field: "
                "data.attrs['coordinates'] = 'lon lat', or drop the others"
            )
        return found[0] if found else None

    def corners(self, name: str, v: Any) -> np.ndarray | None:
        """Bounds or corners (…, k) of the cells around coordinates."""
        stated = [str({**v.encoding, **v.attrs}.get(key, "")) for key in ("bounds", "climatology")]
        for candidate in (*stated, *(c.format(name) for c in _CORNERS), _SCRIP.get(name, "")):
            b = self.known.get(candidate)
            if b is None or candidate == name:
                continue
            if b.dtype.kind not in "fiu":
                continue
            values = np.asarray(b.values, dtype=np.float64)
            if set(b.dims) > set(v.dims) and b.ndim == v.ndim + 1:
                (last,) = set(b.dims) - set(v.dims)
                values = np.transpose(values, [b.dims.index(d) for d in (*v.dims, last)])
                if v.ndim > 1 or values.shape[-1] == 2 or self._columns(v):
                    return values
            elif v.ndim == 2 and values.shape == tuple(n + 1 for n in v.shape):
                return staggered(values)
            elif v.ndim == 1 and values.shape == (v.size + 1,):
                return np.stack((values[:-1], values[1:]), axis=1)
        return None

    def _columns(self, v: Any) -> bool:
        """Whether latitude and longitude share one dimension, so that more than two corners are expected."""
        return len([n for n, o in self.known.items() if o.dims == v.dims and kind_of(n, o.attrs) in EARTH]) > 1

    def pair(self, one: Any, two: Any) -> tuple[np.ndarray, np.ndarray, bool]:
        """Latitude and longitude in degrees, or two coordinates of the plane; in whichever order they come."""
        kinds = [kind_of(str(getattr(v, "name", "") or ""), v.attrs) or self._kind(v) for v in (one, two)]
        sphere = set(kinds) == set(EARTH)
        first, second = (np.asarray(v.values, dtype=np.float64) for v in (one, two))
        if not sphere:
            return first, second, False
        first, second = self.degrees(one, first, True), self.degrees(two, second, True)
        return (first, second, True) if kinds[0] == LATITUDE else (second, first, True)

    def _kind(self, v: Any) -> str:
        return next((kind_of(n, o.attrs) for n, o in self.known.items() if o is v), "")

    def degrees(self, v: Any, values: np.ndarray, sphere: bool) -> np.ndarray:
        return np.degrees(values) if sphere and self.radians(v) else np.asarray(values)

    def radians(self, v: Any) -> bool:
        units = str(v.attrs.get("units", "")).lower()
        if units:
            return bool(units[:3] == "rad")
        lon = self.coordinate(LONGITUDE)
        return bool(
            lon is not None
            and lon[1].ndim == 1
            and "units" not in lon[1].attrs
            and np.abs(lon[1].values).max(initial=0) < 7
            and whole_circle(np.sort(lon[1].values))
        )

    def variable(self, name: str, what: str) -> Any:
        if name not in self.known:
            raise ValueError(f"the mesh names {name!r} as its {what}, which is not there; pass the whole Dataset")
        return self.known[name]

    def fits(self, dims: Iterable[Any]) -> bool:
        own = {str(d) for d in dims}
        return own <= {str(d) for d in self.data.dims} and (self.dims is None or own <= set(self.dims))

    def order(self, dims: Iterable[Any]) -> tuple[str, ...]:
        own = {str(d) for d in dims}
        return tuple(str(d) for d in self.data.dims if str(d) in own)

    def ordered(self, v: Any) -> np.ndarray:
        return np.transpose(v.values, [list(map(str, v.dims)).index(d) for d in self.order(v.dims)]).astype(np.float64)
