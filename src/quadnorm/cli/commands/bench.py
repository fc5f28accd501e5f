"""``quadnorm bench``: speed relative to named peers (other libraries or plain code), measured in one process."""

import json
import math
from importlib import import_module
from itertools import groupby
from typing import Annotated

import typer

from quadnorm.cli.terminal import table

app = typer.Typer(help="Compare speed and memory with other libraries in the same run.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Scale = Annotated[
    float, typer.Option(help="Shrink the problem sizes, for a quick look (1 = full size).", min=1e-4, max=100)
]

BENCHMARKS = {
    "measures": "Voronoi cells of 10⁶ points and lumping of 10⁶ tetrahedra, against scipy and plain loops.",
    "norms": "QuadNorm against native GroupNorm and the paper's listing: time, memory, growth, torch.compile.",
    "operators": "Training steps of FNO and Transolver against neuraloperator and plain forms; growth; memory.",
    "problems": "Samples per second of the PDE problems, against sparse direct solves.",
    "adapt": "Forward passes of anchored and extended models against the original model's.",
    "parallel": "Fields split over two processes against one; messages and bytes per layer against other libraries.",
    "studies": "Throughput of a study with two worker processes against one.",
}


def _command(name: str, about: str) -> None:
    def bench(as_json: Json = False, scale: Scale = 1.0) -> None:
        _show([name], as_json, scale)

    app.command(name=name, help=about)(bench)


for _name, _about in BENCHMARKS.items():
    if _name != "norms":
        _command(_name, _about)


@app.command(help=BENCHMARKS["norms"])
def norms(
    as_json: Json = False,
    scale: Scale = 1.0,
    device: Annotated[
        str, typer.Option(help="Where to run: cpu, cuda, cuda:1, …; other devices have fewer comparisons.")
    ] = "cpu",
) -> None:
    """QuadNorm against native GroupNorm and compiled code; on the CPU also memory, growth and the paper's listing."""
    if device == "cpu":
        _show(["norms"], as_json, scale)
        return
    from quadnorm.lab.bench.norms_device import UNTESTED, run

    rows = run(device, scale)
    if as_json:
        print(json.dumps({"scale": scale, "device": device, "note": UNTESTED, "rows": rows}, indent=2))
    else:
        _table("norms", [dict(r) for r in rows])
        print(UNTESTED)


@app.command(name="all")
def everything(as_json: Json = False, scale: Scale = 1.0) -> None:
    """Run every benchmark."""
    _show(list(BENCHMARKS), as_json, scale)


def _show(names: list[str], as_json: bool, scale: float) -> None:
    from quadnorm.lab.bench.timing import memory_setting

    results, memory = {}, memory_setting()
    if not as_json:
        print(f"Freed memory is {memory}, unless a row says otherwise.")
    for name in names:
        results[name] = import_module(f"quadnorm.lab.bench.{name}").run(scale=scale)
        if not as_json:
            _table(name, results[name])
    if as_json:
        rows = [
            {"benchmark": name, **{k: _plain(v) for k, v in row.items()}} for name in names for row in results[name]
        ]
        print(json.dumps({"scale": scale, "memory": memory, "rows": rows}, indent=2))


def _plain(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(name: str, rows: list[dict[str, object]]) -> None:
    """One table for each kind of row: those with the same columns. Columns without any content are left out."""
    for _, kind in groupby(rows, key=list):
        cells = [{column: _cell(value) for column, value in row.items()} for row in kind]
        columns = [c for c in cells[0] if any(row[c] for row in cells)]
        table(f"quadnorm bench {name}", columns, [[row[c] for c in columns] for row in cells])


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
