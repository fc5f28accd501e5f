"""Figures of records: transfer curves, the O(h) law, scaling with gap and depth, degradation against no norm.

Filled marks are measured; open grey marks are the paper's values, if it has any.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from quadnorm.lab.analysis.comparisons import here, runs_at
from quadnorm.lab.analysis.figures.style import FAINT, INK, sheet, style, styles
from quadnorm.lab.analysis.results import Library, Results, printed_variant
from quadnorm.lab.analysis.statistics.summaries import degradation_ratio, fit_power, fit_slope, rises, summarize
from quadnorm.lab.analysis.tables.study_table import native_grid
from quadnorm.lab.analysis.tables.table import grid_name
from quadnorm.lab.studies.study import Variant

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRINTED = {"marker": "o", "mfc": "none", "color": FAINT, "ls": ":", "lw": 0.9, "ms": 4, "zorder": 1}


def means(results: Results, variant: Variant, method: str, evaluation: str = "as-trained") -> dict[int, float]:
    """Mean error by grid, where it is finite."""
    runs_by_grid = {n: results.of(variant.name, method, n, evaluation) for n in variant.test}
    return {n: m for n, runs in runs_by_grid.items() if runs and isfinite(m := summarize(runs).mean)}


def source(library: Library, *names: str) -> Results | None:
    """The first of these studies with results that can be compared."""
    return next((results for name in names if (results := library.comparable(name)) is not None), None)


def transfer(library: Library) -> Figure | None:
    """Error against test grid: as trained (solid) and transferred or anchored (dashed), one panel per operator."""
    results = source(library, "anchored-crossres", "transfer-baselines", "demo")
    if results is None:
        return None
    variants = [v for v in results.study.variants if any(means(results, v, m.label) for m in v.methods)]
    moved = "transferred" if any(e.name == "transferred" for e in results.study.evaluations) else "anchor-all"
    with style():
        figure, axes = sheet(2.7, 1, len(variants), width=max(3.6, 2.3 * len(variants)))
        for axis, v in zip(axes[0], variants, strict=True):
            line_styles = styles([m.label for m in v.methods])
            for m in v.methods:
                colour, marker = line_styles[m.label]
                for e, line in (("as-trained", "-"), (moved, "--")):
                    if curve := means(results, v, m.label, e):
                        label = m.label if e == "as-trained" else None
                        axis.plot(list(curve), list(curve.values()), line, color=colour, marker=marker, label=label)
            _grid_axis(axis, v.test)
            axis.set_ylim(bottom=0)
            axis.set_title(f"{v.operator}, {v.problem}")
        axes[0, 0].set_ylabel("relative L² error, %")
        axes[0, 0].plot([], [], "--", color=INK, label="transferred" if moved == "transferred" else "anchored")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3 if len(variants) == 1 else 6)
        return figure


def _grid_axis(axis: Axes, grids: tuple[int, ...]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(list(grids), [grid_name(n) for n in grids])
    axis.minorticks_off()
    axis.set_xlabel("test grid")


def printed(library: Library) -> Figure | None:
    """Error against test grid of the paper's three norms in an FNO: measured (filled), and as the paper prints it."""
    results = source(library, "extreme-crossres")
    if results is None:
        return None
    v = results.study.variant("fno")
    theirs = printed_variant(results.study, v).printed()
    curves = {name: curve for name in ("LayerNorm", "QuadNorm", "BlendQuadNorm") if (curve := means(results, v, name))}
    if not curves:
        return None
    with style():
        figure, axes = sheet(2.6, width=4.6)
        axis = axes[0, 0]
        for name, (colour, marker) in styles(list(curves)).items():
            axis.plot(list(curves[name]), list(curves[name].values()), "-", color=colour, marker=marker, label=name)
            cells = {n: c.value for (label, n), c in theirs.items() if label == name and c.value}
            axis.plot(list(cells), list(cells.values()), **{**PRINTED, "color": colour, "marker": marker})
        axis.plot([], [], **PRINTED, label="as printed")
        _grid_axis(axis, v.test)
        axis.set(ylim=(0, None), ylabel="relative L² error, %")
        figure.legend(loc="outside upper left", ncols=4, columnspacing=1, handlelength=1.6)
        return figure


