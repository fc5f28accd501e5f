"""``quadnorm theory``: experiments for the paper's statements and ours."""

import json
from pathlib import Path
from typing import Annotated

import typer

from quadnorm.cli.terminal import say


def theory(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="names", help="Statements, as --list names them; default: all.")
    ] = None,
    figure: Annotated[bool, typer.Option("--figure", help="Also draw each statement as SVG and PNG.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the figures.")] = Path("theory"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    only_list: Annotated[bool, typer.Option("--list", help="List the statements and measure nothing.")] = False,
) -> None:
    """Test the paper's statements and ours by experiments: orders, constants and bounds, with their expected ranges.

    The exit code is 1 if one of them does not hold.
    """
    from quadnorm.lab.theory import statements

    chosen = statements(names or [])
    if figure and out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; expected a folder for the figures")
    if only_list:
        for s in chosen:
            say(f"{s.name}: {s.text}")
        return
    measured = []
    for s in chosen:
        evidence = s.measure()
        measured.append((s, evidence))
        if not as_json:
            from quadnorm.lab.theory.show import show

            show(s, evidence)
    if as_json:
        print(json.dumps([s.to_json(evidence) for s, evidence in measured], indent=2))
    if figure:
        from quadnorm.lab.analysis.figures.statements import draw
        from quadnorm.lab.analysis.figures.style import save

        for s, evidence in measured:
            files = save(draw(s, evidence), out / s.name)
            if not as_json:
                say(*files)
    if not all(evidence.holds for _, evidence in measured):
        raise typer.Exit(1)
