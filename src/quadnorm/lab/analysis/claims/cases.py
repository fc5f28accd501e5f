"""The kinds of evidence that claims are judged by. Each gives a function from records to evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import isfinite

from quadnorm.lab.analysis.claims.verdicts import CONTRADICTED, NOT_RUN, PARTLY, REPRODUCED, Evidence, verdict_of
from quadnorm.lab.analysis.comparisons import Place, budget, common, compare_at, runs_at
from quadnorm.lab.analysis.results import Library, Seeds
from quadnorm.lab.analysis.statistics.summaries import fit_power, paired_t, summarize, tost
from quadnorm.lab.analysis.tables.table import grid_name

Case = Callable[[Library], Evidence]


def not_run(study: str, claimed: str) -> Evidence:
    """No records, and how to get them."""
    return Evidence(NOT_RUN, claimed=claimed, command=f"quadnorm study run {study} --preset desk")


def better(
    study: str, variant: str, grid: int, claimed: float, method: str = "QuadNorm", baseline: str = "LayerNorm"
) -> Case:
    """``method`` has ``claimed`` per cent less error than ``baseline`` at the paper's ``grid``."""

    def case(library: Library) -> Evidence:
        said = f"{method} {claimed:.3g} % below {baseline} at {grid_name(grid)}"
        c = compare_at(library, Place(study, variant, grid, method, baseline))
        if c is None:
            return not_run(study, said)
        i = c.improvement
        verdict = verdict_of(i.value, i.low, i.high, claimed / 100)
        spread = f" [{100 * i.low:.1f}, {100 * i.high:.1f}]" if isfinite(i.low) else ""
        base, mean = c.means
        shown = f"{100 * i.value:.1f} %{spread} at {grid_name(c.grid)} ({base:.2f} → {mean:.2f})".replace("-", "−")
        return Evidence(verdict, shown if isfinite(i.value) else i.note, said, f"{study}: {c.budget}")

    return case


def best(study: str, variant: str, grids: Sequence[int], method: str = "QuadNorm") -> Case:
    """``method`` has the smallest mean error of all methods at every one of the grids."""

    def case(library: Library) -> Evidence:
        said = f"{method} best at {', '.join(grid_name(n) for n in grids)}"
        # Rows of ours stay out: the claim is about the paper's methods.
        labels = [m.label for m in library.results(study).study.variant(variant).methods if m.row]
        found: list[str] = []
        for n in grids:
            means = {m: summarize(r).mean for m in labels if (r := runs_at(library, study, variant, m, n))}
            means = {m: v for m, v in means.items() if isfinite(v)}
            if method in means and len(means) > 1:
                found.append(min(means, key=lambda m: means[m]))
        if not found:
            return not_run(study, said)
        won = found.count(method)
        verdict = REPRODUCED if won == len(grids) else CONTRADICTED if won == 0 else PARTLY
        shown = f"best at {won} of {len(found)} grids" + (
            "" if won == len(found) else f"; else {', '.join(sorted(set(found) - {method}))}"
        )
        seeds = len(runs_at(library, study, variant, method, grids[-1]))
        return Evidence(verdict, shown, said, f"{study}: {budget(library.results(study), seeds)}")

    return case


def grows(places: Sequence[Place], claimed: str) -> Case:
    """The improvement over the baseline rises from each place to the next."""

    def case(library: Library) -> Evidence:
        found = [compare_at(library, p) for p in places]
        there = [c for c in found if c is not None and isfinite(c.improvement.value)]
        if len(there) < 2 or len(there) < len(found):
            missing = [p.study for p, c in zip(places, found, strict=True) if c is None]
            return not_run(missing[0] if missing else places[0].study, claimed)
        gains = [100 * c.improvement.value for c in there]
        rises = sum(b > a for a, b in pairwise(gains))
        verdict = REPRODUCED if rises == len(gains) - 1 else CONTRADICTED if gains[-1] <= gains[0] else PARTLY
        shown = " → ".join(f"{g:.1f}" for g in gains).replace("-", "−") + " %"
        return Evidence(verdict, shown, claimed, f"{places[0].study}: {there[0].budget}")

    return case


def equivalent(study: str, variant: str, grid: int, method: str, baseline: str, margin: float = 0.5) -> Case:
    """``method`` and ``baseline`` differ by less than ``margin`` points, by two one-sided tests."""

    def case(library: Library) -> Evidence:
        said = f"{method} and {baseline} within ±{margin:g} points at {grid_name(grid)}"
        a, b = common(*(runs_at(library, study, variant, m, grid) for m in (method, baseline)))
        return _equivalence(library, study, a, b, margin, said)

    return case


