"""Tables of improvements over LayerNorm: headlines, bootstrap intervals, the released Darcy files, breadth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from typing import Any

from quadnorm.lab import read_table
from quadnorm.lab.analysis.comparisons import Comparison, Contrast, better_of, compare_at, runs_at
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.analysis.statistics.paired import PairedTest, effect_class
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.table import (
    Cell,
    Panel,
    PrintedCell,
    PrintedRow,
    PrintedTable,
    named_rows,
    p_text,
    summary_cell,
)

MEASURED_WITH = "measured with"
GAIN, SUPPORT = "Improvement (%)", "Support"
# The comparisons behind each row, in the printed order; see the file.
COMPARISONS: dict[str, Any] = read_table("analysis/tables/derived.toml")


def contrast_of(row: str) -> Contrast:
    """The comparison of a row of ``derived.toml``: "study/variant grid method".

    >>> contrast_of("deep-crossres 256").variant, contrast_of("real-darcy-crossres/fno 128 BlendQuadNorm").method
    ('main', 'BlendQuadNorm')
    """
    place, grid, *method = row.split()
    study, _, variant = place.partition("/")
    return Contrast(study, variant or "main", int(grid), *method)


def number_text(text: str) -> str:
    """The text with a true minus sign instead of a hyphen.

    >>> number_text("-1.5 %")
    '−1.5 %'
    """
    return text.replace("-", "−")


def missing_cell(source: Contrast | str, paper: PrintedCell | None = None) -> Cell:
    """A cell that says "not run", with the command that would run it."""
    name = source if isinstance(source, str) else source.study
    return Cell("not run", "missing", note=f"quadnorm study run {name} --preset desk", paper=paper)


def gain_cell(c: Comparison, paper: PrintedCell | None = None) -> Cell:
    """The improvement; bold if its interval lies above zero."""
    i = c.improvement
    if not isfinite(i.value):
        return Cell("diverged", "failed", note=i.note, paper=paper)
    bold = isfinite(i.low) and i.low > 0
    return Cell(number_text(f"{100 * i.value:+.1f} %"), "value", 100 * i.value, bold=bold, note=c.budget, paper=paper)


def interval_cell(c: Comparison, paper: PrintedCell | None = None) -> Cell:
    """The bootstrap interval of the improvement."""
    i = c.improvement
    if not isfinite(i.low):
        return Cell("—", note=i.note, paper=paper)
    return Cell(number_text(f"[{100 * i.low:.1f}, {100 * i.high:.1f}]"), "value", 100 * i.low, paper=paper)


def text_cells(row: PrintedRow, heads: Sequence[str]) -> tuple[Cell, ...]:
    """The cells that name a row, as printed."""
    return tuple(Cell(row[head].text) for head in heads)


def budget_cell(c: Comparison | None) -> Cell:
    """The preset and the number of seeds that the row was measured with."""
    return Cell("—") if c is None else Cell(c.budget, "text")


def effect_cell(c: Comparison, paper: PrintedCell) -> Cell:
    """Cohen's d and its class."""
    if not isfinite(c.d):
        return Cell("—", paper=paper)
    return Cell(number_text(f"{c.d:.2f}, {effect_class(c.d)}"), "value", c.d, paper=paper)


def p_cell(test: PairedTest, paper: PrintedCell) -> Cell:
    """The p-value after Holm's correction."""
    if not isfinite(test.p_holm):
        return Cell("—", note=test.note, paper=paper)
    return Cell(p_text(test.p_holm), "value", test.p_holm, paper=paper)


def plain_cell(value: float, text: str, paper: PrintedCell | None) -> Cell:
    """A number with its text, or a dash."""
    if not isfinite(value):
        return Cell("—", "failed", paper=paper)
    return Cell(number_text(text), "value", value, paper=paper)


