"""A table as Markdown, CSV, LaTeX (booktabs) and HTML; :mod:`.terminal` prints it.

Written here, not by pandas: a cell has a value, a spread, the paper's value and marks; pandas' writers know one text.
"""

from __future__ import annotations

import csv
import io
from html import escape
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


if TYPE_CHECKING:
    from quadnorm.lab.analysis.tables.table import Panel, Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: rf"\textsuperscript{{{n}}}" for c, n in zip("⁰¹²³⁴⁵⁶⁷⁸⁹", range(10), strict=True)},
    **{c: rf"$_{n}$" for c, n in zip("₀₁₂₃₄₅₆₇₈₉", range(10), strict=True)},
    "±": r"$\pm$",
    "→": r"$\to$",
    "↳": r"$\hookrightarrow$",
    "×": r"$\times$",
    "−": r"$-$",
    "α": r"$\alpha$",
    "·": r"$\cdot$",
    "√": r"$\surd$",
    "‖": r"$\Vert$",
    "⁻": r"\textsuperscript{--}",
    "≈": r"$\approx$",
    "≥": r"$\ge$",
    "…": r"\dots{}",
    "π": r"$\pi$",
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "—": "---",
    "≤": r"$\le$",
    "∞": r"$\infty$",
    "Δ": r"$\Delta$",
    "δ": r"$\delta$",
    "σ": r"$\sigma$",
    "<": r"$<$",
    ">": r"$>$",
}


def tex(text: str) -> str:
    r"""Text tex for LaTeX.

    >>> print(tex("64² → 128², 5 %"))
    64\textsuperscript{2} $\to$ 128\textsuperscript{2}, 5 \%
    """
    return "".join(_SPECIAL.get(c, c) for c in " ".join(text.split()))


def latex(table: Table) -> str:
    """A ``table`` with one ``tabular`` per panel; needs booktabs and no other package."""
    lines = [r"\begin{table}[t]", r"\centering", rf"\caption{{{tex(f'{table.title}. {table.caption}')}}}"]
    lines.append(rf"\label{{tab:{table.name}}}")
    for panel in table.panels:
        lines += _tabular(panel)
    lines += [rf"\par\smallskip{{\footnotesize {tex(line)}\par}}" for line in foot(table)]
    return "\n".join([*lines, r"\end{table}", ""])


def _tabular(panel: Panel) -> list[str]:
    spec = "l" * panel.text_columns + "r" * (len(panel.columns) - panel.text_columns)
    lines = [rf"\par\medskip\textit{{{tex(panel.title)}}}\par\smallskip"] if panel.title else []
    lines += [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", _row([tex(c) for c in panel.columns]), r"\midrule"]
    for row in panel.rows:
        lines.append(_row([_bold(c.text, c.bold) for c in row]))
        if any(c.paper for c in row):
            below = [_bold(c.paper.text, c.paper.bold) if c.paper else "" for c in row]
            below[0] = r"$\hookrightarrow$ paper"
            lines.append(_row([rf"{{\footnotesize {c}}}" if c else "" for c in below]))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _bold(text: str, bold: bool) -> str:
    return rf"\textbf{{{tex(text)}}}" if bold else tex(text)


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