def slope(library: Library) -> Figure | None:
    """√(eₙ² − e₀²) against the change of spacing: straight lines through 0, one slope per method."""
    results = source(library, "anchored-crossres", "demo", "extreme-crossres")
    if results is None:
        return None
    v = results.study.variants[0]
    native = native_grid(v)
    moved = "transferred" if any(e.name == "transferred" for e in results.study.evaluations) else "anchor-all"
    ways = (("as-trained", "-", None), (moved, "--", "none"))
    measured = {(m.label, e): means(results, v, m.label, e) for m in v.methods for e, _, _ in ways}
    measured = {key: errors for key, errors in measured.items() if native in errors and len(errors) > 1}
    if not measured:
        return None
    with style():
        figure, axes = sheet(3.0, 1, 1)
        axis = axes[0, 0]
        line_styles = styles([m.label for m in v.methods])
        for m in v.methods:
            colour, marker = line_styles[m.label]
            for e, line, face in ways:
                if (m.label, e) not in measured:
                    continue
                errors = measured[m.label, e]
                fit = fit_slope(errors, native)
                x, y = rises(errors, native)
                axis.plot(x, y, marker, color=colour, mfc=face or colour)
                name = m.label + ("" if e == "as-trained" else ", transferred" if e == "transferred" else ", anchored")
                axis.plot(
                    [0, x.max()],
                    [0, fit.slope * x.max()],
                    line,
                    color=colour,
                    lw=1,
                    label=f"{name}: {_whole(fit.slope)}",
                )
        axis.set(xlabel="change of spacing |1/(n₀−1) − 1/(n−1)|", ylabel="√(eₙ² − e₀²), %")
        axis.set_title(f"{v.operator}, {v.problem}; slopes in % per unit of h")
        # The legend is beside the axes: no corner inside them is free for all records.
        figure.legend(loc="outside right upper", title="slope")
        return figure


def _whole(value: float) -> str:
    return f"{round(value)}".replace("-", "−")


def scaling(library: Library) -> Figure | None:
    """Degradation against the resolution ratio, and LayerNorm's over QuadNorm's degradation against depth."""
    results = source(library, "extreme-crossres")
    if results is None:
        return None
    v = results.study.variant("fno")
    full = printed_variant(results.study, v)
    native = native_grid(v)
    if not any({native} < set(means(results, v, m.label)) for m in v.methods):
        return None
    with style():
        figure, axes = sheet(2.8, 1, 2)
        engine: Any = figure.get_layout_engine()
        engine.set(wspace=0.06)
        left, right = axes[0]
        line_styles = styles([m.label for m in v.methods])
        for m in v.methods:
            _scaling_line(left, means(results, v, m.label), native, m.label, line_styles[m.label])
            theirs = {n: c.value for (label, n), c in full.printed().items() if label == m.label and c.value}
            if theirs:
                x, y = _rises(theirs, native_grid(full))
                left.plot(x, y, **PRINTED)
        ratios = [n / native for n in v.test if n != native]
        left.set(xscale="log", yscale="log", xlabel="resolution ratio", ylabel="degradation, points")
        left.set_xticks(ratios, [f"{r:g}×" for r in ratios])
        _plain_ticks(left)
        left.set_title("gap: exponents of the ratio")
        _depth(library, right)
        figure.legend(loc="outside lower center", ncols=4, fontsize=6.5)
        return figure


