"""Domains that Voronoi cells are clipped to: polygons in the plane, convex polyhedra in space."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from quadnorm.measures.geometry.coordinates import FloatArray, IntArray, flat, normalised, refuse_outside, to_numpy
from quadnorm.measures.geometry.voronoi import Tessellation, UnevenError, geos, qhull, tessellate

_NEAR = 1 + 1e-9  # cells that end this close to the boundary are clipped too


def areas(x: FloatArray, box: FloatArray | None, domain: Any) -> FloatArray:
    """Voronoi areas (n,) of distinct points x (n, 2) inside the box (2, 2), the shapely ``domain``, or their hull."""
    import shapely

    edge = _edges(x, box) if domain is None else np.array(domain.bounds).reshape(2, 2).T
    x, centre, scale = normalised(x, edge)
    walls = None
    if domain is not None:
        region = shapely.transform(domain, lambda c: (c - centre) / scale)
    elif box is not None:
        low, high = (box.T - centre) / scale
        region, walls = shapely.box(*low, *high), _box_walls(low, high)
    else:
        hull = _hull(x)
        region, walls = shapely.Polygon(x[hull.vertices]), hull.equations
    side = float(np.ptp(edge, axis=1).max()) / scale
    try:
        return _polygon_cells(tessellate(x, side, qhull), region, walls) * scale**2
    except UnevenError:
        return _polygon_cells(tessellate(x, side, geos), region, walls) * scale**2


def volumes(x: FloatArray, box: FloatArray | None) -> FloatArray:
    """Voronoi volumes (n,) of distinct points x (n, 3) inside the box (3, 2), or inside their hull."""
    edge = _edges(x, box)
    x, centre, scale = normalised(x, edge)
    if box is None:
        hull = _hull(x)
        walls, total, middle = hull.equations, hull.volume, x[hull.vertices].mean(0)
    else:
        low, high = (box.T - centre) / scale
        walls, total, middle = _box_walls(low, high), float((high - low).prod()), (low + high) / 2
    t = tessellate(x, float(np.ptp(edge, axis=1).max()) / scale, qhull)
    cut = np.flatnonzero(_slack(x, walls) < t.reach * _NEAR)
    t.volumes[cut] = _clip_to_polyhedron(t, cut, walls, middle)
    return _checked(t.volumes, total) * scale**3


def _edges(x: FloatArray, box: FloatArray | None) -> FloatArray:
    return np.stack((x.min(0), x.max(0)), axis=1) if box is None else box


def _box_walls(low: FloatArray, high: FloatArray) -> FloatArray:
    one = np.eye(len(low))
    return np.concatenate((np.c_[-one, low], np.c_[one, -high]))


def _hull(x: FloatArray) -> Any:
    from scipy.spatial import ConvexHull, QhullError

    n, dim = x.shape
    try:
        hull = ConvexHull(x)
    except (QhullError, ValueError) as error:
        raise flat(dim, n) from error
    if hull.volume <= 1e-13:  # x is about as wide as 1
        raise flat(dim, n)
    return hull


def _slack(x: FloatArray, walls: FloatArray) -> FloatArray:
    """Distance of each point from the nearest of the walls n·x + c ≤ 0."""
    out = np.full(len(x), np.inf)
    for *normal, offset in walls:
        np.minimum(out, -(x @ normal) - offset, out=out)
    return out


def _polygon_cells(t: Tessellation, region: Any, walls: FloatArray | None) -> FloatArray:
    import shapely

    x = t.points[: len(t.volumes)]
    if walls is not None and len(walls) < 200:
        near = _slack(x, walls) < t.reach * _NEAR
    else:
        boundary = shapely.boundary(region)
        shapely.prepare(boundary)
        near = shapely.dwithin(boundary, shapely.points(x), t.reach * _NEAR)
    cut = np.flatnonzero(near)
    t.volumes[cut] = _clip_to_polygon(t, cut, region)
    return _checked(t.volumes, region.area)


def polygon(domain: Any, x: FloatArray, eps: float) -> Any:
    """Check ``domain`` and that it holds the points x (n, 2); return it as a shapely geometry."""
    import shapely

    region = domain if isinstance(domain, shapely.Geometry) else _from_rings(domain)
    if region.geom_type not in ("Polygon", "MultiPolygon") or region.is_empty:
        raise ValueError(f"domain must be a Polygon or MultiPolygon with an interior, got {region.geom_type}")
    if not region.is_valid:
        reason = shapely.is_valid_reason(region)
        raise ValueError(f"domain is not a valid polygon: {reason}; shapely.make_valid may help")
    shapely.prepare(region)
    outside = ~shapely.intersects_xy(region, x[:, 0], x[:, 1])
    tolerance = 8 * eps * float(np.abs(region.bounds).max())
    outside[outside] = shapely.distance(region, shapely.points(x[outside])) > tolerance
    refuse_outside(x, outside, "domain")
    return region


def _from_rings(domain: Any) -> Any:
    import shapely

    plain = isinstance(domain, torch.Tensor | np.ndarray) and domain.ndim == 2
    plain = plain or (isinstance(domain, Sequence) and len(domain) > 0 and np.ndim(domain[0]) == 1)
    try:
        rings = [np.asarray(to_numpy(ring), dtype=np.float64) for ring in ([domain] if plain else domain)]
    except (TypeError, ValueError) as error:
        got = type(domain).__name__
        raise TypeError(f"domain must be a shapely geometry or rings of vertices (k, 2), got {got}") from error
    if not rings or any(r.ndim != 2 or r.shape[1] != 2 or len(r) < 3 or not np.isfinite(r).all() for r in rings):
        shapes = [r.shape for r in rings]
        raise ValueError(f"each ring of domain must be (k, 2), finite, with k ≥ 3 vertices; got shapes {shapes}")
    return shapely.Polygon(rings[0], rings[1:])


def _checked(areas: FloatArray, total: float) -> FloatArray:
    """Refuse cells that do not fill the domain, or are negative by more than the rounding of the signed sums."""
    if abs(areas.sum() - total) > 1e-10 * total or areas.min() < -1e-11 * total:
        raise UnevenError(f"the cells of {len(areas)} points fill {areas.sum() / total:.12g} of the domain")
    return np.maximum(areas, 0)


def _clip_to_polygon(t: Tessellation, which: IntArray, domain: Any) -> FloatArray:
    """Areas of the cells of the points ``which`` inside a shapely geometry, all pieces of a cut cell counted."""
    import shapely

    position, simplex = t.incident(which)
    kept = ~np.isnan(t.centres[simplex, 0])
    corners = shapely.multipoints(t.centres[simplex[kept]], indices=position[kept])
    # A Voronoi cell is convex, so the hull of its corners is the cell and needs no sorting of corners.
    return np.asarray(shapely.area(shapely.intersection(shapely.convex_hull(corners), domain)))


def _clip_to_polyhedron(t: Tessellation, which: IntArray, walls: FloatArray, inside: FloatArray) -> FloatArray:
    """Volumes of cells inside the convex domain {x: walls[:, :3]·x + walls[:, 3] ≤ 0}, which contains ``inside``."""
    from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

    position, simplex = t.incident(which)
    # One number for each (cell, neighbour): unique is much faster on numbers than on pairs.
    cell, neighbour = np.divmod(np.unique(position[:, None] * len(t.points) + t.simplices[simplex]), len(t.points))
    apart = neighbour != which[cell]
    groups = np.split(neighbour[apart], np.searchsorted(cell[apart], np.arange(1, len(which))))
    out = np.empty(len(which))
    for row, (i, neighbours) in enumerate(zip(which, groups, strict=True)):
        # Everything relative to the point and in units of the cell's reach, to keep digits in small cells.
        unit = t.reach[i]
        away = (t.points[neighbours] - t.points[i]) / unit
        bisectors = np.concatenate((away, -(away**2).sum(1, keepdims=True) / 2), axis=1)
        slack = -(walls[:, :3] @ t.points[i] + walls[:, 3]) / unit
        near = slack < 1 + 1e-9
        half = np.concatenate((bisectors, np.concatenate((walls[near, :3], -slack[near, None]), axis=1)))
        # The point itself may lie on a wall; halfway from it towards the middle, as far as no bisector is crossed, is
        # safely inside both the cell and the domain.
        inward = (inside - t.points[i]) / unit
        step = 0.5 / max(1.0, float((bisectors[:, :3] @ inward / -bisectors[:, 3]).max()))
        try:
            out[row] = ConvexHull(HalfspaceIntersection(half, step * inward).intersections).volume * unit**3
        except QhullError as error:
            raise UnevenError(f"no cell could be built around 1 of {len(t.volumes)} points") from error
    return out
