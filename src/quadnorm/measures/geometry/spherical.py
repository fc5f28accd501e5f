"""Areas on the unit sphere: Voronoi cells of points, and polygons given by their corners.

The Delaunay triangulation of points on a sphere is their convex hull, and the outward unit normal of a face is the
corner c that its three Voronoi cells share. The cell of A is cut into right triangles (A, m, c), one on either side of
each hull edge AB with midpoint m; with legs a = |Am| < π/2 and b = |mc|, counted from m towards the face,

    tan(E/2) = tan(a/2) · tan(b/2)

gives a triangle's signed area E. Summing them is vectorised, and right for cells of every size up to a half sphere.
"""

from math import pi
from typing import Any

import numpy as np

from quadnorm.measures.geometry.coordinates import FloatArray, IntArray, as_points, distinct, merge_close
from quadnorm.measures.geometry.voronoi import UnevenError

_SAME = 1e-9  # radians: points nearer than this are one
_ROUND = 1e-6  # relative: how far radii may differ on one sphere (float32 coordinates)
_FLAT = 1e-10  # points this near to a plane lie on a circle


def unit_vectors(latitude: Any, longitude: Any) -> FloatArray:
    """Latitude and longitude in degrees as vectors (…, 3) of length 1.

    >>> unit_vectors(0.0, 90.0).round(12)
    array([0., 1., 0.])
    """
    lat, lon = np.radians(np.asarray(latitude, np.float64)), np.radians(np.asarray(longitude, np.float64))
    return np.stack((np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat) + 0 * lon), axis=-1)


def on_sphere(points: Any) -> tuple[FloatArray, float]:
    """Unit vectors (N, 3) and the radius of points (N, 2), latitude and longitude in degrees, or (N, 3), vectors."""
    x = as_points(points)
    if x.shape[1] == 2:
        beyond = np.abs(x[:, 0]).max()
        if beyond > 90 + 1e-6:
            swapped = "; the columns look swapped" if np.abs(x[:, 1]).max() <= 90 else ""
            raise ValueError(f"points (N, 2) are latitude, longitude in degrees; got a latitude of {beyond:g}{swapped}")
        return unit_vectors(np.clip(x[:, 0], -90, 90), x[:, 1]), 1.0
    if x.shape[1] != 3:
        raise ValueError(
            f"points on a sphere are (N, 2), latitude and longitude in degrees, or (N, 3), vectors from its centre; "
            f"got shape {x.shape}"
        )
    length = np.linalg.norm(x, axis=1)
    radius = float(length.mean())
    if not radius or np.abs(length - radius).max() > _ROUND * radius:
        raise ValueError(
            f"points (N, 3) must lie on one sphere around the origin; their distances from it are {length.min():.8g} "
            f"to {length.max():.8g}. Divide each by its own length to weigh directions"
        )
    return x / length[:, None], radius


def voronoi_on_sphere(points: Any) -> tuple[FloatArray, IntArray, float]:
    """Areas (n,) of the Voronoi cells of the distinct points, on the unit sphere; the owner (N,) of each given point;
    the radius.
    """
    x, radius = on_sphere(points)
    given = distinct(x)
    kept, owner = merge_close(given.points, _SAME)
    areas = _lunes(kept)
    return _cells(kept) if areas is None else areas, owner[given.inverse], radius


def in_half_sphere(x: FloatArray) -> bool:
    """Whether unit vectors (N, 3) leave a half of the sphere, or more, empty: then they cover a region only."""
    from scipy.spatial import ConvexHull, QhullError

    if len(x) < 4:
        return True
    try:
        return bool((ConvexHull(x).equations[:, -1] > -1e-9).any())  # a face that the centre is not behind
    except QhullError:
        return True


def _lunes(x: FloatArray) -> FloatArray | None:
    """The cells of points on one circle, which are lunes around its axis; None for other points."""
    n = len(x)
    if n < 3:
        return np.full(n, 4 * pi / n)
    centre = x.mean(0)
    _, spread, axes = np.linalg.svd(x - centre, full_matrices=False)
    if spread[2] > _FLAT * np.sqrt(n):
        return None
    foot = axes[2] * (centre @ axes[2])  # the circle's own centre; the points' mean is another place
    around = np.arctan2((x - foot) @ axes[1], (x - foot) @ axes[0])
    order = np.argsort(around)
    gaps = np.diff(np.append(around[order], around[order[0]] + 2 * pi))
    areas = np.empty(n)
    areas[order] = gaps + np.roll(gaps, 1)  # a lune of angle θ has area 2θ, half of each gap is its
    return areas


