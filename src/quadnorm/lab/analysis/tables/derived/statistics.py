"""Tables of the paper that test or decompose the numbers of one study: sizes, degradation, equivalence."""

from __future__ import annotations

from math import isfinite, nan

from quadnorm.lab.analysis.comparisons import Place, common, compare_at, runs_at
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.analysis.statistics.summaries import baseline_ratio, summarize, tost
from quadnorm.lab.analysis.tables.derived.cells import (
    budget_cell,
    gain_cell,
    interval_cell,
    missing_cell,
    plain_cell,
    text_cells,
)
from quadnorm.lab.analysis.tables.derived.rows import SIZES
from quadnorm.lab.analysis.tables.table import Cell, Panel, summary_cell
from quadnorm.lab.studies.paper import PrintedTable


def model_scaling(library: Library, printed: PrintedTable) -> list[Panel]:
    """QuadNorm's improvement for three sizes of Transolver."""
    (panel,) = printed.panels
    rows = []
    for size, row in zip(SIZES, panel.rows, strict=True):
        c = compare_at(library, Place("model-scaling", size, 256))
        cells = list(text_cells(row, 2))
        if c is None:
            cells += [
                missing_cell("model-scaling", row[2]),
                missing_cell("model-scaling", row[3]),
                Cell("—"),
                budget_cell(None),
            ]
        else:
            cells += [
                Cell(f"{c.means[0]:.2f} %", "value", c.means[0], paper=row[2]),
                gain_cell(c, row[3]),
                interval_cell(c),
                budget_cell(c),
            ]
        rows.append(tuple(cells))
    return [Panel("", (*panel.columns, "95 % interval", "measured with"), tuple(rows), text_columns=2)]


def error_decomposition(library: Library, printed: PrintedTable) -> list[Panel]:
    """Degradation, and its ratio to the degradation without a norm."""
    (panel,) = printed.panels
    rows, native_paper = [], None
    name = ""
    for row in panel.rows:
        name = row[0].text or name
        native_paper = row[2] if row[2].text else native_paper
        method, grid = ("None" if name == "No Norm" else name), int(row[1].text.rstrip("²"))
        native, moved, zero, one = common(
            *(runs_at(library, "error-decomp", "main", m, n) for m in (method, "None") for n in (64, grid))
        )
        cells = [Cell(name), Cell(row[1].text)]
        if not native:
            cells += [missing_cell("error-decomp", p) for p in (native_paper, *row[3:6])]
        else:
            low, high = summarize(native), summarize(moved)
            ratio = baseline_ratio((low.mean, high.mean), (summarize(zero).mean, summarize(one).mean))
            rise = high.mean - low.mean
            cells += [
                summary_cell(low, paper=native_paper),
                summary_cell(high, paper=row[3]),
                plain_cell(rise, f"{rise:+.2f}", row[4]),
                plain_cell(ratio, f"{ratio:.2f} times", row[5]),
            ]
        rows.append(tuple(cells))
    return [Panel("", panel.columns, tuple(rows), text_columns=2)]


def equivalence(library: Library, printed: PrintedTable) -> list[Panel]:
    """The paired equivalence test of BlendQuadNorm and LayerNorm."""
    panel = printed.panels[0]
    layer, blend = common(*(runs_at(library, "tost", "main", m, 64) for m in ("LayerNorm", "BlendQuadNorm")))
    papers = [row[1] for row in panel.rows]
    if not layer:
        cells = [missing_cell("tost", paper) for paper in papers]
    else:
        e = tost(blend, layer)
        told = isfinite(e.p)
        texts = [
            (f"{summarize(layer).mean:.4f} %", summarize(layer).mean),
            (f"{summarize(blend).mean:.4f} %", summarize(blend).mean),
            (f"{e.difference:.4f} %", e.difference),
            (f"[{e.low:.4f}, {e.high:.4f}] %" if told else e.note, e.low),
            (f"±{e.margin:g} %", e.margin),
            (("< 0.0001" if e.p < 1e-4 else f"{e.p:.4f}") if told else e.note, e.p),
            (("yes" if e.equivalent else "no") if told else "cannot be told", nan),
            (str(e.n), e.n),
        ]
        cells = [
            Cell(t.replace("-", "−"), "value" if isfinite(v) else "text", v, paper=p)
            for (t, v), p in zip(texts, papers, strict=True)
        ]
    rows = tuple((Cell(row[0].text), cell) for row, cell in zip(panel.rows, cells, strict=True))
    return [Panel("", panel.columns, rows)]
