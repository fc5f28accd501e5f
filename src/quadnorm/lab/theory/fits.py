"""Power laws fitted to errors as a function of spacing or size, with the residual of the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST = 5  # resolutions that an order is fitted over: two points fit any law, and three hide a bend


@dataclass(frozen=True)
class PowerFit:
    """y = coefficient·x^exponent. ``misfit``: root mean square of the residuals of log y, so 0.01 is 1 %."""

    exponent: float
    coefficient: float
    misfit: float


def fit_power(x: Sequence[float], y: Sequence[float]) -> PowerFit:
    """Least squares of log y on log x.

    >>> fit = fit_power([1, 2, 4], [3, 12, 48])
    >>> round(fit.exponent, 12), round(fit.coefficient, 12)
    (2.0, 3.0)
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or len(set(a.tolist())) < 2:
        raise ValueError(
            f"a power law needs two or more different x with one y each, got {a.size} and {b.size} numbers"
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all() and (a > 0).all() and (b > 0).all()):
        raise ValueError(f"a power law needs positive finite numbers, got x = {a.tolist()}, y = {b.tolist()}")
    s, t = np.log(a), np.log(b)
    slope, intercept = (float(c) for c in np.polyfit(s, t, 1))
    residual = t - (slope * s + intercept)
    return PowerFit(slope, float(np.exp(intercept)), float(np.sqrt(residual @ residual / a.size)))


def fit_order(h: Sequence[float], error: Sequence[float]) -> PowerFit:
    """The order p and constant C of error ≈ C·h^p, over five resolutions or more.

    >>> h = [1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128]
    >>> round(fit_order(h, [3 * t**2 for t in h]).exponent, 12)
    2.0
    """
    if len(set(h)) < FEWEST:
        raise ValueError(f"an order is fitted over {FEWEST} resolutions or more, got {len(set(h))}")
    return fit_power(h, error)
