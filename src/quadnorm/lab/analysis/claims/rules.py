"""The kinds of evidence. Each rule turns the records of a setting and the paper's cells into one finding.

What was claimed is computed from the printed cells of the setting's table. Where the paper prints a number elsewhere,
the case names that cell (``cell``); a number that only its text has is ``stated``, and a size of ours, where the paper
gives none, ``ours``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from math import inf, isfinite
from typing import Any

from quadnorm.lab.analysis.claims.evidence import Setting
from quadnorm.lab.analysis.claims.verdicts import (
    CONTRADICTED,
    NOT_RUN,
    NOT_TESTABLE,
    PARTLY,
    REPRODUCED,
    Finding,
    band_verdict,
    effect_verdict,
    together,
)
from quadnorm.lab.analysis.results import Seeds, learned_alphas
from quadnorm.lab.analysis.statistics.intervals import (
    Estimate,
    d_estimate,
    mean_estimate,
    ratio_estimate,
    share_estimate,
    spread_estimate,
)
from quadnorm.lab.analysis.statistics.paired import EFFECT_CLASSES, common, effect_class
from quadnorm.lab.analysis.statistics.summaries import fit_power, summarize
from quadnorm.lab.analysis.tables.table import grid_name
from quadnorm.lab.studies.paper import paper_table

Rule = Callable[..., Finding]
RULES: dict[str, Rule] = {}
QUAD, LAYER, NONE = "QuadNorm", "LayerNorm", "None"
ABOUT = 0.2  # how far a ratio of degradations may be from the printed one
MARGIN = 5.0  # per cent: two errors that are claimed to be alike, where the paper gives no margin


def rule(kind: str) -> Callable[[Rule], Rule]:
    """Register a rule under its function's name; ``kind`` names the statistic that decides."""

    def register(judgement: Rule) -> Rule:
        def judged(*settings: Setting, **options: Any) -> Finding:
            finding = replace(judgement(*settings, **options), kind=kind)
            s = settings[0] if settings else None
            if s is None:
                return finding
            if finding.verdict == NOT_RUN:
                return replace(finding, command=f"quadnorm study run {s.study} --preset desk")
            why = next(filter(None, (t.not_learned() for t in settings)), finding.reason)
            return replace(finding, verdict=NOT_TESTABLE, reason=why) if why else finding

        RULES[judgement.__name__] = judged
        return judged

    return register


def minus(text: str) -> str:
    """The text with true minus signs instead of hyphens."""
    return text.replace("-", "−")


def interval(e: Estimate, digits: int = 1, scale: float = 1.0) -> str:
    """`` [28.0, 34.1]``; `` [unbounded]``; nothing with one seed."""
    if not e.has_interval:
        return ""
    if not (isfinite(e.low) and isfinite(e.high)):
        return " [unbounded]"
    return f" [{scale * e.low:.{digits}f}, {scale * e.high:.{digits}f}]"


def cell_value(table: str, row: str, column: str, nth: int = 0) -> float:
    """A number in a cell of the paper: the row that begins with these words, the column of this head."""
    for panel in paper_table(table).panels:
        for cells in panel.rows:
            if " | ".join(c.text for c in cells).startswith(row) and column in panel.columns:
                return cells[panel.columns.index(column)].numbers[nth]
    raise ValueError(f"{table} has no row that begins with {row!r} and a column {column!r}")


def claimed_number(
    from_cells: Callable[[], float], cell: Mapping[str, Any] | None, stated: float | None, ours: float | None
) -> tuple[float, str]:
    """What was claimed, and a word on where it is from if that is not the setting's own table."""
    if cell is not None:
        return cell_value(**cell), f" ({cell['table']})"
    if stated is not None:
        return stated, " (in the text)"
    if ours is not None:
        return ours, " (the size is ours: the paper prints none)"
    return from_cells(), ""


def seeds_text(s: Setting, n: int) -> str:
    """``extreme-crossres: desk, 3 seeds``."""
    return f"{s.study}: {s.preset}, {n} seed{'s' if n != 1 else ''}"


def _found(s: Setting, verdict: str, measured: str, text: str, n: int, note: str = "", agrees: bool = False) -> Finding:
    reason = (note or "one seed") if verdict == NOT_TESTABLE else ""
    return Finding(verdict, minus(measured), text, seeds_text(s, n), reason=reason, agrees=agrees)


def _effect(s: Setting, e: Estimate, claimed: float, shown: str, text: str) -> Finding:
    """The finding on an effect of which ``claimed`` was printed."""
    shown = shown if isfinite(e.value) else e.note
    return _found(s, effect_verdict(e, claimed), shown, text, e.n, e.note, e.value >= claimed / 2)


