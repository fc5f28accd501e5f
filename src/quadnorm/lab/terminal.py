"""Plain tables for the terminal: one printer for lists, benchmarks and statements.

Tables of studies, with the paper's values and several forms, are :mod:`quadnorm.lab.analysis.tables`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any


def grid(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    left: Collection[str] = (),
    compact: bool = False,
) -> Any:
    """A rich table: the first column and those in ``left`` align left, the others right and never wrap."""
    try:
        from rich.box import HEAVY_HEAD, SIMPLE_HEAD
        from rich.table import Table
    except ImportError as error:
        raise ImportError("tables in the terminal need rich: pip install 'quadnorm[bench]'") from error
    if compact:
        table = Table(title=title or None, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    else:
        table = Table(title=title or None, box=HEAVY_HEAD)
    for k, column in enumerate(columns):
        if k == 0 or column in left:
            table.add_column(column)
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def print_grid(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    left: Collection[str] = (),
    console: Any = None,
) -> None:
    """Print a table. Where the output is no terminal it is as wide as it needs to be: half a name names nothing."""
    table = grid(columns, rows, title=title, left=left)
    from rich.console import Console

    out = console or Console()
    if not out.is_terminal:
        out.width = max(out.width, out.measure(table, options=out.options.update(width=10_000)).maximum)
    out.print(table)
