"""Errors of several seeds, the pairing of two sets of runs, and the tests on such pairs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, nan, sqrt
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

# Errors as {seed: error}, or as a sequence in the order of the seeds.
Runs = Mapping[int, float] | Sequence[float] | NDArray[np.floating[Any]]
Values = NDArray[np.float64]


def values(runs: Runs) -> Values:
    """The errors as a vector; NaN and ∞ are kept, since a run that failed is a result.

    >>> values({1: 3.5, 0: 3.0})
    array([3. , 3.5])
    """
    listed = [runs[seed] for seed in sorted(runs)] if isinstance(runs, Mapping) else runs
    try:
        array = np.asarray(listed, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"expected one error per seed, got {runs!r}") from error
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"expected one error per seed, got an array of shape {array.shape}; give at least one run")
    return array


def paired(method: Runs, baseline: Runs) -> tuple[Values, Values]:
    """Two sets of errors, seed by seed.

    Both as {seed: error}: the seeds must be the same. Both as sequences: the lengths must be the same. Nothing is
    truncated, because wrong pairs would give a narrow interval around a wrong number.
    """
    if isinstance(method, Mapping) != isinstance(baseline, Mapping):
        raise TypeError("one set of runs is by seed and the other in order; give both by seed, as {seed: error}")
    if isinstance(method, Mapping) and isinstance(baseline, Mapping) and method.keys() != baseline.keys():
        lone = sorted(method.keys() ^ baseline.keys())
        both = sorted(method.keys() & baseline.keys())
        raise ValueError(
            f"runs pair by seed, but seeds {lone} are on one side only; run them, or pass the common seeds {both}"
        )
    a, b = values(method), values(baseline)
    if a.size != b.size:
        raise ValueError(
            f"runs pair by seed, but there are {a.size} and {b.size} of them; pass {{seed: error}} to see which"
        )
    return a, b


def common(*runs: Mapping[int, float]) -> list[dict[int, float]]:
    """Every set of runs restricted to the seeds that all sets have.

    >>> common({0: 3.0, 1: 3.5}, {1: 4.0, 2: 4.5})
    [{1: 3.5}, {1: 4.0}]
    """
    shared = sorted(set.intersection(*(set(r) for r in runs))) if runs else []
    return [{s: r[s] for s in shared} for r in runs]


def failed(*runs: Values) -> str:
    """A note on runs whose error is NaN or ∞; empty if there are none.

    >>> failed(np.array([1.0, np.nan]))
    '1 of 2 runs has no finite error'
    """
    bad = sum(int((~np.isfinite(r)).sum()) for r in runs)
    total = sum(r.size for r in runs)
    return f"{bad} of {total} runs {'has' if bad == 1 else 'have'} no finite error" if bad else ""


def constant(difference: Values, *parents: Values) -> bool:
    """Whether all differences are equal up to the rounding of ``parents``, so that there is no spread to test with."""
    scale = max(float(np.abs(p).max()) for p in parents)
    return bool(np.ptp(difference) <= 1e-13 * scale)


def scipy_special() -> Any:
    """``scipy.special``, which loads in a tenth of the time of ``scipy.stats``; an ImportError says what to install."""
    try:
        from scipy import special
    except ImportError as error:
        raise ImportError("statistics need scipy: pip install 'quadnorm[bench]'") from error
    return special


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """Student's t quantile; cached, because a report needs the same few values thousands of times."""
    return float(scipy_special().stdtrit(freedom, probability))


def t_two_sided(t: float, freedom: int) -> float:
    """Probability of a value at least as far from zero as ``t`` under Student's t."""
    return 2 * t_below(-abs(t), freedom)


def t_below(t: float, freedom: int) -> float:
    """Probability of a value below ``t`` under Student's t."""
    return float(scipy_special().stdtr(freedom, t))


K = TypeVar("K", bound=Hashable)
ONE_SEED = "one seed: no spread, so no interval and no test"


@dataclass(frozen=True)
class PairedTest:
    """Paired t-test of mean(method) − mean(baseline); negative favours the method.

    ``p_holm`` and ``significant`` are set by :func:`holm`, over the family the test belongs to.
    """

    difference: float
    low: float
    high: float
    t: float
    p: float
    n: int
    p_holm: float = nan
    significant: bool = False
    note: str = ""


def paired_t(method: Runs, baseline: Runs, level: float = 0.95) -> PairedTest:
    """Two-sided paired t-test, d = method − baseline: t = mean(d) / (s_d/√n), ddof 1, n − 1 degrees of freedom.

    >>> round(paired_t([1.0, 2.0, 3.5], [2.0, 3.5, 4.5]).p, 4)
    0.0198
    """
    a, b = paired(method, baseline)
    d, n = a - b, a.size
    if note := failed(a, b):
        return PairedTest(nan, nan, nan, nan, nan, n, note=note)
    mean = float(d.mean())
    if n == 1:
        return PairedTest(mean, nan, nan, nan, nan, n, note=ONE_SEED)
    if constant(d, a, b):
        # No spread: take the limit. Differences at the level of rounding count as zero.
        mean = 0.0 if abs(mean) <= 1e-13 * float(np.abs(a).max()) else mean
        t, p = (0.0, 1.0) if mean == 0 else (float(np.copysign(inf, mean)), 0.0)
        return PairedTest(mean, mean, mean, t, p, n, note="every seed has the same difference")
    # Not scipy's ttest_rel: its checks of axes and NaN take a millisecond, and a report has thousands of tests.
    error = float(d.std(ddof=1)) / sqrt(n)
    t, half = mean / error, t_quantile(0.5 + level / 2, n - 1) * error
    return PairedTest(mean, mean - half, mean + half, t, t_two_sided(t, n - 1), n)


