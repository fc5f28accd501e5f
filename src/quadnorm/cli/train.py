"""``quadnorm train`` and ``quadnorm eval``."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from quadnorm._files import write_atomic
from quadnorm.cli.levels import note, progress_option
from quadnorm.cli.options import Csv, Json, grid, parameters
from quadnorm.cli.progress import bars
from quadnorm.cli.terminal import rows_as, say, table

Split = Literal["train", "val", "test"]


@contextmanager
def stoppable(advice: str = "") -> Iterator[None]:
    """Ctrl-C ends the command with a line that says how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        start = "\n" if sys.stderr.isatty() else ""  # below the ^C that the terminal echoes
        print(f"{start}quadnorm: {advice or str(stop) or 'interrupted'}", file=sys.stderr)
        raise typer.Exit(130) from None


def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings, a.b=c, as in operator.params.norm=quad.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A YAML file; default: the paper's protocol.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The run's folder.")] = Path("run"),
    restart: Annotated[bool, typer.Option("--restart", help="Start again instead of resuming.")] = False,
) -> None:
    """Train a model and keep the run in a folder; a run that was stopped continues where it stopped."""
    from quadnorm.training import read_config
    from quadnorm.training import train as run
    from quadnorm.training.ddp import reports

    settings = read_config(config, overrides or [])
    with stoppable(), ExitStack() as showing:
        show = showing.enter_context(bars())

        def on_data(done: int, of: int) -> None:
            if not reports():
                return
            if not done:
                _announce(settings, out)
            show("training data", done, of)
            if done >= of:
                showing.close()  # the training has a bar of its own

        result = run(settings, out, resume=not restart, progress=progress_option(), data_progress=on_data)
    if not reports():
        return
    why = "all epochs are done" if result.ended == "epochs" else "no better epoch came in time"
    say(
        f"{result.folder}: {why} after {result.epochs} epochs; "
        f"best validation error {100 * result.best_val:.3f} % at epoch {result.best_epoch}"
    )


def _announce(config: Any, out: Path) -> None:
    """Print, before the first step, about how long all epochs take, if the operator's cost is known."""
    from quadnorm.lab.studies.estimate import STEP, step_seconds
    from quadnorm.training.logs import duration

    operator, params, grids = config.operator.name, config.operator.params, config.resolutions.train
    if operator not in STEP or not all(isinstance(n, int) for n in grids):
        return
    width, layers = (params.get(k, getattr(STEP[operator], k)) for k in ("width", "layers"))
    if not (isinstance(width, int) and isinstance(layers, int)):
        return
    step = sum(step_seconds(operator, n, width, layers, config.batch) for n in grids) / len(grids)
    if step * config.steps > 60:
        steps = f"{config.epochs} epochs of {config.steps_per_epoch} steps"
        note(f"{out}: {steps}, about {duration(step * config.steps)} on one core")


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
        str, typer.Option(help="Ways to use the model there: as-trained,anchored,extended,native or all.")
    ] = "as-trained",
    taken: Annotated[
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
    """Errors of a trained model at other resolutions: `quadnorm eval run -r 65 129 --how as-trained,extended`."""
    from quadnorm.cli.ways import chosen_ways, errors_by_way
    from quadnorm.training import evaluate as run
    from quadnorm.training import load_model, read_config
    from quadnorm.training.ddp import reports
    from quadnorm.training.evaluation import WAYS as TAKEN

    if how in TAKEN:  # the older meaning of --how
        how, taken = "as-trained", how
    ways = chosen_ways("as-trained,anchored,extended,native" if how == "all" else how)
    settings = [m for m in more or [] if m.startswith("parallel.")]
    grids = [grid(r) for r in [*(resolution or []), *(m for m in more or [] if m not in settings)]]
    options: dict[str, Any] = {
        "how": taken,
        "source": None if source is None else grid(source),
        "split": split,
        "view": parameters(param),
    }
    space = read_config(None, settings).parallel.space
    if ways == ["as-trained"]:
        errors = run(checkpoint, grids or None, which=which, space=space, **options)
        table_rows = {"as-trained": list(errors.grids)}
        written = errors.to_json()
    else:
        if space > 1:
            raise ValueError("parallel.space shares a field between processes for --how as-trained only")
        model, config = load_model(checkpoint, which)
        table_rows = errors_by_way(model, config, grids or None, ways, **options)
        written = {"split": split, "samples": taken, "ways": {way: _plain(rows) for way, rows in table_rows.items()}}
    if not reports():
        return
    records: list[dict[str, Any]] = [
        {
            "way": way,
            "grid": "x".join(map(str, e.grid)) if isinstance(e.grid, tuple) else e.grid,
            "relative_l2": e.mean,
            "weighted_relative_l2": e.weighted_mean,
            "instances": len(e.plain),
        }
        for way, rows in table_rows.items()
        for e in rows
    ]
    if not rows_as(records, as_json, as_csv):
        table(
            f"{checkpoint}, {split} set",
            ["way", "samples per axis", "relative L²", "quadrature-weighted", "instances"],
            [
                (
                    r["way"],
                    str(r["grid"]),
                    _percent(r["relative_l2"]),
                    _percent(r["weighted_relative_l2"]),
                    str(r["instances"]),
                )
                for r in records
            ],
        )
    if out is not None:
        write_atomic(out, json.dumps(written) + "\n", "the evaluation")


def _percent(value: float) -> str:
    return f"{100 * value:.3f} %"


def _plain(rows: list[Any]) -> list[dict[str, Any]]:
    return [{"grid": e.grid, "mean": e.mean, "plain": e.plain, "weighted": e.weighted} for e in rows]
