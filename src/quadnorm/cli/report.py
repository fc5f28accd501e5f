"""``quadnorm report``."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    records: Annotated[list[Path] | None, typer.Argument(help="Folders of records; default: results.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write, or a folder for it.")] = Path(
        "report.html"
    ),
    compare: Annotated[
        list[Path] | None, typer.Option(help="Older records, to flag what became worse; may be repeated.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write one self-contained page from records: tables beside the paper's, figures, claims."""
    from quadnorm.report import build_report

    target = build_report(records or [Path("results")], out, compare or None)
    print(target)
    if show:
        typer.launch(str(target))
