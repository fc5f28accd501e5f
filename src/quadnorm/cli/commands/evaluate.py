"""``quadnorm eval``."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quadnorm._files import write_atomic
from quadnorm.cli.options import Csv, Json, grid, parameters
from quadnorm.cli.terminal import rows_as, table

if TYPE_CHECKING:
    from quadnorm.training.evaluation import Errors

Split = Literal["train", "val", "test"]


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
            help="Ways to use the model there: transferred,as-trained,anchored,extended,native or all; default: "
            "transferred, for a file of `quadnorm anchor` anchored, on meshes as-trained."
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
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write every sample's error as JSON.")] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="Change how instances are sampled: mesh=boundary.")
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Errors of a trained model at other resolutions: `quadnorm eval run -r 65 129 --how all`."""
    from quadnorm.cli.commands.ways import WAYS, chosen_ways
    from quadnorm.training import read_config
    from quadnorm.training.ddp import reports
    from quadnorm.training.evaluation import WAYS as SAMPLINGS

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
    errors, written = _errors(checkpoint, which, grids or None, ways, space, options)
    if not reports():
        return
    records = _records(errors)
    if not rows_as(records, as_json, as_csv):
        head = ["way", "samples per axis", "relative L²", "quadrature-weighted", "instances"]
        table(f"{checkpoint}, {split} set", head, [_row(*r.values()) for r in records])
    if out is not None:
        write_atomic(out, json.dumps(written) + "\n", "the evaluation")


def _errors(
    checkpoint: Path,
    which: str,
    grids: list[Any] | None,
    ways: list[str] | None,
    space: int,
    options: Mapping[str, Any],
) -> "tuple[dict[str, Sequence[Errors]], dict[str, Any]]":
    """Errors at each grid by way, and what ``--out`` writes of them: every sample's."""
    from quadnorm.cli.commands.ways import errors_by_way
    from quadnorm.training import evaluate, load_model
    from quadnorm.training.files.saved import is_anchored

    if ways is None and space == 1 and not is_anchored(checkpoint, which) and _on_a_grid(checkpoint, which):
        ways = ["transferred"]
    if ways is None or ways == ["as-trained"]:
        evaluation = evaluate(checkpoint, grids, which=which, space=space, as_trained=ways is not None, **options)
        way = "anchored" if ways is None and is_anchored(checkpoint, which) else "as-trained"
        return {way: evaluation.grids}, evaluation.to_json()
    if space > 1:
        raise ValueError("parallel.space shares a field between processes for --how as-trained only")
    model, config = load_model(checkpoint, which, as_trained=True)
    # A file of ``quadnorm anchor`` may be anchored to another grid than that of training.
    anchored = load_model(checkpoint, which)[0] if is_anchored(checkpoint, which) else None
    errors = errors_by_way(model, config, grids, ways, anchored, **options)
    by_way = {
        way: [
            {"grid": e.grid, "mean": e.mean, "weighted_mean": e.weighted_mean, "plain": e.plain, "weighted": e.weighted}
            for e in row
        ]
        for way, row in errors.items()
    }
    asked = {"split": options["split"], "how": options["how"], "source": options["source"]}
    if len(by_way) == 1:
        ((way, rows),) = by_way.items()
        return dict(errors), {**asked, "way": way, "errors": rows}
    return dict(errors), {**asked, "ways": by_way}


def _on_a_grid(checkpoint: Path, which: str) -> bool:
    """Whether a model's samples lie on grids, not on meshes."""
    from quadnorm.problems.points import POINTS
    from quadnorm.training import load_model
    from quadnorm.training.data import problem_of

    return problem_of(load_model(checkpoint, which, as_trained=True)[1]).placement != POINTS


def _records(errors: "Mapping[str, Sequence[Errors]]") -> list[dict[str, Any]]:
    """One row for each way and grid, as JSON and CSV show it."""
    return [
        {
            "way": way,
            "grid": "x".join(map(str, e.grid)) if isinstance(e.grid, tuple) else e.grid,
            "relative_l2": e.mean,
            "weighted_relative_l2": e.weighted_mean,
            "instances": len(e.plain),
        }
        for way, row in errors.items()
        for e in row
    ]


def _row(way: str, n: int | str, plain: float, weighted: float, instances: int) -> tuple[str, ...]:
    return way, str(n), f"{100 * plain:.3f} %", f"{100 * weighted:.3f} %", str(instances)
