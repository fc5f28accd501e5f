"""Estimates with confidence intervals that three seeds can bear: exact for normal errors at any number of seeds.

======================  ==========================================================================================
``mean_estimate``       a mean: Student's t
``ratio_estimate``      mean(a)/mean(b) of paired values: Fieller's interval, which is all ratios ρ for which a paired
                        t-test does not tell a from ρ·b; unbounded where b may be zero
``d_estimate``          Cohen's d: inversion of the noncentral t
``spread_estimate``     σ(a)/σ(b): the F distribution
``share_estimate``      a share of successes: Clopper and Pearson
======================  ==========================================================================================

A percentile bootstrap is not among them: over three seeds it excludes zero whenever the three agree in sign, and by
chance one time in eight they agree in the sign that was claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt

import numpy as np

from quadnorm.lab.analysis.statistics.paired import (
    ONE_SEED,
    Runs,
    cohens_d,
    failed,
    paired,
    scipy_special,
    t_quantile,
    values,
)


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval: NaN with one seed or a failed run, ±∞ where it is unbounded."""

    value: float
    low: float
    high: float
    n: int
    note: str = ""

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval at all, bounded or not."""
        return not (np.isnan(self.low) or np.isnan(self.high))

    def map(self, scale: float, shift: float = 0.0) -> Estimate:
        """The estimate of shift + scale·value.

        >>> Estimate(0.7, 0.6, 0.9, 3).map(-1, 1).low.__round__(9)
        0.1
        """
        ends = sorted((shift + scale * self.low, shift + scale * self.high))
        return Estimate(shift + scale * self.value, ends[0], ends[1], self.n, self.note)


def mean_estimate(runs: Runs, level: float = 0.95) -> Estimate:
    """The mean with Student's interval.

    >>> e = mean_estimate([1.0, 2.0, 3.0])
    >>> round(e.value, 3), round(e.low, 3), round(e.high, 3)
    (2.0, -0.484, 4.484)
    """
    x = values(runs)
    n = x.size
    if note := failed(x):
        return Estimate(nan, nan, nan, n, note)
    mean = float(x.mean())
    if n == 1:
        return Estimate(mean, nan, nan, n, ONE_SEED)
    half = t_quantile(0.5 + level / 2, n - 1) * float(x.std(ddof=1)) / sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def ratio_estimate(method: Runs, baseline: Runs, level: float = 0.95) -> Estimate:
    """mean(method)/mean(baseline) of paired values, with Fieller's interval.

    The interval holds every ρ with n·(ā − ρb̄)² ≤ q²·(s_aa − 2ρs_ab + ρ²s_bb), q Student's quantile; it is everything
    where the baseline's mean is not told from zero.

    >>> e = ratio_estimate([5.0, 5.1, 4.9], [10.0, 10.1, 9.9])
    >>> round(e.value, 3), 0.48 < e.low < e.value < e.high < 0.52
    (0.5, True)
    """
    a, b = paired(method, baseline)
    n = a.size
    if note := failed(a, b):
        return Estimate(nan, nan, nan, n, note)
    mean_a, mean_b = float(a.mean()), float(b.mean())
    if mean_b == 0:
        return Estimate(nan, -inf, inf, n, "the baseline's mean is zero")
    value = mean_a / mean_b
    if n == 1:
        return Estimate(value, nan, nan, n, ONE_SEED)
    # As deviations from ρ̂, because the roots of the plain quadratic cancel where the spread is small.
    (saa, sab), (_, sbb) = np.cov(a - value * b, b).tolist()
    q2 = t_quantile(0.5 + level / 2, n - 1) ** 2
    A, B, C = n * mean_b**2 - q2 * sbb, -q2 * sab, -q2 * saa
    if A <= 0:
        return Estimate(value, -inf, inf, n, "the baseline is not told from zero, so the ratio has no bounds")
    root = sqrt(max(B * B - A * C, 0.0))
    return Estimate(value, value + (B - root) / A, value + (B + root) / A, n)


def d_estimate(method: Runs, baseline: Runs, level: float = 0.95) -> Estimate:
    """Cohen's d (positive favours the method) with the interval of its noncentral t, 2n − 2 degrees of freedom."""
    a, b = values(method), values(baseline)
    n = min(a.size, b.size)
    d = cohens_d(method, baseline)
    if not isfinite(d):
        return Estimate(d, nan, nan, n, failed(a, b) or ONE_SEED if n == 1 or failed(a, b) else "no spread over seeds")
    nctdtrinc = scipy_special().nctdtrinc
    scale = sqrt(a.size * b.size / (a.size + b.size))
    freedom, t, tail = a.size + b.size - 2, d * scale, (1 - level) / 2
    # The noncentralities under which t would be at the upper or lower tail; mirrored below zero, where nctdtrinc fails.
    ends = [nctdtrinc(freedom, p, abs(t)) / scale for p in (1 - tail, tail)]
    low, high = (float(e) for e in ends)
    return Estimate(d, low, high, n) if t >= 0 else Estimate(d, -high, -low, n)


def spread_estimate(method: Runs, baseline: Runs, level: float = 0.95) -> Estimate:
    """σ(method)/σ(baseline) over seeds (ddof 1). Pairing, which would narrow the interval, is left out."""
    a, b = values(method), values(baseline)
    n = min(a.size, b.size)
    if note := failed(a, b):
        return Estimate(nan, nan, nan, n, note)
    below = float(b.std(ddof=1)) if b.size > 1 else 0.0
    if n < 2 or below == 0:
        return Estimate(nan, nan, nan, n, "a comparison of spreads needs seeds that differ")
    ratio = float(a.std(ddof=1)) / below
    quantile = scipy_special().fdtri
    low, high = (1 / sqrt(quantile(a.size - 1, b.size - 1, p)) for p in (0.5 + level / 2, 0.5 - level / 2))
    return Estimate(ratio, ratio * low, ratio * high, n)


def share_estimate(successes: int, n: int, level: float = 0.95) -> Estimate:
    """successes/n with the interval of Clopper and Pearson.

    >>> e = share_estimate(7, 10)
    >>> e.value, round(e.low, 3), round(e.high, 3)
    (0.7, 0.348, 0.933)
    """
    quantile, tail = scipy_special().betaincinv, (1 - level) / 2
    low = float(quantile(successes, n - successes + 1, tail)) if successes else 0.0
    high = float(quantile(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return Estimate(successes / n, low, high, n)
