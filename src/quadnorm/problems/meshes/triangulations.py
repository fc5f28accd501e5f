"""Random triangle meshes of the unit square, and the control volumes of their vertices.

A mesh of size n has n² vertices. As on an endpoint-inclusive n×n grid, 4(n−1) of them lie on the boundary, the four
corners among them; the mean spacing is 1/(n−1). The triangles are Delaunay's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from quadnorm._suggest import unknown
from quadnorm.measures import lumped_weights

F64 = npt.NDArray[np.float64]

FAMILIES = {
    "uniform": "the nodes of a grid, each moved at random by up to 0.35 of the spacing",
    "random": "inner vertices independent and uniform, boundary vertices as in 'uniform'",
    "boundary": "a 'uniform' mesh moved towards the boundary by t ↦ (1−s)·t + s·sin²(πt/2) on both axes",
}
_SHIFT = 0.35
_FLAT = 1e-13  # area of a triangle between collinear boundary vertices, which Delaunay's algorithm may leave


def vertices(rng: np.random.Generator, n: int, family: str = "uniform", strength: float = 0.8) -> F64:
    """n² vertices (n², 2); the k-th belongs to node (k // n, k % n) of a grid. ``strength`` is s of 'boundary'.

    >>> points = vertices(np.random.default_rng(0), 5)
    >>> points.shape, points[[0, 4, 20, 24]].tolist()
    ((25, 2), [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    """
    if family not in FAMILIES:
        raise ValueError(unknown("family of meshes", family, FAMILIES))
    line = np.arange(n) / (n - 1)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), -1)  # (n, n, 2)
    shift = rng.uniform(-_SHIFT, _SHIFT, grid.shape) / (n - 1)
    anywhere = rng.uniform(size=grid.shape)  # drawn for every family, so that all have the same boundary vertices
    # Boundary vertices move along their side only; corners are on two sides and stay.
    shift[[0, -1], :, 0] = 0
    shift[:, [0, -1], 1] = 0
    points: F64 = grid + shift
    if family == "random":
        points[1:-1, 1:-1] = anywhere[1:-1, 1:-1]
    if family == "boundary":
        points = (1 - strength) * points + strength * np.sin(np.pi / 2 * points) ** 2
    # Undo the rounding of sin²: a side must be exactly straight.
    points[0, :, 0] = points[:, 0, 1] = 0.0
    points[-1, :, 0] = points[:, -1, 1] = 1.0
    return points.reshape(-1, 2)


def triangles(points: F64) -> npt.NDArray[np.int64]:
    """Delaunay's triangles (M, 3) of points that fill a convex domain, without flat ones.

    >>> len(triangles(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.4]])))
    4
    """
    try:
        from scipy.spatial import Delaunay
    except ImportError as error:
        raise ImportError("random meshes need scipy: pip install 'quadnorm[mesh]'") from error
    cells: npt.NDArray[np.int64] = Delaunay(points).simplices.astype(np.int64)
    a, b, c = (points[cells[:, k]] for k in range(3))
    area = np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]) / 2
    kept: npt.NDArray[np.int64] = cells[area > _FLAT]
    return kept


def volumes(points: F64) -> F64:
    """Control volume of each vertex of the Delaunay mesh: a third of the triangles around it; (N,), the sum is 1.

    >>> volumes(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5]])).round(4).tolist()
    [0.1667, 0.1667, 0.1667, 0.1667, 0.3333]
    """
    out: F64 = lumped_weights(points, triangles(points)).numpy()
    return out