def _band(s: Setting, estimate: Callable[[float], Estimate], low: float, high: float, shown: str, text: str) -> Finding:
    """The finding on a value that is claimed to lie in a band; ``shown`` has places for value and interval."""
    inner, outer = estimate(s.band_level), estimate(s.level)
    words = shown.format(inner.value, interval(inner, 2)) if isfinite(inner.value) else inner.note
    verdict = band_verdict(inner, outer, low, high)
    return _found(s, verdict, words, text, inner.n, inner.note, low <= inner.value <= high)


def _less(s: Setting, a: Seeds, b: Seeds, claimed: float, text: str, where: str) -> Finding:
    """``a`` is ``claimed`` per cent below ``b``."""
    if not a:
        return Finding(NOT_RUN, claimed=text)
    e = ratio_estimate(a, b, s.level).map(-100, 100)
    shown = f"{e.value:.1f} %{interval(e)}{where} ({summarize(b).mean:.2f} → {summarize(a).mean:.2f})"
    return _effect(s, e, claimed, shown, text)


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
    return _band(s, partial(ratio_estimate, b, a), -inf, 1 + ours / 100, shown, text)


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
            return _found(s, NOT_TESTABLE, "", text, n, "one seed: no interval")
        told = sum(e.low > 0 for e in finite) + len(apart) - len(finite)
        lower = sum(e.value > 0 for e in finite) + len(apart) - len(finite)
        beaten = any(e.high < 0 for e in finite) or lower == 0
        verdicts.append(REPRODUCED if told == len(apart) else CONTRADICTED if beaten else PARTLY)
        words.append(f"{lower} of {len(apart)} others {what}, {told} beyond the interval")
        lowest.append(lower == len(apart))
    return _found(s, together(verdicts), "; ".join(words), text, n, agrees=all(lowest))


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
    return _found(s, together(verdicts), shown, text, min(map(len, gains)), agrees=all(agree))


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
    return _effect(s, e, 1 - 1 / ratio, shown, text)


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
    return _effect(deep, e, claimed[0] - claimed[1], shown, text)


@rule("ratio of degradations inside a band, two one-sided t (Fieller)")
def like_none(s: Setting, native: int, far: int, method: str) -> Finding:
    """The method's degradation over that without a norm is the printed one, give or take ``ABOUT``."""
    claimed = _printed_rise(s, method, native, far) / _printed_rise(s, NONE, native, far)
    text = f"{method} degrades {claimed:.2f} ± {ABOUT:g} times as much as no norm, {_route(native, far)}"
    mine, none = common(s.rise(method, native, far), s.rise(NONE, native, far))
    if not mine:
        return Finding(NOT_RUN, claimed=text)
    shown = f"{{:.2f}} times{{}} ({summarize(mine).mean:+.2f} against {summarize(none).mean:+.2f} points)"
    return _band(s, partial(ratio_estimate, mine, none), claimed - ABOUT, claimed + ABOUT, shown, text)


@rule("ratio of errors below a limit, one-sided t (Fieller)")
def stays(s: Setting, native: int, far: int, method: str) -> Finding:
    """The error at the far grid is above the native one by at most twice what the paper prints."""
    claimed = s.value(method, far) / s.value(method, native)
    limit = 1 + 2 * (claimed - 1)
    text = f"{method} at {claimed:.2f} times its native error, {_route(native, far)}"
    a, b = common(s.errors(method, native), s.errors(method, far))
    if not a:
        return Finding(NOT_RUN, claimed=text)
    return _band(s, partial(ratio_estimate, b, a), -inf, limit, "×{:.2f}{}", text)


@rule("relative degradation, paired t (Fieller)")
def rises_by(s: Setting, native: int, far: int, method: str) -> Finding:
    """The method's error grows by a share of its native value."""
    claimed = 100 * (s.value(method, far) / s.value(method, native) - 1)
    text = f"{method} {claimed:.0f} % above its native error, {_route(native, far)}"
    a, b = common(s.errors(method, native), s.errors(method, far))
    if not a:
        return Finding(NOT_RUN, claimed=text)
    e = ratio_estimate(b, a, s.level).map(100, -100)
    return _effect(s, e, claimed, f"{e.value:+.0f} %{interval(e, 0)}", text)


