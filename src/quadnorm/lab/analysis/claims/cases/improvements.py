"""One method has less error than another: by how much, where, and with which effect size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from quadnorm.lab.analysis.claims.cases.shared import (
    decided_by,
    finite_means,
    interval,
    minus,
    not_run,
    on_common_seeds,
    source,
)
from quadnorm.lab.analysis.claims.verdicts import Finding, graded, verdict_of
from quadnorm.lab.analysis.comparisons import Contrast, compare_at, runs_at
from quadnorm.lab.analysis.library import Library
from quadnorm.lab.analysis.statistics.paired import EFFECT_CLASSES, effect_class
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.table import grid_name


@decided_by("improvement, paired bootstrap")
def better(
    library: Library,
    study: str,
    variant: str,
    grid: int,
    claimed: float,
    method: str = "QuadNorm",
    baseline: str = "LayerNorm",
) -> Finding:
    """``method`` has ``claimed`` per cent less error than ``baseline`` at the paper's ``grid``."""
    text = f"{method} {claimed:.3g} % below {baseline} at {grid_name(grid)}"
    c = compare_at(library, Contrast(study, variant, grid, method, baseline))
    if c is None:
        return not_run(study, text)
    i = c.improvement
    verdict = verdict_of(i.value, i.low, i.high, claimed / 100)
    base, mean = c.means
    spread = interval(100 * i.low, 100 * i.high)
    shown = minus(f"{100 * i.value:.1f} %{spread} at {grid_name(c.grid)} ({base:.2f} → {mean:.2f})")
    return Finding(verdict, shown if isfinite(i.value) else i.note, text, f"{study}: {c.budget}")


@decided_by("smallest mean on common seeds")
def best(library: Library, study: str, variant: str, grids: Sequence[int], method: str = "QuadNorm") -> Finding:
    """``method`` has the smallest mean error of the paper's methods at every one of the grids, on equal seeds."""
    text = f"{method} best at {', '.join(grid_name(n) for n in grids)}"
    winners: list[str] = []
    seeds = 0
    for n in grids:
        runs = on_common_seeds(library, study, variant, lambda m, n=n: runs_at(library, study, variant, m, n))
        means = finite_means(runs)
        if method in means and len(means) > 1:
            winners.append(min(means, key=lambda m: means[m]))
            seeds = len(runs[method])
    if not winners:
        return not_run(study, text)
    won = winners.count(method)
    verdict = graded(won == len(grids), won > 0)
    others = ", ".join(sorted(set(winners) - {method}))
    shown = f"best at {won} of {len(winners)} grids" + (f"; elsewhere {others}" if others else "")
    return Finding(verdict, shown, text, source(library, study, seeds))


@decided_by("order of the improvements")
def grows(library: Library, contrasts: Sequence[Contrast], claimed: str) -> Finding:
    """The improvement over the baseline rises from each contrast to the next."""
    compared = [compare_at(library, p) for p in contrasts]
    there = [c for c in compared if c is not None and isfinite(c.improvement.value)]
    if len(there) < 2 or len(there) < len(compared):
        missing = [p.study for p, c in zip(contrasts, compared, strict=True) if c is None]
        return not_run(missing[0] if missing else contrasts[0].study, claimed)
    gains = [100 * c.improvement.value for c in there]
    verdict = graded(all(b > a for a, b in pairwise(gains)), gains[-1] > gains[0])
    shown = minus(" → ".join(f"{g:.1f}" for g in gains)) + " %"
    return Finding(verdict, shown, claimed, f"{contrasts[0].study}: {there[0].budget}")


@decided_by("Cohen's d")
def effect_size(
    library: Library,
    study: str,
    variant: str,
    grid: int,
    claimed: float,
    method: str = "QuadNorm",
    baseline: str = "LayerNorm",
) -> Finding:
    """Cohen's d of ``method`` against ``baseline`` is in the class of the claimed one, or above it."""
    bounds = [0.0, *(top for top, _ in EFFECT_CLASSES)]
    floor = max(b for b in bounds if b <= claimed)
    text = f"{method} against {baseline} at {grid_name(grid)}: d = {claimed:g}, {effect_class(claimed)}"
    c = compare_at(library, Contrast(study, variant, grid, method, baseline))
    if c is None:
        return not_run(study, text)
    where = f"{study}: {c.budget}"
    if not isfinite(c.d):
        note = c.improvement.note or "no spread over the seeds"
        return Finding(graded(False, c.improvement.value > 0), note, text, where)
    verdict = graded(c.d >= floor, c.d > EFFECT_CLASSES[0][0])
    return Finding(verdict, minus(f"d = {c.d:.2f}, {effect_class(c.d)}"), text, where)


@decided_by("mean error")
def fails(library: Library, study: str, variant: str, grid: int, method: str, claimed: float) -> Finding:
    """The method's error at the grid is near ``claimed`` per cent: at least half of it, or no finite number."""
    text = f"{method} at {claimed:g} % at {grid_name(grid)}"
    runs = runs_at(library, study, variant, method, grid)
    if not runs:
        return not_run(study, text)
    s = summarize(runs)
    verdict = graded(not s.mean < claimed / 2, s.mean > claimed / 5)
    shown = f"{s} %" if isfinite(s.mean) else s.note
    return Finding(verdict, shown, text, source(library, study, s.n))
