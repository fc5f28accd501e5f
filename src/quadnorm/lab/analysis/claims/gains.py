"""Rules about improvements over another row, and about degradations from grid to grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import inf, isfinite
from typing import Any

from quadnorm.lab.analysis.claims.evidence import Setting
from quadnorm.lab.analysis.claims.rules import (
    LAYER,
    NONE,
    QUAD,
    claimed_number,
    finding_of,
    in_band,
    interval,
    minus,
    on_effect,
    rule,
)
from quadnorm.lab.analysis.claims.verdicts import (
    CONTRADICTED,
    NOT_RUN,
    NOT_TESTABLE,
    PARTLY,
    REPRODUCED,
    Finding,
    effect_verdict,
    together,
)
from quadnorm.lab.analysis.results import Seeds
from quadnorm.lab.analysis.statistics.intervals import Estimate, mean_estimate, ratio_estimate
from quadnorm.lab.analysis.statistics.paired import common
from quadnorm.lab.analysis.statistics.summaries import fit_power, summarize
from quadnorm.lab.analysis.tables.table import grid_name

ABOUT = 0.2  # how far a ratio of degradations may be from the printed one


def _less(s: Setting, a: Seeds, b: Seeds, claimed: float, text: str, where: str) -> Finding:
    """``a`` is ``claimed`` per cent below ``b``."""
    if not a:
        return Finding(NOT_RUN, claimed=text)
    e = ratio_estimate(a, b, s.level).map(-100, 100)
    shown = f"{e.value:.1f} %{interval(e)}{where} ({summarize(b).mean:.2f} → {summarize(a).mean:.2f})"
    return on_effect(s, e, claimed, shown, text)


@rule("improvement, paired t (Fieller)")
def better(
    s: Setting,
    grid: int,
    method: str = QUAD,
    baseline: str = LAYER,
    cell: Mapping[str, Any] | None = None,
    stated: float | None = None,
    ours: float | None = None,
) -> Finding:
    """``method`` has less error than ``baseline`` at the paper's ``grid``."""
    claimed, source = claimed_number(
        lambda: 100 * (1 - s.value(method, grid) / s.value(baseline, grid)), cell, stated, ours
    )
    text = f"{method} {claimed:.3g} % below {baseline} at {grid_name(grid)}{source}"
    a, b = s.pair(method, baseline, grid)
    return _less(s, a, b, claimed, text, f" at {grid_name(s.variant.test[s.full.test.index(grid)])}")


@rule("improvement, paired t (Fieller)")
def used(
    *settings: Setting, grid: int, method: str, way: str, other: str, ours: float, text: str, at: int = 0
) -> Finding:
    """A trained model has ``ours`` per cent less error used in one way than in another; of two settings the second is
    compared with. ``at``: the grid of the other way, if it is another one."""
    s, rest = settings[0], settings[-1]
    a, b = common(s.errors(method, grid, way), rest.errors(method, at or grid, other))
    return _less(s, a, b, ours, text, "")


@rule("ratio of errors below a limit, one-sided t (Fieller)")
def keeps(s: Setting, native: int, far: int, method: str, way: str, ours: float, text: str) -> Finding:
    """Used in this way a trained model has at most ``ours`` per cent more error at the far grid than at its own."""
    a, b = common(s.errors(method, native, way), s.errors(method, far, way))
    if not a:
        return Finding(NOT_RUN, claimed=text)
    shown = f"×{{:.2f}}{{}} ({summarize(a).mean:.2f} → {summarize(b).mean:.2f})"
    return in_band(s, partial(ratio_estimate, b, a), -inf, 1 + ours / 100, shown, text)


def _best_of(s: Setting, runs: Mapping[str, Seeds], method: str) -> list[Estimate]:
    """How far every other row lies above ``method``: paired differences, on the seeds that the two have."""
    return [mean_estimate({k: a[k] - b[k] for k in a}, s.level) for m in runs if m != method
            for a, b in [common(runs[m], runs[method])] if a]  # fmt: skip


