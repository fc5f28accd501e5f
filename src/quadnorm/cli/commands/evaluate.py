"""``quadnorm eval``."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quadnorm._files import write_atomic
from quadnorm._text import printable
from quadnorm._ways import WAYS
from quadnorm.cli.terminal import Csv, Json, grid, note, parameters, rows_as, table

if TYPE_CHECKING:
    from quadnorm.training.evaluation import Errors

Split = Literal["train", "val", "test"]
ARRAYS = (".nc", ".zarr")
PICTURES = (".png", ".svg", ".pdf")


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(help="A run's folder or a .safetensors file.")],
    resolution: Annotated[
        list[str] | None,
        typer.Option("--resolution", "-r", help="Samples per axis, 65 or 65x129; several may follow, or repeat it."),
    ] = None,
    more: Annotated[
        list[str] | None, typer.Argument(help="Further resolutions; under torchrun also parallel.space=2.")
    ] = None,
    how: Annotated[
        str | None,
        typer.Option(
            help="Ways to use the model there: as-trained, transferred, anchored, extended, native (commas between), "
            "or all; default: as-trained,transferred, for a file of `quadnorm adapt` the way that it is adapted."
        ),
    ] = None,
    sampling: Annotated[
        str,
        typer.Option(
            "--samples",
            help="How samples get to the new grid: exact (the solved instances, sampled there), index or bicubic.",
        ),
    ] = "exact",
    source: Annotated[str | None, typer.Option(help="For index and bicubic: the grid that samples come from.")] = None,
    split: Annotated[Split, typer.Option(help="Which set of samples.")] = "test",
    which: Annotated[str, typer.Option(help="Which weights of the run: best or last.")] = "best",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Also write every sample's error (.json), or inputs, truths and predictions with their coordinates "
            "(.nc, .zarr), or draw the errors (.png, .svg, .pdf).",
        ),
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="Change how instances are sampled: mesh=boundary.")
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Errors of a trained model at other resolutions, beside its training grid: `quadnorm eval run -r 65 129`."""
    from quadnorm.cli.commands.ways import chosen_ways
    from quadnorm.training import read_config
    from quadnorm.training.ddp import reports
    from quadnorm.training.evaluation import WAYS as SAMPLINGS

    ending = "" if out is None else out.suffix.lower()
    if out is not None and ending not in (".json", *ARRAYS, *PICTURES):
        raise ValueError(f"-o {out}: expected a name that ends in .json, {', '.join((*ARRAYS, *PICTURES))}")
    if how in SAMPLINGS:  # the older meaning of --how
        sampling, how = how, None
    ways = None if how is None else chosen_ways(",".join(WAYS) if how == "all" else how)
    settings = [m for m in more or [] if m.startswith("parallel.")]
    grids = [grid(r) for r in [*(resolution or []), *(m for m in more or [] if m not in settings)]]
    options: dict[str, Any] = {
        "how": sampling,
        "source": None if source is None else grid(source),
        "split": split,
        "view": parameters(param),
    }
    space = read_config(None, settings).parallel.space
    if ending in ARRAYS:
        import xarray  # noqa: F401, missing it is said before the work is done
    fields: dict[str, dict[Any, Any]] | None = {} if ending in ARRAYS else None
    errors, trained_at = _errors(checkpoint, which, grids or None, ways, space, options, fields)
    if not reports():
        return
    records = _records(errors, trained_at)
    if not rows_as(records, as_json, as_csv):
        head = ["way", "samples per axis", "relative L²", "× training grid", "quadrature-weighted", "instances"]
        best = _best(records)
        mark = " (*: the smallest error at a grid)" if best else ""
        table(f"{checkpoint}, {split} set{mark}", head, [_row(r, best) for r in records])
    if out is not None and ending == ".json":
        write_atomic(out, json.dumps(_every_sample(errors, options)) + "\n", "the evaluation")
    elif out is not None and fields is not None:
        _write_arrays(fields, checkpoint, which, options, out)
    elif out is not None:
        _draw(records, f"{checkpoint}, {split} set", out)