@rule("exponent inside a band, two one-sided t over seeds")
def power_law(s: Setting, native: int, grids: Sequence[int], method: str, stated: float, width: float) -> Finding:
    """The degradation grows as (n/n₀)^p with p within ``width`` of the stated one."""
    text = f"{method}: degradation as the ratio to the power {stated:g} ± {width:g} (in the text)"
    rises = dict(zip(grids, common(*(s.rise(method, native, n) for n in grids)), strict=True))
    if not all(rises.values()):
        return Finding(NOT_RUN, claimed=text)
    seeds = list(rises[grids[0]])
    if not all(isfinite(r[k]) and r[k] > 0 for r in rises.values() for k in seeds):
        return _found(s, PARTLY, "no growth at some grid and seed, so no exponent", text, len(seeds))
    ratios = [n / native for n in grids]
    fits = {k: fit_power(ratios, [rises[n][k] for n in grids]).exponent for k in seeds}
    return _band(s, partial(mean_estimate, fits), stated - width, stated + width, "power {:.2f}{}", text)


@rule("Cohen's d inside its class, noncentral t")
def effect_size(
    s: Setting,
    grid: int,
    cell: Mapping[str, Any],
    method: str = QUAD,
    baseline: str = LAYER,
) -> Finding:
    """Cohen's d of ``method`` against ``baseline`` is in the class of the printed one: neither below nor above it."""
    claimed = cell_value(**cell)
    name = effect_class(claimed)
    tops = [top for top, _ in EFFECT_CLASSES]
    place = next(i for i, (_, c) in enumerate(EFFECT_CLASSES) if c == name)
    text = f"{method} against {baseline} at {grid_name(grid)}: d = {claimed:g}, {name}"
    a, b = s.pair(method, baseline, grid)
    if not a:
        return Finding(NOT_RUN, claimed=text)
    if not isfinite((d := d_estimate(a, b)).value):
        return _found(s, NOT_TESTABLE, d.note, text, d.n, d.note)
    shown = f"d = {{:.2f}}{{}}, {effect_class(d.value)}"
    return _band(s, partial(d_estimate, a, b), tops[place - 1] if place else 0.0, tops[place], shown, text)


@rule("mean error above nine tenths of the printed one, one-sided t")
def fails(s: Setting, grid: int, method: str) -> Finding:
    """The method's error at the grid is as large as printed, give or take a tenth, or no finite number."""
    claimed = s.value(method, grid)
    text = f"{method} at {claimed:g} % at {grid_name(grid)}"
    runs = s.errors(method, grid)
    if not runs:
        return Finding(NOT_RUN, claimed=text)
    inner, outer = (mean_estimate(runs, level) for level in (s.band_level, s.level))
    if not isfinite(inner.value):
        return _found(s, REPRODUCED, inner.note, text, inner.n)
    if not inner.has_interval:
        return _found(s, NOT_TESTABLE, "", text, 1, inner.note)
    verdict = REPRODUCED if inner.low >= 0.9 * claimed else CONTRADICTED if outer.high < claimed / 2 else PARTLY
    shown = f"{inner.value:.2f} %{interval(inner, 2)}"
    return _found(s, verdict, shown, text, inner.n, agrees=inner.value >= 0.9 * claimed)


@rule("improvement inside a margin, two one-sided t (Fieller)")
def alike(s: Setting, grid: int, method: str, baseline: str = LAYER) -> Finding:
    """``method`` neither gains nor loses against ``baseline``: within ``MARGIN`` per cent, a margin of ours."""
    printed = 100 * (1 - s.value(method, grid) / s.value(baseline, grid))
    text = minus(f"{method} {printed:+.1f} % from {baseline} at {grid_name(grid)}: within ±{MARGIN:g} % (margin ours)")
    a, b = s.pair(method, baseline, grid)
    if not a:
        return Finding(NOT_RUN, claimed=text)
    return _band(s, lambda level: ratio_estimate(a, b, level).map(-100, 100), -MARGIN, MARGIN, "{:+.2f} %{}", text)


def _within(s: Setting, a: Seeds, b: Seeds, margin: float, text: str) -> Finding:
    if not a:
        return Finding(NOT_RUN, claimed=text)
    difference = {k: a[k] - b[k] for k in a}
    return _band(s, partial(mean_estimate, difference), -margin, margin, "{:+.2f} points{}", text)


@rule("equivalence, two one-sided t-tests")
def equivalent(s: Setting, grid: int, method: str, baseline: str = LAYER) -> Finding:
    """``method`` and ``baseline`` differ by less than the paper's margin, in points."""
    margin = cell_value("tab:tost", "Equivalence margin", "Value")
    a, b = s.pair(method, baseline, grid)
    return _within(s, a, b, margin, f"{method} and {baseline} within ±{margin:g} points at {grid_name(grid)}")


