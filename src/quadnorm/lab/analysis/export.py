"""Every figure by name: the paper's, redrawn from records, and ours; and all tables and figures as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadnorm._files import write_atomic
from quadnorm._suggest import unknown
from quadnorm.lab import read_table
from quadnorm.lab.analysis.figures.style import save
from quadnorm.lab.analysis.results import Library, library_of
from quadnorm.lab.analysis.tables.derived import derived_table, table_names
from quadnorm.lab.analysis.tables.study_table import table_of
from quadnorm.lab.analysis.tables.table import Table
from quadnorm.lab.studies import study_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn. ``needs``: the studies whose records it uses; empty for figures of the theory.

    ``stored``: whether it shows fields or an audit, which runs store when they are evaluated.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Library], Figure | None]
    needs: tuple[str, ...] = ()
    label: str = ""  # the paper's, if it is one of its figures
    stored: bool = False


def _drawn_by(place: str) -> Callable[[Library], Figure | None]:
    """The function "module:name" of the figures, imported when it draws: the theory's load torch, pages do not."""
    module, _, name = place.partition(":")

    def draw_it(library: Library) -> Figure | None:
        figure: Figure | None = getattr(import_module(f"quadnorm.lab.analysis.figures.{module}"), name)(library)
        return figure

    return draw_it


def _drawing(name: str, row: Mapping[str, Any]) -> Drawing:
    return Drawing(name, **{**row, "draw": _drawn_by(row["draw"]), "needs": tuple(row.get("needs", ()))})


_TABLE = read_table("analysis/figures/figures.toml")
DRAWINGS: tuple[Drawing, ...] = tuple(_drawing(name, row) for name, row in _TABLE.items())


def figure_names() -> tuple[str, ...]:
    """The names that :func:`draw` knows."""
    return tuple(d.name for d in DRAWINGS)


def drawing(name: str) -> Drawing:
    """A figure by name; the name may begin with ``fig:``."""
    for d in DRAWINGS:
        if d.name == name.removeprefix("fig:"):
            return d
    raise ValueError(unknown("figure", name, figure_names()))


def draw(name: str, library: Library) -> Figure | None:
    """A matplotlib figure, or None if the records it needs are missing."""
    return drawing(name).draw(library)


def attempt(name: str, library: Library) -> tuple[Figure | None, str]:
    """The figure and an empty text, or None and the reason: missing records, or files that cannot be read.

    For a given library each figure is drawn only once.
    """
    key = ("figure", name)
    if key not in library.memo:
        library.memo[key] = _attempt(drawing(name), library)
    outcome: tuple[Figure | None, str] = library.memo[key]
    return outcome


def _attempt(d: Drawing, library: Library) -> tuple[Figure | None, str]:
    drawable = not d.needs or next(library.all_comparable(), None) is not None  # else no figure of records has a point
    try:
        figure = d.draw(library) if drawable else None
    except (ValueError, OSError, RuntimeError, LookupError, TypeError, ArithmeticError) as error:
        return None, f"{type(error).__name__}: {error}"
    if figure is not None:
        return figure, ""
    stored = ", with the fields that a run stores" if d.stored else ""
    what = f"needs records of {' or '.join(d.needs)} at the desk or paper preset{stored}"
    return None, f"{what}: quadnorm study run {d.needs[0]} --preset desk"


def save_figures(library: Library, folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Write every figure that can be drawn as SVG and PNG; returns the files, and the reasons for missing figures."""
    files: list[Path] = []
    missing: dict[str, str] = {}
    for d in DRAWINGS:
        figure, why = attempt(d.name, library)
        if figure is None:
            missing[d.name] = why
        else:
            files += save(figure, Path(folder) / d.name)
    return files, missing


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