def used_alike(
    study: str, variant: str, grid: int, method: str, evaluation: str, other: str, words: str, margin: float = 0.5
) -> Case:
    """The same trained model differs by less than ``margin`` points between two uses."""

    def case(library: Library) -> Evidence:
        a, b = common(*(runs_at(library, study, variant, method, grid, e) for e in (evaluation, other)))
        return _equivalence(library, study, a, b, margin, words)

    return case


def _equivalence(library: Library, study: str, a: Seeds, b: Seeds, margin: float, said: str) -> Evidence:
    if not a:
        return not_run(study, said)
    e = tost(a, b, margin)
    where = f"{study}: {budget(library.results(study), e.n)}"
    if not isfinite(e.p):
        return Evidence(PARTLY, f"{e.difference:+.3f} points; {e.note}".replace("-", "−"), said, where)
    apart = min(abs(e.low), abs(e.high)) > margin and e.low * e.high > 0
    shown = f"{e.difference:+.3f} points [{e.low:.3f}, {e.high:.3f}]".replace("-", "−") + f", p = {e.p:.2g}"
    return Evidence(REPRODUCED if e.equivalent else CONTRADICTED if apart else PARTLY, shown, said, where)


def rise_of(
    library: Library, study: str, variant: str, method: str, native: int, far: int, evaluation: str = "as-trained"
) -> Seeds:
    """Degradation in points, seed by seed; empty if not run."""
    a, b = common(*(runs_at(library, study, variant, method, n, evaluation) for n in (native, far)))
    return {s: b[s] - a[s] for s in a}


def degrades_less(
    study: str,
    variant: str,
    native: int,
    far: int,
    claimed: float,
    method: str = "QuadNorm",
    baseline: str = "LayerNorm",
) -> Case:
    """The baseline's degradation is ``claimed`` times the method's; judged by the paired difference of the two."""

    def case(library: Library) -> Evidence:
        said = f"{baseline} degrades {claimed:g} times as much as {method}, {grid_name(native)} → {grid_name(far)}"
        slow, fast = common(*(rise_of(library, study, variant, m, native, far) for m in (method, baseline)))
        if not slow:
            return not_run(study, said)
        mean_slow, mean_fast = summarize(slow).mean, summarize(fast).mean
        t = paired_t(fast, slow)
        size = abs(mean_fast) or 1.0
        # As a share of the baseline's degradation: a ratio of r saves 1 − 1/r of it.
        verdict = verdict_of(t.difference / size, t.low / size, t.high / size, 1 - 1 / claimed)
        ratio = f", {mean_fast / mean_slow:.1f} times" if mean_slow > 0 and mean_fast > 0 else ""
        shown = f"{mean_fast:+.2f} against {mean_slow:+.2f} points{ratio}".replace("-", "−")
        return Evidence(verdict, shown, said, f"{study}: {budget(library.results(study), len(slow))}")

    return case


def ratio_larger(deep: tuple[str, str, int, int], shallow: tuple[str, str, int, int], claimed: str) -> Case:
    """LayerNorm's degradation over QuadNorm's is larger in one setting than in another: (study, variant, from, to)."""

    def case(library: Library) -> Evidence:
        ratios, seeds = [], 0
        for study, variant, native, far in (deep, shallow):
            rises = [rise_of(library, study, variant, m, native, far) for m in ("LayerNorm", "QuadNorm")]
            layer, quad = common(*rises)
            if not layer:
                return not_run(study, claimed)
            a, b = summarize(layer).mean, summarize(quad).mean
            ratios.append(a / b if a > 0 and b > 0 else float("nan"))
            seeds = len(layer)
        where = f"{deep[0]}, {shallow[0]}: {budget(library.results(deep[0]), seeds)}"
        if not all(isfinite(r) for r in ratios):
            return Evidence(PARTLY, "one of the two does not degrade, so there is no ratio", claimed, where)
        verdict = REPRODUCED if ratios[0] > ratios[1] else CONTRADICTED
        return Evidence(verdict, f"{ratios[0]:.1f} times against {ratios[1]:.1f}", claimed, where)

    return case


