"""What follows from a printed mean ± half-width of the 95 % interval, without the runs behind it."""

from math import isfinite, sqrt

from quadnorm.lab.analysis.statistics.paired import t_quantile


def std_from_interval(half, n):
    """The standard deviation (ddof 1) behind a t-interval: half·√n / t."""
    return half * sqrt(n) / t_quantile(0.975, n - 1)


def cohens_d_from_intervals(method, baseline, n):
    """Cohen's d from (mean, half-width) of n runs each."""
    s1, s2 = std_from_interval(method[1], n), std_from_interval(baseline[1], n)
    return (baseline[0] - method[0]) / sqrt((s1**2 + s2**2) / 2)


def best_or_overlapping(cells):
    """The smallest of (mean, half-width) and those whose interval overlaps its own: the paper's bold marks."""
    finite = {name: cell for name, cell in cells.items() if isfinite(cell[0])}
    best = min(finite, key=lambda name: finite[name][0])
    top = sum(finite[best])
    # Half a unit of the fourth decimal: printed numbers are decimal, their sums in binary are not.
    return {best} | {name for name, (mean, half) in finite.items() if mean - half < top - 5e-5}
