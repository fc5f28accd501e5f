"""Weights of scattered points: control volumes, and the fast alternative from a triangulation."""

from math import factorial
from typing import Any

import numpy as np
import torch

from quadnorm.measures.geometry.cells import volume_element
from quadnorm.measures.geometry.coordinates import (
    FloatArray,
    as_box,
    distinct,
    flat,
    merge_close,
    normalised,
    refuse_outside,
    share,
)
from quadnorm.measures.geometry.polygons import areas, polygon, volumes
from quadnorm.measures.geometry.spherical import voronoi_on_sphere

_SAME = {2: 1e-12, 3: 1e-9}  # of the domain's width: no tessellation can be trusted with spacings below


def voronoi_weights(points: Any, bounds: Any = None, *, domain: Any = None, sphere: bool = False) -> torch.Tensor:
    """Control volumes of scattered points, w_i = |{x ∈ Ω : |x − x_i| ≤ |x − x_j| for all j}|; they sum to |Ω|.

    Σ_i w_i f(x_i) integrates functions that are constant on each cell exactly; on a lattice the weights are those of
    the trapezoid rule (order 2).

    Args:
        points: (N, D) with D = 1, 2, 3, or (N,) for D = 1.
        bounds: Ω is this box, one (lo, hi) per axis. Without bounds and domain, Ω is the convex hull of the points.
        domain: in 2-D, Ω is this polygon: a shapely Polygon or MultiPolygon, or one ring of vertices (k, 2), or a
            sequence of rings, the outer one first and then the holes. Ω need not be convex; distance is Euclidean, so a
            cell may reach across a hole, and all of its pieces inside Ω count.
        sphere: Ω is the whole sphere, and distance is along great circles. points are (N, 2), latitude and longitude in
            degrees, with areas on the unit sphere that sum to 4π; or (N, 3), vectors from the centre of a sphere of
            radius R, with areas that sum to 4πR². Serves reduced Gaussian grids, HEALPix, icosahedral grids and
            networks of stations alike; points within 1e-9 radians share their cell.

    All points must lie in Ω, up to the rounding of their dtype. Equal points share their cell in equal parts; so do
    points within 1e-12 (2-D) or 1e-9 (3-D) of the domain's width. Weights do not depend on the order of points.
    Clipping is exact, and weights are good to about 1e-11·|Ω|; points too unevenly spaced for that (in 3-D, spacings
    that differ by more than 1e5 or so) raise a RuntimeError. The cost is one Delaunay tessellation, and in 3-D about
    half a millisecond for each cell at the boundary.

    Returns: float64 tensor (N,).

    >>> voronoi_weights([0.0, 0.5, 1.0])
    tensor([0.2500, 0.5000, 0.2500], dtype=torch.float64)
    >>> voronoi_weights([[0.25, 0.5], [0.75, 0.5]], bounds=((0, 1), (0, 1)))
    tensor([0.5000, 0.5000], dtype=torch.float64)
    >>> voronoi_weights([[0.0, 0], [0, 90], [0, 180]], sphere=True) / (4 * torch.pi)  # lunes of 135°, 90° and 135°
    tensor([0.3750, 0.2500, 0.3750], dtype=torch.float64)
    """
    if sphere:
        if bounds is not None or domain is not None:
            raise ValueError(
                "sphere=True has the whole sphere as its domain; got bounds or domain as well. For a region, take "
                "the areas of its cells (quadnorm.measure_of), or points in an equal-area projection, without sphere="
            )
        _need_extra("voronoi_weights", 3)
        areas_, owner, radius = voronoi_on_sphere(points)
        return share(areas_ * radius**2, owner)
    given = distinct(points)
    x = given.points
    dim = x.shape[1]
    if domain is not None and (dim != 2 or bounds is not None):
        got = "bounds as well" if bounds is not None else f"{dim}-D points"
        raise ValueError(f"domain= is a polygon for 2-D points, in place of bounds; got {got}")
    box = None if bounds is None else as_box(bounds, dim)
    if box is not None:
        tolerance = 8 * given.eps * float(np.abs(box).max())
        outside = (x < box[:, 0] - tolerance) | (x > box[:, 1] + tolerance)
        refuse_outside(x, np.asarray(outside.any(1)), f"bounds {box.tolist()}")
        x = np.clip(x, box[:, 0], box[:, 1])
    if dim == 1:
        return share(_interval(x[:, 0], box), given.inverse)
    _need_extra("voronoi_weights", dim)
    region = None if domain is None else polygon(domain, x, given.eps)
    width = np.ptp(x if box is None else box.T, axis=0).max()
    kept, owner = merge_close(x, _SAME[dim] * float(width))
    return share(areas(kept, box, region) if dim == 2 else volumes(kept, box), owner[given.inverse])


def delaunay_weights(points: Any) -> torch.Tensor:
    """Lumped weights of the points' Delaunay triangulation, w_i = Σ_{T∋i} |T|/(D+1); they sum to the hull's volume.

    The fast alternative to `voronoi_weights`: nothing is clipped. Linear functions are integrated exactly, smooth ones
    with order 2 in the spacing. Equal points share their weight in equal parts, as do points within 1e-12 (2-D) or 1e-9
    (3-D) of the hull's width, and points that qhull cannot tell from a vertex beside them. Simplices of zero volume
    count nothing. Points whose hull has no volume are refused.

    points: (N, D) with D = 1, 2, 3, or (N,). Returns: float64 tensor (N,).

    >>> delaunay_weights([[0., 0], [1, 0], [0, 1]])
    tensor([0.1667, 0.1667, 0.1667], dtype=torch.float64)
    """
    given = distinct(points)
    x = given.points
    dim = x.shape[1]
    if dim == 1:
        return share(_interval(x[:, 0], None), given.inverse)
    _need_extra("delaunay_weights", dim)
    from scipy.spatial import Delaunay, QhullError

    x, merged = merge_close(x, _SAME[dim] * float(np.ptp(x, axis=0).max()))
    x, _, scale = normalised(x, np.stack((x.min(0), x.max(0)), axis=1))
    try:
        tri = Delaunay(x)
    except (QhullError, ValueError) as error:
        raise flat(dim, len(x)) from error
    cells = np.ascontiguousarray(tri.simplices.T)
    volume = np.abs(volume_element((x[cells[1:]] - x[cells[0]]).transpose(0, 2, 1)))
    weights = np.zeros(len(x))
    for row in cells:
        weights += np.bincount(row, volume, len(x))
    owner = np.arange(len(x))
    owner[tri.coplanar[:, 0]] = tri.coplanar[:, 2]  # points that qhull could not tell from a vertex near by
    return share(weights * (scale**dim / factorial(dim + 1)), owner[merged][given.inverse])


def _interval(x: FloatArray, box: FloatArray | None) -> FloatArray:
    """Half the way to each neighbour; the end cells go to the end of the interval."""
    low, high = (x[0], x[-1]) if box is None else box[0]
    if low == high:
        raise ValueError(f"all points are at {low}: their hull has no length; give bounds=((lo, hi),)")
    return np.asarray(np.diff(np.concatenate(([low], (x[1:] + x[:-1]) / 2, [high]))))


def _need_extra(name: str, dim: int) -> None:
    try:
        import scipy.spatial  # noqa: F401
        import shapely  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{name} in {dim}-D needs scipy and shapely: pip install 'quadnorm[mesh]'") from error
