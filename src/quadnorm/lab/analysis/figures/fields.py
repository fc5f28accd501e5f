"""Figures of fields and audits, from the files that runs store when they are evaluated."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from quadnorm.lab.analysis.comparisons import here
from quadnorm.lab.analysis.figures.records import source
from quadnorm.lab.analysis.figures.style import INK, sheet, style
from quadnorm.lab.analysis.results import Library, RecordedRun, Results
from quadnorm.lab.analysis.tables.table import grid_name
from quadnorm.lab.studies.pictures import Array, FieldSample, load_audit, load_sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN_WAYS = ("as-trained", "transferred", "anchor-all", "anchored", "extended", "native")


def run_with_pictures(results: Results, variant: str, method: str) -> RecordedRun | None:
    """The first finished run of a method that stored fields or an audit."""
    for r in results.runs:
        named = (r.run.variant.name, r.run.method.label) == (variant, method)
        if named and r.status == "done" and (r.folder / "pictures").is_dir():
            return r
    return None


def prediction(library: Library) -> Figure | None:
    """Input, target, and the error of LayerNorm and QuadNorm in each way of using them, at the finest grid."""
    results = source(library, "demo", "anchored-crossres", "transfer-baselines", "extreme-crossres")
    if results is None:
        return None
    v = results.study.variants[0]
    ways = [e for e in results.study.evaluations if e.name in SHOWN_WAYS]
    named: dict[str, tuple[Path, str]] = {}
    for method in ("LayerNorm", "QuadNorm"):
        run = run_with_pictures(results, v.name, method)
        if run is not None:
            named |= {(f"{method}, {e.label}" if len(ways) > 1 else method): (run.folder, e.name) for e in ways}
    sample = load_sample(named, v.test[-1])
    return None if sample is None else _row_of_errors(sample)


def _row_of_errors(sample: FieldSample) -> Figure:
    with style():
        count = 2 + len(sample.predictions)
        columns = 3
        rows = -(-count // columns)
        figure, axes = sheet(2.15 * rows, rows, columns)
        _image(figure, axes.flat[0], sample.x, "input", "cividis")
        _image(figure, axes.flat[1], sample.target, f"truth at {grid_name(sample.grid)}", "viridis")
        top = max(float(np.abs(g - sample.target).max()) for g in sample.predictions.values())
        for axis, name in zip(axes.flat[2:], sample.predictions, strict=False):
            error = np.abs(sample.predictions[name] - sample.target)
            _image(figure, axis, error, f"{name}: {sample.error(name):.2f} %", "magma", top)
        for axis in axes.flat[count:]:
            axis.remove()
        return figure


def _image(
    figure: Figure,
    axis: Axes,
    values: Array,
    title: str,
    colours: str,
    top: float | None = None,
    low: float | None = None,
) -> None:
    low = 0.0 if low is None and top is not None else low
    image = axis.imshow(
        values.T, origin="lower", cmap=colours, vmin=low, vmax=top, extent=(0, 1, 0, 1), interpolation="none"
    )
    bar = figure.colorbar(image, ax=axis, shrink=0.85, aspect=25, pad=0.02)
    bar.ax.tick_params(labelsize=6)
    bar.outline.set_visible(False)
    axis.set(xticks=[], yticks=[])
    axis.set_title(fill(title, 34), fontweight="normal", fontsize=7.5, color=INK)


def _compared(library: Library, study: str, grid: int) -> FieldSample | None:
    """LayerNorm and QuadNorm as trained, at the paper's grid."""
    results = source(library, study)
    if results is None:
        return None
    way = results.study.evaluations[0].name
    runs = {m: r for m in ("LayerNorm", "QuadNorm") if (r := run_with_pictures(results, "main", m)) is not None}
    if len(runs) < 2:
        return None
    measured_at = here(results, results.study.variant("main"), grid)
    sample = load_sample({m: (r.folder, way) for m, r in runs.items()}, measured_at)
    return sample if sample is not None and len(sample.predictions) == 2 else None


def varcoeff(library: Library) -> Figure | None:
    """Rows: operators. Coefficient, truth, predictions and absolute errors at the training grid."""
    samples = {
        name: sample
        for name in ("galerkin-varcoeff", "transolver-varcoeff")
        if (sample := _compared(library, name, 64)) is not None
    }
    if not samples:
        return None
    with style():
        figure, axes = sheet(1.5 * len(samples), len(samples), 6, width=9.5)
        for row, (name, sample) in zip(axes, samples.items(), strict=True):
            _six(figure, row, sample, slice(None), slice(None))
            row[0].set_ylabel(name.split("-")[0])
        return figure


