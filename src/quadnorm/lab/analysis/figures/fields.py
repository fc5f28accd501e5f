"""Figures of fields, from the weights that runs leave behind. Where there are none, there is no figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadnorm.lab.analysis.comparisons import here
from quadnorm.lab.analysis.figures.style import INK, sheet, style
from quadnorm.lab.analysis.figures.transfer import source
from quadnorm.lab.analysis.results import Found, Library, Results
from quadnorm.lab.analysis.tables.table import grid_name
from quadnorm.lab.studies.study import Way

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shown:
    """One test instance at one grid, (n, m) each: input, truth, and predictions by name."""

    x: Array
    truth: Array
    guesses: dict[str, Array]
    grid: int

    def error(self, name: str) -> float:
        """Relative L² error in per cent."""
        return 100 * float(np.linalg.norm(self.guesses[name] - self.truth) / np.linalg.norm(self.truth))


def saved_run(results: Results, variant: str, method: str) -> Found | None:
    """The first run of a method whose weights are there."""
    for f in results.found:
        named = (f.run.variant.name, f.run.method.label) == (variant, method)
        if named and f.status == "done" and (f.folder / "best.safetensors").exists():
            return f
    return None


def predict(runs: Sequence[tuple[str, Found, Way]], grid: int) -> Shown:
    """The first test instance of the runs' problem at a grid, predicted by each of them."""
    import torch

    from quadnorm.lab.studies.evaluate import predictor
    from quadnorm.training import load_model
    from quadnorm.training.data import problem_of

    guesses: dict[str, Array] = {}
    with torch.no_grad():
        for name, found, evaluation in runs:
            model, config = load_model(found.folder)
            p = problem_of(config)
            first = config.samples.indices("test")[:1]
            make = p.dataset_many if config.problem.cache else p.sample_many
            ((x, y),) = make(first, [grid], config.problem.seed, dtype=getattr(torch, config.dtype))
            guess = predictor(model, config, evaluation, p.shape(grid), p.placement)(x)
            guesses[name] = guess[0, 0].double().numpy()
    return Shown(x[0, 0].double().numpy(), y[0, 0].double().numpy(), guesses, grid)


def prediction(library: Library) -> Any | None:
    """Input, truth, and the error of LayerNorm in every use, and of QuadNorm, at the finest grid."""
    results = source(library, "demo", "anchored-crossres", "transfer-baselines", "extreme-crossres")
    if results is None:
        return None
    v = results.study.variants[0]
    runs = []
    for method in ("LayerNorm", "QuadNorm"):
        found = saved_run(results, v.name, method)
        if found is not None:
            uses = [e for e in results.study.evaluations if e.name in ("as-trained", "anchor-all")]
            runs += [(f"{method}, {e.label}" if len(uses) > 1 else method, found, e) for e in uses]
    if not runs:
        return None
    shown = predict(runs, v.test[-1])
    return _row_of_errors(shown)


