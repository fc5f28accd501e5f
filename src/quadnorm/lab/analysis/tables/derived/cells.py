"""Cells that derived tables share."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from quadnorm.lab.analysis.comparisons import Comparison, Contrast
from quadnorm.lab.analysis.statistics.paired import PairedTest, effect_class
from quadnorm.lab.analysis.tables.printed import PrintedCell, PrintedRow
from quadnorm.lab.analysis.tables.table import Cell, p_text


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