def ratio_to_none(
    study: str, variant: str, native: int, far: int, method: str, low: float, high: float, claimed: float
) -> Case:
    """The method's degradation over that without a norm lies in [low, high]."""

    def case(library: Library) -> Evidence:
        said = f"{method} degrades {claimed:g} times as much as no norm, {grid_name(native)} → {grid_name(far)}"
        mine, none = common(*(rise_of(library, study, variant, m, native, far) for m in (method, "None")))
        if not mine:
            return not_run(study, said)
        a, b = summarize(mine).mean, summarize(none).mean
        where = f"{study}: {budget(library.results(study), len(mine))}"
        if not (isfinite(a) and isfinite(b)) or b <= 0:
            return Evidence(PARTLY, f"{a:+.2f} points against {b:+.2f} without a norm".replace("-", "−"), said, where)
        ratio = a / b
        verdict = REPRODUCED if low <= ratio <= high else PARTLY if low / 2 <= ratio <= 2 * high else CONTRADICTED
        return Evidence(verdict, f"{ratio:.2f} times ({a:+.2f} against {b:+.2f} points)".replace("-", "−"), said, where)

    return case


def factor_below(study: str, variant: str, native: int, far: int, method: str, limit: float, claimed: float) -> Case:
    """The error at the far grid is at most ``limit`` times the native one."""

    def case(library: Library) -> Evidence:
        said = f"{method} at {claimed:g} times its native error, {grid_name(native)} → {grid_name(far)}"
        a, b = common(*(runs_at(library, study, variant, method, n) for n in (native, far)))
        if not a:
            return not_run(study, said)
        ratio = summarize(b).mean / summarize(a).mean
        verdict = REPRODUCED if ratio <= limit else PARTLY if ratio <= 1 + 3 * (limit - 1) else CONTRADICTED
        return Evidence(verdict, f"×{ratio:.2f}", said, f"{study}: {budget(library.results(study), len(a))}")

    return case


def fails(study: str, variant: str, grid: int, method: str, claimed: float) -> Case:
    """The method's error at the grid is near ``claimed`` per cent: at least half of it, or no number at all."""

    def case(library: Library) -> Evidence:
        said = f"{method} at {claimed:g} % at {grid_name(grid)}"
        runs = runs_at(library, study, variant, method, grid)
        if not runs:
            return not_run(study, said)
        s = summarize(runs)
        verdict = REPRODUCED if not s.mean < claimed / 2 else PARTLY if s.mean > claimed / 5 else CONTRADICTED
        return Evidence(
            verdict, f"{s} %" if isfinite(s.mean) else s.note, said, f"{study}: {budget(library.results(study), s.n)}"
        )

    return case


def power_law(
    study: str, variant: str, native: int, grids: Sequence[int], method: str, low: float, high: float
) -> Case:
    """The degradation grows as (n/n₀)^p with p in [low, high]."""

    def case(library: Library) -> Evidence:
        said = f"{method}: degradation as the ratio to the power 0.6"
        rises = {n: rise_of(library, study, variant, method, native, n) for n in grids}
        if not all(rises.values()):
            return not_run(study, said)
        y = [summarize(r).mean for r in rises.values()]
        where = f"{study}: {budget(library.results(study), len(rises[grids[0]]))}"
        if not all(isfinite(v) and v > 0 for v in y):
            return Evidence(CONTRADICTED, "no growth at some grid", said, where)
        p = fit_power([n / native for n in grids], y).exponent
        verdict = REPRODUCED if low <= p <= high else PARTLY if low / 2 <= p <= 1.5 * high else CONTRADICTED
        return Evidence(verdict, f"power {p:.2f}", said, where)

    return case


def used(
    study: str, variant: str, grid: int, method: str, evaluation: str, other: str, claimed: float, words: str
) -> Case:
    """The same trained model has ``claimed`` per cent less error in one use than in another."""

    def case(library: Library) -> Evidence:
        a, b = common(*(runs_at(library, study, variant, method, grid, e) for e in (evaluation, other)))
        if not a:
            return not_run(study, words)
        t = paired_t(a, b)
        base = summarize(b).mean
        verdict = verdict_of(-t.difference / base, -t.high / base, -t.low / base, claimed / 100)
        spread = f" [{-100 * t.high / base:.0f}, {-100 * t.low / base:.0f}]" if isfinite(t.low) else ""
        shown = f"{base:.2f} → {summarize(a).mean:.2f} %, {-100 * t.difference / base:.0f} %{spread} less"
        return Evidence(verdict, shown.replace("-", "−"), words, f"{study}: {budget(library.results(study), t.n)}")

    return case
