"""Transfer curves as small SVG drawings for the page: error against test grid, one line per method and use.

Written by hand rather than by a plotting library: the lines take the page's colours in light and dark, carry their
values for whoever points at them, and cost two kilobytes instead of fifty.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log2, log10

from quadnorm.lab.analysis.figures.palette import styles
from quadnorm.lab.analysis.results import Results
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.table import grid_name
from quadnorm.lab.studies.study import Variant

WIDTH, LEFT, TOP, BOTTOM = 700, 46, 14, 40
BESIDE = 415  # of drawings that stand side by side
LINE = 15  # height of a label
DASHES = ("", "7 4", "2 4", "9 3 2 3", "1 3", "5 2")


@dataclass(frozen=True)
class Series:
    """One line. Points: (grid, mean, spread)."""

    method: str
    use: str
    colour: str
    dash: str
    points: tuple[tuple[int, float, float], ...]

    @property
    def label(self) -> str:
        """``LayerNorm, anchored``."""
        return f"{self.method}, {self.use}" if self.use else self.method


def series_of(results: Results, variant: Variant) -> list[Series]:
    """Every method and use that has a finite error somewhere."""
    study = results.study
    looks = styles([m.label for m in variant.methods])
    found = []
    for method in variant.methods:
        for k, e in enumerate(study.evaluations):
            points = []
            for n in variant.test:
                if runs := results.of(variant.name, method.label, n, e.name):
                    s = summarize(runs, study.statistic)
                    if isfinite(s.mean):
                        points.append((n, s.mean, s.spread))
            if points:
                use = e.label if len(study.evaluations) > 1 else ""
                colour, dash = looks[method.label][0], DASHES[k % len(DASHES)]
                found.append(Series(method.label, use, colour, dash, tuple(points)))
    return found


def charts(results: Results) -> tuple[tuple[str, str], ...]:
    """(setting, drawing) of every variant that has two grids to join; small ones where there are several."""
    variants = results.study.variants
    labels = [line.label for v in variants for line in series_of(results, v)]
    small = len(variants) > 1 and max(map(len, labels), default=0) <= 20
    drawn = [(v.name if len(variants) > 1 else "", chart(results, v, BESIDE if small else WIDTH)) for v in variants]
    return tuple((name, drawing) for name, drawing in drawn if drawing)


def chart(results: Results, variant: Variant, width: int = WIDTH) -> str:
    """The drawing, or nothing if there are not two grids to join."""
    lines = series_of(results, variant)
    grids = sorted({n for line in lines for n, _, _ in line.points})
    if len(grids) < 2:
        return ""
    height = max(260 if width == WIDTH else 220, TOP + BOTTOM + LINE * len(lines))
    right = width - 14 - round(7.2 * max(len(line.label) for line in lines))
    x = {n: LEFT + 14 + (right - LEFT - 28) * _share(log2(n), log2(grids[0]), log2(grids[-1])) for n in grids}
    values = [v for line in lines for _, v, _ in line.points]
    ticks = _ticks(min(values), max(values))
    logarithmic = ticks[0] > 0

    def y(value: float) -> float:
        scale = log10 if logarithmic else float
        bounded = min(max(value, ticks[0]), ticks[-1])
        return TOP + (height - TOP - BOTTOM) * (1 - _share(scale(bounded), scale(ticks[0]), scale(ticks[-1])))

    parts = [
        f'<line class="rule" x1="{LEFT}" x2="{right}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{y(t) + 4:.1f}" text-anchor="end">{t:g}</text>'
        for t in ticks
    ]
    for n in grids:
        mark = " trained" if n in variant.train else ""
        where = f'x="{x[n]:.1f}" y="{height - BOTTOM + 18}" text-anchor="middle"'
        parts.append(f'<text class="tick{mark}" {where}>{grid_name(n)}</text>')
    parts.append(
        f'<text class="axis" x="{(LEFT + right) / 2:.0f}" y="{height - 6}" text-anchor="middle">test grid</text>'
        f'<text class="axis" x="{LEFT - 40}" y="{TOP - 2}">%</text>'
    )
    ends = _spread_out([y(line.points[-1][1]) for line in lines], TOP + 4, height - BOTTOM + 4)
    for line, label_y in zip(lines, ends, strict=True):
        parts.append(_line(line, x, y, right, label_y))
    title = f"Error against test grid: {', '.join(line.label for line in lines)}"
    # On a narrow screen the lines alone fill 350 pixels, and type is scaled to stay 11.5 pixels high.
    sizes = f"--part:{width / (right + 8):.3f};--type:{11.5 * (right + 8) / 350:.1f}px;width:{width}px"
    return (
        f'<div class="curves" style="{sizes}">'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg></div>'
        + _legend(lines)
    )


def _legend(lines: list[Series]) -> str:
    """The labels as a list, for screens that are too narrow for them beside the lines."""
    items = []
    for line in lines:
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        key = f'<svg viewBox="0 0 24 8"><line x1="0" x2="24" y1="4" y2="4"{dash}/></svg>'
        items.append(f'<li style="--c:{line.colour}">{key}{escape(line.label)}</li>')
    return f'<ul class="legend" aria-hidden="true">{"".join(items)}</ul>'


def _line(line: Series, x: dict[int, float], y: object, right: int, label_y: float) -> str:
    assert callable(y)
    path = " ".join(f"{x[n]:.1f},{y(v):.1f}" for n, v, _ in line.points)
    dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
    dots = []
    for n, value, spread in line.points:
        told = f"{line.label} at {grid_name(n)}: {value:.2f}" + (f" ± {spread:.2f}" if isfinite(spread) else "") + " %"
        if isfinite(spread):
            dots.append(
                f'<line class="whisker" x1="{x[n]:.1f}" x2="{x[n]:.1f}" y1="{y(value - spread):.1f}" '
                f'y2="{y(value + spread):.1f}"/>'
            )
        dots.append(f'<circle cx="{x[n]:.1f}" cy="{y(value):.1f}" r="3.6"><title>{escape(told)}</title></circle>')
    last_n, last, _ = line.points[-1]
    return (
        f'<g class="series" style="--c:{line.colour}"><polyline points="{path}"{dash}/>{"".join(dots)}'
        f'<path class="leader" d="M{x[last_n] + 5:.1f} {y(last):.1f} L{right + 6} {label_y - 4:.1f}"/>'
        f'<text x="{right + 9}" y="{label_y:.1f}">{escape(line.label)}</text></g>'
    )


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _ticks(low: float, high: float) -> list[float]:
    """From 0 in even steps; in powers of ten and their 2 and 5 where the values span more than a factor of 8."""
    if low > 0 and high / low > 8:
        steps = [m * 10.0**e for e in range(floor(log10(low)) - 1, ceil(log10(high)) + 1) for m in (1, 2, 5)]
        first = max(t for t in steps if t <= low)
        last = min([t for t in steps if t >= high] or [high])
        return [t for t in steps if first <= t <= last]
    raw = (high or 1) / 5
    unit = 10.0 ** floor(log10(raw))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= raw * 0.999)
    return [step * k for k in range(ceil(high / step - 1e-9) + 1)]


def _spread_out(wanted: list[float], low: float, high: float) -> list[float]:
    """Label heights near the wanted ones, a line apart: pushed down in order, then back up from the bottom."""
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    placed = dict.fromkeys(order, 0.0)
    at = low - LINE
    for k in order:
        at = placed[k] = max(wanted[k] + 4, at + LINE)
    at = high + LINE
    for k in reversed(order):
        at = placed[k] = min(placed[k], at - LINE)
    return [placed[k] for k in range(len(wanted))]
