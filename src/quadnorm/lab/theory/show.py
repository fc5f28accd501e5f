"""A statement and its evidence as text for the terminal."""

from __future__ import annotations

from typing import Any

from quadnorm.lab import terminal
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
    out.print(statement.text, markup=False)
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
    """One row per series: last value, fitted order and expected range, residual of the fit, constant."""
    if not series:
        return None
    rows = []
    for s in series:
        checks, fit = s.checks(), s.fit
        expected = _range(checks[0]) if checks else ""
        verdict = _verdict(all(check.holds for check in checks)) if checks else ""
        last = f"{'' if s.x_name == 'h' else s.x_name + ' '}{_short(s.x[-1])}"
        law = (f"{fit.exponent:.2f}", expected, f"{fit.misfit:.1%}", f"{fit.coefficient:.3g}")
        rows.append((s.name, last, f"{s.y[-1]:.1e}", *law, verdict))
    return terminal.table(
        ("measured", "last at", "value", "order", "expected", "residual", "C", ""), rows, compact=True
    )


def _short(x: float) -> str:
    inverse = 1 / x
    whole = inverse > 1.5 and abs(inverse - round(inverse)) < 1e-9 * inverse
    return f"1/{round(inverse)}" if whole else f"{x:.3g}"


def _rows(evidence: Evidence) -> Any:
    if not evidence.rows:
        return None
    columns = list(dict.fromkeys(key for row in evidence.rows for key in row))
    digits = 3 if len(columns) < 10 else 2  # a wide table has to fit a terminal of 80 columns
    return terminal.table(
        columns, [[_cell(row.get(c), digits) for c in columns] for row in evidence.rows], compact=True
    )


def _verdicts(checks: tuple[Check, ...]) -> Any:
    if not checks:
        return None
    rows = [(check.what, _cell(check.value), _range(check), _verdict(check.holds)) for check in checks]
    return terminal.table(("number", "value", "expected", ""), rows, compact=True)


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