@rule("equivalence, two one-sided t-tests")
def used_alike(s: Setting, grid: int, method: str, way: str, other: str, ours: float, text: str) -> Finding:
    """The same trained model differs by less than ``ours`` points between two ways to use it."""
    a, b = common(s.errors(method, grid, way), s.errors(method, grid, other))
    return _within(s, a, b, ours, text)


@rule("ratio of standard deviations, F")
def steadier(s: Setting, grid: int, method: str = QUAD, baseline: str = LAYER) -> Finding:
    """The errors of ``method`` scatter less over seeds, as the printed intervals say."""
    sigma = [s.deviation(label, grid) for label in (method, baseline)]
    text = f"σ over seeds {sigma[0]:.2f} ({method}) against {sigma[1]:.2f} ({baseline}) at {grid_name(grid)}"
    a, b = s.pair(method, baseline, grid)
    if not a:
        return Finding(NOT_RUN, claimed=text)
    e = spread_estimate(a, b, s.level)
    if not isfinite(e.value):
        return _found(s, NOT_TESTABLE, e.note, text, e.n, e.note)
    less = e.map(-1, 1)
    return _effect(s, less, 1 - sigma[0] / sigma[1], f"{100 * less.value:.0f} %{interval(less, 0, 100)} less", text)


@rule("share of seeds, Clopper–Pearson")
def wins_most_seeds(s: Setting, grid: int, stated: Sequence[int], method: str = QUAD, baseline: str = LAYER) -> Finding:
    """``method`` has the smaller error in more than half of the seeds; ``stated``: (wins, seeds), from the text."""
    text = f"{stated[0]} of {stated[1]} seeds favour {method} over {baseline} at {grid_name(grid)} (in the text)"
    a, b = s.pair(method, baseline, grid)
    if not a:
        return Finding(NOT_RUN, claimed=text)
    won = sum(a[k] < b[k] for k in a)
    e = share_estimate(won, len(a), s.level).map(1, -0.5)
    return _effect(s, e, stated[0] / stated[1] - 0.5, f"{won} of {len(a)} seeds", text)


@rule("learned α inside a band, two one-sided t over seeds")
def learned_alpha(s: Setting, method: str, stated: Sequence[float]) -> Finding:
    """The blend weight α that training arrives at lies in the stated range, begun outside it."""
    low, high = stated
    text = f"learned α between {low:g} and {high:g} (in the text)"
    alphas = learned_alphas(s.results, s.name, method) if s.results is not None else {}
    if not alphas:
        return Finding(NOT_RUN, claimed=text)
    numbers = [float(o) for o in s.variant.method(method).norm.split(":")[1:] if o.replace(".", "").isdigit()]
    start = numbers[0] if numbers else 0.3
    means = {seed: sum(v) / len(v) for seed, v in alphas.items()}
    every = [a for v in alphas.values() for a in v]
    shown = f"{{:.2f}}{{}}, begun at {start:g}, layers from {min(every):.2f} to {max(every):.2f}"
    s.errors(method, s.full.test[0])  # the models that α is read from
    moved, way = abs(summarize(means).mean - start), min(abs(start - low), abs(start - high))
    why = ""
    if low <= start <= high:
        why = f"α begins at {start:g}, where it is claimed to end"
    elif moved < way / 2:
        why = f"α has moved by {moved:.2f} from where it begins: the training is too short to say where it goes"
    if why:
        return _found(s, NOT_TESTABLE, shown.format(summarize(means).mean, ""), text, len(means), why)
    return _band(s, partial(mean_estimate, means), low, high, shown, text)


@cache
def bias_factor_of(family: str, n: int) -> float:
    """Bias of the mean with equal weights over the bias with control volumes, on the family's n × n mesh."""
    import numpy as np

    from quadnorm.lab.theory.bias import bias
    from quadnorm.lab.theory.families import FAMILIES

    f = FAMILIES[family]
    points, weights, _ = f.make(n, np.random.default_rng(0))
    return bias(points, weights, f.field).factor("mean")


@rule("bias against the exact mean; no chance in it")
def bias_factor(family: str, stated: float, n: int = 64) -> Finding:
    """Control volumes divide the bias of the mean by more than ``stated`` on the n × n mesh of a family."""
    factor = bias_factor_of(family, n)
    verdict = REPRODUCED if factor >= stated else PARTLY if factor >= stated / 10 else CONTRADICTED
    text = f"bias divided by more than {stated:g} on {family} meshes (in the text)"
    return Finding(verdict, f"divided by {factor:.0f} at {n}²", text, f"sin πx · sin πy, {n}² nodes")
