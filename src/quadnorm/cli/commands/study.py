"""``quadnorm study``: the paper's studies and ours: list, plan, run, show, pack."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from quadnorm._text import printable
from quadnorm.cli.commands.train import stoppable
from quadnorm.cli.progress import study_progress
from quadnorm.cli.terminal import MOST_THREADS, Csv, Json, note, rows_as, say, table

MOST_SEEDS = 1000

app = typer.Typer(help="The paper's studies and ours: list, plan, run, show, pack.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The study's name, as in `quadnorm study list`.")]
Preset = Annotated[str, typer.Option(help="smoke (seconds), desk (minutes on two cores) or paper (its budget).")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the records.")]
Seeds = Annotated[str | None, typer.Option(help="How many seeds (3) or which (0,2,5 or 4,); default: the preset's.")]
Changes = Annotated[
    list[str] | None,
    typer.Argument(
        help="Changes to the study, such as epochs=5 samples.train=100 method.mode=layer operator.width=8; your model: "
        "operator.name=FILE.py:NAME."
    ),
]
Threads = Annotated[
    int,
    typer.Option(help="Threads of each run; another number gives other records.", min=1, max=MOST_THREADS),
]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder of the released Darcy files (piececonst_r421_N1024_smooth1.mat and …smooth2.mat)."),
]
Methods = Annotated[list[str] | None, typer.Option("--method", "-m", help="Only this method; may be repeated.")]


@app.command(name="list")
def list_studies(
    preset: Preset = "desk", out: Out = Path("results"), as_json: Json = False, as_csv: Csv = False
) -> None:
    """List the studies, the first one to try on top: runs, time on two cores, how many runs are recorded."""

    show_list(preset, out, as_json, as_csv)


@app.command()
def plan(
    name: Name,
    changes: Changes = None,
    preset: Preset = "desk",
    seeds: Seeds = None,
    method: Methods = None,
    out: Out = Path("results"),
    threads: Threads = 1,
    data: Data = None,
) -> None:
    """Show what would run: every run, whether its record exists, and an estimate of the time."""
    from quadnorm.lab.studies import estimate
    from quadnorm.lab.studies.records import complete, tasks_of

    s = _study(name, changes, preset, seeds, method, threads, data)
    rows = []
    for task in tasks_of(s).values():
        grids = ", ".join(str(n) for n in task.grids)
        rows.append((task.key, str(task.epochs), grids, "there" if complete(out, task) else "to do"))
    table(None, ["run", "epochs", "grids", "record"], rows)
    cost = estimate(s)
    say(f"{cost.runs} runs, about {cost.minutes():.0f} minutes on two cores if no record exists yet")
    for remark in s.notes:
        say(f"note: {remark}")


@app.command()
def run(
    name: Name,
    changes: Changes = None,
    preset: Preset = "desk",
    seeds: Seeds = None,
    method: Methods = None,
    out: Out = Path("results"),
    workers: Annotated[
        int | None, typer.Option(help="Processes side by side; default: one per core.", min=1, max=MOST_THREADS)
    ] = None,
    threads: Threads = 1,
    data: Data = None,
    scheduler: Annotated[str | None, typer.Option(help="A Dask scheduler, tcp://host:port.")] = None,
    use_dask: Annotated[bool, typer.Option("--dask", help="A local Dask cluster instead of plain processes.")] = False,
    resume: Annotated[bool, typer.Option(help="Continue runs that were stopped, or start them again.")] = True,
    allow_mixed: Annotated[bool, typer.Option(help="Show records of different code versions side by side.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would run: data, memory and time of each run.")
    ] = False,
) -> None:
    """Train and evaluate the runs of a study that are missing. Stop it at any time: the same command continues it."""
    from quadnorm.lab.studies.runner import run_study, start_again

    if scheduler is not None and not re.fullmatch(r"\w+://.+:\d+", scheduler):
        raise ValueError(f"cannot read the address --scheduler {scheduler[:80]!r}; expected one like tcp://host:8786")
    s = _study(name, changes, preset, seeds, method, threads, data)
    if dry_run:
        _dry_run(s, workers)
        return
    if not resume:
        start_again(s, out)
    _announce(s, out, workers)
    with stoppable(f"stopped; run it again to go on with the records in {out}"), study_progress(s, out) as on_progress:
        done = run_study(s, out, workers=workers, scheduler=scheduler, use_dask=use_dask, on_progress=on_progress)
    _show(s, out, allow_mixed)
    say(f"{len(done.ran)} runs done, {len(done.existing)} were there, {len(done.diverged)} diverged; records in {out}")


@app.command()
def show(
    name: Name,
    changes: Changes = None,
    preset: Preset = "desk",
    seeds: Seeds = None,
    method: Methods = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the records, or a pack.")] = Path("results"),
    threads: Threads = 1,
    data: Data = None,
    allow_mixed: Annotated[bool, typer.Option(help="Show records of different code versions side by side.")] = False,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Show a study's table from its records, with the paper's values."""
    from quadnorm.cli.records import opened
    from quadnorm.lab.analysis.tables import study_table

    s = _study(name, changes, preset, seeds, method, threads, data)
    with opened(out) as folder:
        if not (folder / "runs").is_dir():
            raise FileNotFoundError(f"no records in {out}; make them with: quadnorm study run {name} --out {out}")
        if not (as_json or as_csv):
            _show(s, folder, allow_mixed)
            return
        text = study_table(s, folder, allow_mixed=allow_mixed).csv()
    if as_json:
        rows_as(list(csv.DictReader(io.StringIO(text))), as_json, as_csv)
    else:
        print(text, end="")


