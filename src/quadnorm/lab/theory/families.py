"""Families of meshes at increasing sizes: the errors of a norm on them, and their orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.lab.theory.bias import QUANTITIES, ExactField, Mesh, Sweep, bias, box_field, sphere_field, sweep
from quadnorm.lab.theory.meshes import NODES, STRENGTH, centroids, cloud, corner, latlon, tensor, vertices
from quadnorm.lab.theory.statement import Check, Evidence, Range, Series


@dataclass(frozen=True)
class Family:
    """A named way of making meshes, with the orders of convergence that are expected.

    Args:
        make: (n, rng) → :class:`Mesh` with about n points per axis.
        field: what is averaged, with its exact moments.
        sizes: values of n, five or more.
        counting, quadrature: the expected ranges of the fitted orders, with equal weights and with the mesh's own.
        misfit: the largest accepted residual of a fit.
        draws: meshes per size; more than one for random families.
    """

    name: str
    about: str
    make: Callable[[int, np.random.Generator], Mesh]
    field: ExactField
    sizes: tuple[int, ...]
    counting: Range
    quadrature: Range = (1.9, 2.1)
    misfit: float = 0.05
    draws: int = 1

    def meshes(self, n: int) -> list[Mesh]:
        """The meshes of one size; the same in every run."""
        return [self.make(n, np.random.default_rng([n, k])) for k in range(self.draws)]

    def sweep(self) -> Sweep:
        """Errors at all sizes."""
        return sweep((mesh for n in self.sizes for mesh in self.meshes(n)), self.field, self.name)

    def series(self, swept: Sweep) -> tuple[Series, ...]:
        """The series that are judged: mean, variance, output with the mesh's weights; mean, output with equal ones."""
        series = [swept.series("quadrature", q, self.quadrature, self.misfit) for q in QUANTITIES]
        # The error with equal weights tends to a constant or is noise, not a pure power: its fit may be worse.
        series += [swept.series("counting", q, self.counting, max(self.misfit, 0.25)) for q in ("mean", "output")]
        return tuple(series)


def evidence(families: Sequence[Family], notes: tuple[str, ...] = ()) -> Evidence:
    """Orders of every family, and by which factor its weights reduce each error at the finest size."""
    series: list[Series] = []
    rows = []
    for family in families:
        swept = family.sweep()
        series += family.series(swept)
        finest = swept.biases[-1][0]
        rows.append(
            {
                "family": family.name,
                "samples": finest.samples,
                **{f"{q} ÷": swept.factors(q)[-1] for q in QUANTITIES},
                "effective": finest.effective / finest.samples,
            }
        )
    legend = "÷: error with equal weights over error with the mesh's, at the finest size; effective: 1/(N Σp²)"
    return Evidence(tuple(series), (), tuple(rows), (legend, *notes))


_TENSOR_SIZES = (17, 33, 65, 129, 257)


def _tensor_family(name: str, about: str, counting: tuple[float, float], draws: int = 1) -> Family:
    return Family(
        name,
        about,
        lambda n, rng: tensor(NODES[name](n, rng), NODES[name](n, rng)),
        box_field("sines", 2),
        _TENSOR_SIZES,
        counting,
        draws=draws,
    )


STAYS = (-0.1, 0.2)  # the bias with equal weights tends to a constant
TENSOR = (
    _tensor_family("even", "j/(n−1), ends included", (0.85, 1.15)),
    _tensor_family("perturbed", "even, moved at random by up to 0.35 h", (0.85, 1.15), 8),
    _tensor_family("graded", "(j/(n−1))²", STAYS),
    _tensor_family("chebyshev", "½(1 − cos πj/(n−1))", STAYS),
    _tensor_family("boundary-refined", f"tanh, strength {STRENGTH:g}", STAYS),
)


def measure_tensor() -> Evidence:
    """Five families of 17² to 257² nodes."""
    return evidence(TENSOR)


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


def measure_simplices() -> Evidence:
    """Triangulations of 144 to 4096 points, tetrahedra on 4³ to 16³ cubes before refinement."""
    return evidence(SIMPLICES)


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


def measure_clouds() -> Evidence:
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


_LATITUDES = (9, 17, 33, 65, 129)


def _sphere_family(name: str, about: str, rule: str) -> Family:
    return Family(name, about, lambda n, rng: latlon(n, rule), sphere_field(), _LATITUDES, (-0.1, 0.2))


SPHERE = (
    _sphere_family("latlon", "latitudes 180°·j/(n−1) − 90°, poles included", "equiangular"),
    _sphere_family("latlon-cells", "centres of n bands of equal width", "equiangular-cell"),
)


def measure_sphere() -> Evidence:
    """9 to 129 latitudes; and Gauss's latitudes, which integrate the field and its square exactly."""
    measured = evidence(SPHERE)
    gauss = bias(*latlon(9, "gauss-legendre")[:2], sphere_field())
    numbers = (
        Check("Gauss's 9 latitudes: mean, quadrature", gauss.quadrature.mean, 0.0, 1e-13),
        Check("Gauss's 9 latitudes: variance, quadrature", gauss.quadrature.variance, 0.0, 1e-12),
        Check("latlon-cells: mean, counting / its limit", _limit_of_latlon_cells(), 1 - 1e-9, 1 + 1e-9),
    )
    return Evidence(measured.series, numbers, measured.rows, measured.notes)


def _limit_of_latlon_cells() -> float:
    """Error of the mean with equal weights / its limit ½ − ⅓: z² = sin²φ averages ½ over φ, and ⅓ over the sphere."""
    field = sphere_field()
    error = bias(*latlon(_LATITUDES[0], "equiangular-cell")[:2], field).counting.mean
    return error * float(np.sqrt(field.variance)) / (1 / 2 - 1 / 3)


FAMILIES: dict[str, Family] = {f.name: f for f in (*TENSOR, *SIMPLICES, *CLOUDS, *SPHERE)}


def family(name: str) -> Family:
    """The family of that name.

    >>> family("chebyshev").meshes(5)[0].points.shape
    (25, 2)
    """
    if name not in FAMILIES:
        raise ValueError(unknown("family of meshes", name, FAMILIES))
    return FAMILIES[name]
