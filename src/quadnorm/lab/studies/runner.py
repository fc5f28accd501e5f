"""From a study to its records: plan, make the data, train what is missing, evaluate, write."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadnorm._files import DamagedError, remove_leftovers, set_aside
from quadnorm._suggest import unknown
from quadnorm.lab.studies.executors import Executor, dask, processes, serial
from quadnorm.lab.studies.records import (
    FORMAT,
    Task,
    complete,
    evaluation_file,
    folder_of,
    missing,
    read_or_set_aside,
    tasks_of,
    unpictured,
    write_evaluation,
    write_record,
)
from quadnorm.lab.studies.study import Study
from quadnorm.training.files.folder import BEST, LAST, claimed, forget

log = logging.getLogger("quadnorm")

if TYPE_CHECKING:
    from torch import nn

OnProgress = Callable[[str, float, float], None]  # (what, done, of)


@dataclass(frozen=True)
class Report:
    """What :func:`run_study` did: keys of the runs that it completed, that it found complete, and that diverged."""

    ran: tuple[str, ...]
    existing: tuple[str, ...]
    diverged: tuple[str, ...]


def select(study: Study, seeds: Sequence[int] | None = None, methods: Iterable[str] | None = None) -> Study:
    """The study with some of its seeds and methods only; all variants keep what they have of them."""
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
    """Bring every record of a study into ``root``. What is there is not done again; what was stopped goes on.

    Args:
        workers: processes side by side; default one per core.
        threads: of each run; default the study's. They are part of what a run is, because they decide its last bits.
        scheduler: address of a Dask cluster; or ``use_dask`` for a local one.
        on_progress: called with what is done, how much of it, and of how much.
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


def execute(task: Task, *, root: Path) -> dict[str, Any]:
    """Train, evaluate and record one task; the work that executors carry out, safe to repeat after any kill."""
    from quadnorm.training import read_config
    from quadnorm.training.run import torch_threads

    config = read_config(task.config)
    with torch_threads(config.threads):  # evaluations too: their last bits depend on it
        return _execute(task, folder_of(root, task), config)


def _execute(task: Task, folder: Path, config: Any) -> dict[str, Any]:
    from quadnorm.lab.studies.evaluate import errors_of
    from quadnorm.lab.studies.pictures import keep_audit, keep_picture, sound_audit
    from quadnorm.training import NUMERICS, NonFiniteError, environment

    began = time.monotonic()
    record = read_or_set_aside(folder / "record.json")
    status, text = (record["status"], record["text"]) if record else ("done", "")
    saved = None
    if status == "done":
        try:
            saved = _trained(config, folder, again=record is None)
        except NonFiniteError as error:  # a result too: this norm cannot be trained this way
            status, text = "diverged", str(error)
    (folder / "evaluations").mkdir(parents=True, exist_ok=True)
    for place in (folder, *filter(Path.is_dir, folder.iterdir())):  # training that had ended does not look for them
        remove_leftovers(place)
    weights = "diverged" if saved is None else saved.weights
    model = None if saved is None else saved.model().eval()
    for evaluation, grid in missing(folder, task, weights):
        read_or_set_aside(evaluation_file(folder, evaluation.name, grid))
        if model is None:
            nothing = [None] * config.samples.test
            errors: dict[str, Any] = {"plain": nothing, "weighted": nothing}
        else:
            errors = errors_of(model, config, evaluation, grid)
        write_evaluation(folder, evaluation.name, grid, weights, errors)
    if model is not None:
        for way, grid in unpictured(folder, task, weights):
            keep_picture(model, config, way, grid, folder, weights)
        if task.pictured and not sound_audit(folder, weights):
            keep_audit(model, config, task.grids, folder, weights)
    if record is None or record["weights"] != weights:
        record = {
            "format": FORMAT,
            "key": task.key,
            "status": status,
            "text": text,
            "weights": weights,
            "config": config.model_dump(mode="json"),
            "numerics": NUMERICS,
            "data": data_version(config),
            "seconds": time.monotonic() - began,
            "environment": environment(),
            **({} if model is None else facts_of(model)),
        }
        write_record(folder, record)
        (folder / LAST).unlink(missing_ok=True)  # the optimiser's state has served its purpose
    return {"status": status, "text": text}


def facts_of(model: nn.Module) -> dict[str, Any]:
    """What a record keeps of the model that ran: its parameters, complex ones counted once, and every learned α."""
    from quadnorm.norms import BlendQuadNorm

    blends = {name: m for name, m in model.named_modules() if isinstance(m, BlendQuadNorm)}
    learned = {name: m.alpha for name, m in blends.items() if m.alpha_logit is not None}
    return {"parameters": sum(p.numel() for p in model.parameters()), **({"alpha": learned} if learned else {})}


def _trained(config: Any, folder: Path, again: bool) -> Any:
    """The best weights of a run, which is trained or resumed if ``again``, and in any case if they are damaged."""
    from quadnorm.training import train
    from quadnorm.training.files.saved import Saved

    if again:
        train(config, folder, progress=False)
    try:
        return Saved(folder / BEST)
    except (DamagedError, FileNotFoundError) as error:
        log.warning("%s; the run is trained again", error)
    with claimed(folder):
        if (folder / BEST).exists():
            set_aside(folder / BEST)
        forget(folder)
    train(config, folder, progress=False)
    return Saved(folder / BEST)


def start_again(study: Study, root: Path) -> None:
    """Remove what unfinished runs of a study have left, unless another process is at work on one of them."""
    unfinished = [folder_of(root, t) for t in tasks_of(study).values() if not complete(root, t)]
    with ExitStack() as held:
        for folder in unfinished:
            if folder.exists():
                held.enter_context(claimed(folder))
        for folder in unfinished:  # only now: a run in use refuses before anything is gone
            for entry in folder.iterdir() if folder.exists() else ():
                if entry.name != ".lock":
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def data_version(config: Any) -> str:
    """A hash of the problem, its parameters and its version."""
    from quadnorm.problems.cache import folder
    from quadnorm.training.data import problem_of

    return folder(problem_of(config)).name


def epochs_done(root: Path, tasks: Iterable[Task]) -> float:
    """Epochs that the unfinished tasks have behind them, read from their metrics while others train."""
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
    """Put every instance into the cache before workers need it, so that no two solve the same one."""
    from quadnorm.problems.cache import make
    from quadnorm.training import read_config
    from quadnorm.training.data import problem_of

    wanted: dict[str, tuple[Any, int, int]] = {}
    for task in tasks:
        config = read_config(task.config)
        p, seed = problem_of(config), config.problem.seed
        if not (config.problem.cache and p.kept):
            continue
        last = max(config.samples.indices(split).stop for split in ("train", "val", "test"))
        key = f"{p.key()} {seed}"
        wanted[key] = (p, seed, max(last, wanted.get(key, (p, seed, 0))[2]))
    for p, seed, count in wanted.values():
        make(p, count, seed, workers=cores, progress=lambda done, of, name=p.name: report(f"data: {name}", done, of))
