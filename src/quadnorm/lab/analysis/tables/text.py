"""Tables as Markdown and as CSV, and the lines below a table in every form."""

from __future__ import annotations

import csv
import io
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadnorm.lab.analysis.tables.table import Cell, Panel, Table


def foot(table: Table) -> list[str]:
    """The lines below a table: what was not run and how to run it, then the notes."""
    lines = []
    if table.missing and table.command:
        what = "1 cell was" if table.missing == 1 else f"{table.missing} cells were"
        lines.append(f"{what} not run: {table.command}")
    failed = {
        f"{row[0].text}, {panel.columns[k]}: {cell.note}"
        for panel in table.panels
        for row in panel.rows
        for k, cell in enumerate(row)
        if cell.kind == "failed" and cell.text != "—"
    }
    return [*lines, *sorted(failed), *table.notes]


def has_paper(panel: Panel) -> bool:
    """Whether any cell has a value of the paper."""
    return any(cell.paper for row in panel.rows for cell in row)


def markdown(table: Table) -> str:
    """Pipe tables; the paper's values in a row below the measured ones."""
    lines = [f"**{escaped(table.title)}**", ""]
    lines += [f"> {escaped(w)}" for w in table.warnings] + ([""] if table.warnings else [])
    for panel in table.panels:
        if panel.title:
            lines += [f"*{escaped(panel.title)}*", ""]
        lines.append("| " + " | ".join(escaped(c) for c in panel.columns) + " |")
        lines.append(
            "|" + "|".join(":--" if k < panel.text_columns else "--:" for k in range(len(panel.columns))) + "|"
        )
        for row in panel.rows:
            lines.append("| " + " | ".join(escaped(c.text, c.bold) for c in row) + " |")
            if any(c.paper for c in row):
                below = [escaped(c.paper.text, c.paper.bold) if c.paper else "" for c in row]
                below[0] = "↳ paper"
                lines.append("| " + " | ".join(below) + " |")
        lines += ["", *(f"{escaped(line)}  " for line in panel.about), ""]
    lines += [escaped(table.caption), ""] if table.caption else []
    lines += [f"- {escaped(line)}" for line in foot(table)]
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str, bold: bool = False) -> str:
    r"""Text escaped for Markdown.

    >>> print(escaped("a_b | c", bold=True))
    **a\_b \| c**
    """
    for mark in "\\`*_|<[":
        text = text.replace(mark, "\\" + mark)
    text = " ".join(text.split())
    return f"**{text}**" if bold else text


def csv_text(table: Table) -> str:
    """One line per row: for each column the value and, if they exist, its spread and the paper's value and spread."""
    several = len(table.panels) > 1
    wide: list[dict[str, str]] = []
    for panel in table.panels:
        for row in panel.rows:
            line = {"setting": panel.title} if several else {}
            for head, cell in zip(panel.columns, row, strict=True):
                line |= _csv_cells(head, cell)
            wide.append(line)
    heads = list(dict.fromkeys(head for line in wide for head in line))
    out = io.StringIO()
    writer = csv.DictWriter(out, heads, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(wide)
    return out.getvalue()


def _csv_cells(head: str, cell: Cell) -> dict[str, str]:
    shown = repr(float(cell.value)) if cell.kind == "value" and isfinite(cell.value) else cell.text
    columns = {head: shown}
    if isfinite(cell.spread):
        columns[f"{head} ±"] = repr(float(cell.spread))
    if cell.paper:
        columns[f"{head}, paper"] = cell.paper.text if cell.paper.value is None else repr(cell.paper.value)
        if cell.paper.spread is not None:
            columns[f"{head}, paper ±"] = repr(cell.paper.spread)
    return columns
