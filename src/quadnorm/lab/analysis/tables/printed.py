"""Rows of the paper's tables, with cells by column name."""

from __future__ import annotations

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
