"""The paper's tables that are computed from studies, rebuilt from records with the paper's cells beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from quadnorm._suggest import unknown
from quadnorm.lab.analysis.comparisons import Place, better_of, compare_at, runs_at
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.analysis.statistics.summaries import holm, paired_t, summarize
from quadnorm.lab.analysis.tables.derived import rows as rows_of
from quadnorm.lab.analysis.tables.derived.cells import (
    Row,
    budget_cell,
    effect_cell,
    gain_cell,
    interval_cell,
    missing_cell,
    p_cell,
    text_cells,
)
from quadnorm.lab.analysis.tables.derived.statistics import equivalence, error_decomposition, model_scaling
from quadnorm.lab.analysis.tables.table import Cell, Panel, Table, summary_cell
from quadnorm.lab.studies import derived, derived_names, paper_table
from quadnorm.lab.studies.paper import PrintedCell, PrintedTable


def derived_table(name: str, roots: Path | Sequence[Path] | Library) -> Table:
    """A derived table by name, as ``effect-sizes``; see :func:`table_names`."""
    key = name.removeprefix("tab:")
    if key not in _BUILDERS:
        raise ValueError(unknown("derived table", name, _BUILDERS))
    if not isinstance(roots, Library):
        roots = Library([Path(roots)] if isinstance(roots, (str, Path)) else [Path(r) for r in roots])
    printed = paper_table(key)
    panels = _BUILDERS[key](roots, printed)
    notes = (*(derived(key).notes if key in derived_names() else ()), *printed.notes)
    sources = derived(key).draws_on if key in derived_names() else (key,)
    lacking = [s for s in sources if not roots.results(s).any]
    command = "; ".join(f"quadnorm study run {s} --preset desk" for s in lacking[:1])
    if len(lacking) > 1:
        command += f" (and {', '.join(lacking[1:])})"
    return Table(
        key,
        printed.caption,
        tuple(panels),
        f"{printed.unit[0].upper()}{printed.unit[1:]}. Below, as printed in {printed.label}.",
        notes,
        command,
    )


def table_names() -> tuple[str, ...]:
    """What :func:`derived_table` can build, in the order of the paper."""
    return tuple(_BUILDERS)


def _bootstrap_row(library: Library, place: Place, row: Sequence[PrintedCell], texts: int, error: bool) -> Row:
    c = compare_at(library, place)
    head = text_cells(row, texts)
    value, interval = row[-2], row[-1]
    if c is None:
        blank = [missing_cell(place, cell) for cell in ((row[-3], value, interval) if error else (value, interval))]
        return (*head, *blank, budget_cell(None))
    base, mean = c.means
    errors = (Cell(f"{base:.2f} → {mean:.2f}", "value", mean, paper=row[-3]),) if error else ()
    return (*head, *errors, gain_cell(c, value), interval_cell(c, interval), budget_cell(c))


def _bootstrap(library: Library, printed: PrintedTable) -> list[Panel]:
    return [
        Panel(
            panel.title,
            (*panel.columns[:3], *panel.columns[4:], "measured with"),
            tuple(
                _bootstrap_row(library, place, (*row[:3], *row[4:]), 3, True)
                for place, row in zip(places, panel.rows, strict=True)
            ),
            text_columns=3,
        )
        for places, panel in zip(rows_of.BOOTSTRAP, printed.panels, strict=True)
    ]


def _bootstrap_breadth(library: Library, printed: PrintedTable) -> list[Panel]:
    (panel,) = printed.panels
    rows = [
        _bootstrap_row(library, place, row, 4, False)
        for place, row in zip(rows_of.BOOTSTRAP_BREADTH, panel.rows, strict=True)
    ]
    return [Panel("", (*panel.columns, "measured with"), tuple(rows), text_columns=4)]


def _effect_sizes(library: Library, printed: PrintedTable) -> list[Panel]:
    (panel,) = printed.panels
    found = {
        (k, method): compare_at(library, Place(*where, method))
        for k, where in enumerate(rows_of.EFFECT_SIZES)
        for method in ("BlendQuadNorm", "QuadNorm")
    }
    tests = holm({key: paired_t(c.method, c.baseline) for key, c in found.items() if c is not None})
    rows = []
    for k, (where, row) in enumerate(zip(rows_of.EFFECT_SIZES, panel.rows, strict=True)):
        cells: list[Cell] = [Cell(row[0].text)]
        for j, method in enumerate(("BlendQuadNorm", "QuadNorm")):
            d, p = row[1 + 2 * j], row[2 + 2 * j]
            c = found[k, method]
            cells += (
                [missing_cell(where[0], d), missing_cell(where[0], p)]
                if c is None
                else [effect_cell(c, d), p_cell(tests[k, method], p)]
            )
        first = found[k, "QuadNorm"] or found[k, "BlendQuadNorm"]
        rows.append((*cells, budget_cell(first)))
    heads = ("Setting", "BlendQuadNorm d", "BlendQuadNorm p (Holm)", "QuadNorm d", "QuadNorm p (Holm)", "measured with")
    return [Panel("", heads, tuple(rows))]


def _key_results(library: Library, printed: PrintedTable) -> list[Panel]:
    panels = []
    for groups, panel in zip(rows_of.KEY_RESULTS, printed.panels, strict=True):
        rows = []
        for places, row in zip(groups, panel.rows, strict=True):
            found = [c for p in places if (c := compare_at(library, p)) is not None]
            head = text_cells(row, 4)
            if not found:
                rows.append(
                    (*head, missing_cell(places[0], row[4]), missing_cell(places[0], row[5]), budget_cell(None))
                )
            elif len(places) == 1:
                rows.append(
                    (*head, gain_cell(found[0], row[4]), interval_cell(found[0], row[5]), budget_cell(found[0]))
                )
            else:
                gains = [100 * c.improvement.value for c in found]
                # Sizes are a sequence, the grids of one study a range.
                text = (
                    " → ".join(f"{g:.0f}" for g in gains)
                    if places[0].study == "model-scaling"
                    else (f"{min(gains):+.0f} to {max(gains):+.0f}")
                )
                done = f"{len(found)} of {len(places)} measured"
                rows.append(
                    (
                        *head,
                        Cell(text + " %", "value", max(gains), paper=row[4]),
                        Cell(done, paper=row[5]),
                        budget_cell(found[0]),
                    )
                )
        panels.append(Panel(panel.title, (*panel.columns, "measured with"), tuple(rows), text_columns=4))
    return panels


def _best_summary(library: Library, printed: PrintedTable) -> list[Panel]:
    (panel,) = printed.panels
    rows = []
    for operator, row in zip(("fno", "galerkin", "transolver"), panel.rows, strict=True):
        cells: list[Cell] = [Cell(row[0].text)]
        for grid, paper in zip((64, 128, 256), row[1:], strict=True):
            place = Place("real-darcy", operator, grid)
            best = better_of(library, place)
            cells.append(
                missing_cell(place, paper)
                if best is None
                else replace(gain_cell(best[1], paper), note=f"{best[0]}, {best[1].budget}")
            )
        rows.append(tuple(cells))
    return [Panel("", panel.columns, tuple(rows))]


def _benchmark_summary(library: Library, printed: PrintedTable) -> list[Panel]:
    (panel,) = printed.panels
    rows = []
    for where, row in zip(rows_of.BENCHMARK_SUMMARY, panel.rows, strict=True):
        cells = list(text_cells(row, 3))
        statistic = library.results(where[0]).study.statistic
        for k, method in enumerate(("LayerNorm", "BlendQuadNorm", "QuadNorm")):
            runs = runs_at(library, where[0], where[1], method, where[2])
            paper = row[3] if k == 0 else row[2 + 2 * k]
            cells.append(
                summary_cell(summarize(runs, statistic), paper=paper) if runs else missing_cell(where[0], paper)
            )
            if k:
                c = compare_at(library, Place(*where, method))
                cells.append(missing_cell(where[0], row[3 + 2 * k]) if c is None else gain_cell(c, row[3 + 2 * k]))
        rows.append(tuple(cells))
    heads = ("Protocol", "Arch", "Train → Test", "LayerNorm", "BlendQuadNorm", "its Δ", "QuadNorm", "its Δ ")
    return [Panel("", heads, tuple(rows), text_columns=3)]


def _best_of_breadth(names: Sequence[str], grids: Sequence[int]) -> Callable[[Library, PrintedTable], list[Panel]]:
    """LayerNorm at each grid, then the better norm at the last one and its improvement."""

    def build(library: Library, printed: PrintedTable) -> list[Panel]:
        (panel,) = printed.panels
        rows = []
        for name, row in zip(names, panel.rows, strict=True):
            cells = list(text_cells(row, 2))
            for grid, paper in zip(grids, row[2:], strict=False):
                runs = runs_at(library, name, "main", "LayerNorm", grid)
                cells.append(summary_cell(summarize(runs), paper=paper) if runs else missing_cell(name, paper))
            best = better_of(library, Place(name, "main", grids[-1]))
            if best is None:
                cells += [missing_cell(name, row[-2]), missing_cell(name, row[-1]), budget_cell(None)]
            else:
                mean = best[1].means[1]
                cells += [
                    Cell(f"{mean:.2f}, {best[0]}", "value", mean, paper=row[-2]),
                    gain_cell(best[1], row[-1]),
                    budget_cell(best[1]),
                ]
            rows.append(tuple(cells))
        return [Panel("", (*panel.columns, "measured with"), tuple(rows), text_columns=2)]

    return build


_BUILDERS: dict[str, Callable[[Library, PrintedTable], list[Panel]]] = {
    "key-results-summary": _key_results,
    "real-benchmark-best-summary": _best_summary,
    "real-benchmark-summary": _benchmark_summary,
    "error-decomp": error_decomposition,
    "model-scaling": model_scaling,
    "bootstrap-cis": _bootstrap,
    "effect-sizes": _effect_sizes,
    "tost": equivalence,
    "nonperiodic-breadth-summary": _best_of_breadth(rows_of.BREADTH, (64, 128)),
    "bootstrap-cis-breadth": _bootstrap_breadth,
    "extreme-gap-summary": _best_of_breadth(rows_of.EXTREME_GAP, (64, 128, 256)),
}