def bootstrap_intervals(library: Library, printed: PrintedTable) -> list[Panel]:
    """Mean errors, improvement and bootstrap interval of the main comparisons."""
    texts = ("Block", "Experiment", "Best norm")
    numbers = ("Mean error (%)", "Improvement", "95% CI")
    panels = []
    for contrasts, panel in zip(COMPARISONS["bootstrap"], printed.panels, strict=True):
        rows = []
        for contrast, row in zip(map(contrast_of, contrasts), named_rows(panel), strict=True):
            c = compare_at(library, contrast)
            if c is None:
                values = [missing_cell(contrast, row[head]) for head in numbers]
            else:
                base, mean = c.means
                errors = Cell(f"{base:.2f} → {mean:.2f}", "value", mean, paper=row["Mean error (%)"])
                values = [errors, gain_cell(c, row["Improvement"]), interval_cell(c, row["95% CI"])]
            rows.append((*text_cells(row, texts), *values, budget_cell(c)))
        panels.append(Panel(panel.title, (*texts, *numbers, MEASURED_WITH), tuple(rows), text_columns=3))
    return panels


def bootstrap_breadth(library: Library, printed: PrintedTable) -> list[Panel]:
    """Improvement and bootstrap interval beyond Darcy."""
    (panel,) = printed.panels
    texts = ("Architecture", "PDE", "Method", "Gap")
    rows = []
    for contrast, row in zip(map(contrast_of, COMPARISONS["bootstrap_breadth"]), named_rows(panel), strict=True):
        c = compare_at(library, contrast)
        if c is None:
            values = [missing_cell(contrast, row[head]) for head in (GAIN, "95% CI")]
        else:
            values = [gain_cell(c, row[GAIN]), interval_cell(c, row["95% CI"])]
        rows.append((*text_cells(row, texts), *values, budget_cell(c)))
    return [Panel("", (*texts, GAIN, "95% CI", MEASURED_WITH), tuple(rows), text_columns=4)]


def key_results(library: Library, printed: PrintedTable) -> list[Panel]:
    """The paper's main results. A row over several grids or sizes shows the range of gains and of their intervals."""
    texts = ("Setting", "PDE", "Arch", "Best")
    panels = []
    for groups, panel in zip(COMPARISONS["key_results"], printed.panels, strict=True):
        rows = []
        for group, row in zip(groups, named_rows(panel), strict=True):
            contrasts = [contrast_of(text) for text in group]
            compared = [c for p in contrasts if (c := compare_at(library, p)) is not None]
            if not compared:
                values = [missing_cell(contrasts[0], row[GAIN]), missing_cell(contrasts[0], row[SUPPORT])]
            elif len(contrasts) == 1:
                values = [gain_cell(compared[0], row[GAIN]), interval_cell(compared[0], row[SUPPORT])]
            else:
                values = _several(contrasts, compared, row)
            rows.append((*text_cells(row, texts), *values, budget_cell(compared[0] if compared else None)))
        panels.append(Panel(panel.title, (*texts, GAIN, SUPPORT, MEASURED_WITH), tuple(rows), text_columns=4))
    return panels


def _several(contrasts: Sequence[Contrast], compared: Sequence[Comparison], row: PrintedRow) -> list[Cell]:
    """Gains over the grids of one study as a range, over the sizes of a model as a sequence; intervals likewise."""
    gains = [100 * c.improvement.value for c in compared]
    sequence = contrasts[0].study == "model-scaling"
    text = " → ".join(f"{g:.0f}" for g in gains) if sequence else f"{min(gains):+.0f} to {max(gains):+.0f}"
    ends = [(100 * c.improvement.low, 100 * c.improvement.high) for c in compared]
    if len(compared) < len(contrasts):
        support = f"{len(compared)} of {len(contrasts)} measured"
    elif not all(isfinite(v) for pair in ends for v in pair):
        support = compared[0].improvement.note
    elif sequence:
        support = " → ".join(f"[{low:.0f}, {high:.0f}]" for low, high in ends)
        support += ", monotonic" if all(b > a for a, b in pairwise(gains)) else ", not monotonic"
    else:
        support = f"[{min(low for low, _ in ends):.0f}, {max(high for _, high in ends):.0f}]"
    return [
        Cell(number_text(text) + " %", "value", max(gains), paper=row[GAIN]),
        Cell(number_text(support), paper=row[SUPPORT]),
    ]


