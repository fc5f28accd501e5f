"""Laws fitted to errors against resolution or size."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import copysign, nan, sqrt

import numpy as np

from quadnorm.lab.theory.fits import PowerFit, fit_power

__all__ = ["PowerFit", "SlopeFit", "fit_power", "fit_slope", "step_change"]


@dataclass(frozen=True)
class SlopeFit:
    """The O(h) law √(e_n² − e_n₀²) = s·|1/(n₀−1) − 1/(n−1)| with its slope s, in the unit of the errors per unit of h.

    ``misfit`` is ‖residual‖/‖left side‖: 0.01 means that the law holds to 1 %. NaN with a single transfer grid,
    which any slope fits.
    """

    slope: float
    misfit: float
    native: int
    error: float

    def predict(self, n: int) -> float:
        """The error at n points per axis that the law gives; NaN where a negative slope would take it below zero."""
        rise = self.slope * step_change(self.native, n)
        square = self.error**2 + copysign(rise**2, rise)
        return sqrt(square) if square >= 0 else nan


def step_change(native: int, n: int) -> float:
    """|1/(n₀−1) − 1/(n−1)|: how much the spacing, and with it the boundary mass, changes.

    >>> step_change(33, 65)
    0.015625
    """
    if min(native, n) < 2:
        raise ValueError(f"a spacing needs 2 points per axis or more, got {native} and {n}")
    return abs(1 / (native - 1) - 1 / (n - 1))


def fit_slope(errors: Mapping[int, float], native: int) -> SlopeFit:
    """Least squares through the origin, over the grids other than the native one.

    The degradation adds to the native error in quadrature, as two unrelated error fields do. Where an error *falls*
    below the native one, the root is taken with a minus sign.

    >>> fit = fit_slope({33: 3.0, 65: 5.0, 129: (9 + 36) ** 0.5}, native=33)
    >>> round(fit.slope, 9), round(fit.predict(257), 3)
    (256.0, 7.616)
    """
    if native not in errors:
        raise ValueError(f"no error at the native resolution {native}; there are {sorted(errors)}")
    others = sorted(n for n in errors if n != native)
    if not others:
        raise ValueError("a slope needs an error at one resolution other than the native one")
    e0 = float(errors[native])
    x = np.array([step_change(native, n) for n in others])
    squares = np.array([float(errors[n]) ** 2 - e0**2 for n in others])
    y = np.copysign(np.sqrt(np.abs(squares)), squares)
    if not np.isfinite(y).all():
        return SlopeFit(nan, nan, native, e0)
    slope = float(x @ y / (x @ x))
    size = float(np.linalg.norm(y))
    misfit = nan if len(others) == 1 else (float(np.linalg.norm(y - slope * x)) / size if size else 0.0)
    return SlopeFit(slope, misfit, native, e0)
