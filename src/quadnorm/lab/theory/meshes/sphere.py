"""Latitude–longitude grids of the sphere: equal weights give the polar regions too much weight."""

from __future__ import annotations

from math import pi

import numpy as np

from quadnorm.lab.theory.meshes.bias import bias
from quadnorm.lab.theory.meshes.family import Family, Mesh, evidence
from quadnorm.lab.theory.meshes.fields import sphere_field
from quadnorm.lab.theory.statement import Check, Evidence, Statement
from quadnorm.measures import LatLon

SIZES = (9, 17, 33, 65, 129)


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
    weights = LatLon(rule).weights((n, 2 * n)).numpy().ravel()
    return Mesh(points, weights, pi / (n - 1) if rule == "equiangular" else pi / n)


def _family(name: str, about: str, rule: str) -> Family:
    return Family(name, about, lambda n, rng: latlon(n, rule), sphere_field(), SIZES, (-0.1, 0.2))


SPHERE = (
    _family("latlon", "latitudes 180°·j/(n−1) − 90°, poles included", "equiangular"),
    _family("latlon-cells", "centres of n bands of equal width", "equiangular-cell"),
)


def measure() -> Evidence:
    """9 to 129 latitudes; and Gauss's latitudes, which integrate the field and its square exactly."""
    measured = evidence(SPHERE)
    gauss = bias(*latlon(9, "gauss-legendre")[:2], sphere_field())
    numbers = (
        Check("Gauss's 9 latitudes: mean, quadrature", gauss.quadrature.mean, 0.0, 1e-13),
        Check("Gauss's 9 latitudes: variance, quadrature", gauss.quadrature.variance, 0.0, 1e-12),
        Check("latlon-cells: mean, counting / its limit", _limit(), 1 - 1e-9, 1 + 1e-9),
    )
    return Evidence(measured.series, numbers, measured.rows, measured.notes)


def _limit() -> float:
    """Error of the mean with equal weights / its limit ½ − ⅓: z² = sin²φ averages ½ over φ, and ⅓ over the sphere."""
    field = sphere_field()
    error = bias(*latlon(SIZES[0], "equiangular-cell")[:2], field).counting.mean
    return error * float(np.sqrt(field.variance)) / (1 / 2 - 1 / 3)


STATEMENT = Statement(
    name="meshes-sphere",
    text="On latitude–longitude grids equal weights give the polar regions too much weight, and the bias stays; with "
    "areas of bands the error is O(h²), with Gauss's weights zero for harmonics of low degree.",
    formula="(1/N) Σ u → (1/2π²)∫∫u dφ dλ ≠ (1/4π)∫∫u cos φ dφ dλ",
    label="",
    measure=measure,
)