def _lowest(s: Setting, tables: Sequence[Mapping[str, Seeds]], method: str, what: str, text: str) -> Finding:
    """``method`` is lowest in each of the tables: told from every other row, or beaten by one."""
    verdicts, words, lowest, n = [], [], [], 0
    for runs in tables:
        apart = _best_of(s, runs, method)
        if method not in runs or not apart:
            return Finding(NOT_RUN, claimed=text)
        n = len(runs[method])
        finite = [e for e in apart if isfinite(e.value)]  # a row that failed is not the best
        if not all(e.has_interval for e in finite):
            return finding_of(s, NOT_TESTABLE, "", text, n, "one seed: no interval")
        told = sum(e.low > 0 for e in finite) + len(apart) - len(finite)
        lower = sum(e.value > 0 for e in finite) + len(apart) - len(finite)
        beaten = any(e.high < 0 for e in finite) or lower == 0
        verdicts.append(REPRODUCED if told == len(apart) else CONTRADICTED if beaten else PARTLY)
        words.append(f"{lower} of {len(apart)} others {what}, {told} beyond the interval")
        lowest.append(lower == len(apart))
    return finding_of(s, together(verdicts), "; ".join(words), text, n, agrees=all(lowest))


@rule("paired t against every other row")
def best(s: Setting, grids: Sequence[int], method: str = QUAD) -> Finding:
    """``method`` has the smallest error of the paper's rows at every one of the grids."""
    text = f"{method} best at {', '.join(grid_name(n) for n in grids)}"
    tables = [{m: runs for m in s.rows() if (runs := s.errors(m, n))} for n in grids]
    return _lowest(s, tables, method, "above it", text)


@rule("difference of degradations, paired t against every other row")
def degrades_least(s: Setting, native: int, far: int, method: str) -> Finding:
    """``method`` has the smallest degradation of the paper's rows."""
    text = f"{method} degrades least, {_route(native, far)}"
    rises = {m: runs for m in s.rows() if (runs := s.rise(m, native, far))}
    return _lowest(s, [rises], method, "degrade more", text)


@rule("differences of improvements, paired t")
def grows(*settings: Setting, grids: Sequence[int], method: str = QUAD, baseline: str = LAYER) -> Finding:
    """The improvement over the baseline rises from each setting or grid to the next."""
    s = settings[0]
    steps = [(t, n) for t in settings for n in grids]
    claimed = [100 * (1 - t.value(method, n) / t.value(baseline, n)) for t, n in steps]
    text = minus(f"{method}'s gain " + " → ".join(f"{g:.0f}" for g in claimed)) + " %"
    gains: list[Seeds] = []
    for t, n in steps:
        a, b = t.pair(method, baseline, n)
        gains.append({k: 100 * (1 - a[k] / b[k]) for k in a})
    if not all(gains):
        return Finding(NOT_RUN, claimed=text)
    verdicts, notes, agree = [], [], []
    for (low, high), (before, after) in zip(pairwise(gains), pairwise(claimed), strict=True):
        a, b = common(low, high)
        if not a:
            return Finding(NOT_RUN, claimed=text)
        e = mean_estimate({k: b[k] - a[k] for k in a}, s.level)
        verdicts.append(effect_verdict(e, after - before))
        notes.append(f"{e.value:+.1f}{interval(e)}")
        agree.append(e.value >= (after - before) / 2)
    shown = " → ".join(f"{summarize(g).mean:.1f}" for g in gains) + f" %, steps {', '.join(notes)}"
    return finding_of(s, together(verdicts), shown, text, min(map(len, gains)), agrees=all(agree))


def _route(native: int, far: int) -> str:
    return f"{grid_name(native)} → {grid_name(far)}"


def _printed_rise(s: Setting, label: str, native: int, far: int) -> float:
    return s.value(label, far) - s.value(label, native)


@rule("ratio of degradations, paired t (Fieller)")
def degrades_less(
    s: Setting, native: int, far: int, method: str = QUAD, baseline: str = LAYER, stated: float | None = None
) -> Finding:
    """The method's degradation is a part of the baseline's, judged by the share that it saves."""
    ratio, source = claimed_number(
        lambda: _printed_rise(s, baseline, native, far) / _printed_rise(s, method, native, far), None, stated, None
    )
    text = f"{baseline} degrades {ratio:.2g} times as much as {method}, {_route(native, far)}{source}"
    slow, fast = common(s.rise(method, native, far), s.rise(baseline, native, far))
    if not slow:
        return Finding(NOT_RUN, claimed=text)
    e = ratio_estimate(slow, fast, s.level).map(-1, 1)
    if summarize(fast).mean <= 0:
        e = Estimate(0.0, 0.0, 0.0, e.n, "the baseline does not degrade")
    a, b = summarize(slow).mean, summarize(fast).mean
    times = f", {b / a:.1f} times" if a > 0 and b > 0 else ""
    shown = f"{b:+.2f} against {a:+.2f} points{times}, {100 * e.value:.0f} %{interval(e, 0, 100)} saved"
    return on_effect(s, e, 1 - 1 / ratio, shown, text)


