"""Tables for the terminal, wide or narrow."""

from __future__ import annotations

from dataclasses import replace
from re import sub
from typing import TYPE_CHECKING, Any

from quadnorm.lab.analysis.tables.writers import foot, has_paper

if TYPE_CHECKING:
    from quadnorm.lab.analysis.tables.table import Cell, Panel, Table


def terminal(table: Table, console: Any = None) -> None:
    """Print with rich: the measured value, and below it in grey the paper's value.

    In a narrow window a table leaves out spaces and p-values, the way to use a model is printed below the method, and a
    number of seeds that is the same for all rows below the table. If numbers would still be cut, the columns of each
    row are printed below one another.
    """
    try:
        from rich.console import Console
        from rich.markup import escape
    except ImportError as error:
        raise ImportError("tables in the terminal need rich: pip install 'quadnorm[bench]'") from error

    out = console or Console()
    out.print(f"[bold]{escape(table.title)}[/bold]  [dim]{escape(table.name)}[/dim]", highlight=False)
    for warning in table.warnings:
        out.print(f"[red]warning:[/red] {escape(warning)}", highlight=False)
    for panel in table.panels:
        grid = _grid(panel, narrow=False)
        about = list(panel.about)
        boundless = out.options.update(width=10_000)
        if out.measure(grid, options=boundless).maximum > out.width:
            grid = _grid(panel, narrow=True)
            if out.measure(grid, options=boundless).minimum <= out.width:
                about.insert(0, _key(panel))
            else:
                grid = _list(panel)
        out.print(grid)
        for line in filter(None, about):
            out.print(f"[dim]{escape(line)}[/dim]", highlight=False)
    if table.caption:
        out.print(f"[dim]{escape(table.caption)}[/dim]", highlight=False)
    if any(has_paper(panel) for panel in table.panels) and out.color_system is not None:
        out.print("[dim]grey, below or beside a value: as printed in the paper[/dim]")
    for line in foot(table):
        out.print(f"- {escape(line)}", highlight=False)


def plain(table: Table, width: int) -> str:
    """The printed table as plain text, for a file."""
    from io import StringIO

    try:
        from rich.console import Console
    except ImportError as error:
        raise ImportError("tables as text need rich: pip install 'quadnorm[bench]'") from error
    out = StringIO()
    terminal(table, Console(file=out, width=width, color_system=None, force_terminal=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _key(panel: Panel) -> str:
    """The line below a narrow table that says what it leaves out."""
    parts = ["* training grid"] if any(" native" in head for head in panel.columns) else []
    left_out = ["p-values are left out"] if "p" in panel.columns else []
    if _uses(panel):
        parts.append(f"name alone: {panel.rows[0][1].text}")
    if (seeds := _same_seeds(panel)) is not None:
        parts.append(f"{seeds} seeds" if seeds != "1" else "1 seed")
    return "; ".join(parts + left_out)


def _uses(panel: Panel) -> bool:
    return panel.text_columns > 1 and panel.columns[1] == "used"


def _same_seeds(panel: Panel) -> str | None:
    if panel.columns[-1] != "seeds":
        return None
    counts = {row[-1].text for row in panel.rows}
    return counts.pop() if len(counts) == 1 else None


def _grid(panel: Panel, narrow: bool) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    pad = (0, 0, 0, 1) if narrow else (0, 1)
    grid = Table(
        title=escape(panel.title) or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=pad,
        pad_edge=not narrow,
    )  # fmt: skip
    last = len(panel.columns) - (narrow and _same_seeds(panel) is not None)
    # The ways to use a method's model: a separate column, or in a narrow window lines below its name.
    uses = _uses(panel)
    columns = [k for k in range(last) if not (narrow and (panel.columns[k] == "p" or (uses and k == 1)))]
    for k in columns:
        head = escape(panel.columns[k]).replace(" (paper", "\n(paper")
        # A narrow column breaks between words only: a word that is longer would be cut.
        lengths = [len(w) for row in panel.rows for c in (row[k], row[k].paper) if c for w in _tight(c.text).split()]
        grid.add_column(
            _tight(head) if narrow else head,
            justify="left" if k < panel.text_columns else "right",
            min_width=max(lengths, default=0) if narrow else None,
        )
    previous = ""
    for row in panel.rows:
        shown = [_rich(cell, escape, narrow) for cell in row]
        repeated = row[0].text == previous
        if uses and narrow:
            shown[0] = f"  {shown[1]}" if repeated else shown[0]
        elif panel.text_columns > 1 and repeated:
            shown[0] = ""
        previous = row[0].text
        grid.add_row(*(shown[k] for k in columns))
    return grid


def _list(panel: Panel) -> Any:
    """Every row as several lines: its name, then one line per column."""
    from rich.console import Group
    from rich.markup import escape
    from rich.text import Text

    texts, lines = panel.text_columns, [f"[bold]{escape(panel.title)}[/bold]"] if panel.title else []
    wide = max(map(len, panel.columns[texts:]), default=0)
    for row in panel.rows:
        lines.append(f"[bold]{escape(', '.join(cell.text for cell in row[:texts]))}[/bold]")
        for head, cell in zip(panel.columns[texts:], row[texts:], strict=True):
            paper = f"  [dim]{escape(cell.paper.text)}[/dim]" if cell.paper else ""
            lines.append(f"  {escape(head):{wide}}  {_rich(replace(cell, paper=None), escape, False)}{paper}")
    return Group(*(Text.from_markup(line, overflow="fold") for line in lines))


def _rich(cell: Cell, escape: Any, narrow: bool) -> str:
    fit = _tight if narrow else str
    text = fit(escape(cell.text))
    style = {"missing": "dim italic", "failed": "red"}.get(cell.kind, "bold" if cell.bold else "")
    text = f"[{style}]{text}[/{style}]" if style else text
    return f"{text}\n[dim]{fit(escape(cell.paper.text))}[/dim]" if cell.paper else text


def _tight(text: str) -> str:
    """``3.26 ± 0.05`` and ``+7.73 (×3.37)`` in as few characters as possible."""
    return sub(r" \((×[^)]*)\)", r" \1", text).replace(" ± ", "±").replace(" → ", "→").replace(" native", "*")
