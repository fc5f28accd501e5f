"""``quadnorm study``: the paper's studies and ours — list, plan, run, show."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from quadnorm.cli.train import stoppable

app = typer.Typer(help="The paper's studies and ours: list, plan, run, show.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The study's name, as in `quadnorm study list`.")]
Preset = Annotated[str, typer.Option(help="smoke (seconds), desk (minutes on two cores) or paper (its budget).")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the records.")]
Seeds = Annotated[str | None, typer.Option(help="How many seeds (3) or which (0,2,5); default: the preset's.")]
Changes = Annotated[
    list[str] | None,
    typer.Argument(
        help="Changes: samples.train=100 epochs=5 method.mode=layer problem.placement=cell operator.width=8"
    ),
]
Methods = Annotated[list[str] | None, typer.Option("--method", "-m", help="Only this method; may be repeated.")]


@app.command(name="list")
def list_studies(preset: Preset = "desk") -> None:
    """List the studies: what they train, how many runs, and how long a preset takes on two cores."""
    from rich.console import Console
    from rich.table import Table

    from quadnorm.lab.studies import estimate, study, study_names

    made = Table("study", "title", "runs", f"{preset}, minutes")
    for name in study_names():
        s = study(name).at(preset)
        cost = estimate(s)
        made.add_row(name, s.title, str(cost.runs), f"{cost.minutes():.0f}")
    Console().print(made)


@app.command()
def plan(
    name: Name,
    changes: Changes = None,
    preset: Preset = "desk",
    seeds: Seeds = None,
    method: Methods = None,
    out: Out = Path("results"),
) -> None:
    """Say what would run: every run, whether its record is there, and an estimate of the time."""
    from rich.console import Console
    from rich.table import Table

    from quadnorm.lab.studies import estimate
    from quadnorm.lab.studies.records import complete, tasks_of

    s = _study(name, changes, preset, seeds, method)
    made = Table("run", "epochs", "grids", "record")
    for task in tasks_of(s).values():
        grids = ", ".join(str(n) for n in task.grids)
        made.add_row(task.key, str(task.epochs), grids, "there" if complete(out, task) else "to do")
    console = Console()
    console.print(made)
    cost = estimate(s)
    console.print(f"{cost.runs} runs, about {cost.minutes():.0f} minutes on two cores if nothing is there yet")
    for note in s.notes:
        console.print(f"note: {note}", highlight=False)


@app.command()
def run(
    name: Name,
    changes: Changes = None,
    preset: Preset = "desk",
    seeds: Seeds = None,
    method: Methods = None,
    out: Out = Path("results"),
    workers: Annotated[int | None, typer.Option(help="Processes side by side; default: one per core.", min=1)] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of each; default: its share of the cores.", min=1)
    ] = None,
    scheduler: Annotated[str | None, typer.Option(help="A Dask scheduler, tcp://host:port.")] = None,
    use_dask: Annotated[bool, typer.Option("--dask", help="A local Dask cluster instead of plain processes.")] = False,
    resume: Annotated[bool, typer.Option(help="Go on with what was stopped; --no-resume starts it again.")] = True,
    allow_mixed: Annotated[bool, typer.Option(help="Show records of different code versions side by side.")] = False,
) -> None:
    """Run a study: train and evaluate what is missing. Stop it at any time; it goes on when called again."""
    import shutil

    from quadnorm.lab.studies.records import complete, folder_of, tasks_of
    from quadnorm.lab.studies.runner import run_study

    s = _study(name, changes, preset, seeds, method)
    if not resume:
        for task in tasks_of(s).values():
            if not complete(out, task):
                shutil.rmtree(folder_of(out, task), ignore_errors=True)
    with stoppable(f"stopped; run it again to go on with the records in {out}"), _progress(s, out) as told:
        done = run_study(s, out, workers=workers, threads=threads, scheduler=scheduler, use_dask=use_dask, told=told)
    _show(s, out, allow_mixed)
    print(f"{len(done.ran)} runs done, {len(done.found)} were there, {len(done.diverged)} diverged; records in {out}")


@app.command()
def show(
    name: Name,
    changes: Changes = None,
    preset: Preset = "desk",
    seeds: Seeds = None,
    method: Methods = None,
    out: Out = Path("results"),
    allow_mixed: Annotated[bool, typer.Option(help="Show records of different code versions side by side.")] = False,
) -> None:
    """Show a study's table from its records, beside what the paper printed."""
    _show(_study(name, changes, preset, seeds, method), out, allow_mixed)


def _show(s: Any, out: Path, allow_mixed: bool) -> None:
    from quadnorm.lab.analysis.tables.table import study_table

    study_table(s, out, allow_mixed=allow_mixed).terminal()


def _study(name: str, changes: list[str] | None, preset: str, seeds: str | None, methods: list[str] | None) -> Any:
    from quadnorm.lab.studies import study
    from quadnorm.lab.studies.overrides import changed
    from quadnorm.lab.studies.runner import select

    s = study(name).at(preset)
    chosen = None
    if seeds is not None:
        try:
            numbers = [int(part) for part in seeds.split(",")]
        except ValueError:
            raise ValueError(f"cannot read --seeds {seeds!r}; expected how many (3) or which (0,2,5)") from None
        chosen = list(dict.fromkeys(numbers)) if "," in seeds else list(range(numbers[0]))
        if any(n < 0 for n in numbers):
            raise ValueError(f"cannot use --seeds {seeds!r}; seeds and their number are not negative")
    return changed(select(s, chosen, methods or None), changes or [])


@contextmanager
def _progress(s: Any, out: Path) -> Iterator[Any]:
    """Bars for the data and for the epochs of all runs together, with the time that is left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from quadnorm.lab.studies.records import complete, tasks_of
    from quadnorm.lab.studies.runner import epochs_done

    todo = [t for t in tasks_of(s).values() if not complete(out, t)]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not todo) as bar:
        bars: dict[str, Any] = {}
        stop = threading.Event()

        def told(what: str, done: float, of: float) -> None:
            if what not in bars:
                bars[what] = bar.add_task(what, total=of)
            bar.update(bars[what], completed=done, total=of)

        def watch() -> None:
            while not stop.wait(1.0):
                done = epochs_done(out, todo)
                if done:
                    told("epochs", done, sum(t.epochs for t in todo))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield told
        finally:
            stop.set()
            watcher.join()
