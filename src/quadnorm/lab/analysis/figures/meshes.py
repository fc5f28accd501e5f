"""Figures of the mesh statements: one panel for each family, errors against h, orders at the ends of the lines."""

from __future__ import annotations

from typing import Any

from quadnorm.lab.analysis.figures.mechanism import QUADRATURE, UNIFORM
from quadnorm.lab.analysis.figures.style import sheet, style
from quadnorm.lab.theory import Evidence, Series

COLOURS = {"counting": UNIFORM, "quadrature": QUADRATURE}
NAMES = {"counting": "equal weights", "quadrature": "volumes"}
MARKERS = {"mean": "o", "variance": "^", "output": "s"}


def family_orders(evidence: Evidence) -> Any:
    """Panels for series named "family, quantity, weighting"; colour shows the weighting, the mark the quantity."""
    families = list(dict.fromkeys(s.name.split(", ")[0] for s in evidence.series))
    columns = min(3, len(families))
    rows = -(-len(families) // columns)
    with style():
        figure, axes = sheet(0.5 + 2.2 * rows, rows, columns)
        for axis in axes.flat[len(families) :]:
            axis.remove()
        for axis, family in zip(axes.flat, families, strict=False):
            axis.set_title(family)
            _panel(axis, [s for s in evidence.series if s.name.split(", ")[0] == family])
        for axis in axes[:, 0]:
            axis.set_ylabel("error; numbers: order")
        handles: dict[str, Any] = {}
        for axis in figure.axes:
            handles |= {line.get_label(): line for line in axis.lines}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
        return figure


def _panel(axis: Any, members: list[Series]) -> None:
    for series in members:
        quantity, weighting = series.name.split(", ")[1:]
        axis.loglog(
            series.x, series.y, color=COLOURS[weighting], marker=MARKERS[quantity], ms=3.5, lw=1,
            label=f"{quantity}, {NAMES[weighting]}",
        )  # fmt: skip
    x = members[0].x
    shown = [max(x), sorted(x)[len(x) // 2], min(x)]
    axis.set_xlim(min(x) / 1.2, max(x) * (max(x) / min(x)) ** 0.25)  # room for the orders
    axis.set_xticks(shown, [_spacing(h) for h in shown])
    axis.minorticks_off()
    axis.set_xlabel("h")
    for series, height in zip(members, _apart([s.y[0] for s in members], axis.get_ylim()), strict=True):
        colour = COLOURS[series.name.split(", ")[2]]
        order = f"{series.fit.exponent:.2f}".replace("-", "−")
        axis.annotate(order, (max(x) * 1.12, height), color=colour, va="center", fontsize=6.5)


def _spacing(h: float) -> str:
    n = round(1 / h)
    return f"1/{n}" if abs(n * h - 1) < 1e-9 else f"{h:.2g}"


def _apart(heights: list[float], limits: tuple[float, float], share: float = 0.065) -> list[float]:
    """Heights of labels on a log axis: as given, but moved up where labels would overlap.

    >>> [round(v, 2) for v in _apart([1.0, 1.0, 10.0], (0.1, 100.0), share=0.1)]
    [1.0, 2.0, 10.0]
    """
    step = (limits[1] / limits[0]) ** share
    placed: dict[int, float] = {}
    least = 0.0
    for k in sorted(range(len(heights)), key=lambda k: heights[k]):
        placed[k] = max(heights[k], least)
        least = placed[k] * step
    return [placed[k] for k in range(len(heights))]
