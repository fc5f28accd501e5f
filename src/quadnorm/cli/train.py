"""``quadnorm train`` and ``quadnorm eval``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from quadnorm.cli.options import grid, parameters
from quadnorm.cli.terminal import say, table

Split = Literal["train", "val", "test"]


@contextmanager
def stoppable(advice: str = "") -> Iterator[None]:
    """Ctrl-C ends the command with a line that says how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        print(f"quadnorm: {advice or str(stop) or 'interrupted'}", file=sys.stderr)
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
    """Train a model in a folder; a run that was stopped goes on where it was."""
    from quadnorm.training import train as run
    from quadnorm.training.ddp import reports

    with stoppable():
        result = run(config, out, resume=not restart, overrides=overrides or [])
    if not reports():
        return
    why = "all epochs are done" if result.ended == "epochs" else "no better epoch came in time"
    say(
        f"{result.folder}: {why} after {result.epochs} epochs; "
        f"best validation error {100 * result.best_val:.3f} % at epoch {result.best_epoch}"
    )


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(help="A run's folder or a .safetensors file.")],
    resolution: Annotated[
        list[str] | None,
        typer.Option("--resolution", "-r", help="Samples per axis, 65 or 65x129; several may follow, or repeat it."),
    ] = None,
    more: Annotated[
        list[str] | None, typer.Argument(help="Further resolutions; parallel.space=2 under torchrun.")
    ] = None,
    how: Annotated[str, typer.Option(help="exact (the same instances on the new grid), index or bicubic.")] = "exact",
    source: Annotated[str | None, typer.Option(help="For index and bicubic: the grid that samples come from.")] = None,
    split: Annotated[Split, typer.Option(help="Which samples.")] = "test",
    which: Annotated[str, typer.Option(help="best or last weights.")] = "best",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write every sample's error as JSON.")] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="Look at the instances in another way: mesh=boundary.")
    ] = None,
) -> None:
    """Errors of a trained model at other resolutions: `quadnorm eval run --resolution 64 128 256`."""
    from quadnorm.training import evaluate as run
    from quadnorm.training import read_config
    from quadnorm.training.ddp import reports

    settings = [m for m in more or [] if m.startswith("parallel.")]
    grids = [grid(r) for r in [*(resolution or []), *(m for m in more or [] if m not in settings)]]
    errors = run(
        checkpoint,
        grids or None,
        which=which,
        how=how,
        source=None if source is None else grid(source),
        split=split,
        view=parameters(param),
        space=read_config(None, settings).parallel.space,
    )
    if not reports():
        return
    rows = [
        (str(e.grid), f"{100 * e.mean:.3f} %", f"{100 * e.weighted_mean:.3f} %", str(len(e.plain)))
        for e in errors.grids
    ]
    table(
        f"{checkpoint}, {errors.split} set",
        ["samples per axis", "relative L²", "quadrature-weighted", "instances"],
        rows,
    )
    if out is not None:
        errors.write(out)
