"""Errors of several seeds: the input of all statistics, and the pairing of two sets of runs."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

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
