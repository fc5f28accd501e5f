"""What varies from seed to seed: the spread of errors, which method is better, and learned parameters."""

from __future__ import annotations

from math import isfinite

from quadnorm.lab.analysis.claims.cases.shared import decided_by, interval, minus, not_run, source
from quadnorm.lab.analysis.claims.verdicts import PARTLY, Finding, graded, verdict_of
from quadnorm.lab.analysis.comparisons import runs_at
from quadnorm.lab.analysis.library import Library
from quadnorm.lab.analysis.results import learned_alphas
from quadnorm.lab.analysis.statistics.paired import bootstrap_steadiness, wins
from quadnorm.lab.analysis.statistics.samples import common, values
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.table import grid_name


@decided_by("ratio of standard deviations, paired bootstrap")
def steadier(
    library: Library,
    study: str,
    variant: str,
    grid: int,
    sigmas: tuple[float, float],
    method: str = "QuadNorm",
    baseline: str = "LayerNorm",
) -> Finding:
    """The errors of ``method`` scatter less over seeds: standard deviations as claimed, (method, baseline)."""
    text = f"σ over seeds {sigmas[0]:.2f} ({method}) against {sigmas[1]:.2f} ({baseline}) at {grid_name(grid)}"
    a, b = common(*(runs_at(library, study, variant, m, grid) for m in (method, baseline)))
    if not a:
        return not_run(study, text)
    i = bootstrap_steadiness(a, b)
    where = source(library, study, i.n)
    if not isfinite(i.value):
        return Finding(PARTLY, i.note, text, where)
    sa, sb = (float(values(r).std(ddof=1)) for r in (a, b))
    shown = f"{sa:.2f} against {sb:.2f}, {100 * i.value:.0f} %{interval(100 * i.low, 100 * i.high, 0)} less"
    return Finding(verdict_of(i.value, i.low, i.high, 1 - sigmas[0] / sigmas[1]), minus(shown), text, where)


@decided_by("count of seeds")
def wins_most_seeds(
    library: Library,
    study: str,
    variant: str,
    grid: int,
    claimed: tuple[int, int],
    method: str = "QuadNorm",
    baseline: str = "LayerNorm",
) -> Finding:
    """``method`` has the smaller error in at least the claimed share of the seeds: (wins, seeds)."""
    text = f"{claimed[0]} of {claimed[1]} seeds favour {method} over {baseline} at {grid_name(grid)}"
    a, b = common(*(runs_at(library, study, variant, m, grid) for m in (method, baseline)))
    if not a:
        return not_run(study, text)
    won, n = wins(a, b)
    share, wanted = won / n, claimed[0] / claimed[1]
    verdict = graded(share >= wanted, share >= 0.5)
    return Finding(verdict, f"{won} of {n} seeds", text, source(library, study, n))


@decided_by("mean of the learned α")
def learned_alpha(library: Library, study: str, variant: str, method: str, low: float, high: float) -> Finding:
    """The blend weight α that training arrives at lies in [low, high], on average over layers and seeds."""
    text = f"learned α between {low:g} and {high:g}"
    results = library.comparable(study)
    alphas = learned_alphas(results, variant, method) if results is not None else {}
    if not alphas:
        return not_run(study, text)
    s = summarize({seed: sum(v) / len(v) for seed, v in alphas.items()})
    every = [a for v in alphas.values() for a in v]
    slack = (high - low) / 2
    verdict = graded(low <= s.mean <= high, low - slack <= s.mean <= high + slack)
    shown = f"{s}, layers from {min(every):.2f} to {max(every):.2f}"
    return Finding(verdict, shown, text, source(library, study, s.n))
