"""The report page: one self-contained HTML file from records. Nothing is trained, nothing is downloaded.

Its figures are drawn by a second process while this one computes the tables.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from quadnorm._files import explained, write_atomic
from quadnorm.lab.analysis.changes import CHANGE_KINDS, changes, changes_table
from quadnorm.lab.analysis.claims.judging import CLAIMS, CONTRADICTIONS, FIELD, Claim, judge_all
from quadnorm.lab.analysis.claims.readings import all_readings
from quadnorm.lab.analysis.claims.verdicts import CONTRADICTED, VERDICTS
from quadnorm.lab.analysis.export import DRAWINGS, Drawing, attempt
from quadnorm.lab.analysis.figures.style import inline_svg
from quadnorm.lab.analysis.results import Library, RecordedRun, Results
from quadnorm.lab.analysis.results import library_of as plain_library
from quadnorm.lab.analysis.tables.derived import derived_table, table_names
from quadnorm.lab.analysis.tables.reach import reach_table
from quadnorm.lab.analysis.tables.study_table import command, table_of
from quadnorm.lab.analysis.tables.table import Table
from quadnorm.lab.analysis.tables.writers import csv_template
from quadnorm.lab.report.cards import cards, counts, overview
from quadnorm.lab.report.chart import charts
from quadnorm.lab.report.glossary import GLOSSARY
from quadnorm.lab.studies import estimate, study, study_names

ELSEWHERE = "depends on no records; report with --files FOLDER draws it"


@dataclass(frozen=True)
class DrawnFigure:
    """A figure's SVG, or an empty text and why there is none."""

    drawing: Drawing
    svg: str
    why: str


def drawn(library: Library) -> list[DrawnFigure]:
    """Every figure of records. Those of the theory would take longer than all the rest of the page."""
    return [_drawn(d, library) for d in DRAWINGS]


def _drawn(d: Drawing, library: Library) -> DrawnFigure:
    if not d.needs:
        return DrawnFigure(d, "", ELSEWHERE)
    figure, why = attempt(d.name, library)
    return DrawnFigure(d, "" if figure is None else inline_svg(figure, d.name), why)


@contextmanager
def drawn_meanwhile(library: Library) -> Iterator[Callable[[], list[DrawnFigure]]]:
    """A function that returns the figures, which a copy of this process begins to draw at once.

    Where processes cannot be copied, or threads run that a copy would lack (torch's), they are drawn when asked for.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1 or "torch" in sys.modules:
        yield lambda: drawn(library)
        return
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _draw_and_end(library, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        try:
            yield lambda: _received(pipe.read(), library)
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)  # it has sent everything, or nobody waits for it any more
            os.waitpid(child, 0)


def _draw_and_end(library: Library, writing: int) -> None:
    """In the copy: send the figures and end without a word, also where somebody stops it."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        data = json.dumps([(figure.svg, figure.why) for figure in drawn(library)]).encode()
        with open(writing, "wb") as pipe:
            pipe.write(data)
    finally:
        os._exit(0)


def _received(data: bytes, library: Library) -> list[DrawnFigure]:
    try:
        return [DrawnFigure(d, *parts) for d, parts in zip(DRAWINGS, json.loads(data), strict=True)]
    except ValueError:  # it failed or was ended, and what is wrong shows here
        return drawn(library)


@dataclass(frozen=True)
class StudySection:
    """One study on the page."""

    name: str
    title: str
    theme: str
    preset: str
    table: Table
    charts: tuple[tuple[str, str], ...]
    command: str
    runs: tuple[Mapping[str, Any], ...]
    minutes: float


def build_report(
    roots: Path | Sequence[Path] | Library, out: Path, compare: Path | Sequence[Path] | Library | None = None
) -> Path:
    """Write the page of the records under ``roots`` to ``out`` (a file, or a folder for ``report.html``).

    ``compare``: older records to compare with. Returns the file's path.
    """
    library = library_of(roots)
    older = None if compare is None else library_of(compare)
    target = Path(out)
    target = target / "report.html" if target.is_dir() or not target.suffix else target
    # Half a surrogate pair, which JSON can carry and UTF-8 cannot, becomes a question mark.
    text = library.known_as(page(library, older), escape).encode("utf-8", "replace")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, f"cannot make the folder {target.parent} for the page") from error
    write_atomic(target, text, "the page")
    return target


def library_of(roots: Path | Sequence[Path] | Library) -> Library:
    """The records under these folders; a ValueError if a folder is not a results folder."""
    library = plain_library(roots)
    if library is roots:
        return library
    for folder in map(Path, library.roots):
        if not (folder / "runs").is_dir():
            near = [folder.parent] if folder.name == "runs" else sorted(f.parent for f in folder.glob("*/runs"))
            hint = f". There are some in {', '.join(str(f) for f in near[:5])}" if near and folder.is_dir() else ""
            raise ValueError(
                f"no records in {folder}: expected a folder with runs/ in it, as "
                f"`quadnorm study run NAME --out {folder}` makes one{hint}"
            )
    return library


def page(library: Library, other: Library | None = None) -> str:
    """The page as text."""
    with drawn_meanwhile(library) as figures:
        return _filled(library, other, figures)


