"""Write every table and figure to files, for use in a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from quadnorm._files import write_atomic
from quadnorm.lab.analysis.figures.registry import save_figures
from quadnorm.lab.analysis.library import Library, library_of
from quadnorm.lab.analysis.tables.derived import derived_table, table_names
from quadnorm.lab.analysis.tables.study_table import table_of
from quadnorm.lab.analysis.tables.table import Table
from quadnorm.lab.studies import study_names


@dataclass(frozen=True)
class Exported:
    """The files that were written, and the figures that could not be drawn, each with the reason."""

    files: tuple[Path, ...]
    missing: dict[str, str]


def export(roots: Path | Sequence[Path] | Library, folder: Path) -> Exported:
    """``tables/NAME.{md,csv,tex,html,txt}`` of studies with records and of derived tables; ``figures/NAME.{svg,png}``.

    A derived table that shares its name with a study is ``NAME-derived``.
    """
    library = library_of(roots)
    tables = [table_of(results) for name in study_names() if (results := library.results(name)).any]
    tables += [_renamed(derived_table(name, library), {t.name for t in tables}) for name in table_names()]
    files: list[Path] = []
    target = Path(folder) / "tables"
    target.mkdir(parents=True, exist_ok=True)
    for table in tables:
        forms = {"md": table.markdown, "csv": table.csv, "tex": table.latex, "txt": table.text}
        for ending, text in {**{e: form() for e, form in forms.items()}, "html": _whole(table)}.items():
            path = target / f"{table.name}.{ending}"
            write_atomic(path, text.encode("utf-8", errors="replace"), "the table")
            files.append(path)
    figures, missing = save_figures(library, Path(folder) / "figures")
    return Exported(tuple(files + figures), missing)


def _whole(table: Table) -> str:
    """The table as a complete HTML page; it declares its encoding, without which ± and ² may be shown wrongly."""
    title = escape(table.title)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f"<h1>{title}</h1>\n{table.html()}\n</html>\n"
    )


def _renamed(table: Table, taken: set[str]) -> Table:
    return replace(table, name=f"{table.name}-derived") if table.name in taken else table
