"""How much a method's error grows from its training grid to another one."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

from quadnorm.lab.analysis.claims.cases.shared import (
    decided_by,
    finite_means,
    interval,
    minus,
    not_run,
    on_common_seeds,
    rise_of,
    source,
)
from quadnorm.lab.analysis.claims.verdicts import CONTRADICTED, PARTLY, Finding, graded, verdict_of
from quadnorm.lab.analysis.comparisons import runs_at
from quadnorm.lab.analysis.library import Library
from quadnorm.lab.analysis.statistics.fits import fit_power
from quadnorm.lab.analysis.statistics.paired import paired_t
from quadnorm.lab.analysis.statistics.samples import common
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.table import grid_name


def _route(native: int, far: int) -> str:
    return f"{grid_name(native)} → {grid_name(far)}"


@decided_by("difference of degradations, paired t")
def degrades_less(
    library: Library,
    study: str,
    variant: str,
    native: int,
    far: int,
    claimed: float,
    method: str = "QuadNorm",
    baseline: str = "LayerNorm",
) -> Finding:
    """The baseline's degradation is ``claimed`` times the method's; judged by the paired difference of the two."""
    text = f"{baseline} degrades {claimed:g} times as much as {method}, {_route(native, far)}"
    slow, fast = common(*(rise_of(library, study, variant, m, native, far) for m in (method, baseline)))
    if not slow:
        return not_run(study, text)
    mean_slow, mean_fast = summarize(slow).mean, summarize(fast).mean
    t = paired_t(fast, slow)
    size = abs(mean_fast) or 1.0
    # As a share of the baseline's degradation: a ratio of r saves 1 − 1/r of it.
    verdict = verdict_of(t.difference / size, t.low / size, t.high / size, 1 - 1 / claimed)
    ratio = f", {mean_fast / mean_slow:.1f} times" if mean_slow > 0 and mean_fast > 0 else ""
    shown = minus(f"{mean_fast:+.2f} against {mean_slow:+.2f} points{ratio}")
    return Finding(verdict, shown, text, source(library, study, len(slow)))


@decided_by("smallest mean degradation on common seeds")
def degrades_least(library: Library, study: str, variant: str, native: int, far: int, method: str) -> Finding:
    """``method`` has the smallest mean degradation of the paper's methods, on the seeds that all of them have."""
    text = f"{method} degrades least, {_route(native, far)}"
    rises = on_common_seeds(library, study, variant, lambda m: rise_of(library, study, variant, m, native, far))
    if method not in rises or len(rises) < 2:
        return not_run(study, text)
    means = finite_means(rises)
    where = source(library, study, len(rises[method]))
    if method not in means:
        return Finding(PARTLY, "no seeds in common, or a run failed", text, where)
    least = min(means, key=lambda m: means[m])
    shown = minus(f"{least} least, {means[least]:+.2f} points; {method} {means[method]:+.2f}")
    shown = minus(f"{method} least, {means[method]:+.2f} points") if least == method else shown
    return Finding(graded(least == method, False), shown, text, where)


@decided_by("relative degradation, paired t")
def rises_by(library: Library, study: str, variant: str, native: int, far: int, method: str, claimed: float) -> Finding:
    """The method's error grows by ``claimed`` per cent of its native value."""
    text = f"{method} {claimed:g} % above its native error, {_route(native, far)}"
    a, b = common(*(runs_at(library, study, variant, method, n) for n in (native, far)))
    if not a:
        return not_run(study, text)
    t, base = paired_t(b, a), summarize(a).mean
    share, low, high = (100 * v / base for v in (t.difference, t.low, t.high))
    shown = minus(f"{share:+.0f} %{interval(low, high, 0)}") if isfinite(share) else t.note
    verdict = verdict_of(share, low, high, claimed)
    return Finding(verdict, shown, text, source(library, study, t.n))


@decided_by("ratio of degradations")
def ratio_larger(
    library: Library, deep: tuple[str, str, int, int], shallow: tuple[str, str, int, int], claimed: str
) -> Finding:
    """LayerNorm's degradation over QuadNorm's is larger in one setting than in another: (study, variant, from, to)."""
    ratios, seeds = [], 0
    for study, variant, native, far in (deep, shallow):
        rises = [rise_of(library, study, variant, m, native, far) for m in ("LayerNorm", "QuadNorm")]
        layer, quad = common(*rises)
        if not layer:
            return not_run(study, claimed)
        a, b = summarize(layer).mean, summarize(quad).mean
        ratios.append(a / b if a > 0 and b > 0 else nan)
        seeds = len(layer)
    where = f"{deep[0]}, {source(library, shallow[0], seeds)}"
    if not all(isfinite(r) for r in ratios):
        return Finding(PARTLY, "no ratio: one of the two does not degrade", claimed, where)
    verdict = graded(ratios[0] > ratios[1], False)
    return Finding(verdict, f"{ratios[0]:.1f} times against {ratios[1]:.1f}", claimed, where)


@decided_by("ratio of mean degradations")
def ratio_to_none(
    library: Library,
    study: str,
    variant: str,
    native: int,
    far: int,
    method: str,
    low: float,
    high: float,
    claimed: float,
) -> Finding:
    """The method's degradation over that without a norm lies in [low, high]."""
    text = f"{method} degrades {claimed:g} times as much as no norm, {_route(native, far)}"
    mine, none = common(*(rise_of(library, study, variant, m, native, far) for m in (method, "None")))
    if not mine:
        return not_run(study, text)
    a, b = summarize(mine).mean, summarize(none).mean
    where = source(library, study, len(mine))
    if not (isfinite(a) and isfinite(b)) or b <= 0:
        shown = minus(f"{a:+.2f} points against {b:+.2f} without a norm")
        return Finding(PARTLY, shown, text, where)
    ratio = a / b
    verdict = graded(low <= ratio <= high, low / 2 <= ratio <= 2 * high)
    shown = minus(f"{ratio:.2f} times ({a:+.2f} against {b:+.2f} points)")
    return Finding(verdict, shown, text, where)


@decided_by("ratio of mean errors")
def factor_below(
    library: Library, study: str, variant: str, native: int, far: int, method: str, limit: float, claimed: float
) -> Finding:
    """The error at the far grid is at most ``limit`` times the native one."""
    text = f"{method} at {claimed:g} times its native error, {_route(native, far)}"
    a, b = common(*(runs_at(library, study, variant, method, n) for n in (native, far)))
    if not a:
        return not_run(study, text)
    ratio = summarize(b).mean / summarize(a).mean
    verdict = graded(ratio <= limit, ratio <= 1 + 3 * (limit - 1))
    return Finding(verdict, f"×{ratio:.2f}", text, source(library, study, len(a)))


@decided_by("fitted exponent")
def power_law(
    library: Library, study: str, variant: str, native: int, grids: Sequence[int], method: str, low: float, high: float
) -> Finding:
    """The degradation grows as (n/n₀)^p with p in [low, high]."""
    text = f"{method}: degradation as the ratio to the power 0.6"
    rises = {n: rise_of(library, study, variant, method, native, n) for n in grids}
    if not all(rises.values()):
        return not_run(study, text)
    y = [summarize(r).mean for r in rises.values()]
    where = source(library, study, len(rises[grids[0]]))
    if not all(isfinite(v) and v > 0 for v in y):
        return Finding(CONTRADICTED, "no growth at some grid", text, where)
    p = fit_power([n / native for n in grids], y).exponent
    verdict = graded(low <= p <= high, low / 2 <= p <= 1.5 * high)
    return Finding(verdict, f"power {p:.2f}", text, where)