@app.command()
def pack(
    results: Annotated[Path, typer.Argument(help="Folder of records, as study run makes it.")],
    file: Annotated[Path, typer.Argument(help="The file to write, such as results/desk.tar.xz.")],
) -> None:
    """Pack finished runs into one small file, without weights; `quadnorm report FILE` reads it."""
    from quadnorm.lab.studies.pack import pack as pack_records

    count = pack_records(results, file)
    say(f"{count} runs in {file}, {file.stat().st_size / 2**20:.1f} MiB")


def _announce(s: Any, out: Path, workers: int | None) -> None:
    """Print, before the first run, how many runs there are and about how long they take."""
    from quadnorm.lab.studies import estimate
    from quadnorm.lab.studies.records import complete, tasks_of
    from quadnorm.training.logs import duration

    tasks = tasks_of(s).values()
    todo = sum(not complete(out, t) for t in tasks)
    if todo:
        count = min(workers or os.cpu_count() or 1, todo)
        seconds = 60 * estimate(s).minutes(count) * todo / len(tasks)
        note(f"{s.name}: {todo} of {len(tasks)} runs to do, about {duration(seconds)} on {count} workers")


def _dry_run(s: Any, workers: int | None) -> None:
    """Print what each variant of a study needs, and the time of the whole study on several numbers of workers."""
    from quadnorm.lab.studies import estimate
    from quadnorm.lab.studies.estimate import needs

    rows = [
        (n.variant, str(n.runs), f"{n.data / 2**30:.2f} GiB", f"{n.memory / 2**30:.2f} GiB", f"{n.hours:.2f} h")
        for n in needs(s)
    ]
    table(
        f"{s.name}, {s.preset} preset", ["variant", "runs", "data of a run", "memory of a run", "time of a run"], rows
    )
    cost = estimate(s)
    for count in dict.fromkeys((workers or 2, 8, 32)):
        say(f"{cost.runs} runs on {count} workers of one thread: about {cost.minutes(count) / 60:.1f} hours")


def _show(s: Any, out: Path, allow_mixed: bool) -> None:
    from quadnorm.lab.analysis.tables import study_table

    study_table(s, out, allow_mixed=allow_mixed).terminal()


