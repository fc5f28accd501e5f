"""Cells that derived tables share."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from quadnorm.lab.analysis.comparisons import Compared, Place
from quadnorm.lab.analysis.statistics.summaries import PairedTest
from quadnorm.lab.analysis.tables.table import Cell
from quadnorm.lab.studies.paper import PrintedCell

Row = tuple[Cell, ...]


def missing_cell(place: Place | str, paper: PrintedCell | None = None) -> Cell:
    """Not run, and how to run it."""
    name = place if isinstance(place, str) else place.study
    return Cell("not run", "missing", note=f"quadnorm study run {name} --preset desk", paper=paper)


def gain_cell(c: Compared, paper: PrintedCell | None = None, sign: str = "+") -> Cell:
    """The improvement; bold where its interval lies above zero."""
    i = c.improvement
    if not isfinite(i.value):
        return Cell("diverged", "failed", note=i.note, paper=paper)
    bold = isfinite(i.low) and i.low > 0
    return Cell(
        f"{100 * i.value:{sign}.1f} %".replace("-", "−"), "value", 100 * i.value, bold=bold, note=c.budget, paper=paper
    )


def interval_cell(c: Compared, paper: PrintedCell | None = None) -> Cell:
    """The bootstrap interval of the improvement."""
    i = c.improvement
    if not isfinite(i.low):
        return Cell("—", note=i.note, paper=paper)
    return Cell(f"[{100 * i.low:.1f}, {100 * i.high:.1f}]".replace("-", "−"), "value", 100 * i.low, paper=paper)


def text_cells(row: Sequence[PrintedCell], count: int) -> Row:
    """The first cells of a printed row, which name it."""
    return tuple(Cell(cell.text) for cell in row[:count])


def budget_cell(c: Compared | None) -> Cell:
    """What the row was measured with."""
    return Cell("—") if c is None else Cell(c.budget, "text")


def effect_cell(c: Compared, paper: PrintedCell) -> Cell:
    """Cohen's d."""
    return Cell(f"{c.d:.2f}".replace("-", "−"), "value", c.d, paper=paper) if isfinite(c.d) else Cell("—", paper=paper)


def p_cell(test: PairedTest, paper: PrintedCell) -> Cell:
    """The p-value after Holm's correction."""
    if not isfinite(test.p_holm):
        return Cell("—", note=test.note, paper=paper)
    text = "<0.001" if test.p_holm < 0.001 else f"{test.p_holm:.3f}"
    return Cell(text, "value", test.p_holm, paper=paper)


def plain_cell(value: float, text: str, paper: PrintedCell | None) -> Cell:
    """A number with its text, or a dash."""
    if not isfinite(value):
        return Cell("—", "failed", paper=paper)
    return Cell(text.replace("-", "−"), "value", value, paper=paper)