def _errors(
    checkpoint: Path,
    which: str,
    grids: list[Any] | None,
    ways: list[str] | None,
    space: int,
    options: Mapping[str, Any],
    fields: dict[str, dict[Any, Any]] | None = None,
) -> "tuple[dict[str, list[Errors]], Any]":
    """Errors at each grid by way, the training grid's among them, and that grid; ``fields`` are those of the grids that
    were asked for."""
    from quadnorm.cli.commands.ways import errors_by_way
    from quadnorm.lab.studies.evaluate import native_grid
    from quadnorm.problems.points import POINTS
    from quadnorm.training import evaluate, load_model
    from quadnorm.training.data import problem_of
    from quadnorm.training.files.saved import adapted_way

    own = adapted_way(checkpoint, which)
    model, config = load_model(checkpoint, which, as_trained=True)
    trained_at = native_grid(config)
    on_points = problem_of(config).placement == POINTS
    if ways is None:
        plain = space > 1 or on_points or options["how"] != "exact"
        ways = [own] if own else ["as-trained"] if plain else ["as-trained", "transferred"]
    if space > 1:
        if ways != ["as-trained"]:
            raise ValueError("parallel.space shares a field between processes for --how as-trained only")
        if fields is not None:
            raise ValueError("parallel.space shares a field between processes; write it (-o) without")
        evaluation = evaluate(checkpoint, grids, which=which, space=space, as_trained=True, **options)
        return {"as-trained": list(evaluation.grids)}, trained_at
    # A file of ``quadnorm adapt`` may be adapted to another grid than that of training.
    ready = {own: load_model(checkpoint, which)[0]} if own in ways else {}
    clock = _Clock(_training_seconds(checkpoint, which), config, grids, ways)
    errors: dict[str, list[Errors]] = {}
    if grids is not None and trained_at not in grids and not on_points and options["how"] == "exact":
        with suppress(ValueError, OSError):  # files of the user's own may not have this grid
            errors = errors_by_way(model, config, [trained_at], ["as-trained"], **options)
            clock.measured(trained_at)
    for way, row in errors_by_way(model, config, grids, ways, ready, clock.step, fields, **options).items():
        errors.setdefault(way, []).extend(row)
    return errors, trained_at


def _training_seconds(checkpoint: Path, which: str) -> float:
    """How long training took, by its records of epochs; infinite if that is not known."""
    from quadnorm.training.files.checkpoint import read_checkpoint
    from quadnorm.training.files.saved import find_checkpoint

    state = read_checkpoint(find_checkpoint(checkpoint, which))[1].get("state")
    history = state.get("history", []) if isinstance(state, dict) else []
    seconds = [e.get("seconds") for e in history if isinstance(e, dict)]
    return sum(s for s in seconds if isinstance(s, (int, float))) if seconds else float("inf")


class _Clock:
    """Says once how long an evaluation will take, if that is longer than the training was and above a minute."""

    def __init__(self, training: float, config: Any, grids: list[Any] | None, ways: list[str]) -> None:
        from quadnorm.training.data import problem_of

        self.training, self.shape = training, problem_of(config).shape
        self.todo = [(way, n) for n in grids or config.test_resolutions for way in ways]
        self.began, self.done = time.monotonic(), 0.0

    def measured(self, n: Any) -> None:
        """One pass at a grid is over."""
        self.done += prod(self.shape(n))
        spent, left = time.monotonic() - self.began, sum(prod(self.shape(m)) for _, m in self.todo)
        total = spent * (1 + left / self.done)
        if total > max(self.training, 60) and left:
            from quadnorm.training.logs import duration

            note(f"about {duration(total)} in all, longer than the {duration(self.training)} of training")
            self.training = float("inf")

    def step(self, way: str, n: Any) -> None:
        """One way at a grid is over."""
        self.todo.remove((way, n))
        self.measured(n)


def _records(errors: "Mapping[str, Sequence[Errors]]", trained_at: Any) -> list[dict[str, Any]]:
    """One row for each way and grid, as JSON and CSV show it; the factor is to the error at the training grid."""
    home = next((e.mean for row in errors.values() for e in row if e.grid == trained_at), None)
    return [
        {
            "way": way,
            "grid": "x".join(map(str, e.grid)) if isinstance(e.grid, tuple) else e.grid,
            "relative_l2": e.mean,
            "over_training_grid": e.mean / home if home else None,
            "weighted_relative_l2": e.weighted_mean,
            "instances": len(e.plain),
        }
        for way, row in errors.items()
        for e in row
    ]


