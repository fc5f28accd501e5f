"""Random triangulations, and tetrahedra refined at a corner: vertices with lumped masses, cells with their volumes."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from quadnorm.lab.theory.meshes.bias import Array
from quadnorm.lab.theory.meshes.family import Family, Mesh, evidence
from quadnorm.lab.theory.meshes.fields import box_field
from quadnorm.lab.theory.meshes.tensor import crowded
from quadnorm.lab.theory.statement import Evidence, Statement
from quadnorm.measures import cell_weights, lumped_weights
from quadnorm.problems.meshes.triangulations import triangles

RADII = (0.7, 0.6, 0.5, 0.5, 0.4, 0.4)  # around the corner 0: for each radius the cells inside it are halved once


def triangulation(n: int, rng: np.random.Generator, strength: float = 1.5) -> tuple[Array, NDArray[np.int64]]:
    """Delaunay triangles of random points in [0, 1]²: (n−2)² inside, n−2 on each side, and the corners."""
    t = rng.random((4, n - 2))
    zero = np.zeros(n - 2)
    sides = [(t[0], zero), (t[1], zero + 1), (zero, t[2]), (zero + 1, t[3])]
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    inside = rng.random(((n - 2) ** 2, 2))
    points = crowded(np.concatenate([corners, *(np.stack(s, axis=1) for s in sides), inside]), strength)
    return points, triangles(points)


def vertices(n: int, rng: np.random.Generator, strength: float = 1.5) -> Mesh:
    """A random triangulation sampled at its vertices, weights ∫φ_v; h = 1/n."""
    points, cells = triangulation(n, rng, strength)
    return Mesh(points, lumped_weights(points, cells).numpy(), 1 / n)


def centroids(n: int, rng: np.random.Generator, strength: float = 1.5) -> Mesh:
    """A random triangulation sampled at the centroids of its cells, weights their areas; h = 1/n."""
    points, cells = triangulation(n, rng, strength)
    return Mesh(points[cells].mean(axis=1), cell_weights(points, cells).numpy(), 1 / n)


def tetrahedra(n: int, radii: tuple[float, ...] = RADII) -> tuple[Array, NDArray[np.int64]]:
    """The unit cube in 6n³ tetrahedra, refined around one corner (longest edges halved, no hanging nodes)."""
    try:
        from skfem import MeshTet
    except ImportError as error:
        raise ImportError("tetrahedra need scikit-fem: pip install 'quadnorm[mesh]'") from error
    log = logging.getLogger("skfem.mesh.mesh")
    level = log.level
    log.setLevel(logging.ERROR)  # it reports the memory layout of its own arrays as a warning
    try:
        x = np.linspace(0, 1, n + 1)
        mesh = MeshTet.init_tensor(x, x, x)
        for radius in radii:
            centre = mesh.p[:, mesh.t].mean(axis=1)
            mesh = mesh.refined(np.flatnonzero((centre**2).sum(axis=0) < radius**2))
    finally:
        log.setLevel(level)
    return np.ascontiguousarray(mesh.p.T), np.ascontiguousarray(mesh.t.T.astype(np.int64))


def corner(n: int, rng: np.random.Generator | None = None) -> Mesh:
    """Refined tetrahedra sampled at their vertices, weights ∫φ_v; h = 1/n, before refinement."""
    points, cells = tetrahedra(n)
    return Mesh(points, lumped_weights(points, cells).numpy(), 1 / n)


_TRIANGLES = (12, 16, 24, 32, 48, 64)
SIMPLICES = (
    Family(
        "triangles",
        "vertices of Delaunay triangles of random points, crowded at the boundary",
        vertices,
        box_field("sines", 2),
        _TRIANGLES,
        (-0.1, 0.4),
        (1.8, 2.5),
        0.15,
        draws=6,
    ),
    Family(
        "triangle-cells",
        "centroids of the same triangles",
        centroids,
        box_field("sines", 2),
        _TRIANGLES,
        (-0.15, 0.25),
        (1.8, 2.5),
        0.15,
        draws=6,
    ),
    Family(
        "tetrahedra",
        "vertices of tetrahedra refined around a corner of the cube",
        corner,
        box_field("bumps", 3),
        (4, 6, 8, 12, 16),
        (-0.1, 0.4),
        (1.8, 2.3),
        0.1,
    ),
)


def measure() -> Evidence:
    """Triangulations of 144 to 4096 points, tetrahedra on 4³ to 16³ cubes before refinement."""
    return evidence(SIMPLICES)


STATEMENT = Statement(
    name="meshes-simplices",
    text="On triangles and tetrahedra of uneven size equal weights keep a bias; with lumped masses at vertices and "
    "volumes at centroids the error is O(h²).",
    formula="Σ_v u(x_v) ∫φ_v − ∫u = ∫(Iu − u) = O(h²), I the interpolation by the basis φ",
    label="sec:exp-nonuniform",
    measure=measure,
)
