"""A table and its parts; it can be written in six forms: terminal, text, Markdown, CSV, LaTeX, HTML."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

from quadnorm.lab.analysis.statistics.summaries import Summary
from quadnorm.lab.studies.paper import PrintedCell, PrintedPanel, PrintedTable

__all__ = ["PrintedCell", "PrintedPanel", "PrintedRow", "PrintedTable", "named_rows"]

PrintedRow = dict[str, PrintedCell]


def named_rows(panel: PrintedPanel) -> list[PrintedRow]:
    """The panel's rows as {column: cell}. A head that occurs twice is named after the column before it.

    >>> from quadnorm.lab.studies import paper_table
    >>> row = named_rows(paper_table("effect-sizes").panels[0])[0]
    >>> list(row)
    ['Setting', 'BlendQuadNorm d', 'BlendQuadNorm d: p', 'QuadNorm d', 'QuadNorm d: p']
    >>> row["QuadNorm d"].value
    9.62
    """
    heads = [
        head if panel.columns.count(head) == 1 else f"{panel.columns[k - 1]}: {head}"
        for k, head in enumerate(panel.columns)
    ]
    return [dict(zip(heads, row, strict=True)) for row in panel.rows]


@dataclass(frozen=True)
class Cell:
    """One cell. ``kind``: ``value``, ``text``, ``missing`` (not run) or ``failed`` (no finite error).

    ``value`` and ``spread`` are the numbers behind ``text``, at full precision; ``paper`` is the paper's cell; ``href``
    a link to a place on the same page.
    """

    text: str
    kind: str = "text"
    value: float = nan
    spread: float = nan
    bold: bool = False
    note: str = ""
    paper: PrintedCell | None = None
    href: str = ""


@dataclass(frozen=True)
class Panel:
    """A block of rows with column heads. ``about``: what was trained; columns after ``text_columns`` align right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    about: tuple[str, ...] = ()
    text_columns: int = 1


@dataclass(frozen=True)
class Table:
    """A table of one or more panels.

    >>> table = Table("t", "Errors", (Panel("", ("method", "64²"), ((Cell("QuadNorm"), Cell("3.1", "value", 3.1)),)),))
    >>> print(table.csv())
    method,64²
    QuadNorm,3.1
    <BLANKLINE>
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    command: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """The number of cells that were not run."""
        return sum(cell.kind == "missing" for panel in self.panels for row in panel.rows for cell in row)

    def terminal(self, console: Any = None) -> None:
        """Print with rich."""
        from quadnorm.lab.analysis.tables.terminal import terminal

        terminal(self, console)

    def text(self, width: int = 120) -> str:
        """The terminal's output without colours, in lines of at most ``width`` characters."""
        from quadnorm.lab.analysis.tables.terminal import plain

        return plain(self, width)

    def markdown(self) -> str:
        """Pipe tables; the paper's values are in a separate row."""
        from quadnorm.lab.analysis.tables.writers import markdown

        return markdown(self)

    def csv(self) -> str:
        """One line per row; mean, spread and the paper's value are separate columns, at full precision."""
        from quadnorm.lab.analysis.tables.writers import csv_text

        return csv_text(self)

    def latex(self) -> str:
        """A ``tabular`` with booktabs rules, needing no other package."""
        from quadnorm.lab.analysis.tables.writers import latex

        return latex(self)

    def html(self) -> str:
        """``<table>`` elements, everything escaped."""
        from quadnorm.lab.analysis.tables.writers import html

        return html(self)

    def _repr_html_(self) -> str:
        """In a notebook: the table with its title."""
        from quadnorm.lab.analysis.tables.writers import notebook

        return notebook(self)


def summary_cell(s: Summary, bold: bool = False, paper: PrintedCell | None = None, note: str = "") -> Cell:
    """A cell with mean ± spread, or, if runs failed, how many of how many."""
    if not isfinite(s.mean):
        text = "diverged" if s.n == 1 else s.note.split(" runs ")[0] + " diverged"
        return Cell(text, "failed", note=s.note, paper=paper)
    return Cell(str(s), "value", s.mean, s.spread, bold, "; ".join(filter(None, (s.note, note))), paper)


def p_text(p: float) -> str:
    """A p-value as tables show it.

    >>> p_text(0.0004), p_text(0.0321)
    ('<0.001', '0.032')
    """
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def grid_name(n: int) -> str:
    """``64²``."""
    return f"{n}²"
