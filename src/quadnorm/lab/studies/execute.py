"""Execute one task of a study: train or resume, evaluate, store pictures, write the record."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadnorm._files import DamagedError, remove_leftovers, set_aside
from quadnorm.lab.studies.records import (
    FORMAT,
    Task,
    evaluation_file,
    folder_of,
    missing,
    read_or_set_aside,
    unpictured,
    write_evaluation,
    write_record,
)
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
        (folder / "evaluations").mkdir(parents=True, exist_ok=True)
        for place in (folder, *filter(Path.is_dir, folder.iterdir())):  # training that had ended does not look for them
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