def _six(figure: Figure, row: Any, sample: FieldSample, rows: slice, columns: slice) -> None:
    """Input, truth, two predictions on the truth's scale, two absolute errors on one scale."""
    errors = {name: np.abs(g - sample.target) for name, g in sample.predictions.items()}
    top = max(float(e[rows, columns].max()) for e in errors.values())
    _image(figure, row[0], sample.x[rows, columns], "input", "cividis")
    _image(figure, row[1], sample.target[rows, columns], f"truth, {grid_name(sample.grid)}", "viridis")
    for k, (name, guess) in enumerate(sample.predictions.items()):
        same = sample.target[rows, columns]
        _image(figure, row[2 + k], guess[rows, columns], name, "viridis", float(same.max()), float(same.min()))
        _image(figure, row[4 + k], errors[name][rows, columns], f"error {sample.error(name):.1f} %", "magma", top)


def boundary_window(error: Array, share: float = 0.25) -> tuple[slice, slice]:
    """The square window along the boundary that holds the largest squared error.

    >>> e = np.zeros((8, 8)); e[7, 1] = 1.0; e[4, 4] = 9.0
    >>> boundary_window(e)
    (slice(6, 8, None), slice(0, 2, None))
    """
    n, m = error.shape
    a, b = max(2, round(share * n)), max(2, round(share * m))
    total = np.zeros((n + 1, m + 1))
    total[1:, 1:] = (error**2).cumsum(0).cumsum(1)
    # Windows that touch an edge, in steps of their size, so that they do not overlap.
    starts = [(i, j) for i in (0, n - a) for j in range(0, m - b + 1, b)]
    starts += [(i, j) for j in (0, m - b) for i in range(0, n - a + 1, a)]
    i, j = max(
        starts, key=lambda s: total[s[0] + a, s[1] + b] - total[s[0], s[1] + b] - total[s[0] + a, s[1]] + total[s]
    )
    return slice(i, i + a), slice(j, j + b)


def elasticity(library: Library) -> Figure | None:
    """Whole fields at four times the training grid, and the boundary window with LayerNorm's largest error."""
    sample = _compared(library, "galerkin-elasticity-4x", 256)
    if sample is None:
        return None
    from matplotlib.patches import Rectangle

    rows, columns = boundary_window(sample.predictions["LayerNorm"] - sample.target)
    n, m = sample.target.shape
    with style():
        figure, axes = sheet(3.1, 2, 6, width=9.5)
        _six(figure, axes[0], sample, slice(None), slice(None))
        _six(figure, axes[1], sample, rows, columns)
        for axis in axes[0]:
            corner = (rows.start / n, columns.start / m)
            size = (rows.stop - rows.start) / n, (columns.stop - columns.start) / m
            axis.add_patch(Rectangle(corner, *size, fill=False, color="white", lw=1.1))
        return figure


def audit_drift(library: Library) -> Figure | None:
    """Per-module drift of a trained LayerNorm model between its training grid and finer ones."""
    results = source(library, "demo", "anchored-crossres", "extreme-crossres")
    if results is None:
        return None
    run = run_with_pictures(results, results.study.variants[0].name, "LayerNorm")
    audit = load_audit(run.folder) if run is not None else None
    if audit is None or not audit.leaks:
        return None
    leaks = audit.leaks[:12]
    with style():
        figure, axes = sheet(0.6 + 0.22 * len(leaks), 1, 1, width=5.6)
        axis = axes[0, 0]
        values = [100 * leak.introduced for leak in leaks]
        axis.barh(range(len(leaks)), values, color=["#0072B2" if "orm" in leak.kind else "#D55E00" for leak in leaks])
        axis.set_yticks(range(len(leaks)), [f"{leak.name} ({leak.kind})" for leak in leaks], fontsize=6.5)
        axis.invert_yaxis()
        for k, leak in enumerate(leaks):
            text = f"{values[k]:.2g} %" + (f", order {leak.order:.1f}" if leak.order is not None else "")
            axis.annotate(text, (values[k], k), (3, 0), textcoords="offset points", va="center", fontsize=6.5)
        first, last = audit.grids[0], audit.grids[-1]
        axis.set_xlabel(f"introduced between {grid_name(first)} and {grid_name(last)}, %")
        axis.set_xlim(right=1.35 * max(values))
        return figure
