"""Every table and figure as files, for whoever writes a paper from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from quadnorm.analysis.derived import derived_table, table_names
from quadnorm.analysis.figures import save_figures
from quadnorm.analysis.results import Library
from quadnorm.analysis.tables import Table, table_of
from quadnorm.studies import study_names


def export(roots: Path | Sequence[Path] | Library, folder: Path) -> list[Path]:
    """``tables/NAME.{md,csv,tex,html}`` of studies with records and derived tables; ``figures/NAME.{svg,png}``."""
    if not isinstance(roots, Library):
        roots = Library([Path(roots)] if isinstance(roots, (str, Path)) else [Path(r) for r in roots])
    tables = [table_of(results) for name in study_names() if (results := roots.results(name)).any]
    # Some names are both a study and a table computed from it.
    tables += [_renamed(derived_table(name, roots), {t.name for t in tables}) for name in table_names()]
    made: list[Path] = []
    target = Path(folder) / "tables"
    target.mkdir(parents=True, exist_ok=True)
    for table in tables:
        forms = {"md": table.markdown, "csv": table.csv, "tex": table.latex, "html": table.html}
        for ending, form in forms.items():
            path = target / f"{table.name}.{ending}"
            path.write_text(form(), encoding="utf-8")
            made.append(path)
    return made + save_figures(roots, Path(folder) / "figures")


def _renamed(table: Table, taken: set[str]) -> Table:
    return replace(table, name=f"{table.name}-derived") if table.name in taken else table