def _row_of_errors(shown: Shown) -> Any:
    with style():
        count = 2 + len(shown.guesses)
        columns = 3
        rows = -(-count // columns)
        figure, axes = sheet(2.15 * rows, rows, columns)
        _image(figure, axes.flat[0], shown.x, "input", "cividis")
        _image(figure, axes.flat[1], shown.truth, f"truth at {grid_name(shown.grid)}", "viridis")
        top = max(float(np.abs(g - shown.truth).max()) for g in shown.guesses.values())
        for axis, name in zip(axes.flat[2:], shown.guesses, strict=False):
            error = np.abs(shown.guesses[name] - shown.truth)
            _image(figure, axis, error, f"{name}: {shown.error(name):.2f} %", "magma", top)
        for axis in axes.flat[count:]:
            axis.remove()
        return figure


def _image(
    figure: Any, axis: Any, values: Array, title: str, colours: str, top: float | None = None, low: float | None = None
) -> None:
    low = 0.0 if low is None and top is not None else low
    image = axis.imshow(
        values.T, origin="lower", cmap=colours, vmin=low, vmax=top, extent=(0, 1, 0, 1), interpolation="none"
    )
    bar = figure.colorbar(image, ax=axis, shrink=0.85, aspect=25, pad=0.02)
    bar.ax.tick_params(labelsize=6)
    bar.outline.set_visible(False)
    axis.set(xticks=[], yticks=[])
    axis.set_title(title, fontweight="normal", fontsize=7.5, color=INK)


def _compared(library: Library, study: str, grid: int) -> Shown | None:
    results = source(library, study)
    if results is None:
        return None
    v = results.study.variant("main")
    use = results.study.evaluations[0]
    runs = [(m, f, use) for m in ("LayerNorm", "QuadNorm") if (f := saved_run(results, "main", m)) is not None]
    return predict(runs, here(results, v, grid)) if len(runs) == 2 else None


def varcoeff(library: Library) -> Any | None:
    """Rows: operators. Coefficient, truth, predictions and absolute errors at the training grid."""
    found = {
        name: shown
        for name in ("galerkin-varcoeff", "transolver-varcoeff")
        if (shown := _compared(library, name, 64)) is not None
    }
    if not found:
        return None
    with style():
        figure, axes = sheet(1.5 * len(found), len(found), 6, width=9.5)
        for row, (name, shown) in zip(axes, found.items(), strict=True):
            _six(figure, row, shown, slice(None), slice(None))
            row[0].set_ylabel(name.split("-")[0])
        return figure


def _six(figure: Any, row: Any, shown: Shown, rows: slice, columns: slice) -> None:
    """Input, truth, two predictions on the truth's scale, two absolute errors on one scale."""
    errors = {name: np.abs(g - shown.truth) for name, g in shown.guesses.items()}
    top = max(float(e[rows, columns].max()) for e in errors.values())
    _image(figure, row[0], shown.x[rows, columns], "input", "cividis")
    _image(figure, row[1], shown.truth[rows, columns], f"truth, {grid_name(shown.grid)}", "viridis")
    for k, (name, guess) in enumerate(shown.guesses.items()):
        same = shown.truth[rows, columns]
        _image(figure, row[2 + k], guess[rows, columns], name, "viridis", float(same.max()), float(same.min()))
        _image(figure, row[4 + k], errors[name][rows, columns], f"error {shown.error(name):.1f} %", "magma", top)


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
    # Windows that touch an edge, in steps of their own size: neighbours of equal energy do not compete.
    starts = [(i, j) for i in (0, n - a) for j in range(0, m - b + 1, b)]
    starts += [(i, j) for j in (0, m - b) for i in range(0, n - a + 1, a)]
    i, j = max(
        starts, key=lambda s: total[s[0] + a, s[1] + b] - total[s[0], s[1] + b] - total[s[0] + a, s[1]] + total[s]
    )
    return slice(i, i + a), slice(j, j + b)


def elasticity(library: Library) -> Any | None:
    """Whole fields at four times the training grid, and the boundary window where LayerNorm errs most."""
    shown = _compared(library, "galerkin-elasticity-4x", 256)
    if shown is None:
        return None
    from matplotlib.patches import Rectangle

    rows, columns = boundary_window(shown.guesses["LayerNorm"] - shown.truth)
    n, m = shown.truth.shape
    with style():
        figure, axes = sheet(3.1, 2, 6, width=9.5)
        _six(figure, axes[0], shown, slice(None), slice(None))
        _six(figure, axes[1], shown, rows, columns)
        for axis in axes[0]:
            corner = (rows.start / n, columns.start / m)
            size = (rows.stop - rows.start) / n, (columns.stop - columns.start) / m
            axis.add_patch(Rectangle(corner, *size, fill=False, color="white", lw=1.1))
        return figure


def audit_drift(library: Library) -> Any | None:
    """Per-module drift of a trained LayerNorm model between its training grid and finer ones."""
    results = source(library, "demo", "anchored-crossres", "extreme-crossres")
    if results is None:
        return None
    v = results.study.variants[0]
    found = saved_run(results, v.name, "LayerNorm")
    if found is None:
        return None
    import torch

    from quadnorm.adapt import audit
    from quadnorm.training import load_model
    from quadnorm.training.data import problem_of

    model, config = load_model(found.folder)
    p = problem_of(config)
    first = config.samples.indices("test")[:1]

    def make_input(n: Any) -> torch.Tensor:
        make = p.dataset_many if config.problem.cache else p.sample_many
        ((x, _),) = make(first, [n], config.problem.seed, dtype=getattr(torch, config.dtype))
        return x

    # Three grids give orders; the finest of all adds time and no insight.
    report = audit(model, make_input, list(v.test[:3]), placement=p.placement, interventions=False)
    leaks = report.leaks[:12]
    if not leaks:
        return None
    with style():
        figure, axes = sheet(0.6 + 0.22 * len(leaks), 1, 1, width=5.6)
        axis = axes[0, 0]
        values = [100 * (row.introduced or 0.0) for row in leaks]
        axis.barh(range(len(leaks)), values, color=["#0072B2" if "orm" in r.kind else "#D55E00" for r in leaks])
        axis.set_yticks(range(len(leaks)), [f"{r.name} ({r.kind})" for r in leaks], fontsize=6.5)
        axis.invert_yaxis()
        for k, row in enumerate(leaks):
            text = f"{values[k]:.2g} %" + (f", order {row.order:.1f}" if row.order is not None else "")
            axis.annotate(text, (values[k], k), (3, 0), textcoords="offset points", va="center", fontsize=6.5)
        axis.set_xlabel(
            f"introduced between {grid_name(v.test[0])} and {grid_name(v.test[min(2, len(v.test) - 1)])}, %"
        )
        axis.set_xlim(right=1.35 * max(values))
        return figure
