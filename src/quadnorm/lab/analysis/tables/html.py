"""Tables as HTML: plain ``<table>`` elements with classes; the page has the style and the script that sorts them."""

from __future__ import annotations

from html import escape
from math import isfinite
from typing import TYPE_CHECKING

from quadnorm.lab.analysis.tables.text import foot

if TYPE_CHECKING:
    from quadnorm.lab.analysis.tables.table import Cell, Panel, Table


def html(table: Table) -> str:
    """Every panel as a table followed by its budget, then the notes."""
    parts = [f'<p class="warning">{escape(w)}</p>' for w in table.warnings]
    parts += [panel_html(panel) for panel in table.panels]
    if table.caption:
        parts.append(f'<p class="caption">{escape(table.caption)}</p>')
    notes = foot(table)
    if notes:
        parts.append('<ul class="notes">' + "".join(f"<li>{escape(line)}</li>" for line in notes) + "</ul>")
    return "\n".join(parts)


def csv_template(table: Table) -> str:
    """The table as hidden CSV; the page's script adds a button that saves it as a file."""
    return f'<template class="csv" data-file="{escape(table.name)}.csv">{escape(table.csv())}</template>'


def notebook(table: Table) -> str:
    """The table with its title and a small style sheet, for a notebook's cell."""
    style = (
        "<style>.quadnorm-table td,.quadnorm-table th{text-align:left;padding:.2em .7em;vertical-align:top}"
        ".quadnorm-table .num{text-align:right}.quadnorm-table .best{font-weight:700}"
        ".quadnorm-table .missing{opacity:.6;font-style:italic}.quadnorm-table td small{display:block;opacity:.6}"
        ".quadnorm-table thead button{all:unset;white-space:pre-line}</style>"
    )
    return f'<div class="quadnorm-table">{style}<h4>{escape(table.title)}</h4>{html(table)}</div>'


def panel_html(panel: Panel) -> str:
    """One panel; it scrolls sideways on a narrow screen."""
    heads = "".join(
        f'<th scope="col"{"" if k < panel.text_columns else NUMBER}><button type="button">{_head(head)}</button></th>'
        for k, head in enumerate(panel.columns)
    )
    rows = "".join(
        "<tr>" + "".join(_cell(cell, k, panel.text_columns) for k, cell in enumerate(row)) + "</tr>"
        for row in panel.rows
    )
    title = f"<h4>{escape(panel.title)}</h4>" if panel.title else ""
    about = "".join(f"<span>{escape(line)}</span>" for line in panel.about)
    return (
        f'{title}<div class="scroll"><table class="sortable"><thead><tr>{heads}</tr></thead>'
        f'<tbody>{rows}</tbody></table></div><p class="about">{about}</p>'
    )


NUMBER = ' class="num"'


def _head(head: str) -> str:
    return escape(head).replace(" (paper", "\n(paper")


def _cell(cell: Cell, column: int, text_columns: int) -> str:
    tag = "th" if column == 0 else "td"
    classes = [] if column < text_columns else ["num"]
    classes += [cell.kind] if cell.kind in ("missing", "failed") else []
    classes += ["best"] if cell.bold else []
    classes += ["text"] if column >= text_columns and cell.kind == "text" else []
    # Sorted by value; cells without a value come last in both directions.
    key = f"{cell.value:.17g}" if isfinite(cell.value) else ("" if column >= text_columns else cell.text)
    attributes = f' data-key="{escape(key)}"'
    attributes += f' class="{" ".join(classes)}"' if classes else ""
    attributes += f' title="{escape(cell.note)}"' if cell.note else ""
    attributes += ' scope="row"' if tag == "th" else ""
    paper = ""
    if cell.paper:
        printed = escape(cell.paper.text)
        paper = f'<small title="as printed in the paper">{f"<b>{printed}</b>" if cell.paper.bold else printed}</small>'
    text = f'<a href="#{escape(cell.href)}">{escape(cell.text)}</a>' if cell.href else escape(cell.text)
    return f"<{tag}{attributes}>{text}{paper}</{tag}>"
