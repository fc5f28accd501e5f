"""Areas of cells that are given by their corners, of grids whose nodes have two coordinates each, and of polygons."""

from __future__ import annotations

import numpy as np

from quadnorm.measures.geometry.coordinates import FloatArray, IntArray
from quadnorm.measures.geometry.points import voronoi_weights
from quadnorm.measures.geometry.spherical import in_half_sphere, polygon_areas, unit_vectors, vertex_shares


def staggered(corners: np.ndarray) -> np.ndarray:
    """The four corners (n, m, 4) of each cell of a grid, from the corners (n+1, m+1) of all."""
    return np.stack((corners[:-1, :-1], corners[:-1, 1:], corners[1:, 1:], corners[1:, :-1]), axis=-1)


def cell_areas(first: np.ndarray, second: np.ndarray, sphere: bool) -> FloatArray:
    """Areas (…) of cells with corners (…, k): latitude and longitude in degrees on the unit sphere, or x and y.

    NaN stands for a corner that is not there; a cell without corners has area 0. Where most cells of a sphere have
    sides along parallels and meridians, those that do are taken as such; all other sides are great circles.
    """
    k = first.shape[-1]
    a, b = (np.asarray(c, np.float64).reshape(-1, k) for c in (first, second))
    there = np.isfinite(a) & np.isfinite(b)
    whole = np.asarray(there.any(1))
    use = np.where(there, np.arange(k), there.argmax(1)[:, None])  # an absent corner repeats one that is there
    a, b = (np.take_along_axis(c, use, 1)[whole] for c in (a, b))
    areas = np.zeros(len(whole))
    areas[whole] = _on_sphere(a, b) if sphere else _in_plane(a, b)
    return areas.reshape(first.shape[:-1])


def _on_sphere(lat: FloatArray, lon: FloatArray) -> FloatArray:
    areas = polygon_areas(unit_vectors(lat, lon))
    if lat.shape[1] == 4:
        pole = np.abs(lat) > 90 - 1e-9
        turned = (lon - lon[:, :1] + 180) % 360 - 180
        south, north = lat.min(1, keepdims=True), lat.max(1, keepdims=True)
        ends = (np.abs(lat - south) < 1e-6 * (north - south)) | (np.abs(lat - north) < 1e-6 * (north - south))
        west = np.where(pole, np.inf, turned).min(1, keepdims=True)
        east = np.where(pole, -np.inf, turned).max(1, keepdims=True)
        tight = 1e-6 * (east - west)
        sides = pole | (np.abs(turned - west) < tight) | (np.abs(turned - east) < tight)
        box = (ends & sides).all(1) & (east > west)[:, 0] & (north > south)[:, 0]
        if 2 * box.sum() > len(box):
            height = np.sin(np.radians(north)) - np.sin(np.radians(south))
            areas = np.where(box, (np.radians(east - west) * height)[:, 0], areas)
    return areas


def _in_plane(x: FloatArray, y: FloatArray) -> FloatArray:
    x, y = x - x[:, :1], y - y[:, :1]
    return np.asarray(np.abs((x * np.roll(y, -1, 1) - y * np.roll(x, -1, 1)).sum(1)) / 2)


def node_areas(first: np.ndarray, second: np.ndarray, sphere: bool) -> FloatArray:
    """Areas (n, m) around the nodes of a grid without corners, coordinates (n, m): each of the quadrilaterals between
    nodes is divided among its four, up to the middles of its sides.

    On the sphere the grid closes where its last column is as near to the first as its neighbours are to each other.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    n, m = a.shape
    if n < 2 or m < 2:
        raise ValueError(f"a grid of shape {a.shape} has no cells between its nodes; its corners are needed")
    index = np.arange(n * m).reshape(n, m)
    if sphere:
        x = unit_vectors(a, b)
        step = np.linalg.norm(np.diff(x, axis=1), axis=-1)
        gap = np.linalg.norm(x[:, 0] - x[:, -1], axis=-1)
        if m > 2 and np.nanmedian(gap) < 1.5 * np.nanmedian(step) and np.nanmedian(gap) > 1e-6 * np.nanmedian(step):
            index = np.concatenate((index, index[:, :1]), axis=1)
    quads = staggered(index).reshape(-1, 4)
    a, b = a.reshape(-1), b.reshape(-1)
    there = np.isfinite(a) & np.isfinite(b)
    owner, count = _places(np.where(there, a, 0.0), np.where(there, b, 0.0), sphere)
    faces = owner[quads[there[quads].all(1)]]
    _, once = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)  # repeated columns repeat their faces
    first_at = np.unique(owner, return_index=True)[1]
    areas = vertex_areas(a[first_at], b[first_at], faces[once], sphere)
    return np.where(there, areas[owner] / count[owner], 0.0).reshape(n, m)


def vertex_areas(first: np.ndarray, second: np.ndarray, faces: IntArray, sphere: bool) -> FloatArray:
    """The part (N,) of the faces' area that lies nearest each vertex; faces (M, k) repeat a vertex where shorter."""
    if sphere:
        parts = vertex_shares(unit_vectors(first, second)[faces])
    else:
        x, y = first[faces], second[faces]
        mx, my = x.mean(1, keepdims=True), y.mean(1, keepdims=True)
        halves = np.abs((x - mx) * (np.roll(y, -1, 1) - my) - (y - my) * (np.roll(x, -1, 1) - mx)) / 4
        parts = halves + np.roll(halves, 1, 1)
    areas = np.zeros(len(first))
    np.add.at(areas, faces, parts)
    return areas


def point_areas(first: np.ndarray, second: np.ndarray, sphere: bool) -> FloatArray:
    """Control volumes (N,) of scattered points: of the whole sphere or, if half of it is empty, of the points' hull.

    A region of the sphere is drawn in an equal-area projection around its middle (Lambert's azimuthal).
    """
    if not sphere:
        return voronoi_weights(np.stack((first, second), axis=1)).numpy()
    x = unit_vectors(first, second)
    if not in_half_sphere(x):
        return voronoi_weights(x, sphere=True).numpy()
    middle = x.mean(0)
    middle /= np.linalg.norm(middle)
    east = np.cross(middle, np.eye(3)[np.abs(middle).argmin()])
    east /= np.linalg.norm(east)
    stretch = np.sqrt(2 / (1 + x @ middle))
    flat = np.stack((x @ east, x @ np.cross(middle, east)), axis=1) * stretch[:, None]
    return voronoi_weights(flat).numpy()


def shared(areas: FloatArray, first: np.ndarray, second: np.ndarray, sphere: bool) -> FloatArray:
    """Areas of cells, divided among those at the same place: ocean grids repeat columns, and the row at the fold."""
    a, b = np.asarray(first, np.float64).reshape(-1), np.asarray(second, np.float64).reshape(-1)
    there = np.isfinite(a) & np.isfinite(b)
    owner, count = _places(a[there], b[there], sphere)
    out = np.where(there, areas.reshape(-1), 0.0)
    out[there] /= count[owner]
    return out.reshape(areas.shape)


def _places(first: FloatArray, second: FloatArray, sphere: bool) -> tuple[IntArray, IntArray]:
    """Which place each point is at, counted among the different ones, and how many points are at each."""
    x = unit_vectors(first, second) if sphere else np.stack((first, second), axis=1)
    scale = float(np.abs(x).max(initial=0.0)) or 1.0
    _, owner, count = np.unique(np.round(x / scale, 7) + 0.0, axis=0, return_inverse=True, return_counts=True)
    return owner.reshape(-1), count
