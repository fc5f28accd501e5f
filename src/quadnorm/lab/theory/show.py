"""A statement and its evidence as text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadnorm.lab.theory.statement import Check, Evidence, Series, Statement


def show(statement: Statement, evidence: Evidence, console: Any = None) -> None:
    """Print the statement, what was measured, and the verdict."""
    try:
        from rich.console import Console
    except ImportError as error:
        raise ImportError("tables in the terminal need rich: pip install 'quadnorm[bench]'") from error
    out = console if console is not None else Console(highlight=False)
    where = f"[dim]({statement.label} in the paper)[/dim]" if statement.label else "[dim](not in the paper)[/dim]"
    out.print(f"[bold]{statement.name}[/bold] {where}")
    out.print(statement.words, markup=False)
    out.print(f"    {statement.formula}", markup=False)
    for table in (_measured(evidence.series), _rows(evidence), _verdicts(evidence.numbers)):
        if table is not None:
            out.print(table)
    for note in evidence.notes:
        out.print(f"note: {note}", markup=False)
    failed = sum(not check.holds for check in evidence.checks)
    out.print("[green]holds[/green]" if evidence.holds else f"[red]does not hold: {failed} of the checks fail[/red]")
    out.print()


def _measured(series: tuple[Series, ...]) -> Any:
    """One row per series: where it ends, its order beside what is expected, the residual of the fit, the constant."""
    if not series:
        return None
    table = _table("measured", ("last at", "value", "order", "expected", "residual", "C", ""))
    for s in series:
        checks, fit = s.checks(), s.fit
        expected = _range(checks[0]) if checks else ""
        verdict = _verdict(all(check.holds for check in checks)) if checks else ""
        last = f"{'' if s.x_name == 'h' else s.x_name + ' '}{_short(s.x[-1])}"
        law = (f"{fit.exponent:.2f}", expected, f"{fit.misfit:.1%}", f"{fit.coefficient:.3g}")
        table.add_row(s.name, last, f"{s.y[-1]:.1e}", *law, verdict)
    return table


def _table(first: str, others: Sequence[str]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first)
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _short(x: float) -> str:
    inverse = 1 / x
    whole = inverse > 1.5 and abs(inverse - round(inverse)) < 1e-9 * inverse
    return f"1/{round(inverse)}" if whole else f"{x:.3g}"


def _rows(evidence: Evidence) -> Any:
    if not evidence.rows:
        return None
    columns = list(dict.fromkeys(key for row in evidence.rows for key in row))
    table = _table(columns[0], columns[1:])
    for row in evidence.rows:
        digits = 3 if len(columns) < 10 else 2  # a wide table has to fit a terminal of 80 columns
        table.add_row(*(_cell(row.get(column), digits) for column in columns))
    return table


def _verdicts(checks: tuple[Check, ...]) -> Any:
    if not checks:
        return None
    table = _table("number", ("value", "expected", ""))
    for check in checks:
        table.add_row(check.what, _cell(check.value), _range(check), _verdict(check.holds))
    return table


def _verdict(holds: bool) -> str:
    return "[green]yes[/green]" if holds else "[red]NO[/red]"


def _range(check: Check) -> str:
    if check.low == check.high:
        return f"= {check.low:g}"
    if check.high == float("inf"):
        return f"≥ {check.low:g}"
    return f"≤ {check.high:g}" if check.low in (0.0, float("-inf")) else f"{check.low:g}…{check.high:g}"


def _cell(value: object, digits: int = 3) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