def _best(records: Sequence[Mapping[str, Any]]) -> set[tuple[str, Any]]:
    """The way with the smallest error at each grid where several were compared."""
    best = set()
    for n in dict.fromkeys(r["grid"] for r in records):
        here = [r for r in records if r["grid"] == n]
        if len(here) > 1 and max(r["relative_l2"] for r in here) > (1 + 1e-6) * min(r["relative_l2"] for r in here):
            best.add((min(here, key=lambda r: r["relative_l2"])["way"], n))
    return best


def _row(r: Mapping[str, Any], best: set[tuple[str, Any]]) -> tuple[str, ...]:
    mark = " *" if (r["way"], r["grid"]) in best else "  " if best else ""
    factor = "" if r["over_training_grid"] is None else f"{r['over_training_grid']:.2f}"
    weighted = f"{100 * r['weighted_relative_l2']:.3f} %"
    return (
        WAYS[r["way"]].title,
        str(r["grid"]),
        f"{100 * r['relative_l2']:.3f} %{mark}",
        factor,
        weighted,
        str(r["instances"]),
    )


def _every_sample(errors: "Mapping[str, Sequence[Errors]]", options: Mapping[str, Any]) -> dict[str, Any]:
    ways = {
        way: [
            {"grid": e.grid, "mean": e.mean, "weighted_mean": e.weighted_mean, "plain": e.plain, "weighted": e.weighted}
            for e in row
        ]
        for way, row in errors.items()
    }
    return {"split": options["split"], "samples": options["how"], "ways": ways}


def _write_arrays(
    fields: Mapping[str, Mapping[Any, Any]], checkpoint: Path, which: str, options: Mapping[str, Any], out: Path
) -> None:
    """Inputs, truths and predictions as a Dataset; of several grids as a tree with one group for each."""
    from quadnorm.problems.labelled import as_dataset
    from quadnorm.training import load_model
    from quadnorm.training.data import problem_of, settled, viewed

    config = load_model(checkpoint, which, as_trained=True)[1]
    p = viewed(problem_of(config), options["view"])
    indices = settled(config, p).samples.indices(options["split"])
    grids = list(dict.fromkeys(n for of_way in fields.values() for n in of_way))
    by_grid = {
        "x".join(map(str, n)) if isinstance(n, tuple) else str(n): as_dataset(
            p, n, {WAYS[way].title: of_way[n] for way, of_way in fields.items() if n in of_way}, indices
        )
        for n in grids
    }
    import xarray

    found = next(iter(by_grid.values())) if len(by_grid) == 1 else xarray.DataTree.from_dict(by_grid)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix.lower() == ".nc":
        part = out.with_name(f"{out.name}.part")
        found.to_netcdf(part, engine="h5netcdf")
        part.replace(out)
    else:
        found.to_zarr(out, mode="w", zarr_format=2, consolidated=False)


def _draw(records: Sequence[Mapping[str, Any]], title: str, out: Path) -> None:
    """Errors over the samples per axis, one line for each way."""
    import io

    from matplotlib.figure import Figure

    from quadnorm.lab.analysis.figures.style import style

    with style():
        figure = Figure(figsize=(4.6, 3.2), layout="constrained")
        axes = figure.subplots()
        grids = list(dict.fromkeys(str(r["grid"]) for r in records))
        for way in dict.fromkeys(r["way"] for r in records):
            points = sorted((grids.index(str(r["grid"])), 100 * r["relative_l2"]) for r in records if r["way"] == way)
            axes.plot(*zip(*points, strict=True), marker="o", label=WAYS[way].title)
        axes.set_xticks(range(len(grids)), grids)
        axes.set(xlabel="samples per axis", ylabel="relative L² error, %", title=printable(title))
        axes.set_ylim(bottom=0)
        axes.legend()
        buffer = io.BytesIO()
        figure.savefig(buffer, format=out.suffix[1:].lower(), dpi=160)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, buffer.getvalue(), "the picture")
