"""How a mesh biases a norm: errors of mean, variance and output, with equal weights and with volumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from quadnorm.norms import quad_norm

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
    m = float(p @ u)
    v = float(p @ (u - m) ** 2)
    spread = sqrt(field.variance) or 1.0
    # The layer itself, in float64, not a formula that repeats the two lines above.
    y = quad_norm(torch.from_numpy(u)[None, None], torch.from_numpy(p), eps=eps)[0, 0].numpy()
    wanted = (u - field.mean) / sqrt(field.variance + eps)
    return MomentErrors(
        abs(m - field.mean) / spread, abs(v - field.variance) / (field.variance or 1.0), float(abs(y - wanted).max())
    )