@rule("difference of the shares saved, paired t")
def saves_more(
    deep: Setting, shallow: Setting, routes: Sequence[Sequence[int]], method: str = QUAD, baseline: str = LAYER
) -> Finding:
    """The share of the baseline's degradation that the method saves is larger in one setting than in another."""
    shares, claimed, ratios = [], [], []
    for s, (native, far) in zip((deep, shallow), routes, strict=True):
        slow, fast = common(s.rise(method, native, far), s.rise(baseline, native, far))
        shares.append({k: 1 - slow[k] / fast[k] for k in slow if fast[k] > 0})
        ratios.append(_printed_rise(s, baseline, native, far) / _printed_rise(s, method, native, far))
        claimed.append(1 - 1 / ratios[-1])
    text = (
        f"{baseline} degrades {ratios[0]:.2g} times as much as {method} there, {ratios[1]:.2g} times in {shallow.study}"
    )
    a, b = common(*shares)
    if not a:
        return Finding(NOT_RUN, claimed=text)
    e = mean_estimate({k: a[k] - b[k] for k in a}, deep.level)
    means = f"{100 * summarize(a).mean:.0f} % saved against {100 * summarize(b).mean:.0f} %"
    shown = f"{means}, difference{interval(e, 0, 100)}"
    return on_effect(deep, e, claimed[0] - claimed[1], shown, text)


@rule("ratio of degradations inside a band, two one-sided t (Fieller)")
def like_none(s: Setting, native: int, far: int, method: str) -> Finding:
    """The method's degradation over that without a norm is the printed one, give or take ``ABOUT``."""
    claimed = _printed_rise(s, method, native, far) / _printed_rise(s, NONE, native, far)
    text = f"{method} degrades {claimed:.2f} ± {ABOUT:g} times as much as no norm, {_route(native, far)}"
    mine, none = common(s.rise(method, native, far), s.rise(NONE, native, far))
    if not mine:
        return Finding(NOT_RUN, claimed=text)
    shown = f"{{:.2f}} times{{}} ({summarize(mine).mean:+.2f} against {summarize(none).mean:+.2f} points)"
    return in_band(s, partial(ratio_estimate, mine, none), claimed - ABOUT, claimed + ABOUT, shown, text)


@rule("ratio of errors below a limit, one-sided t (Fieller)")
def stays(s: Setting, native: int, far: int, method: str) -> Finding:
    """The error at the far grid is above the native one by at most twice what the paper prints."""
    claimed = s.value(method, far) / s.value(method, native)
    limit = 1 + 2 * (claimed - 1)
    text = f"{method} at {claimed:.2f} times its native error, {_route(native, far)}"
    a, b = common(s.errors(method, native), s.errors(method, far))
    if not a:
        return Finding(NOT_RUN, claimed=text)
    return in_band(s, partial(ratio_estimate, b, a), -inf, limit, "×{:.2f}{}", text)


@rule("relative degradation, paired t (Fieller)")
def rises_by(s: Setting, native: int, far: int, method: str) -> Finding:
    """The method's error grows by a share of its native value."""
    claimed = 100 * (s.value(method, far) / s.value(method, native) - 1)
    text = f"{method} {claimed:.0f} % above its native error, {_route(native, far)}"
    a, b = common(s.errors(method, native), s.errors(method, far))
    if not a:
        return Finding(NOT_RUN, claimed=text)
    e = ratio_estimate(b, a, s.level).map(100, -100)
    return on_effect(s, e, claimed, f"{e.value:+.0f} %{interval(e, 0)}", text)


@rule("exponent inside a band, two one-sided t over seeds")
def power_law(s: Setting, native: int, grids: Sequence[int], method: str, stated: float, width: float) -> Finding:
    """The degradation grows as (n/n₀)^p with p within ``width`` of the stated one."""
    text = f"{method}: degradation as the ratio to the power {stated:g} ± {width:g} (in the text)"
    rises = dict(zip(grids, common(*(s.rise(method, native, n) for n in grids)), strict=True))
    if not all(rises.values()):
        return Finding(NOT_RUN, claimed=text)
    seeds = list(rises[grids[0]])
    if not all(isfinite(r[k]) and r[k] > 0 for r in rises.values() for k in seeds):
        return finding_of(s, PARTLY, "no growth at some grid and seed, so no exponent", text, len(seeds))
    ratios = [n / native for n in grids]
    fits = {k: fit_power(ratios, [rises[n][k] for n in grids]).exponent for k in seeds}
    return in_band(s, partial(mean_estimate, fits), stated - width, stated + width, "power {:.2f}{}", text)
