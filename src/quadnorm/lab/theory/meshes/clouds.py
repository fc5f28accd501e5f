"""Scattered points, crowded at the boundary, in two and three dimensions: Voronoi cells as control volumes."""

from __future__ import annotations

import numpy as np

from quadnorm.lab.theory.meshes.family import QUANTITIES, Family, Mesh, Sweep, evidence, sweep
from quadnorm.lab.theory.meshes.fields import box_field
from quadnorm.lab.theory.meshes.tensor import crowded
from quadnorm.lab.theory.statement import Evidence, Statement
from quadnorm.measures import voronoi_weights

STRENGTH = 1.5


def cloud(n: int, rng: np.random.Generator, dim: int = 2, strength: float = STRENGTH, stratified: bool = False) -> Mesh:
    """n^dim random points in [0, 1]^dim and their Voronoi cells in the box; h = 1/n.

    The points are independent of each other or, if ``stratified``, one lies in each cell of a lattice. Then all are
    moved towards the boundary.
    """
    even = rng.random((n**dim, dim))
    if stratified:
        even = (np.stack(np.unravel_index(np.arange(n**dim), (n,) * dim), axis=1) + even) / n
    points = crowded(even, strength)
    return Mesh(points, voronoi_weights(points, bounds=((0, 1),) * dim).numpy(), 1 / n)


CLOUDS = (
    Family(
        "voronoi-2d",
        "independent points, crowded at the boundary",
        cloud,
        box_field("exponential", 2),
        (8, 12, 16, 24, 32, 48),
        (-0.3, 0.5),
        (1.6, 2.3),
        0.15,
        draws=12,
    ),
    Family(
        "voronoi-3d",
        "in the cube, one point at random in each cell of a lattice, crowded at the boundary",
        lambda n, rng: cloud(n, rng, 3, stratified=True),
        box_field("exponential", 3),
        (5, 6, 8, 10, 13),
        (-0.4, 0.2),
        (1.4, 2.3),
        0.15,
        draws=3,
    ),
)


HARDER = (5, 6, 8, 10, 12)


def harder() -> Sweep:
    """Independent points in the cube and a field that is zero at the boundary, where cells are least centred."""
    meshes = [cloud(n, np.random.default_rng([n, k]), 3) for n in HARDER for k in range(3)]
    return sweep(meshes, box_field("sines", 3), "3-D independent")


def measure() -> Evidence:
    """Clouds of 64 to 2304 points in the square and 125 to 2197 in the cube; root mean squares over draws."""
    judged = evidence(CLOUDS)
    shown = harder()
    notes = (
        "Voronoi cells are not centred on their points: errors of either sign, order 2 only after averaging",
        "3-D independent is shown without a verdict: Π sin πx on 125 to 1728 independent points shows no second order, "
        "and finer clouds were not tried; voronoi-3d has one point in each cell of a lattice and the field e^Σx",
    )
    series = (*judged.series, *(shown.series("quadrature", q) for q in QUANTITIES))
    return Evidence(series, (), judged.rows, (*judged.notes, *notes))


STATEMENT = Statement(
    name="meshes-clouds",
    text="On random points of uneven density equal weights keep a bias; with the volumes of Voronoi cells the error is "
    "O(h²), h = N^(−1/d), on the two families tested.",
    formula="Σ |V_i| u(x_i) − ∫u = Σ |V_i| ∇u(x_i)·(c_i − x_i) + O(h²), c_i the centroid of V_i",
    label="sec:exp-nonuniform",
    measure=measure,
)
