"""Two methods, or two ways to use one trained model: alike within a margin, or one better than the other."""

from __future__ import annotations

from math import isfinite

from quadnorm.lab.analysis.claims.cases.shared import decided_by, interval, minus, not_run, source
from quadnorm.lab.analysis.claims.verdicts import PARTLY, Finding, graded, verdict_of
from quadnorm.lab.analysis.comparisons import runs_at
from quadnorm.lab.analysis.library import Library
from quadnorm.lab.analysis.results import Seeds
from quadnorm.lab.analysis.statistics.paired import paired_t, tost
from quadnorm.lab.analysis.statistics.samples import common
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.table import grid_name

TOST = "equivalence, two one-sided tests"


@decided_by(TOST)
def equivalent(
    library: Library, study: str, variant: str, grid: int, method: str, baseline: str, margin: float = 0.5
) -> Finding:
    """``method`` and ``baseline`` differ by less than ``margin`` points, by two one-sided tests."""
    text = f"{method} and {baseline} within ±{margin:g} points at {grid_name(grid)}"
    a, b = common(*(runs_at(library, study, variant, m, grid) for m in (method, baseline)))
    return _equivalence(library, study, a, b, margin, text)


@decided_by(TOST)
def used_alike(
    library: Library,
    study: str,
    variant: str,
    grid: int,
    method: str,
    evaluation: str,
    other: str,
    text: str,
    margin: float = 0.5,
) -> Finding:
    """The same trained model differs by less than ``margin`` points between two ways to use it."""
    a, b = common(*(runs_at(library, study, variant, method, grid, e) for e in (evaluation, other)))
    return _equivalence(library, study, a, b, margin, text)


def _equivalence(library: Library, study: str, a: Seeds, b: Seeds, margin: float, text: str) -> Finding:
    if not a:
        return not_run(study, text)
    e = tost(a, b, margin)
    where = source(library, study, e.n)
    if not isfinite(e.p):
        return Finding(PARTLY, minus(f"{e.difference:+.3f} points; {e.note}"), text, where)
    apart = min(abs(e.low), abs(e.high)) > margin and e.low * e.high > 0
    shown = minus(f"{e.difference:+.3f} points{interval(e.low, e.high, 3)}") + f", p = {e.p:.2g}"
    return Finding(graded(e.equivalent, not apart), shown, text, where)


@decided_by("improvement, paired t")
def used(
    library: Library,
    study: str,
    variant: str,
    grid: int,
    method: str,
    evaluation: str,
    other: str,
    claimed: float,
    text: str,
) -> Finding:
    """The same trained model has ``claimed`` per cent less error in one use than in another."""
    a, b = common(*(runs_at(library, study, variant, method, grid, e) for e in (evaluation, other)))
    if not a:
        return not_run(study, text)
    t = paired_t(a, b)
    base = summarize(b).mean
    gain, low, high = (-100 * v / base for v in (t.difference, t.high, t.low))
    verdict = verdict_of(gain, low, high, claimed)
    shown = minus(f"{base:.2f} → {summarize(a).mean:.2f} %, {gain:.0f} %{interval(low, high, 0)} less")
    return Finding(verdict, shown, text, source(library, study, t.n))
