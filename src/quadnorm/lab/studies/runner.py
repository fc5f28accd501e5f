"""Run a study: its data, its tasks by an executor, and for each task training, evaluation, pictures and the record."""

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

    from quadnorm.training import TrainConfig
    from quadnorm.training.files.saved import Saved


@dataclass(frozen=True)
class _Trained:
    """How training ended: ``done`` with a model and the hash of its weights, or ``diverged`` and the reason."""

    status: str
    text: str
    weights: str
    model: nn.Module | None


def execute(task: Task, *, root: Path) -> dict[str, Any]:
    """Train, evaluate and record one task: the function that executors call. After a kill it can simply be repeated."""
    from quadnorm.training.run import torch_threads

    folder = folder_of(root, task)
    with torch_threads(task.settings.threads):  # evaluations too: their last bits depend on it
        began = time.monotonic()
        record = read_or_set_aside(folder / "record.json")
        trained = _trained(task.settings, folder, record)
        with claimed(folder):  # so that nobody begins the run again meanwhile
            if trained.model is not None and not (folder / BEST).exists():
                raise OSError(f"the weights in {folder} are gone: another process has begun the run again")
            (folder / "evaluations").mkdir(exist_ok=True)
            for place in filter(Path.is_dir, folder.iterdir()):  # training that had ended does not look for them
                remove_leftovers(place)
            _evaluate(task, trained, folder)
            _keep_pictures(task, trained, folder)
            if record is None or record["weights"] != trained.weights:
                write_record(folder, _record(task, trained, time.monotonic() - began))
            (folder / LAST).unlink(missing_ok=True)  # the optimiser's state is no longer needed
    return {"status": trained.status, "text": trained.text}


def _trained(config: TrainConfig, folder: Path, record: dict[str, Any] | None) -> _Trained:
    """The run's model. Without a record it is first trained or resumed; a recorded divergence is not tried again."""
    from quadnorm.training import NonFiniteError

    if record is not None and record["status"] != "done":
        return _Trained(record["status"], record["text"], "diverged", None)
    try:
        saved = _best(config, folder, None if record is None else record["weights"])
    except NonFiniteError as error:  # divergence is a result too, and is recorded
        return _Trained("diverged", str(error), "diverged", None)
    return _Trained("done", "" if record is None else record["text"], saved.weights, saved.model().eval())


def _best(config: TrainConfig, folder: Path, recorded: str | None) -> Saved:
    """The best weights of a finished run: those with the record's hash, or those of training that ends here.

    Other weights than the record's may belong to a run that was being trained again when it was killed.
    """
    from quadnorm.training import train
    from quadnorm.training.files.saved import Saved

    saved = None if recorded is None else _kept(folder)
    if saved is not None and saved.weights == recorded:
        return saved
    train(config, folder, progress=False)  # from where it stopped; a run that has ended returns at once
    saved = _kept(folder)
    if saved is None:
        train(config, folder, progress=False)
    return saved or Saved(folder / BEST)


def _kept(folder: Path) -> Saved | None:
    """The best weights in a folder; None if they are gone or damaged, and then the run is forgotten."""
    from quadnorm.training.files.saved import Saved

    try:
        return Saved(folder / BEST)
    except (DamagedError, FileNotFoundError) as error:
        log.warning("%s; the run is trained again", error)
    with claimed(folder):
        if (folder / BEST).exists():
            set_aside(folder / BEST)
        forget(folder)
    return None


def _evaluate(task: Task, trained: _Trained, folder: Path) -> None:
    """Write the errors of every way and grid that are missing; a diverged run has none."""
    from quadnorm.lab.studies.evaluate import Adapted, errors_of

    adapted: Adapted = {}
    nothing = [None] * task.settings.samples.test
    for way, grid in missing(folder, task, trained.weights):
        read_or_set_aside(evaluation_file(folder, way.name, grid))
        errors: dict[str, Any] = {"plain": nothing, "weighted": nothing}
        if trained.model is not None:
            errors = errors_of(trained.model, task.settings, way, grid, adapted)
        write_evaluation(folder, way.name, grid, trained.weights, errors)


def _keep_pictures(task: Task, trained: _Trained, folder: Path) -> None:
    """Write the fields and the audit that figures of this run need, if they are missing."""
    from quadnorm.lab.studies.pictures import keep_audit, keep_picture, sound_audit

    if trained.model is None:
        return
    for way, grid in unpictured(folder, task, trained.weights):
        keep_picture(trained.model, task.settings, way, grid, folder, trained.weights)
    if task.pictured and not sound_audit(folder, trained.weights):
        keep_audit(trained.model, task.settings, task.grids, folder, trained.weights)


def _record(task: Task, trained: _Trained, seconds: float) -> dict[str, Any]:
    """The contents of ``record.json``: the run, the versions of code and data, and how it ended."""
    from quadnorm.training import NUMERICS, environment

    return {
        "format": FORMAT,
        "key": task.key,
        "status": trained.status,
        "text": trained.text,
        "weights": trained.weights,
        "config": task.settings.model_dump(mode="json"),
        "numerics": NUMERICS,
        "data": _data_version(task.settings),
        "seconds": seconds,
        "environment": environment(),
        **({} if trained.model is None else facts_of(trained.model)),
    }


def facts_of(model: nn.Module) -> dict[str, Any]:
    """Facts about a model for its record: the number of parameters, complex ones counted once, and every learned α."""
    from quadnorm.norms import BlendQuadNorm

    blends = {name: m for name, m in model.named_modules() if isinstance(m, BlendQuadNorm)}
    learned = {name: m.alpha for name, m in blends.items() if m.alpha_logit is not None}
    return {"parameters": sum(p.numel() for p in model.parameters()), **({"alpha": learned} if learned else {})}


def _data_version(config: TrainConfig) -> str:
    """A hash of the problem, its parameters and its version."""
    from quadnorm.problems.cache import folder
    from quadnorm.training.data import problem_of

    return folder(problem_of(config)).name


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
    unfinished = [t for t in tasks_of(study).values() if folder_of(root, t).exists() and not complete(root, t)]
    with ExitStack() as held:
        for task in unfinished:
            held.enter_context(claimed(folder_of(root, task)))
        for task in unfinished:  # only now: a run that is in use raises an error before anything is removed
            if complete(root, task):  # since it was looked at
                continue
            for entry in folder_of(root, task).iterdir():
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
