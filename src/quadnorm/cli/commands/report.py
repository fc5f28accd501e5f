"""``quadnorm report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quadnorm.cli.terminal import note, say

if TYPE_CHECKING:
    from quadnorm.lab.analysis.results import Library

_MOST_LINES = 5


def report(
    records: Annotated[
        list[Path] | None, typer.Argument(help="Folders of records, packs, or folders of packs; default: results.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write, or a folder for it.")] = Path(
        "report.html"
    ),
    compare: Annotated[
        list[Path] | None,
        typer.Option(help="Older records, folders or packs, to flag what became worse; may be repeated."),
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(help="Also write every table (md, csv, tex, html, txt) and figure (svg, png) to this folder."),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Also write Markdown: verdicts, what each way reaches; the tables beside it.")
    ] = None,
    readme: Annotated[
        Path | None, typer.Option(help="Also update the results table of this README, between its two marks.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write one self-contained page from records: tables with the paper's values, figures, claims. Trains nothing."""
    from quadnorm.cli.records import scratch_folder

    if readme is not None and not readme.is_file():
        raise FileNotFoundError(f"no file {readme} whose table of results --readme could update")
    with scratch_folder() as scratch:  # figures read from it while the page is written
        library = _library(records or [Path("results")], scratch / "records")
        older = _library(compare, scratch / "older") if compare else None
        target = _write(library, out, older, files, markdown, readme)
    if show:
        import webbrowser

        if not webbrowser.open(target.resolve().as_uri()):
            say("no browser could be started here; open the page in one by hand")


def _library(given: list[Path], scratch: Path) -> Library:
    """The records of folders and packed files, which are unpacked into ``scratch`` and keep their own names."""
    from dataclasses import replace

    from quadnorm.cli.records import sources
    from quadnorm.lab.report import library_of
    from quadnorm.lab.studies.pack import unpack

    found = sources(given)
    folders = [unpack(path, scratch / str(k)) if path.is_file() else path for k, path in enumerate(found)]
    return replace(library_of(folders), names=tuple(map(str, found)))


def _write(
    library: Library,
    out: Path,
    older: Library | None,
    files: Path | None,
    markdown: Path | None,
    readme: Path | None,
) -> Path:
    """Write the page and the other outputs that were asked for; returns the page's path."""
    from quadnorm.lab.report import build_report

    target = build_report(library, out, older)
    say(target)
    passed_over = library.passed_over()
    for line in passed_over[:_MOST_LINES]:
        note(f"passed over: {line}")
    if len(passed_over) > _MOST_LINES:
        note(f"passed over: {len(passed_over) - _MOST_LINES} more files; the page names them")
    if files is not None:
        from quadnorm.lab.analysis.export import export

        done = export(library, files)
        say(f"{files}: {len(done.files)} files")
        for name, why in done.missing.items():
            say(f"  figure {name} was not drawn: {why}")
    if markdown is not None or readme is not None:
        from quadnorm.lab.report.markdown import update_readme, write_results

        if markdown is not None:
            write_results(markdown, library)
            say(markdown)
        if readme is not None:
            update_readme(readme, library)
            say(readme)
    return target