def benchmark_best(library: Library, printed: PrintedTable) -> list[Panel]:
    """The better norm's improvement on the released Darcy files, for each operator and gap."""
    (panel,) = printed.panels
    rows = []
    for operator, row in zip(("fno", "galerkin", "transolver"), named_rows(panel), strict=True):
        cells: list[Cell] = [Cell(row["Architecture"].text)]
        for grid, head in ((64, "Native"), (128, "2×"), (256, "4×")):
            contrast = Contrast("real-darcy", operator, grid)
            best = better_of(library, contrast)
            if best is None:
                cells.append(missing_cell(contrast, row[head]))
            else:
                method, c = best
                cells.append(replace(gain_cell(c, row[head]), note=f"{method}, {c.budget}"))
        rows.append(tuple(cells))
    return [Panel("", panel.columns, tuple(rows))]


def benchmark_summary(library: Library, printed: PrintedTable) -> list[Panel]:
    """Errors of three norms on the released Darcy files, and the improvement of two of them."""
    (panel,) = printed.panels
    texts = ("Protocol", "Arch", "Train → Test")
    rows = []
    for contrast, row in zip(map(contrast_of, COMPARISONS["benchmark_summary"]), named_rows(panel), strict=True):
        study, variant, grid = contrast.study, contrast.variant, contrast.grid
        cells = list(text_cells(row, texts))
        statistic = library.results(study).study.statistic
        for method in ("LayerNorm", "BlendQuadNorm", "QuadNorm"):
            runs = runs_at(library, study, variant, method, grid)
            paper = row[method]
            cells.append(summary_cell(summarize(runs, statistic), paper=paper) if runs else missing_cell(study, paper))
            if method != "LayerNorm":
                c = compare_at(library, replace(contrast, method=method))
                paper = row[f"{method}: Δ"]
                cells.append(missing_cell(study, paper) if c is None else gain_cell(c, paper))
        rows.append(tuple(cells))
    heads = (*texts, "LayerNorm", "BlendQuadNorm", "BlendQuadNorm Δ", "QuadNorm", "QuadNorm Δ")
    return [Panel("", heads, tuple(rows), text_columns=3)]


def breadth_summary(library: Library, printed: PrintedTable) -> list[Panel]:
    """LayerNorm at 64² and 128², then the better norm at 128²."""
    heads = {64: "LayerNorm at native", 128: "LayerNorm at 2× gap"}
    return _better_norm(library, printed, COMPARISONS["breadth"], heads, "Best of QuadNorm/BlendQuadNorm at 2× gap")


def extreme_gap_summary(library: Library, printed: PrintedTable) -> list[Panel]:
    """LayerNorm at 64², 128² and 256², then the better norm at 256²."""
    heads = {64: "LayerNorm at native", 128: "LayerNorm at 2× gap", 256: "LayerNorm at 4× gap"}
    return _better_norm(library, printed, COMPARISONS["extreme_gap"], heads, "Best at 4× gap")


def _better_norm(
    library: Library, printed: PrintedTable, studies: Sequence[str], layer_heads: dict[int, str], best_head: str
) -> list[Panel]:
    (panel,) = printed.panels
    texts = ("Architecture", "PDE")
    far = max(layer_heads)
    rows = []
    for name, row in zip(studies, named_rows(panel), strict=True):
        cells = list(text_cells(row, texts))
        for grid, head in layer_heads.items():
            runs = runs_at(library, name, "main", "LayerNorm", grid)
            cells.append(summary_cell(summarize(runs), paper=row[head]) if runs else missing_cell(name, row[head]))
        best = better_of(library, Contrast(name, "main", far))
        if best is None:
            cells += [missing_cell(name, row[best_head]), missing_cell(name, row[GAIN]), budget_cell(None)]
        else:
            method, c = best
            mean = c.means[1]
            cells += [
                Cell(f"{mean:.2f}, {method}", "value", mean, paper=row[best_head]),
                gain_cell(c, row[GAIN]),
                budget_cell(c),
            ]
        rows.append(tuple(cells))
    return [Panel("", (*panel.columns, MEASURED_WITH), tuple(rows), text_columns=2)]
