"""How a mesh biases a norm: errors of mean, variance and output, with equal weights and with volumes: of one mesh of
your own (:func:`bias`), of a sequence of them (:func:`sweep`).

>>> from quadnorm import voronoi_weights
>>> points = np.random.default_rng(0).random((400, 2)) ** 2       # crowded at one corner
>>> measured = bias(points, voronoi_weights(points, bounds=((0, 1), (0, 1))), box_field("exponential", dim=2))
>>> measured.counting.mean > 0.5 > 0.01 > measured.quadrature.mean
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import e, inf, isfinite, nan, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadnorm._suggest import unknown
from quadnorm.lab.theory.statement import Range, Series

Array = NDArray[np.float64]
EPS = 1e-5  # the layers' default
ROUNDING = 1e-13  # smaller relative errors are rounding, and their ratios mean nothing


@dataclass(frozen=True)
class ExactField:
    """A function on a domain, and its exact moments there: mean ⨍u and mean square ⨍u² (averages, not integrals).

    ``values`` maps points (N, D) to (N,).

    >>> ramp = ExactField("ramp", lambda p: p[:, 0], mean=1 / 2, mean_square=1 / 3)
    >>> round(ramp.variance, 6)
    0.083333
    """

    name: str
    values: Callable[[Array], Array]
    mean: float
    mean_square: float

    def __post_init__(self) -> None:
        if not (isfinite(self.mean) and isfinite(self.mean_square)) or self.variance < 0:
            raise ValueError(
                f"field {self.name!r}: no function has the mean {self.mean:g} and the mean square {self.mean_square:g} "
                "(mean² ≤ mean square, both finite); give averages over the domain, not integrals"
            )

    @property
    def variance(self) -> float:
        return self.mean_square - self.mean**2


@dataclass(frozen=True)
class MomentErrors:
    """Errors of one weighting, as dimensionless numbers.

    mean: |m − μ|/σ; variance: |v − σ²|/σ²; output: max_i |y_i − y*_i| between the layer's output and
    y* = (u − μ)/√(σ² + ε) from the exact moments. Where σ = 0, mean and variance are absolute.
    """

    mean: float
    variance: float
    output: float


@dataclass(frozen=True)
class Bias:
    """Errors with equal weights (``counting``) and with the mesh's own weights (``quadrature``), for N samples."""

    counting: MomentErrors
    quadrature: MomentErrors
    samples: int
    effective: float  # Kish: 1/Σp²; the number of equally weighted samples with the same variance under noise

    def factor(self, quantity: str = "mean") -> float:
        """Error with equal weights over error with the mesh's weights; NaN where both are rounding."""
        return ratio(getattr(self.counting, quantity), getattr(self.quadrature, quantity))

    def __str__(self) -> str:
        lines = [f"{self.samples} samples, as good against noise as {self.effective:.0f} equal ones"]
        lines.append(f"{'':>10}{'counting':>12}{'quadrature':>12}{'factor':>10}")
        for name in ("mean", "variance", "output"):
            a, b = getattr(self.counting, name), getattr(self.quadrature, name)
            times = f"{ratio(a, b):.3g}" if ratio(a, b) < 1000 else f"{ratio(a, b):.0f}"
            lines.append(f"{name:>10}{a:>12.2e}{b:>12.2e}{times:>9}×")
        return "\n".join(lines)


def ratio(counting: float, quadrature: float) -> float:
    """Counting over quadrature; NaN where both are rounding, infinite where only the second is.

    >>> ratio(3.0, 2.0), ratio(1e-16, 1e-17)
    (1.5, nan)
    """
    if quadrature > ROUNDING:
        return counting / quadrature
    return inf if counting > ROUNDING else nan