def _filled(library: Library, other: Library | None, figures: Callable[[], list[DrawnFigure]]) -> str:
    there = [results for name in study_names() if _shown(results := library.results(name))]
    # Studies share runs: a study that has only a few of its own runs comes after those that were really run.
    there = [*sorted(there, key=lambda r: _coverage(r) < 0.5), *library.of_full_size()]
    sections = [_section(results) for results in there]
    absent = [
        (s.name, s.title, command(s), estimate(s).minutes())
        for s in (study(name).at("desk") for name in study_names() if not _shown(library.results(name)))
    ]
    one = len(sections) == 1  # a page of one study says nothing of the paper that its records do not
    judged = judge_all(library, _with_records(CLAIMS, library) if one else CLAIMS)
    contradictions = CONTRADICTIONS
    if one:
        judged = tuple(j for j in judged if j.models)
        contradictions = {
            name: text for name, text in CONTRADICTIONS.items() if any(name in j.claim.remarks for j in judged)
        }
    text: str = (
        _environment()
        .get_template("page.html")
        .render(
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            roots=library.names or [str(r) for r in library.roots],
            counts=counts(library),
            cards=cards(library),
            overview=overview(library),
            sections=sections,
            against=[j for j in judged if j.verdict == CONTRADICTED],
            verdicts=[(v, sum(j.verdict == v for j in judged)) for v in VERDICTS],
            judged=judged,
            field=judge_all(library, _with_records(FIELD, library)),
            contradictions=contradictions,
            readings=all_readings(library),
            figures=figures(),
            reach=_reach(library),
            derived=_derived_tables(library),
            glossary=GLOSSARY,
            changes=None if other is None else _changes(library, other),
            absent=absent,
            unclaimed=[_unclaimed(folder, library) for folder in library.unclaimed()],
            environments=_environments(library),
            css=_asset("page.css"),
            js=_asset("page.js"),
        )
    )
    return text


def has_numbers(table: Table) -> bool:
    """Whether a table has a measured cell."""
    return any(cell.kind in ("value", "failed") for panel in table.panels for row in panel.rows for cell in row)


def _with_records(claims: tuple[Claim, ...], library: Library) -> tuple[Claim, ...]:
    """The claims on some study that has records to compare; all others would be judged "not run"."""
    return tuple(
        claim
        for claim in claims
        if any(library.comparable(study) is not None for case in claim.cases for study, _ in case.settings)
    )


def _derived_tables(library: Library) -> list[Table]:
    """The tables computed from several studies that have a measured cell."""
    if next(library.all_comparable(), None) is None:
        return []
    return [table for name in table_names() if has_numbers(table := derived_table(name, library))]


def _reach(library: Library) -> Table | None:
    table = reach_table(library)
    return table if table.panels[0].rows else None


def _changes(library: Library, other: Library) -> dict[str, Any]:
    listed = changes(library, other)
    return {
        "roots": other.names or [str(r) for r in other.roots],
        "counts": [(k, sum(c.kind == k for c in listed)) for k in CHANGE_KINDS],
        "table": changes_table(listed),
    }


def _shown(results: Results) -> bool:
    return bool(results.any or results.problems or results.runs)


def _coverage(results: Results) -> float:
    return len(results.runs) / sum(1 for _ in results.study.runs())


def _section(results: Results) -> StudySection:
    s = results.study
    return StudySection(
        name=s.name,
        title=s.title,
        theme=s.theme,
        preset=s.preset,
        table=table_of(results),
        charts=charts(results),
        command=command(s),
        runs=tuple(_run(f) for f in results.runs),
        minutes=sum(f.seconds or 0.0 for f in results.runs) / 60,
    )


def _run(r: RecordedRun) -> dict[str, Any]:
    return {
        "key": r.key,
        "method": r.run.method.label,
        "seed": r.run.seed,
        "status": r.status,
        "text": r.record.get("text", ""),
        "seconds": r.seconds,
        "numerics": r.record.get("numerics", ""),
    }


def _unclaimed(folder: Path, library: Library) -> dict[str, str]:
    """A run that belongs to no study, described by what its record contains."""
    try:
        record = library.read(folder / "record.json")
    except (ValueError, OSError) as error:
        return {"key": folder.name, "what": str(error)}
    if record is None:
        return {"key": folder.name, "what": "not finished"}
    config = record.get("config")
    parts = []
    for room in ("problem", "operator"):
        named = config.get(room) if isinstance(config, dict) else None
        parts.append(str(named.get("name", "?")) if isinstance(named, dict) else "?")
    return {"key": folder.name, "what": f"{record.get('status', '?')}: {parts[1]} on {parts[0]}"}


def _environments(library: Library) -> list[tuple[str, int]]:
    """The machines and versions behind the records, each with its number of runs."""
    tally: dict[str, int] = {}
    seen = set()
    for name in study_names():
        for f in library.results(name).runs:
            if f.key not in seen and f.record:
                seen.add(f.key)
                where = f.record.get("environment") or {}
                text = json.dumps(where, indent=1, ensure_ascii=False, sort_keys=True)
                tally[text] = tally.get(text, 0) + 1
    return sorted(tally.items(), key=lambda pair: -pair[1])


def _environment() -> Any:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError("the report needs jinja2: pip install 'quadnorm[bench]'") from error
    environment = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # The only text that is not escaped: drawings and tables, which escape what they are given, and our own files.
    environment.filters["table"] = lambda table: Markup(table.html() + csv_template(table))
    environment.filters["ours"] = Markup
    return environment


def _asset(name: str) -> str:
    return files("quadnorm.lab.report").joinpath("assets", name).read_text(encoding="utf-8")
