"""An audit as a figure and as a page of HTML."""

from __future__ import annotations

import base64
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadnorm.adapt.auditing.report import Audit


def figure(audit: Audit) -> Any:
    """A matplotlib figure: discrepancy by resolution, what each module introduces, errors if there are targets."""
    try:
        figures = import_module("matplotlib.figure")
    except ImportError:
        raise ImportError("Audit.figure needs matplotlib: pip install 'quadnorm[bench]'") from None
    panels = 3 if audit.errors else 2
    fig = figures.Figure(figsize=(5 * panels, 3.8), layout="constrained")
    left, right, *more = fig.subplots(1, panels)
    for way, values in audit.totals.items():
        left.plot(audit.resolutions, [100 * v for v in values], "o-", label=way)
    left.set(xlabel="resolution", ylabel=f"% away from {audit.resolutions[0]}", title="discrepancy of the output")
    left.legend()
    for axes in more:
        for (way, values), mark in zip(audit.errors.items(), "os^d", strict=False):
            axes.plot(audit.resolutions, [100 * v for v in values], f"{mark}-", label=way)
        axes.set(xlabel="resolution", ylabel="relative L² error, %", title="error against the targets")
        axes.legend()
    leaks = audit.leaks[:12][::-1]
    right.barh([r.name or "(model)" for r in leaks], [100 * (r.introduced or 0) for r in leaks])
    there = audit.resolutions[audit.compared]
    right.set(xlabel=f"% introduced between {audit.resolutions[0]} and {there}", title="by module")
    return fig


def page(audit: Audit) -> str:
    """Table and figure, with nothing loaded from elsewhere."""
    buffer = io.BytesIO()
    figure(audit).savefig(buffer, format="png", dpi=120)
    picture = base64.b64encode(buffer.getvalue()).decode()
    frame = audit.to_frame().drop(columns="container").replace({"name": {"": "(model)"}})
    shares = dict.fromkeys(("introduced", "cumulative", "alone", "fixed"), "{:.3%}".format)
    rows = frame.to_html(index=False, formatters={**shares, "order": "{:.1f}".format}, border=0, na_rep="")
    return (
        "<!doctype html><meta charset='utf-8'><title>quadnorm audit</title>"
        "<style>body{font:15px sans-serif;max-width:72em;margin:2em auto}td,th{padding:.2em .6em;text-align:left}"
        "table{border-collapse:collapse;margin:1em 0}tr+tr{border-top:1px solid #ddd}img{max-width:100%}"
        "h1+p{font-size:1.15em}</style>"
        f"<h1>Resolution audit</h1>{audit._repr_html_()}"
        f"<img alt='discrepancy' src='data:image/png;base64,{picture}'><h2>All modules</h2>{rows}\n"
    )
