"""The meshes that the statements average over: tensor grids, random points, triangles, tetrahedra, the sphere."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import pi

import numpy as np
from numpy.typing import NDArray

import quadnorm as qn  # whose names are loaded when they are used, and torch with them
from quadnorm.lab.theory.bias import Array, Mesh, ratio

STRENGTH = 3.0


def crowded(s: Array, strength: float) -> Array:
    """Numbers in [0, 1] moved towards both ends: ½(1 + tanh(β(2s−1))/tanh β); unchanged for β = 0.

    >>> crowded(np.array([0.0, 0.5, 1.0]), 1.5)
    array([0. , 0.5, 1. ])
    """
    if strength == 0:
        return s
    return np.asarray(0.5 * (1 + np.tanh(strength * (2 * s - 1)) / np.tanh(strength)))


def refined(n: int, strength: float = STRENGTH) -> Array:
    """Nodes that are dense at both ends of [0, 1]; evenly spaced for β = 0.

    The spacing is largest in the middle; there it is, in the limit, cosh²β times the spacing at the ends.

    >>> refined(5, 2.0).round(3)
    array([0.   , 0.105, 0.5  , 0.895, 1.   ])
    """
    return crowded(np.linspace(0, 1, n), strength)


def chebyshev(n: int) -> Array:
    """Extrema of Chebyshev's polynomial on [0, 1]: ½(1 − cos πj/(n−1)).

    >>> chebyshev(3)
    array([0. , 0.5, 1. ])
    """
    x: Array = np.sin(pi / 2 * np.linspace(0, 1, n)) ** 2  # exact at both ends
    return x


def graded(n: int, power: float = 2.0) -> Array:
    """Nodes that are dense at the left end: (j/(n−1))^power.

    >>> graded(3)
    array([0.  , 0.25, 1.  ])
    """
    return np.asarray(np.linspace(0, 1, n) ** power)


def perturbed(n: int, rng: np.random.Generator, size: float = 0.35) -> Array:
    """Even nodes, the inner ones moved at random by up to ``size`` < ½ of the spacing; the ends stay."""
    x = np.linspace(0, 1, n)
    x[1:-1] += rng.uniform(-size, size, n - 2) / (n - 1)
    return x


# The nodes of one axis of each family of tensor grids.
NODES: dict[str, Callable[[int, np.random.Generator], Array]] = {
    "even": lambda n, rng: np.linspace(0, 1, n),
    "perturbed": perturbed,
    "graded": lambda n, rng: graded(n),
    "chebyshev": lambda n, rng: chebyshev(n),
    "boundary-refined": lambda n, rng: refined(n),
}


def mean_factor(family: str, n: int) -> float:
    """Error of the mean of sin πx · sin πy with equal weights over that with control volumes, on n × n nodes.

    Both means are products, (Σ p_i sin πx_i)², beside (2/π)²: one axis is enough.

    >>> round(mean_factor("chebyshev", 64))
    564
    """
    x = NODES[family](n, np.random.default_rng(0))
    h = np.diff(x)
    volumes = np.concatenate([h[:1], h[1:] + h[:-1], h[-1:]]) / 2
    u, exact = np.sin(pi * x), (2 / pi) ** 2
    return ratio(*(abs(float(p @ u) ** 2 - exact) for p in (np.full(n, 1 / n), volumes)))


def tensor(*nodes: Array) -> Mesh:
    """The grid of these nodes with its control volumes; h = 1/(n−1) of the first axis."""
    shape = tuple(x.size for x in nodes)
    measure = qn.Grid.from_coordinates(*nodes, bounds=((0.0, 1.0),) * len(nodes))
    points = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(nodes))
    return Mesh(points, measure.weights(shape).numpy().ravel(), 1 / (shape[0] - 1))


def cloud(n: int, rng: np.random.Generator, dim: int = 2, strength: float = 1.5, stratified: bool = False) -> Mesh:
    """n^dim random points in [0, 1]^dim and their Voronoi cells in the box; h = 1/n.

    The points are independent of each other or, if ``stratified``, one lies in each cell of a lattice. Then all are
    moved towards the boundary.
    """
    even = rng.random((n**dim, dim))
    if stratified:
        even = (np.stack(np.unravel_index(np.arange(n**dim), (n,) * dim), axis=1) + even) / n
    points = crowded(even, strength)
    return Mesh(points, qn.voronoi_weights(points, bounds=((0, 1),) * dim).numpy(), 1 / n)


RADII = (0.7, 0.6, 0.5, 0.5, 0.4, 0.4)  # around the corner 0: for each radius the cells inside it are halved once


def triangulation(n: int, rng: np.random.Generator, strength: float = 1.5) -> tuple[Array, NDArray[np.int64]]:
    """Delaunay triangles of random points in [0, 1]²: (n−2)² inside, n−2 on each side, and the corners."""
    t = rng.random((4, n - 2))
    zero = np.zeros(n - 2)
    sides = [(t[0], zero), (t[1], zero + 1), (zero, t[2]), (zero + 1, t[3])]
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    inside = rng.random(((n - 2) ** 2, 2))
    points = crowded(np.concatenate([corners, *(np.stack(s, axis=1) for s in sides), inside]), strength)
    from quadnorm.problems.meshes.triangulations import triangles

    return points, triangles(points)


def vertices(n: int, rng: np.random.Generator, strength: float = 1.5) -> Mesh:
    """A random triangulation sampled at its vertices, weights ∫φ_v; h = 1/n."""
    points, cells = triangulation(n, rng, strength)
    return Mesh(points, qn.lumped_weights(points, cells).numpy(), 1 / n)


def centroids(n: int, rng: np.random.Generator, strength: float = 1.5) -> Mesh:
    """A random triangulation sampled at the centroids of its cells, weights their areas; h = 1/n."""
    points, cells = triangulation(n, rng, strength)
    return Mesh(points[cells].mean(axis=1), qn.cell_weights(points, cells).numpy(), 1 / n)


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
    return Mesh(points, qn.lumped_weights(points, cells).numpy(), 1 / n)


def latlon(n: int, rule: str = "equiangular") -> Mesh:
    """A grid of n latitudes and 2n longitudes, points (N, 3) of the unit sphere; h = π/(n−1), or π/n without poles."""
    if rule == "gauss-legendre":
        latitude = np.arcsin(np.polynomial.legendre.leggauss(n)[0])
    elif rule == "equiangular-cell":
        latitude = pi * (np.arange(n) + 0.5) / n - pi / 2
    else:
        latitude = pi * np.arange(n) / (n - 1) - pi / 2
    φ, λ = np.meshgrid(latitude, pi * np.arange(2 * n) / n, indexing="ij")
    points = np.stack([np.cos(φ) * np.cos(λ), np.cos(φ) * np.sin(λ), np.sin(φ)], axis=-1).reshape(-1, 3)
    weights = qn.LatLon(rule).weights((n, 2 * n)).numpy().ravel()
    return Mesh(points, weights, pi / (n - 1) if rule == "equiangular" else pi / n)
