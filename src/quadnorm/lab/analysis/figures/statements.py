"""Figures of measured statements: every series against its spacing with its fitted order, and the drawings of some."""

from __future__ import annotations

from importlib import import_module
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Any

from quadnorm.lab.analysis.figures.style import FAINT, QUADRATURE, UNIFORM, sheet, style
from quadnorm.lab.theory import Check, Evidence, Series, Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#009E73", "#D55E00", "#0072B2", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
MEASURES = {"counting": "#D55E00", "trapezoid": "#009E73", "anchored": "#CC79A7"}
MARKERS = "os^DvPX"

# Statements with a special figure: name → module:function, called with the evidence.
DRAWINGS: dict[str, str] = {
    "transfer": "quadnorm.lab.analysis.figures.statements:transfer",
    "meshes-tensor": "quadnorm.lab.analysis.figures.statements:family_orders",
    "meshes-simplices": "quadnorm.lab.analysis.figures.statements:family_orders",
    "meshes-clouds": "quadnorm.lab.analysis.figures.statements:family_orders",
    "meshes-sphere": "quadnorm.lab.analysis.figures.statements:family_orders",
    "meshes-limits": "quadnorm.lab.analysis.figures.statements:family_orders",
    "meshes-strength": "quadnorm.lab.analysis.figures.theory:bias_convergence",
    "mechanism": "quadnorm.lab.analysis.figures.theory:nonuniform_mechanism",
}


def draw(statement: Statement, evidence: Evidence) -> Figure:
    """The statement's special figure if it has one, else log-log panels, one for each group of series.

    Series form a group if their names agree up to the first comma ("2-D, trapezoid" and "2-D, counting").
    """
    if statement.name in DRAWINGS:
        module, function = DRAWINGS[statement.name].split(":")
        special: Figure = getattr(import_module(module), function)(evidence)
        return special
    groups = [(head, list(members)) for head, members in groupby(evidence.series, lambda s: s.name.partition(",")[0])]
    if not groups:
        return _verdicts(statement, evidence)
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    with style():
        figure, axes = sheet(2.6 * rows, rows, columns)
        for axis in axes.flat[len(groups) :]:
            axis.remove()
        for axis, (head, members) in zip(axes.flat, groups, strict=False):
            _panel(axis, head, members)
        return figure


