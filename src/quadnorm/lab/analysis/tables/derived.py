"""The paper's tables that are computed from several studies, rebuilt from records and shown with the paper's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite, nan
from pathlib import Path

from quadnorm._suggest import unknown
from quadnorm.lab.analysis.comparisons import Contrast, compare_at, runs_at
from quadnorm.lab.analysis.results import Library, library_of, parameter_counts
from quadnorm.lab.analysis.statistics.paired import Equivalence, common, holm, paired_t, tost
from quadnorm.lab.analysis.statistics.summaries import Summary, baseline_ratio, summarize
from quadnorm.lab.analysis.tables import improvements
from quadnorm.lab.analysis.tables.improvements import (
    COMPARISONS,
    budget_cell,
    contrast_of,
    effect_cell,
    gain_cell,
    interval_cell,
    missing_cell,
    number_text,
    p_cell,
    plain_cell,
    text_cells,
)
from quadnorm.lab.analysis.tables.table import Cell, Panel, PrintedCell, PrintedTable, Table, named_rows, summary_cell
from quadnorm.lab.studies import derived, derived_names, paper_table


def model_scaling(library: Library, printed: PrintedTable) -> list[Panel]:
    """QuadNorm's improvement for three sizes of Transolver, with the parameters of the models that ran."""
    (panel,) = printed.panels
    texts, error, gain = ("Model", "Params"), "LayerNorm error at 4× gap", "QuadNorm improvement"
    rows = []
    for size, row in zip(COMPARISONS["sizes"], named_rows(panel), strict=True):
        c = compare_at(library, Contrast("model-scaling", size, 256))
        cells = list(text_cells(row, texts))
        ran = library.comparable("model-scaling")
        counts = parameter_counts(ran, size) if ran is not None else []
        if counts:
            cells[1] = Cell(" or ".join(f"{n:,}" for n in counts), "text", paper=row["Params"])
        if c is None:
            cells += [missing_cell("model-scaling", row[head]) for head in (error, gain)]
            cells += [Cell("—"), budget_cell(None)]
        else:
            base, _ = c.means
            cells += [
                Cell(f"{base:.2f} %", "value", base, paper=row[error]),
                gain_cell(c, row[gain]),
                interval_cell(c),
                budget_cell(c),
            ]
        rows.append(tuple(cells))
    return [Panel("", (*panel.columns, "95 % interval", "measured with"), tuple(rows), text_columns=2)]


def error_decomposition(library: Library, printed: PrintedTable) -> list[Panel]:
    """Degradation, and its ratio to the degradation without a norm."""
    (panel,) = printed.panels
    rows = []
    name, native_paper = "", PrintedCell("")
    for row in named_rows(panel):
        # In the second row of each pair the paper leaves the method and its native error blank.
        name = row["Method"].text or name
        native_paper = row["Native L²"] if row["Native L²"].text else native_paper
        method, grid = ("None" if name == "No Norm" else name), int(row["Test Res"].text.rstrip("²"))
        native, moved, none_native, none_moved = common(
            *(runs_at(library, "error-decomp", "main", m, n) for m in (method, "None") for n in (64, grid))
        )
        cells = [Cell(name), Cell(row["Test Res"].text)]
        others = ("Transfer L²", "Degradation", "Baseline ratio")
        if not native:
            cells += [missing_cell("error-decomp", p) for p in (native_paper, *(row[head] for head in others))]
        else:
            low, high = summarize(native), summarize(moved)
            reference = summarize(none_native).mean, summarize(none_moved).mean
            ratio = baseline_ratio((low.mean, high.mean), reference)
            rise = high.mean - low.mean
            cells += [
                summary_cell(low, paper=native_paper),
                summary_cell(high, paper=row["Transfer L²"]),
                plain_cell(rise, f"{rise:+.2f}", row["Degradation"]),
                plain_cell(ratio, f"{ratio:.2f} times", row["Baseline ratio"]),
            ]
        rows.append(tuple(cells))
    return [Panel("", panel.columns, tuple(rows), text_columns=2)]


