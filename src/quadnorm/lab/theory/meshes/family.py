"""Families of meshes at increasing sizes: the errors of a norm on them, and their orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from quadnorm.lab.theory.meshes.bias import Array, Bias, ExactField, bias, ratio
from quadnorm.lab.theory.statement import Evidence, Range, Series

QUANTITIES = ("mean", "variance", "output")


class Mesh(NamedTuple):
    """Samples of one mesh: points (N, D), weights (N,) and the spacing h that orders are measured in."""

    points: Array
    weights: Array
    h: float


@dataclass(frozen=True)
class Sweep:
    """Errors along a family: for each spacing, one :class:`Bias` per mesh drawn."""

    name: str
    h: tuple[float, ...]
    biases: tuple[tuple[Bias, ...], ...]

    def errors(self, weighting: str, quantity: str = "mean") -> tuple[float, ...]:
        """Root mean square over the meshes of each spacing; ``weighting``: counting or quadrature."""
        return tuple(
            sqrt(sum(getattr(getattr(b, weighting), quantity) ** 2 for b in drawn) / len(drawn))
            for drawn in self.biases
        )

    def series(self, weighting: str, quantity: str = "mean", order: Range | None = None, misfit: float = 0.1) -> Series:
        """The errors and the power of h fitted to them, over five spacings or more."""
        name = f"{self.name}, {quantity}, {weighting}"  # figures group names by what is before the first comma
        return Series(name, self.h, self.errors(weighting, quantity), order, misfit)

    def factors(self, quantity: str = "mean") -> tuple[float, ...]:
        """Error with equal weights over error with the mesh's own, at each spacing."""
        both = zip(self.errors("counting", quantity), self.errors("quadrature", quantity), strict=True)
        return tuple(ratio(a, b) for a, b in both)


def sweep(
    meshes: Iterable[tuple[Any, Any] | tuple[Any, Any, float]],
    field: ExactField,
    name: str = "mesh",
) -> Sweep:
    """:func:`bias` on your own meshes, coarse to fine; several meshes of one spacing (random ones) are averaged.

    Args:
        meshes: (points, weights) or (points, weights, h) each; without h it is N^(−1/D), D the points' dimension.
        field: the field that is averaged, with its exact moments.
        name: the name of the result.

    >>> from quadnorm.lab.theory.meshes.fields import box_field
    >>> def grid(n):  # cell centres of a line, cells growing to the right
    ...     edges = np.linspace(0, 1, n + 1) ** 2
    ...     return (edges[1:] + edges[:-1])[:, None] / 2, np.diff(edges)
    >>> swept = sweep([grid(n) for n in (8, 16, 32, 64, 128)], box_field("exponential", 1))
    >>> round(swept.series("counting").fit.exponent, 1), round(swept.series("quadrature").fit.exponent, 1)
    (-0.0, 2.0)
    """
    grouped: dict[float, list[Bias]] = {}
    for points, weights, *spacing in meshes:
        x = np.asarray(points, dtype=np.float64)
        h = float(spacing[0]) if spacing else len(x) ** (-1 / x.shape[1])
        grouped.setdefault(h, []).append(bias(x, weights, field))
    return Sweep(name, tuple(grouped), tuple(map(tuple, grouped.values())))


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