def _plain_ticks(axis: Axes) -> None:
    """1, 2, 5 and their decimal multiples on a logarithmic axis that may span less than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axis.minorticks_off()
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _rises(errors: Mapping[int, float], native: int) -> tuple[list[float], list[float]]:
    up = {n: e - errors[native] for n, e in errors.items() if n != native and native in errors and e > errors[native]}
    return [n / native for n in up], list(up.values())


def _scaling_line(axis: Axes, errors: Mapping[int, float], native: int, label: str, look: tuple[str, str]) -> None:
    x, y = _rises(errors, native)
    if len(x) < 2:
        return
    axis.plot(x, y, color=look[0], marker=look[1], label=f"{label}: {fit_power(x, y).exponent:.2f}")


def _depth(library: Library, axis: Axes) -> None:
    places = (
        ("4 layers\n32² → 256²", "extreme-crossres", "fno", 32, 256),
        ("8 layers\n64² → 256²", "deep-crossres", "main", 64, 256),
    )
    for k, (_, name, variant, native, far) in enumerate(places):
        measured = [
            tuple(
                summarize(r).mean if (r := runs_at(library, name, variant, m, n)) else float("nan")
                for n in (native, far)
            )
            for m in ("LayerNorm", "QuadNorm")
        ]
        full = printed_variant(library.results(name).study, library.results(name).study.variant(variant))
        cells = full.printed()
        theirs = [tuple(cells[m, n].value or float("nan") for n in (native, far)) for m in ("LayerNorm", "QuadNorm")]
        ratio = degradation_ratio((measured[0][0], measured[0][1]), (measured[1][0], measured[1][1]))
        printed = degradation_ratio((theirs[0][0], theirs[0][1]), (theirs[1][0], theirs[1][1]))
        if isfinite(ratio):
            axis.bar(k, ratio, 0.5, color="#0072B2")
            axis.annotate(f"{ratio:.1f}", (k, ratio), (0, 3), textcoords="offset points", ha="center")
        else:
            axis.annotate("not run", (k, 0), (0, 3), textcoords="offset points", ha="center", color=FAINT)
        axis.plot([k - 0.25, k + 0.25], [printed, printed], color=INK, lw=1.2, ls=":")
    axis.set_xticks([0, 1], [p[0] for p in places])
    axis.set_xlim(-0.6, 1.6)
    axis.set_ylabel("LayerNorm / QuadNorm")
    axis.set_title("depth: degradations (dotted: paper)")
    axis.margins(y=0.1)


def error_decomposition(library: Library) -> Figure | None:
    """Native error (light) and degradation (dark) by method, with the ratio to no norm."""
    results = source(library, "error-decomp")
    if results is None:
        return None
    v = results.study.variant("main")
    targets = [here(results, v, n) for n in (128, 256)]
    native = native_grid(v)
    rows = {m.label: means(results, v, m.label) for m in v.methods}
    rows = {label: row for label, row in rows.items() if native in row}
    with style():
        figure, axes = sheet(2.6, 1, 2, sharey=True)
        line_styles = styles(list(rows))
        for axis, far in zip(axes[0], targets, strict=True):
            reference = rows.get("None", {}).get(far, float("nan")) - rows.get("None", {}).get(native, float("nan"))
            for k, (label, row) in enumerate(rows.items()):
                if far not in row:
                    continue
                rise = row[far] - row[native]
                axis.bar(k, row[native], 0.62, color=line_styles[label][0], alpha=0.35)
                axis.bar(k, rise, 0.62, bottom=row[native], color=line_styles[label][0])
                text = f"{rise:+.2f}" + (f"\n{rise / reference:.2f}×" if isfinite(reference) and reference else "")
                axis.annotate(
                    text, (k, max(row[far], row[native])), (0, 3), textcoords="offset points", ha="center", fontsize=7
                )
            axis.set_xticks(range(len(rows)), list(rows), rotation=12)
            axis.set_title(f"{grid_name(native)} → {grid_name(far)}")
            axis.margins(y=0.22)
        axes[0, 0].set_ylabel("relative L² error, %")
        return figure


def tutorial(library: Library) -> Figure | None:
    """One panel per norm; a mark per way with the range of its seeds, the error at the training grid as a line."""
    results = library.comparable("neuralop-tutorial")
    if results is None:
        return None
    study = results.study
    v = study.variants[0]
    native, far = v.test[0], v.test[-1]
    methods = [m for m in v.methods if results.of(v.name, m.label, far)]
    if not methods:
        return None
    line_styles = styles([m.label for m in methods])
    with style():
        figure, axes = sheet(2.6, 1, len(methods), width=max(3.6, 2.3 * len(methods)))
        for k, (axis, m) in enumerate(zip(axes[0], methods, strict=True)):
            colour, marker = line_styles[m.label]
            for row, way in enumerate(study.evaluations):
                seeds = list(results.of(v.name, m.label, far, way.name).values())
                if seeds:
                    ink = FAINT if way.view else colour
                    axis.plot([min(seeds), max(seeds)], [row, row], color=ink, lw=2)
                    axis.plot([sum(seeds) / len(seeds)], [row], marker=marker, color=ink, ls="none")
            at_home = list(results.of(v.name, m.label, native).values())
            axis.axvline(sum(at_home) / len(at_home), color=FAINT, ls="--", lw=0.9, zorder=0)
            labels = [way.label for way in study.evaluations] if k == 0 else [""] * len(study.evaluations)
            axis.set_yticks(range(len(study.evaluations)), labels)
            axis.invert_yaxis()
            axis.set_title(m.label)
            axis.set_xlabel(f"error at {far}², %")
        return figure
