"""Plain tables for the terminal: one printer for lists, benchmarks and statements.

Tables of studies, which have the paper's values and several output formats, are in
:mod:`quadnorm.lab.analysis.tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadnorm._text import printable

_NUMBER = (*"0123456789+-−.", "")  # how a number begins, or an empty cell


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", compact: bool = False) -> Any:
    """A rich table; columns of numbers align right. ``compact`` draws no frame and does not wrap columns of numbers."""
    try:
        from rich.box import HEAVY_HEAD, SIMPLE_HEAD
        from rich.table import Table
    except ImportError as error:
        raise ImportError("tables in the terminal need rich: pip install 'quadnorm[bench]'") from error
    heading = printable(title) or None
    if compact:
        drawn = Table(title=heading, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    else:
        drawn = Table(title=heading, box=HEAVY_HEAD)
    for k, column in enumerate(columns):
        number = all(row[k][:1] in _NUMBER for row in rows)
        # A cell too long for a narrow terminal is folded, never cut.
        drawn.add_column(
            column, justify="right" if number else "left", overflow="fold", no_wrap=compact and number and k > 0
        )
    for row in rows:
        drawn.add_row(*(printable(cell) for cell in row))
    return drawn
