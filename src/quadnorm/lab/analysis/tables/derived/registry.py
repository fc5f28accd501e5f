"""Derived tables by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from quadnorm._suggest import unknown
from quadnorm.lab.analysis.library import Library, library_of
from quadnorm.lab.analysis.tables.derived import improvements, statistics
from quadnorm.lab.analysis.tables.printed import PrintedTable
from quadnorm.lab.analysis.tables.table import Panel, Table
from quadnorm.lab.studies import derived, derived_names, paper_table

_BUILDERS: dict[str, Callable[[Library, PrintedTable], list[Panel]]] = {
    "key-results-summary": improvements.key_results,
    "real-benchmark-best-summary": improvements.benchmark_best,
    "real-benchmark-summary": improvements.benchmark_summary,
    "error-decomp": statistics.error_decomposition,
    "model-scaling": statistics.model_scaling,
    "bootstrap-cis": improvements.bootstrap_intervals,
    "effect-sizes": statistics.effect_sizes,
    "tost": statistics.equivalence,
    "nonperiodic-breadth-summary": improvements.breadth_summary,
    "bootstrap-cis-breadth": improvements.bootstrap_breadth,
    "extreme-gap-summary": improvements.extreme_gap_summary,
}


def table_names() -> tuple[str, ...]:
    """The names that :func:`derived_table` knows, in the order of the paper."""
    return tuple(_BUILDERS)


def derived_table(name: str, roots: Path | Sequence[Path] | Library) -> Table:
    """A derived table by name, as ``effect-sizes``; see :func:`table_names`.

    >>> table = derived_table("effect-sizes", Path("no-such-folder"))
    >>> table.panels[0].rows[0][1].text, table.panels[0].rows[0][1].paper.text
    ('not run', '1.02')
    """
    key = name.removeprefix("tab:")
    if key not in _BUILDERS:
        raise ValueError(unknown("derived table", name, _BUILDERS))
    library = library_of(roots)
    printed = paper_table(key)
    panels = _BUILDERS[key](library, printed)
    notes = (*(derived(key).notes if key in derived_names() else ()), *printed.notes)
    sources = derived(key).draws_on if key in derived_names() else (key,)
    lacking = [s for s in sources if not library.results(s).any]
    command = "; ".join(f"quadnorm study run {s} --preset desk" for s in lacking[:1])
    if len(lacking) > 1:
        command += f" (and {', '.join(lacking[1:])})"
    caption = f"{printed.unit[0].upper()}{printed.unit[1:]}. Below, as printed in {printed.label}."
    return Table(key, printed.caption, tuple(panels), caption, notes, command)