def _study(
    name: str,
    changes: list[str] | None,
    preset: str,
    seeds: str | None,
    methods: list[str] | None,
    threads: int,
    data: Path | None,
) -> Any:
    from quadnorm.lab.studies import study
    from quadnorm.lab.studies.presets import changed
    from quadnorm.lab.studies.runner import select

    if data is not None:
        _use_files(study(name), data)
    s = replace(study(name).at(preset, released=data is not None), threads=threads)
    chosen = None
    if seeds is not None:
        try:
            numbers = [int(part) for part in seeds.removesuffix(",").split(",")]
        except ValueError:
            raise ValueError(
                f"cannot read --seeds {seeds[:80]!r}; expected how many (3) or which (0,2,5 or 4,)"
            ) from None
        several = "," in seeds
        if not all(0 <= n < (2**63 if several else MOST_SEEDS) for n in numbers):
            raise ValueError(
                f"cannot use --seeds {seeds[:80]!r}; seeds lie between 0 and 2^63 − 1, and their number is at most "
                f"{MOST_SEEDS}"
            )
        chosen = list(dict.fromkeys(numbers)) if several else list(range(numbers[0]))
    return changed(select(s, chosen, methods or None), changes or [])


def _use_files(s: Any, folder: Path) -> None:
    """Have this process and its workers read the released files in a folder, after a look that they are there."""
    from quadnorm.lab.studies import study, study_names
    from quadnorm.lab.studies.study import STAND_INS
    from quadnorm.problems import problem_class
    from quadnorm.problems.stored.fetch import official_file

    if not s.reads_files:
        readers = ", ".join(name for name in study_names() if study(name).reads_files)
        raise ValueError(f"study {s.name} reads no released files; --data is for {readers}")
    for read in dict.fromkeys(v.problem for v in s.variants if v.problem in STAND_INS):
        for name in problem_class(read).files:  # type: ignore[attr-defined] # of problems that read released files
            official_file(name, folder)
    # The path is not part of a run's config: its record is the same wherever the files lie.
    os.environ["QUADNORM_DATA"] = str(folder.resolve())


FIRST = "demo"
NAME = 25  # wide enough for nearly all names; a longer one moves its own line, and is never cut
HEADS = {"start here": "start here", "paper": "the paper, by table", "ours": "ours"}


def group_of(s: Any) -> str:
    """The part of the list a study belongs to: the first one to try, the paper's studies, or ours."""
    if s.name == FIRST:
        return "start here"
    return "ours" if s.theme == "ours" else "paper"


def records_of(preset: str, out: Path) -> list[dict[str, Any]]:
    """One record for each study, in the order of the list."""
    from quadnorm.lab.studies import estimate, study, study_names
    from quadnorm.lab.studies.records import complete, tasks_of

    rows = []
    for name in study_names():
        s = study(name).at(preset)
        tasks = tasks_of(s).values()
        rows.append(
            {
                "group": group_of(s),
                "study": name,
                "tables": " ".join(s.tables),
                "runs": len(tasks),
                "recorded": sum(complete(out, t) for t in tasks) if (out / "runs").is_dir() else 0,
                "seconds": round(60 * estimate(s).minutes(), 1),
                "title": s.title,
            }
        )
    return sorted(rows, key=lambda row: list(HEADS).index(str(row["group"])))  # stable: the order of the paper stays


def show_list(preset: str, out: Path, as_json: bool, as_csv: bool) -> None:
    """Print the list; on a terminal titles are cut to its width, elsewhere nothing is."""
    records = records_of(preset, out)
    if rows_as(records, as_json, as_csv):
        return
    width = _width()
    unit, factor = ("s", 1) if preset == "smoke" else ("min", 60)
    say(_line("study", "runs", unit, "recorded", "title", width))
    group = None
    for row in records:
        if row["group"] != group:
            group = row["group"]
            say(f"\n{HEADS[str(group)]}")
        time = f"{row['seconds'] / factor:.0f}"
        there = f"{row['recorded']}/{row['runs']}" if row["recorded"] else "-"
        say(_line(f"  {row['study']}", str(row["runs"]), time, there, str(row["title"]), width))
    say(f"\n{preset} preset on two cores; records in {out}; next: quadnorm study run {FIRST}")


def _line(name: str, runs: str, time: str, there: str, title: str, width: int | None) -> str:
    text = f"{name:{NAME + 2}} {runs:>4} {time:>5} {there:>8}  {printable(title)}"
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def _width() -> int | None:
    """Columns of the terminal; None where the output is no terminal."""
    import shutil

    return max(60, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
