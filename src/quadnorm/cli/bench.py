"""``quadnorm bench``: speed as ratios to named peers, measured in one process."""

import json
from importlib import import_module
from typing import Annotated

import typer

app = typer.Typer(help="Measure speed and memory against named peers in the same run.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Scale = Annotated[float, typer.Option(help="Shrink the problem sizes, for a quick look (1 = full size).", min=1e-4)]


@app.command()
def measures(as_json: Json = False, scale: Scale = 1.0) -> None:
    """Voronoi cells of 10⁶ points and lumping of 10⁶ tetrahedra, against scipy and plain loops."""
    _show("measures", as_json, scale=scale)


@app.command(name="all")
def everything(as_json: Json = False) -> None:
    """Run every benchmark."""
    for name in ("measures",):
        _show(name, as_json)


def _show(name: str, as_json: bool, **options: float) -> None:
    rows = import_module(f"quadnorm.bench.{name}").run(**options)
    if as_json:
        print(json.dumps({"benchmark": name, "rows": rows}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(title=f"quadnorm bench {name}")
    for column in columns:
        table.add_column(column, justify="right" if any(isinstance(r.get(column), float) for r in rows) else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    Console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
