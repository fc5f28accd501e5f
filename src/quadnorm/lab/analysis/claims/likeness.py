"""Rules about how large or how alike errors are, how much they scatter, and where a learned α ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import atanh, isfinite, sqrt, tanh
from statistics import NormalDist, correlation
from typing import Any

from quadnorm.lab.analysis.claims.evidence import Setting
from quadnorm.lab.analysis.claims.rules import (
    LAYER,
    QUAD,
    cell_value,
    finding_of,
    in_band,
    interval,
    minus,
    on_effect,
    rule,
)
from quadnorm.lab.analysis.claims.verdicts import CONTRADICTED, NOT_RUN, NOT_TESTABLE, PARTLY, REPRODUCED, Finding
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
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.table import grid_name

MARGIN = 5.0  # per cent: two errors that are claimed to be alike, where the paper gives no margin


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
        return finding_of(s, NOT_TESTABLE, d.note, text, d.n, d.note)
    shown = f"d = {{:.2f}}{{}}, {effect_class(d.value)}"
    return in_band(s, partial(d_estimate, a, b), tops[place - 1] if place else 0.0, tops[place], shown, text)


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
        return finding_of(s, REPRODUCED, inner.note, text, inner.n)
    if not inner.has_interval:
        return finding_of(s, NOT_TESTABLE, "", text, 1, inner.note)
    verdict = REPRODUCED if inner.low >= 0.9 * claimed else CONTRADICTED if outer.high < claimed / 2 else PARTLY
    shown = f"{inner.value:.2f} %{interval(inner, 2)}"
    return finding_of(s, verdict, shown, text, inner.n, agrees=inner.value >= 0.9 * claimed)


@rule("improvement inside a margin, two one-sided t (Fieller)")
def alike(s: Setting, grid: int, method: str, baseline: str = LAYER) -> Finding:
    """``method`` neither gains nor loses against ``baseline``: within ``MARGIN`` per cent, a margin of ours."""
    printed = 100 * (1 - s.value(method, grid) / s.value(baseline, grid))
    text = minus(f"{method} {printed:+.1f} % from {baseline} at {grid_name(grid)}: within ±{MARGIN:g} % (margin ours)")
    a, b = s.pair(method, baseline, grid)
    if not a:
        return Finding(NOT_RUN, claimed=text)
    return in_band(s, lambda level: ratio_estimate(a, b, level).map(-100, 100), -MARGIN, MARGIN, "{:+.2f} %{}", text)


def _within(s: Setting, a: Seeds, b: Seeds, margin: float, text: str) -> Finding:
    if not a:
        return Finding(NOT_RUN, claimed=text)
    difference = {k: a[k] - b[k] for k in a}
    return in_band(s, partial(mean_estimate, difference), -margin, margin, "{:+.2f} points{}", text)


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
        return finding_of(s, NOT_TESTABLE, e.note, text, e.n, e.note)
    less = e.map(-1, 1)
    return on_effect(s, less, 1 - sigma[0] / sigma[1], f"{100 * less.value:.0f} %{interval(less, 0, 100)} less", text)


@rule("share of seeds, Clopper–Pearson")
def wins_most_seeds(s: Setting, grid: int, stated: Sequence[int], method: str = QUAD, baseline: str = LAYER) -> Finding:
    """``method`` has the smaller error in more than half of the seeds; ``stated``: (wins, seeds), from the text."""
    text = f"{stated[0]} of {stated[1]} seeds favour {method} over {baseline} at {grid_name(grid)} (in the text)"
    a, b = s.pair(method, baseline, grid)
    if not a:
        return Finding(NOT_RUN, claimed=text)
    won = sum(a[k] < b[k] for k in a)
    e = share_estimate(won, len(a), s.level).map(1, -0.5)
    return on_effect(s, e, stated[0] / stated[1] - 0.5, f"{won} of {len(a)} seeds", text)


def accuracies(library: Any, times: int) -> list[tuple[float, float]]:
    """Native error and the factor by which it grows as trained to ``times`` as many samples, of every kind of model."""
    kinds: dict[str, tuple[float, float]] = {}
    for results in library.all_comparable():
        for v in results.study.variants:
            for m in v.methods if len(v.train) == 1 else ():
                a, b = common(*(results.of(v.name, m.label, n) for n in (v.train[0], times * v.train[0])))
                if a and isfinite(grown := summarize(b).mean / summarize(a).mean):
                    kind = repr((v.operator, v.problem, v.problem_params, v.train, m.norm))
                    kinds.setdefault(kind, (summarize(a).mean, grown))
    return list(kinds.values())


@rule("rank correlation inside a band, Fisher's z")
def unrelated(s: Setting, times: int, ours: float, text: str) -> Finding:
    """Over all kinds of models in the records, native error and degradation factor are hardly correlated in rank."""
    found = accuracies(s.library, times)
    if len(found) < 5 or not s.errors(s.full.methods[0].label, s.full.test[0]):
        return Finding(NOT_RUN, claimed=text)
    r = correlation(*([sorted(side).index(v) for v in side] for side in zip(*found, strict=True)))
    z = atanh(min(max(r, -1 + 1e-9), 1 - 1e-9))

    def estimate(level: float) -> Estimate:
        half = NormalDist().inv_cdf(0.5 + level / 2) * 1.03 / sqrt(len(found) - 3)  # 1.03: of ranks
        return Estimate(r, tanh(z - half), tanh(z + half), len(found))

    f = in_band(s, estimate, -ours, ours, "r = {:.2f}{}" + f", {len(found)} kinds of models", text)
    return replace(f, budget=f"{len(found)} kinds of models in all studies at {s.preset}")


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
        return finding_of(s, NOT_TESTABLE, shown.format(summarize(means).mean, ""), text, len(means), why)
    return in_band(s, partial(mean_estimate, means), low, high, shown, text)


@rule("bias against the exact mean; no chance in it")
def bias_factor(family: str, stated: float, n: int = 64) -> Finding:
    """Control volumes divide the bias of the mean by more than ``stated`` on the n × n mesh of a family."""
    from quadnorm.lab.theory.meshes import mean_factor

    factor = mean_factor(family, n)
    verdict = REPRODUCED if factor >= stated else PARTLY if factor >= stated / 10 else CONTRADICTED
    text = f"bias divided by more than {stated:g} on {family} meshes (in the text)"
    return Finding(verdict, f"divided by {factor:.0f} at {n}²", text, f"sin πx · sin πy, {n}² nodes")
