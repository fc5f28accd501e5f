"""Figures of measured statements: every series against its spacing, with its fitted order."""

from __future__ import annotations

from importlib import import_module
from itertools import groupby
from typing import Any

from quadnorm.analysis.figures_style import FAINT, sheet, style
from quadnorm.theory import Evidence, Series, Statement

COLOURS = ("#009E73", "#D55E00", "#0072B2", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
MARKERS = "os^DvPX"

# Statements that have a drawing of their own: name → module:function, called with the evidence.
DRAWINGS: dict[str, str] = {
    "meshes-strength": "quadnorm.analysis.figures_theory:bias_convergence",
    "mechanism": "quadnorm.analysis.figures_theory:nonuniform_mechanism",
}


def draw(statement: Statement, evidence: Evidence) -> Any:
    """The statement's own drawing if it has one, else log-log panels, one for each group of series.

    Series form a group if their names agree up to the first comma ("2-D, trapezoid" and "2-D, counting").
    """
    if statement.name in DRAWINGS:
        module, function = DRAWINGS[statement.name].split(":")
        return getattr(import_module(module), function)(evidence)
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


def _panel(axis: Any, head: str, members: list[Series]) -> None:
    for k, series in enumerate(members):
        label = series.name.partition(", ")[2] or series.name
        colour, fit = COLOURS[k % len(COLOURS)], series.fit
        axis.loglog(series.x, series.y, color=colour, marker=MARKERS[k % len(MARKERS)], ls="", label=_label(label, fit))
        line = [fit.coefficient * x**fit.exponent for x in series.x]
        axis.loglog(series.x, line, color=colour, lw=0.8)
    axis.set_title(head)
    axis.set_xlabel(members[0].x_name)
    axis.legend(fontsize=6.5)


def _label(name: str, fit: Any) -> str:
    return f"{name}: {fit.coefficient:.2g}·h^{fit.exponent:.2f}"


def _verdicts(statement: Statement, evidence: Evidence) -> Any:
    """A statement without series, such as an identity: each number against the end of its range."""
    with style():
        figure, axes = sheet(0.6 + 0.22 * len(evidence.checks))
        axis = axes[0, 0]
        for k, check in enumerate(evidence.checks):
            axis.plot([check.low, check.high], [k, k], color=FAINT, lw=4, solid_capstyle="butt")
            axis.plot(check.value, k, "o", color=COLOURS[0] if check.holds else COLOURS[1])
        axis.set_yticks(range(len(evidence.checks)), [check.what for check in evidence.checks])
        axis.invert_yaxis()
        axis.set_title(statement.name)
        return figure
