"""An audit as a figure, as a page of HTML, and its number as a badge."""

from __future__ import annotations

import base64
import io
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from quadnorm._text import drawable, html_table
from quadnorm.adapt.auditing.rows import HEAD

if TYPE_CHECKING:
    from quadnorm.adapt.auditing.report import Audit, GridNumber

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:0 auto;padding:1rem;color:#1d2430;background:#fff}
.advice{border-left:.3rem solid #2a78d6;padding:.1rem 1rem;background:#2a78d614}
.advice p{margin:.5rem 0;overflow-wrap:anywhere}.advice p:first-child{font-size:1.2em}
.scroll{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-size:.9em;font-variant-numeric:tabular-nums}
td,th{padding:.25rem .7rem .25rem 0;text-align:left;vertical-align:top;white-space:nowrap}
th{white-space:normal}td:nth-child(n+8){white-space:normal;min-width:16rem}
tr+tr,tbody tr{border-top:1px solid #8884}
.legend,li{font-size:.9em}
img{width:100%;min-width:48rem;background:#fff;border-radius:.3rem}
@media(prefers-color-scheme:dark){body{color:#e4e8ee;background:#14181f}}
"""
_COLOURS = ("#2e7d32", "#a05a00", "#b3261e")  # white text on them has a contrast of 4.5 or more


def tables(audit: Audit) -> str:
    """The recommendation, then tables."""
    advice = "".join(f"<p>{escape(line.strip())}</p>" for line in audit.advice)
    moves = [
        [way, *(f"{v:.3%}" for v in values), "" if audit.order[way] is None else f"{audit.order[way]:.1f}"]
        for way, values in audit.totals.items()
    ]
    parts = [html_table(["output relative to the training grid's", *audit.resolutions, "order in h"], moves)]
    if audit.errors:
        parts.append(html_table(["error against the targets", *audit.resolutions], audit.error_rows()))
    leaks = [r.cells() for r in audit.leaks]
    body = "".join(f"<div class='scroll'>{part}</div>" for part in [*parts, *([html_table(HEAD, leaks)] * bool(leaks))])
    legend = f"<p class='legend'>{'<br>'.join(map(escape, audit.legend))}</p>"
    remarks = "".join(f"<li>{escape(line)}</li>" for line in audit.remarks)
    return f"<div class='advice'>{advice}</div>{body}{legend}<ul>{remarks}</ul>"


def page(audit: Audit) -> str:
    """Tables and figure, with nothing loaded from elsewhere."""
    buffer = io.BytesIO()
    figure(audit).savefig(buffer, format="png", dpi=120)
    picture = base64.b64encode(buffer.getvalue()).decode()
    rows = html_table(HEAD, [r.cells() for r in audit.rows])
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'><title>quadnorm audit</title>"
        f"<style>{_STYLE}</style><h1>Resolution audit</h1>{tables(audit)}"
        "<div class='scroll'><img alt='discrepancy of the output by resolution, and by module' "
        f"src='data:image/png;base64,{picture}'></div>"
        f"<h2>All modules</h2><div class='scroll'>{rows}</div></html>\n"
    )


def figure(audit: Audit) -> Any:
    """A matplotlib figure: discrepancy by resolution, what each module introduces, errors if there are targets."""
    try:
        figures = import_module("matplotlib.figure")
    except ImportError:
        raise ImportError("Audit.figure needs matplotlib: pip install 'quadnorm[bench]'") from None
    panels = 3 if audit.errors else 2
    fig = figures.Figure(figsize=(5 * panels, 3.8), layout="constrained")
    left, right, *more = fig.subplots(1, panels)
    for axes, lines in zip((left, *more), (audit.totals, audit.errors), strict=False):
        for (way, values), mark in zip(lines.items(), "os^dv", strict=False):
            axes.plot(audit.resolutions, [100 * v for v in values], f"{mark}-", label=way)
        axes.set(xlabel="resolution", ylabel="relative L² error, %", title="error against the targets")
        axes.legend()
    left.set(ylabel=f"% away from {audit.resolutions[0]}", title="discrepancy of the output")
    leaks = audit.leaks[:12][::-1]
    right.barh([drawable(f"{r.label} {r.kind}") for r in leaks], [100 * (r.introduced or 0) for r in leaks])
    there = audit.resolutions[audit.compared]
    right.set(xlabel=f"% introduced between {audit.resolutions[0]} and {there}", title="by module")
    return fig


def badge(number: GridNumber) -> str:
    """The number as an SVG of 20 pixels' height."""
    if number.degradation is None:
        label, value, size = "grid drift", f"{100 * number.drift:.2g} %", number.drift
        limits = (0.01, 0.1)
    else:
        label, value, size = "error per doubling", f"×{number.degradation:.2f}", number.degradation
        limits = (1.05, 1.25)
    colour = _COLOURS[sum(size > limit for limit in limits)]
    left, right = (round(6 * len(text)) + 12 for text in (label, value))

    def text(words: str, middle: float, length: int) -> str:
        return f'<text x="{middle:g}" y="14" textLength="{length}">{escape(words)}</text>'

    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{escape(label)}: {escape(value)}"><title>{escape(label)}: {escape(value)}, {escape(str(number))}'
        f'</title><rect width="{left}" height="20" fill="#444c56"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        f'<g fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle">'
        f"{text(label, left / 2, left - 12)}{text(value, left + right / 2, right - 12)}</g></svg>\n"
    )