def _panel(axis: Axes, head: str, members: list[Series]) -> None:
    taken = [_colour(series.name) for series in members]
    spare = iter([c for c in COLOURS if c not in taken] + list(COLOURS))
    for k, series in enumerate(members):
        label = series.name.partition(", ")[2] or series.name
        colour = taken[k] if taken[k] and taken[k] not in taken[:k] else next(spare)
        fit = series.fit
        axis.loglog(series.x, series.y, color=colour, marker=MARKERS[k % len(MARKERS)], ls="", label=_label(label, fit))
        line = [fit.coefficient * x**fit.exponent for x in series.x]
        axis.loglog(series.x, line, color=colour, lw=0.8)
    axis.set_title(head)
    axis.set_xlabel("spacing h" if members[0].x_name == "h" else members[0].x_name)
    axis.minorticks_off()
    ends = sorted({members[0].x[0], members[0].x[len(members[0].x) // 2], members[0].x[-1]})
    axis.set_xticks(ends, [_fraction(x) for x in ends])
    # Free space below the points: room for one line per series.
    low, high = axis.get_ylim()
    axis.set_ylim(low * (low / high) ** (0.11 * (len(members) + 1)), high)
    axis.legend(fontsize=6.5, loc="lower left", handletextpad=0.2, borderaxespad=0.2)


def _colour(name: str) -> str | None:
    """The colour of a measure, the same in all figures."""
    return next((colour for word, colour in MEASURES.items() if word in name), None)


def _label(name: str, fit: Any) -> str:
    return f"{name}: order {fit.exponent:.2f}"


def _fraction(x: float) -> str:
    return f"1/{1 / x:.0f}" if x < 0.6 else f"{x:g}"


def _verdicts(statement: Statement, evidence: Evidence) -> Figure:
    """The figure of a statement without series, such as an identity: measured numbers and expected ranges."""
    with style():
        figure, axes = sheet(0.6 + 0.24 * len(evidence.checks))
        axis = axes[0, 0]
        axis.axis("off")
        axis.set_title(statement.name)
        axis.set(xlim=(0, 1), ylim=(len(evidence.checks) - 0.5, -0.5))
        for k, check in enumerate(evidence.checks):
            axis.plot(0.01, k, "os"[not check.holds], color=COLOURS[not check.holds])
            axis.text(0.03, k, check.what, va="center")
            axis.text(0.75, k, f"{check.value:.3g}", va="center", ha="right")
            axis.text(0.8, k, _expected(check), va="center", color=FAINT)
        return figure


def _expected(check: Check) -> str:
    if check.low == check.high:
        return f"expected {check.low:g}"
    return f"expected at least {check.low:g}" if check.high == inf else f"expected {check.low:g} to {check.high:g}"


def transfer(evidence: Evidence) -> Figure:
    """Left: e_L and its bound for both norms. Right: the terms of each block; only the norm's own term differs."""
    from quadnorm.lab.theory.network import NATIVE  # imported here because it loads torch; the page does not

    depth = [int(row["L"]) for row in evidence.rows]
    with style():
        figure, axes = sheet(2.7, 1, 2)
        left, right = axes[0]
        for label, colour, suffix in (("counting", UNIFORM, "₁"), ("trapezoid", QUADRATURE, "")):
            left.semilogy(depth, [row[f"bound{suffix}"] for row in evidence.rows], color=colour, ls="--")
            left.semilogy(depth, [row[f"e_L{suffix}"] for row in evidence.rows], color=colour, marker="o", label=label)
        left.plot([], [], color=FAINT, ls="--", label="bound")
        left.set(xlabel="blocks L", xticks=[1, 4, 8, 12, 16])
        left.set_title(f"discrepancy between {NATIVE} and {2 * NATIVE - 1} nodes")
        left.legend()
        h = 1 / (NATIVE - 1)
        series = (
            ("norm, counting", UNIFORM, "o", [row["C_N₁"] * h for row in evidence.rows]),
            ("norm, trapezoid", QUADRATURE, "s", [row["C_N"] * h**2 for row in evidence.rows]),
            ("linear part T", "#0072B2", "^", [row["C_T"] * h**2 for row in evidence.rows]),
            ("activation σ", "#CC79A7", "D", [row["C_σ"] * h**2 for row in evidence.rows]),
        )
        for label, colour, marker, values in series:
            right.semilogy(depth, values, color=colour, marker=marker, lw=0.8, label=label)
        right.set(xlabel="block", xticks=[1, 4, 8, 12, 16])
        right.set_title("what does not commute with P, C·δ")
        right.legend(ncols=2, loc="lower right")
        return figure


WEIGHTINGS = {"counting": UNIFORM, "quadrature": QUADRATURE}
NAMES = {"counting": "equal weights", "quadrature": "volumes"}
QUANTITIES = {"mean": "o", "variance": "^", "output": "s"}


def family_orders(evidence: Evidence) -> Figure:
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
            _family_panel(axis, [s for s in evidence.series if s.name.split(", ")[0] == family])
        for axis in axes[:, 0]:
            axis.set_ylabel("error; numbers: order")
        handles: dict[str, Any] = {}
        for axis in figure.axes:
            handles |= {line.get_label(): line for line in axis.lines}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
        return figure


def _family_panel(axis: Axes, members: list[Series]) -> None:
    for series in members:
        quantity, weighting = series.name.split(", ")[1:]
        axis.loglog(
            series.x, series.y, color=WEIGHTINGS[weighting], marker=QUANTITIES[quantity], ms=3.5, lw=1,
            label=f"{quantity}, {NAMES[weighting]}",
        )  # fmt: skip
    x = members[0].x
    shown = [max(x), sorted(x)[len(x) // 2], min(x)]
    axis.set_xlim(min(x) / 1.2, max(x) * (max(x) / min(x)) ** 0.25)  # room for the orders
    axis.set_xticks(shown, [_spacing(h) for h in shown])
    axis.minorticks_off()
    axis.set_xlabel("h")
    for series, height in zip(members, _apart([s.y[0] for s in members], axis.get_ylim()), strict=True):
        colour = WEIGHTINGS[series.name.split(", ")[2]]
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
