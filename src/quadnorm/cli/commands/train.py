"""``quadnorm train``."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from quadnorm.cli.progress import bars
from quadnorm.cli.terminal import note, progress_option, say


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
        list[str] | None,
        typer.Argument(
            help="Settings, section.key=value: problem.name=poisson operator.params.norm=quad epochs=20; "
            "your model: operator.name=FILE.py:NAME; your data: problem.name=files problem.params.train=FILE; the "
            "config.yaml of a run lists them all."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A YAML file with settings; default: the paper's.")
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
        f"{result.folder}: {why} after {result.epochs} epoch{'s' * (result.epochs != 1)}; "
        f"best validation error {100 * result.best_val:.3f} % at epoch {result.best_epoch}"
    )


def _announce(config: Any, out: Path) -> None:
    """Print, before the first step, about how long all epochs take, if the operator's cost is known."""
    from quadnorm.lab.studies.estimate import STEP, step_seconds
    from quadnorm.training.data import problem_of, settled
    from quadnorm.training.logs import duration

    config = settled(config, problem_of(config))  # own files say how many samples there are
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