def effect_sizes(library: Library, printed: PrintedTable) -> list[Panel]:
    """Cohen's d with its class, and Holm-corrected p-values over the whole table."""
    (panel,) = printed.panels
    methods = ("BlendQuadNorm", "QuadNorm")
    settings = [contrast_of(text) for text in COMPARISONS["effect_sizes"]]
    compared = {
        (setting, method): compare_at(library, replace(setting, method=method))
        for setting in settings
        for method in methods
    }
    tests = holm({key: paired_t(c.method, c.baseline) for key, c in compared.items() if c is not None})
    rows = []
    for setting, row in zip(settings, named_rows(panel), strict=True):
        cells: list[Cell] = [Cell(row["Setting"].text)]
        for method in methods:
            d, p = row[f"{method} d"], row[f"{method} d: p"]
            c = compared[setting, method]
            if c is None:
                cells += [missing_cell(setting, d), missing_cell(setting, p)]
            else:
                cells += [effect_cell(c, d), p_cell(tests[setting, method], p)]
        first = next((c for m in reversed(methods) if (c := compared[setting, m]) is not None), None)
        rows.append((*cells, budget_cell(first)))
    heads = ("Setting", "BlendQuadNorm d", "BlendQuadNorm p (Holm)", "QuadNorm d", "QuadNorm p (Holm)", "measured with")
    return [Panel("", heads, tuple(rows))]


def equivalence(library: Library, printed: PrintedTable) -> list[Panel]:
    """The paired equivalence test of BlendQuadNorm and LayerNorm."""
    panel = printed.panels[0]
    layer, blend = common(*(runs_at(library, "tost", "main", m, 64) for m in ("LayerNorm", "BlendQuadNorm")))
    rows = []
    lines = _equivalence_lines(summarize(layer), summarize(blend), tost(blend, layer)) if layer else None
    for k, row in enumerate(named_rows(panel)):
        if lines is None:
            cell = missing_cell("tost", row["Value"])
        else:
            text, value = lines[k]
            cell = Cell(number_text(text), "value" if isfinite(value) else "text", value, paper=row["Value"])
        rows.append((Cell(row["Metric"].text), cell))
    return [Panel("", panel.columns, tuple(rows))]


def _equivalence_lines(layer: Summary, blend: Summary, e: Equivalence) -> list[tuple[str, float]]:
    """(text, value) of each line of the paper's table, in its order."""
    tested = isfinite(e.p)
    p = "< 0.0001" if e.p < 1e-4 else f"{e.p:.4f}"
    return [
        (f"{layer.mean:.4f} %", layer.mean),
        (f"{blend.mean:.4f} %", blend.mean),
        (f"{e.difference:.4f} %", e.difference),
        (f"[{e.low:.4f}, {e.high:.4f}] %" if tested else e.note, e.low),
        (f"±{e.margin:g} %", e.margin),
        (p if tested else e.note, e.p),
        (("yes" if e.equivalent else "no") if tested else "no test possible", nan),
        (str(e.n), e.n),
    ]


_BUILDERS: dict[str, Callable[[Library, PrintedTable], list[Panel]]] = {
    "key-results-summary": improvements.key_results,
    "real-benchmark-best-summary": improvements.benchmark_best,
    "real-benchmark-summary": improvements.benchmark_summary,
    "error-decomp": error_decomposition,
    "model-scaling": model_scaling,
    "bootstrap-cis": improvements.bootstrap_intervals,
    "effect-sizes": effect_sizes,
    "tost": equivalence,
    "nonperiodic-breadth-summary": improvements.breadth_summary,
    "bootstrap-cis-breadth": improvements.bootstrap_breadth,
    "extreme-gap-summary": improvements.extreme_gap_summary,
}


def table_names() -> tuple[str, ...]:
    """The names that :func:`derived_table` knows, in the order of the paper."""
    return tuple(_BUILDERS)


def derived_table(name: str, roots: Path | Sequence[Path] | Library) -> Table:
    """A derived table by name, as ``effect-sizes``; see :func:`table_names`.

    >>> table = derived_table("effect-sizes", Path("no-such-folder"))
    >>> table.panels[0].rows[0][1].text, table.panels[0].rows[0][1].paper.text
    ('not run', '1.02')
    """
    key = name.removeprefix("tab:")
    if key not in _BUILDERS:
        raise ValueError(unknown("derived table", name, _BUILDERS))
    library = library_of(roots)
    printed = paper_table(key)
    panels = _BUILDERS[key](library, printed)
    notes = (*(derived(key).notes if key in derived_names() else ()), *printed.notes)
    sources = derived(key).draws_on if key in derived_names() else (key,)
    lacking = [s for s in sources if not library.results(s).any]
    command = "; ".join(f"quadnorm study run {s} --preset desk" for s in lacking[:1])
    if len(lacking) > 1:
        command += f" (and {', '.join(lacking[1:])})"
    caption = f"{printed.unit[0].upper()}{printed.unit[1:]}. Below, as printed in {printed.label}."
    return Table(key, printed.caption, tuple(panels), caption, notes, command)
