"""Fits of errors as a function of resolution or size."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

import numpy as np

from quadnorm.lab.theory.statement import PowerFit, fit_power

__all__ = ["PowerFit", "SlopeFit", "fit_power", "fit_slope", "rises", "step_change"]


@dataclass(frozen=True)
class SlopeFit:
    """The O(h) law √(e_n² − e_n₀²) = s·|1/(n₀−1) − 1/(n−1)| with its slope s, in the unit of the errors per unit of h.

    ``misfit`` is ‖residual‖/‖left side‖: 0.01 means that the law holds to 1 %. It is NaN with a single transfer grid,
    where the fit is exact.
    """

    slope: float
    misfit: float


def step_change(native: int, n: int) -> float:
    """|1/(n₀−1) − 1/(n−1)|: how much the spacing, and with it the boundary mass, changes.

    >>> step_change(33, 65)
    0.015625
    """
    if min(native, n) < 2:
        raise ValueError(f"a spacing needs 2 points per axis or more, got {native} and {n}")
    return abs(1 / (native - 1) - 1 / (n - 1))


def rises(errors: Mapping[int, float], native: int) -> tuple[np.ndarray, np.ndarray]:
    """For the grids other than the native one, coarse first: the change of spacing, and √(e_n² − e_n₀²).

    The squares of degradation and native error add up, as for two independent error fields. If an error is *below* the
    native one, the root is taken with a minus sign.
    """
    if native not in errors:
        raise ValueError(f"no error at the native resolution {native}; there are {sorted(errors)}")
    others = sorted(n for n in errors if n != native)
    if not others:
        raise ValueError("a slope needs an error at one resolution other than the native one")
    squares = np.array([float(errors[n]) ** 2 - float(errors[native]) ** 2 for n in others])
    changes = np.array([step_change(native, n) for n in others])
    return changes, np.copysign(np.sqrt(np.abs(squares)), squares)


def fit_slope(errors: Mapping[int, float], native: int) -> SlopeFit:
    """Least squares through the origin for the values of :func:`rises`.

    >>> round(fit_slope({33: 3.0, 65: 5.0, 129: (9 + 36) ** 0.5}, native=33).slope, 9)
    256.0
    """
    x, y = rises(errors, native)
    if not np.isfinite(y).all():
        return SlopeFit(nan, nan)
    slope = float(x @ y / (x @ x))
    size = float(np.linalg.norm(y))
    misfit = nan if len(x) == 1 else (float(np.linalg.norm(y - slope * x)) / size if size else 0.0)
    return SlopeFit(slope, misfit)
