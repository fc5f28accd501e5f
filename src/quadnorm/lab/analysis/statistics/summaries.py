"""Statistics for tables, computed from errors by seed.

=======================  ========================================================================================
``summarize``            mean ± 95 % interval (Student t, ddof 1) or ± standard deviation (ddof 0)
``paired_t, holm``       paired t-tests; Holm–Bonferroni over a family; ``compare`` does both
``bootstrap_improvement``  1 − mean/mean with 10,000 paired resamples
``tost``                 paired equivalence test with its interval
``cohens_d``             difference over the root mean square of the two standard deviations
``best_or_tied``         which methods a table prints in bold
``degradation`` …        points above the native error, and the two ratios built on them
``fit_slope, fit_power``  the O(h) law of transfer errors; power laws
=======================  ========================================================================================

A run whose error is NaN or infinite is never dropped: the statistic is NaN and its note says how many runs failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite, nan, sqrt

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.lab.analysis.statistics.paired import (
    ONE_SEED,
    Equivalence,
    Improvement,
    K,
    PairedTest,
    Runs,
    bootstrap_improvement,
    cohens_d,
    compare,
    failed,
    holm,
    paired,
    paired_t,
    t_quantile,
    tost,
    values,
)
from quadnorm.lab.theory.statement import PowerFit, fit_power


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


__all__ = [
    "Equivalence",
    "Improvement",
    "PairedTest",
    "PowerFit",
    "Runs",
    "SlopeFit",
    "Summary",
    "baseline_ratio",
    "best_or_tied",
    "bootstrap_improvement",
    "cohens_d",
    "compare",
    "degradation",
    "degradation_ratio",
    "fit_power",
    "fit_slope",
    "holm",
    "improvement",
    "paired_t",
    "step_change",
    "summarize",
    "tost",
]

SPREAD_KINDS = ("ci95", "std")


@dataclass(frozen=True)
class Summary:
    """mean ± spread of n runs; ``kind`` says what the spread is."""

    mean: float
    spread: float
    n: int
    kind: str = "ci95"
    note: str = ""

    @property
    def low(self) -> float:
        """Mean − spread."""
        return self.mean - self.spread

    @property
    def high(self) -> float:
        """Mean + spread."""
        return self.mean + self.spread

    def __str__(self) -> str:
        if not isfinite(self.mean):
            return "failed"
        return f"{self.mean:.2f} ± {self.spread:.2f}" if isfinite(self.spread) else f"{self.mean:.2f}"


def summarize(runs: Runs, kind: str = "ci95") -> Summary:
    """Mean ± t₀.₉₇₅(n−1)·s/√n with s of ddof 1 (``ci95``), or ± standard deviation with ddof 0 (``std``).

    >>> print(summarize([3.0, 3.2, 3.4]), "|", summarize([3.0, 3.2, 3.4], "std"), "|", summarize([3.0]))
    3.20 ± 0.50 | 3.20 ± 0.16 | 3.00
    """
    if kind not in SPREAD_KINDS:
        raise ValueError(unknown("kind of spread", kind, SPREAD_KINDS))
    return _summary(tuple(values(runs).tolist()), kind)


@lru_cache(2**14)
def _summary(runs: tuple[float, ...], kind: str) -> Summary:
    """As :func:`summarize`; tables, cards and claims of a page ask for the same runs again."""
    x = np.array(runs)
    n = x.size
    if note := failed(x):
        finite = x[np.isfinite(x)]
        rest = f"; the mean of the other {finite.size} is {finite.mean():.4g}" if finite.size else ""
        return Summary(nan, nan, n, kind, note + rest)
    mean = float(x.mean())
    if n == 1:
        return Summary(mean, nan, n, kind, ONE_SEED)
    if kind == "std":
        return Summary(mean, float(x.std(ddof=0)), n, kind)
    half = t_quantile(0.975, n - 1) * float(x.std(ddof=1)) / sqrt(n)
    return Summary(mean, half, n, kind)


def best_or_tied(runs: Mapping[K, Runs], alpha: float = 0.05) -> frozenset[K]:
    """The method of smallest mean error, and those that a paired t-test (Holm) does not distinguish from it.

    With one seed only equal errors tie. Methods with a failed run are never among them.
    """
    summaries = {name: summarize(r) for name, r in runs.items()}
    means = {name: s.mean for name, s in summaries.items() if isfinite(s.mean)}
    if not means:
        return frozenset()
    best = min(means, key=lambda name: means[name])
    tests = compare({name: runs[name] for name in means}, best, alpha)
    tied = {
        name
        for name, test in tests.items()
        if (means[name] == means[best] if not isfinite(test.p) else not test.significant)
    }
    return frozenset({best} | tied)


def improvement(method: Runs | float, baseline: Runs | float) -> float:
    """1 − mean(method)/mean(baseline).

    >>> round(improvement(7.10, 10.99), 3)
    0.354
    """
    below = _mean(baseline)
    return 1 - _mean(method) / below if below else nan


def degradation(native: Runs, transfer: Runs, kind: str = "ci95") -> Summary:
    """Transfer − native in points, seed by seed.

    >>> print(degradation([3.0, 3.2], [7.0, 7.4]))
    4.10 ± 1.27
    """
    a, b = paired(transfer, native)
    return summarize(a - b, kind)


def degradation_ratio(baseline: tuple[float, float], method: tuple[float, float]) -> float:
    """How many times more the baseline degrades: Δ(baseline)/Δ(method), each from (native, transfer) means.

    >>> round(degradation_ratio((3.26, 10.99), (4.35, 7.10)), 1)
    2.8
    """
    return _ratio(baseline[1] - baseline[0], method[1] - method[0])


def baseline_ratio(method: tuple[float, float], none: tuple[float, float]) -> float:
    """Δ(method)/Δ(no norm): below 1 the network degrades less with the norm than without any.

    >>> round(baseline_ratio((4.21, 4.55), (3.41, 4.94)), 2)
    0.22
    """
    return _ratio(method[1] - method[0], none[1] - none[0])


def _ratio(above: float, below: float) -> float:
    if below == 0:
        return nan if above == 0 else float(np.copysign(inf, above))
    return above / below


def _mean(runs: Runs | float) -> float:
    return float(runs) if isinstance(runs, (int, float)) else float(values(runs).mean())