def bias(
    points: Any,
    weights: Any,
    field: ExactField | Callable[[Array], Array] | Any,
    exact: tuple[float, float] | None = None,
    *,
    eps: float = EPS,
) -> Bias:
    """Errors of m = Σp_i u(x_i), v = Σp_i (u(x_i) − m)² and of the layer (u − m)/√(v + ε), for p_i = 1/N and p_i ∝ w_i.

    Args:
        points: (N, D), where the samples lie.
        weights: (N,), their volumes in any scale, e.g. from ``lumped_weights``, ``voronoi_weights``, ``cell_weights``.
        field: a :class:`ExactField`, or a function of the points, or its values (N,).
        exact: (mean, mean square) over the domain, unless ``field`` is an :class:`ExactField`.
        eps: the layer's ε.

    >>> x = np.linspace(0, 1, 65) ** 2                              # crowded at one end
    >>> w = np.gradient(x)                                          # not yet volumes: the ends count twice
    >>> w[[0, -1]] /= 2
    >>> measured = bias(x[:, None], w, lambda p: p[:, 0], exact=(1 / 2, 1 / 3))
    >>> round(measured.counting.mean, 2), measured.quadrature.mean < 1e-12
    (0.57, True)
    """
    x = np.asarray(points, dtype=np.float64)
    w = np.asarray(weights, dtype=np.float64)
    if x.ndim != 2 or w.shape != x.shape[:1] or not len(x):
        raise ValueError(f"expected points (N, D) and weights (N,) with N ≥ 1, got {x.shape} and {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any() or w.sum() <= 0:
        raise ValueError("weights must be finite, not negative, and not all zero: they are volumes")
    u, known = _field(field, exact, x)
    equal = np.full_like(w, 1 / len(w))
    p = w / w.sum()
    counting, quadrature = _errors(u, equal, known, eps), _errors(u, p, known, eps)
    return Bias(counting, quadrature, len(w), 1 / float(p @ p))


def _field(field: Any, exact: tuple[float, float] | None, x: Array) -> tuple[Array, ExactField]:
    if isinstance(field, ExactField):
        if exact is not None:
            raise ValueError(f"field {field.name!r} brings its exact moments; do not give exact= as well")
        known, values = field, field.values(x)
    elif exact is None:
        raise ValueError("the exact moments are unknown: give exact=(mean, mean square) or an ExactField")
    else:
        values = field(x) if callable(field) else field
        known = ExactField("given", lambda _: values, *map(float, exact))
    u = np.asarray(values, dtype=np.float64)
    if u.shape != x.shape[:1] or not np.isfinite(u).all():
        raise ValueError(f"the field must have one finite value for each of the {len(x)} points, got shape {u.shape}")
    return u, known


def _errors(u: Array, p: Array, field: ExactField, eps: float) -> MomentErrors:
    import torch  # here, because a claim of the report needs fields and nodes, and nothing of torch

    from quadnorm.norms import quad_norm

    m = float(p @ u)
    v = float(p @ (u - m) ** 2)
    spread = sqrt(field.variance) or 1.0
    # The layer itself, in float64, not a formula that repeats the two lines above.
    y = quad_norm(torch.from_numpy(u)[None, None], torch.from_numpy(p), eps=eps)[0, 0].numpy()
    wanted = (u - field.mean) / sqrt(field.variance + eps)
    return MomentErrors(
        abs(m - field.mean) / spread, abs(v - field.variance) / (field.variance or 1.0), float(abs(y - wanted).max())
    )


CUT = 1 / pi  # irrational: never a node of a grid with rational nodes


def _sines(p: Array) -> Array:
    return np.asarray(np.sin(pi * p).prod(axis=1))


# name: (values, ⨍u and ⨍u² of one factor, and whether the field is a product of one factor per axis)
_BOX = {
    "sines": (_sines, 2 / pi, 1 / 2, True),  # zero on the boundary, as solutions often are
    "parabolas": (lambda p: (4 * p * (1 - p)).prod(axis=1), 2 / 3, 8 / 15, True),
    "exponential": (lambda p: np.exp(p.sum(axis=1)), e - 1, (e**2 - 1) / 2, True),  # not zero there, not symmetric
    "bumps": (lambda p: (np.sin(pi * p) ** 2).prod(axis=1), 1 / 2, 3 / 8, True),  # value and slope are zero there
    "cosines": (lambda p: np.cos(pi * p).prod(axis=1), 0.0, 1 / 2, True),  # odd about the middle of each axis
    "step": (lambda p: (p[:, 0] < CUT).astype(np.float64), CUT, CUT, False),
    "constant": (lambda p: np.ones(len(p)), 1.0, 1.0, False),
}
BOX_FIELDS = tuple(_BOX)


def box_field(name: str, dim: int = 2) -> ExactField:
    """A field on [0, 1]^dim by name; moments of products are powers of those of one factor.

    sines Π sin πx; parabolas Π 4x(1−x); exponential e^Σx; bumps Π sin² πx; cosines Π cos πx; step 1 where x₁ < 1/π;
    constant 1.

    >>> field = box_field("parabolas", dim=2)
    >>> round(field.mean, 6), round(field.variance, 6)  # (2/3)², (8/15)² − (2/3)⁴
    (0.444444, 0.086914)
    """
    if name not in _BOX:
        raise ValueError(unknown("field", name, BOX_FIELDS))
    if dim < 1:
        raise ValueError(f"expected one dimension or more, got dim={dim}")
    values, mean, square, product = _BOX[name]
    k = dim if product else 1
    return ExactField(name, values, mean**k, square**k)


def sphere_field() -> ExactField:
    """z² + z + xy on the unit sphere, a sum of harmonics of degree 0 to 2; points (N, 3).

    ⨍z² = 1/3, ⨍z⁴ = 1/5, ⨍x²y² = 1/15 and odd monomials vanish: mean 1/3, mean square 1/5 + 1/3 + 1/15 = 3/5.

    >>> sphere_field().values(np.array([[0.0, 0.0, 1.0]]))
    array([2.])
    """
    return ExactField("harmonics", lambda p: p[:, 2] ** 2 + p[:, 2] + p[:, 0] * p[:, 1], 1 / 3, 3 / 5)


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
