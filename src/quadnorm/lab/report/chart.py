"""Transfer curves as small SVG drawings for the page: error against test grid, one line per method and way.

The SVG is written directly, without a plotting library: the lines take the page's colours in light and dark, show their
values under the pointer, and need two kilobytes instead of fifty. Colour and mark show the method, dashes the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from math import ceil, cos, floor, isfinite, log2, log10, pi, sin

from quadnorm.lab.analysis.figures.style import styles
from quadnorm.lab.analysis.results import Results
from quadnorm.lab.analysis.statistics.summaries import Summary, summarize
from quadnorm.lab.analysis.tables.table import grid_name
from quadnorm.lab.studies.study import Study, Variant, Way

_SIDES = {"^": (3, 0.0), "v": (3, 0.5), "<": (3, 0.75), ">": (3, 0.25), "D": (4, 0.0), "p": (5, 0.0)}
_SIDES |= {"h": (6, 0.0), "H": (6, 1 / 12), "8": (8, 1 / 16)}


def marker_path(marker: str, x: float, y: float, size: float = 4.0) -> str:
    """The path of a matplotlib marker around (x, y), as the ``d`` of an SVG path.

    >>> marker_path("s", 10, 20, 4)
    'M6.5 16.5h7.1v7.1h-7.1z'
    """
    if marker == "s":
        half = 0.886 * size  # a square as large as the circle
        return f"M{x - half:.1f} {y - half:.1f}h{2 * half:.1f}v{2 * half:.1f}h{-2 * half:.1f}z"
    if marker in ("P", "X"):
        return _cross(x, y, 1.25 * size, 0.0 if marker == "P" else 1 / 8)
    if marker == "*":
        return _polygon(x, y, [(1.45 if k % 2 == 0 else 0.6) * size for k in range(10)], 0.0)
    if marker == "d":  # a thin diamond
        return _polygon(x, y, [1.5 * size, 0.7 * size] * 2, 0.0)
    if marker in _SIDES:
        sides, turn = _SIDES[marker]
        radius = size * (1.45 if sides == 3 else 1.3 if sides == 4 else 1.1)
        return _polygon(x, y, [radius] * sides, turn)
    return f"M{x - size:.1f} {y:.1f}a{size} {size} 0 1 0 {2 * size} 0a{size} {size} 0 1 0 {-2 * size} 0z"


def _polygon(x: float, y: float, radii: list[float], turn: float) -> str:
    """Corners at these distances, the first one on top, turned by a share of a full turn."""
    n = len(radii)
    corners = [
        (x + r * sin(2 * pi * (k / n + turn)), y - r * cos(2 * pi * (k / n + turn))) for k, r in enumerate(radii)
    ]
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in corners) + "z"


def _cross(x: float, y: float, size: float, turn: float) -> str:
    """A plus with arms of a third of its size."""
    arm = size / 3
    outline = [
        (-arm, -size), (arm, -size), (arm, -arm), (size, -arm), (size, arm), (arm, arm),
        (arm, size), (-arm, size), (-arm, arm), (-size, arm), (-size, -arm), (-arm, -arm),
    ]  # fmt: skip
    c, s = cos(2 * pi * turn), sin(2 * pi * turn)
    corners = [(x + c * a - s * b, y + s * a + c * b) for a, b in outline]
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in corners) + "z"


WIDTH, LEFT, TOP, BOTTOM = 700, 46, 14, 40
BESIDE = 415  # width of drawings that stand side by side
LINE = 15  # height of a label
MOST = 6  # curves in a drawing
FIRST = ("as-trained", "transferred", "anchor-all", "native", "extended")  # ways: the better known ones
DASHES = ("", "7 4", "2 4", "9 3 2 3", "1 3", "5 2")


@dataclass(frozen=True)
class Curve:
    """One line of a drawing: the summaries by grid of one method in one way."""

    method: str
    way: str
    colour: str
    marker: str
    dash: str
    points: tuple[tuple[int, Summary], ...]

    @property
    def label(self) -> str:
        """``LayerNorm, anchored``."""
        return f"{self.method}, {self.way}" if self.way else self.method

    @property
    def ends(self) -> list[float]:
        """All values that must fit on the axis: means, and both ends of their intervals."""
        spreads = [s.mean + sign * s.spread for _, s in self.points if isfinite(s.spread) for sign in (-1, 1)]
        return [s.mean for _, s in self.points] + spreads


def drawn_ways(study: Study, methods: int) -> list[Way]:
    """The ways that a drawing has room for, as trained first; the table beside it has all of them."""
    wanted = sorted(study.evaluations, key=lambda e: FIRST.index(e.name) if e.name in FIRST else len(FIRST))
    return wanted[: max(1, MOST // max(1, methods))]


def curves_of(results: Results, variant: Variant) -> list[Curve]:
    """Every method, in the ways that there is room for, that has a finite error somewhere."""
    study = results.study
    line_styles = styles([m.label for m in variant.methods])
    kind = study.spread(variant)
    curves = []
    for method in variant.methods:
        for k, e in enumerate(drawn_ways(study, len(variant.methods))):
            points = []
            for n in variant.test:
                if runs := results.of(variant.name, method.label, n, e.name):
                    s = summarize(runs, kind)
                    if isfinite(s.mean):
                        points.append((n, s))
            if points:
                way = e.label if len(study.evaluations) > 1 else ""
                colour, marker = line_styles[method.label]
                curves.append(Curve(method.label, way, colour, marker, DASHES[k % len(DASHES)], tuple(points)))
    return curves


def charts(results: Results) -> tuple[tuple[str, str], ...]:
    """(setting, drawing) of every variant with two grids or more; small drawings if there are several."""
    variants = results.study.variants
    labels = [curve.label for v in variants for curve in curves_of(results, v)]
    small = len(variants) > 1 and max(map(len, labels), default=0) <= 20
    drawn = [(v.name if len(variants) > 1 else "", chart(results, v, BESIDE if small else WIDTH)) for v in variants]
    return tuple((name, drawing) for name, drawing in drawn if drawing)


def chart(results: Results, variant: Variant, width: int = WIDTH) -> str:
    """The drawing; empty if there are fewer than two grids."""
    curves = curves_of(results, variant)
    grids = sorted({n for curve in curves for n, _ in curve.points})
    if len(grids) < 2:
        return ""
    height = max(260 if width == WIDTH else 220, TOP + BOTTOM + LINE * len(curves))
    right = width - 14 - round(7.2 * max(len(curve.label) for curve in curves))
    x = {n: LEFT + 14 + (right - LEFT - 28) * _share(log2(n), log2(grids[0]), log2(grids[-1])) for n in grids}
    ends = [v for curve in curves for v in curve.ends]
    ticks = _ticks(min(ends), max(ends))
    logarithmic = ticks[0] > 0

    def y(value: float) -> float:
        scale = log10 if logarithmic else float
        bounded = max(value, ticks[0])  # an interval may reach below 0, an error cannot
        return TOP + (height - TOP - BOTTOM) * (1 - _share(scale(bounded), scale(ticks[0]), scale(ticks[-1])))

    parts = []
    for t in ticks:
        unit = " %" if t == ticks[-1] else ""
        parts.append(
            f'<line class="rule" x1="{LEFT}" x2="{right}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{y(t) + 4:.1f}" text-anchor="end">{t:g}{unit}</text>'
        )
    for n in grids:
        mark = " trained" if n in variant.train else ""
        where = f'x="{x[n]:.1f}" y="{height - BOTTOM + 18}" text-anchor="middle"'
        parts.append(f'<text class="tick{mark}" {where}>{grid_name(n)}</text>')
    parts.append(
        f'<text class="axis" x="{(LEFT + right) / 2:.0f}" y="{height - 6}" text-anchor="middle">test grid</text>'
    )
    label_heights = _spread_out([y(curve.points[-1][1].mean) for curve in curves], TOP + 4, height - BOTTOM + 4)
    for curve, label_y in zip(curves, label_heights, strict=True):
        parts.append(_drawn(curve, x, y, right, label_y))
    title = f"Error against test grid: {', '.join(curve.label for curve in curves)}"
    # On a narrow screen the lines alone fill 350 pixels, and type is scaled to stay 11.5 pixels high.
    sizes = f"--part:{width / (right + 8):.3f};--type:{11.5 * (right + 8) / 350:.1f}px;width:{width}px"
    return (
        f'<div class="curves" style="{sizes}">'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg></div>'
        + _legend(curves)
    )


def _legend(curves: list[Curve]) -> str:
    """The labels as a list, for screens that are too narrow for them beside the lines."""
    items = []
    for curve in curves:
        key = (
            f'<svg viewBox="0 0 30 12"><line x1="0" x2="30" y1="6" y2="6"{_dashes(curve)}/>'
            f'<path class="mark" d="{marker_path(curve.marker, 15, 6, 3.4)}"/></svg>'
        )
        items.append(f'<li style="--c:{curve.colour}">{key}{escape(curve.label)}</li>')
    return f'<ul class="legend" aria-hidden="true">{"".join(items)}</ul>'


def _dashes(curve: Curve) -> str:
    return f' stroke-dasharray="{curve.dash}"' if curve.dash else ""


def _drawn(curve: Curve, x: dict[int, float], y: Callable[[float], float], right: int, label_y: float) -> str:
    path = " ".join(f"{x[n]:.1f},{y(s.mean):.1f}" for n, s in curve.points)
    marks = []
    for n, s in curve.points:
        text = f"{curve.label} at {grid_name(n)}: {s} %, {s.n} seed{'s' if s.n != 1 else ''}"
        if isfinite(s.spread):
            marks.append(
                f'<line class="whisker" x1="{x[n]:.1f}" x2="{x[n]:.1f}" y1="{y(s.low):.1f}" y2="{y(s.high):.1f}"/>'
            )
        shape = marker_path(curve.marker, x[n], y(s.mean))
        marks.append(f'<path class="mark" d="{shape}"><title>{escape(text)}</title></path>')
    last_n, last = curve.points[-1]
    return (
        f'<g class="series" style="--c:{curve.colour}"><polyline points="{path}"{_dashes(curve)}/>{"".join(marks)}'
        f'<path class="leader" d="M{x[last_n] + 5:.1f} {y(last.mean):.1f} L{right + 6} {label_y - 4:.1f}"/>'
        f'<text x="{right + 9}" y="{label_y:.1f}">{escape(curve.label)}</text></g>'
    )


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _ticks(low: float, high: float) -> list[float]:
    """From 0 in even steps; in powers of ten and their 2 and 5 where the values span more than a factor of 8.

    >>> _ticks(0.4, 9.0), _ticks(3.0, 7.2)
    ([0.2, 0.5, 1.0, 2.0, 5.0, 10.0], [0.0, 2.0, 4.0, 6.0, 8.0])
    """
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