def holm(tests: Mapping[K, PairedTest], alpha: float = 0.05) -> dict[K, PairedTest]:
    """Holm–Bonferroni over a family: the p-values in ascending order times m, m − 1, …, made monotone.

    A test without a p-value stays without one, but counts in m: a failed run must not make the other tests easier.
    """
    # Not statsmodels' multipletests, which runs the garbage collector at every call: 50 ms instead of microseconds.
    raw = np.array([test.p for test in tests.values()], dtype=np.float64)
    order = np.argsort(raw)  # NaN last, with the p-value 1 that counts in m
    steps = np.arange(raw.size, 0, -1) * np.nan_to_num(raw[order], nan=1.0)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    adjusted[np.isnan(raw)] = nan
    return {
        key: replace(test, p_holm=float(p), significant=bool(p <= alpha))
        for (key, test), p in zip(tests.items(), adjusted, strict=True)
    }


def compare(runs: Mapping[K, Runs], baseline: K, alpha: float = 0.05) -> dict[K, PairedTest]:
    """Paired t-tests of every other method against the baseline, corrected (Holm) as one family."""
    if baseline not in runs:
        raise ValueError(f"no runs of the baseline {baseline!r}; there are {', '.join(sorted(map(str, runs)))}")
    return holm({name: paired_t(r, runs[baseline]) for name, r in runs.items() if name != baseline}, alpha)


@dataclass(frozen=True)
class Improvement:
    """1 − mean(method)/mean(baseline), with a bootstrap interval; positive favours the method."""

    value: float
    low: float
    high: float
    n: int
    note: str = ""


def bootstrap_improvement(
    method: Runs, baseline: Runs, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> Improvement:
    """Percentile interval of 1 − mean(method)/mean(baseline) over resamples of the seeds, drawn in pairs.

    >>> bootstrap_improvement([1.0, 1.0], [2.0, 2.0]).value
    0.5
    """
    a, b = paired(method, baseline)
    n = a.size
    if note := failed(a, b):
        return Improvement(nan, nan, nan, n, note)
    if b.min() <= 0:
        raise ValueError(f"the baseline's errors must be positive to take ratios, got {float(b.min())}")
    value = 1 - float(a.mean() / b.mean())
    if n == 1:
        return Improvement(value, nan, nan, n, ONE_SEED)

    # Not scipy.stats.bootstrap, which gives the same numbers: loading it takes as long as reading all records.
    drawn = np.random.default_rng(seed).integers(0, n, (resamples, n))
    ratios = 1 - a[drawn].mean(axis=1) / b[drawn].mean(axis=1)
    low, high = np.percentile(ratios, [50 * (1 - level), 50 * (1 + level)])
    return Improvement(value, float(low), float(high), n)


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests of |mean(method) − mean(baseline)| < margin; the interval has level 1 − 2·alpha."""

    difference: float
    low: float
    high: float
    margin: float
    p: float
    equivalent: bool
    n: int
    note: str = ""


def tost(method: Runs, baseline: Runs, margin: float = 0.5, alpha: float = 0.05) -> Equivalence:
    """Paired equivalence test. The means are equivalent at alpha if and only if the interval lies inside ±margin."""
    if not margin > 0:
        raise ValueError(f"the margin must be positive, in the unit of the errors; got {margin}")
    test = paired_t(method, baseline, level=1 - 2 * alpha)
    if not np.isfinite(test.low):
        return Equivalence(test.difference, nan, nan, margin, nan, False, test.n, test.note)
    if np.isfinite(test.t) and test.t != 0:
        # The larger p of two one-sided tests. Not statsmodels' ttost_paired: it takes longer to load than to read all
        # records, and rounds tests that are certain.
        error = test.difference / test.t
        p = max(t_below((side * test.difference - margin) / error, test.n - 1) for side in (1, -1))
    else:  # no spread: the difference is known
        p = 0.0 if abs(test.difference) < margin else 1.0
    return Equivalence(test.difference, test.low, test.high, margin, p, p < alpha, test.n, test.note)


def cohens_d(method: Runs, baseline: Runs) -> float:
    """(mean(baseline) − mean(method)) / √((s₁² + s₂²)/2), ddof 1; positive favours the method. Seeds may differ.

    NaN with one seed or a failed run.
    """
    a, b = values(method), values(baseline)
    if failed(a, b) or min(a.size, b.size) < 2:
        return nan
    difference, pooled = float(b.mean() - a.mean()), sqrt((a.std(ddof=1) ** 2 + b.std(ddof=1) ** 2) / 2)
    if pooled == 0:
        return 0.0 if difference == 0 else float(np.copysign(inf, difference))
    return difference / pooled


EFFECT_CLASSES = ((0.2, "negligible"), (0.5, "small"), (0.8, "medium"), (inf, "large"))


def effect_class(d: float) -> str:
    """The class of |d|: negligible below 0.2, small below 0.5, medium below 0.8, large from there on.

    >>> effect_class(0.14), effect_class(-0.3), effect_class(0.56), effect_class(1.02)
    ('negligible', 'small', 'medium', 'large')
    """
    if d != d:
        raise ValueError("an effect of NaN has no class: there was one seed, or a run failed")
    return next(name for top, name in EFFECT_CLASSES if abs(d) < top or top == inf)