def _cells(x: FloatArray) -> FloatArray:
    from scipy.spatial import ConvexHull

    hull = ConvexHull(x)
    if len(hull.vertices) < len(x):
        raise UnevenError(f"{len(x) - len(hull.vertices)} of {len(x)} points got no Voronoi cell")
    corner = hull.equations[:, :3]  # (M, 3)
    areas = np.zeros(len(x))
    edges, angles = [], []
    for k in range(3):
        i, j, third = (hull.simplices[:, (k + s) % 3] for s in range(3))
        low, high = np.minimum(i, j), np.maximum(i, j)  # one formula, one rounding, for both faces at an edge
        across = x[high] - x[low]
        middle = x[low] + x[high]
        half = np.linalg.norm(across, axis=1) / np.linalg.norm(middle, axis=1)  # tan of half the edge's angle
        middle /= np.linalg.norm(middle, axis=1, keepdims=True)
        along = np.cross(middle, across)
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        inside = x[third] - x[low]
        inside -= across * (_dot(inside, across) / _dot(across, across))[:, None]
        sine, cosine = _dot(corner, along), _dot(corner, middle)
        # A face's outward normal is its inward direction, turned by a right angle from "along" to "middle".
        sine *= np.where(_dot(inside, along) * cosine < _dot(inside, middle) * sine, -1.0, 1.0)
        quarter = half / (1 + np.sqrt(1 + half**2))  # tan(a/2), a half the edge's angle
        part = 2 * np.arctan2(quarter * sine, np.maximum(1 + cosine, 0.0))
        np.add.at(areas, low, part)
        np.add.at(areas, high, part)
        edges.append(low * len(x) + high)
        angles.append(np.arctan2(sine, cosine))
    edge, angle = np.concatenate(edges), np.concatenate(angles)
    order = np.argsort(edge, kind="stable").reshape(-1, 2)  # each edge has two faces
    # An edge of a cell that runs around the back, past −m, has angles that sum to a full circle less than its length.
    behind = edge[order[angle[order].sum(1) < -pi, 0]]
    np.add.at(areas, behind // len(x), 2 * pi)
    np.add.at(areas, behind % len(x), 2 * pi)
    if not np.isclose(areas.sum(), 4 * pi, rtol=1e-9) or areas.min() < -1e-12:
        raise UnevenError(f"the cells of {len(x)} points sum to {areas.sum():.9g} instead of 4π")
    return np.maximum(areas, 0.0)


def polygon_areas(corners: FloatArray) -> FloatArray:
    """Areas (M,) of polygons (M, k, 3) of unit vectors, joined by great circles; repeated corners count once.

    Signed areas of the triangles around the corners' mean, tan(E/2) = a·(b×c) / (1 + a·b + b·c + c·a); exact for every
    polygon that this mean sees all edges of, such as convex ones.

    >>> polygon_areas(np.eye(3)[None]) / (4 * pi)  # an octant
    array([0.125])
    """
    middle = corners.mean(1, keepdims=True)
    a = middle / np.linalg.norm(middle, axis=-1, keepdims=True)
    return np.asarray(np.abs(_fan(a, corners, np.roll(corners, -1, 1)).sum(1)))


def vertex_shares(corners: FloatArray) -> FloatArray:
    """The part (M, k) of each polygon's area that lies nearest its corner: up to the middles of edges and polygon."""
    middle = corners.mean(1, keepdims=True)
    a = middle / np.linalg.norm(middle, axis=-1, keepdims=True)
    whole = _fan(a, corners, np.roll(corners, -1, 1))  # (M, k): the triangle on edge k, k+1
    between = corners + np.roll(corners, -1, 1)
    between /= np.linalg.norm(between, axis=-1, keepdims=True)
    first = _fan(a, corners, between)
    return np.asarray(np.abs(first + np.roll(whole - first, 1, 1)))


def _fan(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    # 1 + a·b + b·c + c·a loses no digits for small triangles; the volume does, so edges are subtracted first
    volume = _dot(a, np.cross(b - a, c - a))
    return np.asarray(2 * np.arctan2(volume, 1 + _dot(a, b) + _dot(b, c) + _dot(c, a)))


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.sum(a * b, axis=-1))


def healpix_centres(nside: int, nested: bool) -> FloatArray:
    """Centres (3, 12·nside²) of HEALPix's pixels in either order; ``nside`` is a power of two.

    In the nested order the bits of a pixel's number are those of its place in one of twelve faces, by turns; in the
    ring order pixels go from north to south and, on each ring, eastwards (Górski et al. 2005, section 5).
    """
    face, inside = np.divmod(np.arange(12 * nside**2), nside**2)
    bits = [inside >> k & 1 for k in range(2 * nside.bit_length())]
    x, y = (sum(bit << k for k, bit in enumerate(bits[first::2])) for first in (0, 1))
    ring = nside * (face // 4 + 2) - x - y - 1  # counted from the north pole
    cap = np.minimum(ring, 4 * nside - ring)
    count = np.minimum(cap, nside)  # pixels of the ring in a quarter of the circle
    z = np.where(cap < nside, 1 - cap**2 / (3 * nside**2), 2 * (2 * nside - cap) / (3 * nside))
    z = np.where(ring > 2 * nside, -z, z)
    shift = np.where(cap < nside, 0, (ring - nside) % 2)
    quarter = np.where(face // 4 == 1, 2 * (face % 4), 2 * (face % 4) + 1)
    along = (quarter * count + x - y + 1 + shift) // 2
    angle = ((along - (shift + 1) / 2) * np.pi / 2 / count) % (2 * np.pi)
    if not nested:
        order = np.lexsort((angle.round(9), -z.round(9)))
        z, angle = z[order], angle[order]
    r = np.sqrt(1 - z**2)
    return np.stack((r * np.cos(angle), r * np.sin(angle), z))
