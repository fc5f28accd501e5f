"""Run a study: plan, make the data, execute the tasks whose records are missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from quadnorm._suggest import unknown
from quadnorm.lab.studies.execute import execute
from quadnorm.lab.studies.executors import Executor, dask, processes, serial
from quadnorm.lab.studies.records import Task, complete, folder_of, tasks_of
from quadnorm.lab.studies.study import Study
from quadnorm.training.files.folder import claimed

OnProgress = Callable[[str, float, float], None]  # (what, done, of)


@dataclass(frozen=True)
class Report:
    """What :func:`run_study` did: keys of runs that it completed, of runs that were complete, and of diverged runs."""

    ran: tuple[str, ...]
    existing: tuple[str, ...]
    diverged: tuple[str, ...]


def select(study: Study, seeds: Sequence[int] | None = None, methods: Iterable[str] | None = None) -> Study:
    """The study with these seeds and methods only; each variant keeps those of the methods that it has."""
    if seeds is not None:
        if not seeds:
            raise ValueError("no seeds to run; give at least one")
        study = replace(study, seeds=tuple(seeds))
    if methods is not None:
        wanted = set(methods)
        known = [m.label for v in study.variants for m in v.methods]
        for label in wanted:
            if label not in known:
                raise ValueError(unknown(f"method of {study.name}", label, dict.fromkeys(known)))
        variants = [replace(v, methods=tuple(m for m in v.methods if m.label in wanted)) for v in study.variants]
        study = replace(study, variants=tuple(v for v in variants if v.methods))
    return study


def run_study(
    study: Study,
    root: Path,
    *,
    workers: int | None = None,
    threads: int | None = None,
    scheduler: str | None = None,
    use_dask: bool = False,
    on_progress: OnProgress | None = None,
) -> Report:
    """Make every record of a study that is missing in ``root``; runs that were stopped are resumed.

    Args:
        workers: processes side by side; default one per core.
        threads: of each run; default the study's. Part of a run's identity, as they affect its last bits.
        scheduler: address of a Dask cluster; or ``use_dask`` for a local one.
        on_progress: called with (name of the work, amount done, total amount).
    """
    root = Path(root)
    study = study if threads is None else replace(study, threads=threads)
    tasks = tasks_of(study)
    open_tasks = [t for t in tasks.values() if not complete(root, t)]
    existing = tuple(k for k in tasks if k not in {t.key for t in open_tasks})
    cores = os.cpu_count() or 1
    count = max(1, min(workers or cores, len(open_tasks) or 1))
    report = on_progress or (lambda what, done, of: None)
    if open_tasks:
        _make_root(root)
        _make_data(open_tasks, cores, report)
    executor: Executor = serial
    if scheduler is not None or use_dask:
        executor = dask(scheduler, count)
    elif count > 1:
        executor = processes(count)
    outcomes: dict[str, dict[str, Any]] = {}

    def done(task: Task, outcome: dict[str, Any]) -> None:
        outcomes[task.key] = outcome
        report("runs", len(outcomes), len(open_tasks))

    executor(partial(execute, root=root), open_tasks, done)
    diverged = tuple(k for k, o in outcomes.items() if o["status"] == "diverged")
    return Report(tuple(k for k in outcomes if k not in diverged), existing, diverged)


def start_again(study: Study, root: Path) -> None:
    """Remove the files of a study's unfinished runs, unless another process is working on one of them."""
    unfinished = [folder_of(root, t) for t in tasks_of(study).values() if not complete(root, t)]
    with ExitStack() as held:
        for folder in unfinished:
            if folder.exists():
                held.enter_context(claimed(folder))
        for folder in unfinished:  # only now: a run that is in use raises an error before anything is removed
            for entry in folder.iterdir() if folder.exists() else ():
                if entry.name != ".lock":
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def epochs_done(root: Path, tasks: Iterable[Task]) -> float:
    """The number of epochs that the unfinished tasks have done, read from their metrics while they train."""
    total = 0
    for task in tasks:
        try:
            total += (folder_of(root, task) / "metrics.jsonl").read_bytes().count(b"\n")
        except OSError:
            continue
    return total


def _make_root(root: Path) -> None:
    try:
        (root / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"cannot write results to {root}: {error.strerror}; choose another folder with --out") from error


def _make_data(tasks: Sequence[Task], cores: int, report: OnProgress) -> None:
    """Put every instance into the cache before workers start, so that no two workers solve the same one."""
    from quadnorm.problems.cache import make
    from quadnorm.training.data import problem_of

    wanted: dict[str, tuple[Any, int, int]] = {}
    for task in tasks:
        config = task.settings
        p, seed = problem_of(config), config.problem.seed
        if not (config.problem.cache and p.kept):
            continue
        last = max(config.samples.indices(split).stop for split in ("train", "val", "test"))
        key = f"{p.key()} {seed}"
        wanted[key] = (p, seed, max(last, wanted.get(key, (p, seed, 0))[2]))
    for p, seed, count in wanted.values():
        make(p, count, seed, workers=cores, progress=lambda done, of, name=p.name: report(f"data: {name}", done, of))
