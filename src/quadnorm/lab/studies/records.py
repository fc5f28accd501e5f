"""Records: one folder per training run, complete or resumable, never half-written.

    <root>/runs/<key>/config.yaml, environment.json, metrics.jsonl, best.safetensors   written by the training
    <root>/runs/<key>/evaluations/<way>@<grid>.json                                   every test sample's error
    <root>/runs/<key>/pictures/<way>@<grid>.npz, audit.json                           for figures: see pictures.py
    <root>/runs/<key>/record.json                                                     written last: run is complete

The key is made of everything that decides the weights (problem, operator, norm, grid, budget, seed, and the text of an
operator's own file), so studies that train the same model share its record. A record states the versions of code and
data that it was made with; records of different versions are not mixed. Records and evaluations end with a hash of
their contents, and each evaluation stores the hash of the weights that it was made from.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadnorm._files import MOST_JSON, DamagedError, read_bytes, sealed, set_aside, unsealed, write_atomic
from quadnorm._foreign import parsing
from quadnorm._json import without_nan
from quadnorm._load import names_file, source_hash
from quadnorm._text import printable_values
from quadnorm.lab.studies.pictures import sound_picture
from quadnorm.lab.studies.study import Run, Study, Way

if TYPE_CHECKING:
    from quadnorm.training import TrainConfig

FORMAT = 2
log = logging.getLogger("quadnorm")


@dataclass(frozen=True)
class Task:
    """A run as an executor gets it: plain data that can be pickled and sent."""

    key: str
    config: Mapping[str, Any]
    evaluations: tuple[Way, ...]
    grids: tuple[int, ...]
    epochs: int
    pictured: bool = False

    @cached_property
    def settings(self) -> TrainConfig:
        """The config, validated when it is first asked for; it goes with the task when that is sent."""
        from quadnorm.training import read_config

        return read_config(self.config)

    @property
    def pictures(self) -> list[tuple[Way, int]]:
        """The ways and grids whose fields are stored: each way at the training grid and at the finest."""
        if not self.pictured:
            return []
        return [(way, n) for way in self.evaluations for n in dict.fromkeys((self.grids[0], self.grids[-1]))]


@dataclass(frozen=True)
class ErrorRow:
    """One number of a study: the mean error of one trained model at one grid, used in one way.

    ``error`` is in per cent, in the study's metric; NaN where training diverged.
    """

    variant: str
    method: str
    evaluation: str
    grid: int
    seed: int
    error: float


def task_of(run: Run, evaluations: tuple[Way, ...]) -> Task:
    """The task of a run. Test grids are not part of its key: more of them may be added to a record later."""
    config = run.config()
    config["resolutions"] = {"train": list(run.variant.train)}
    own = [source_hash(run.variant.operator)] if names_file(run.variant.operator) else []
    text = json.dumps([FORMAT, config, *own], sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    parts = [run.variant.operator, run.variant.problem, run.method.norm, "x".join(str(n) for n in run.variant.train)]
    slug = re.sub(r"[^a-z0-9.]+", "-", "-".join(parts).lower()).strip("-")
    return Task(f"{slug}-s{run.seed}-{digest}", config, evaluations, run.variant.test, run.variant.budget.epochs)


def tasks_of(study: Study) -> dict[str, Task]:
    """Every task of a study by key; variants that share a run share its task."""
    tasks: dict[str, Task] = {}
    for run in study.runs():
        task = task_of(run, study.evaluations)
        if task.key in tasks:
            grids = tuple(dict.fromkeys((*tasks[task.key].grids, *task.grids)))
            task = replace(task, grids=grids, pictured=tasks[task.key].pictured)
        if run.seed == study.seeds[0] and run.method.label in study.pictured:
            task = replace(task, pictured=True)
        tasks[task.key] = task
    return tasks


def folder_of(root: Path, task: Task) -> Path:
    """The folder of a task's run."""
    return root / "runs" / task.key


def evaluation_file(folder: Path, evaluation: str, grid: int) -> Path:
    """The file with the errors of one way to use the model at one grid."""
    return folder / f"evaluations/{evaluation}@{grid}.json"


def missing(folder: Path, task: Task, weights: str) -> list[tuple[Way, int]]:
    """The evaluations that a run with these weights still lacks: absent, damaged, or of other weights."""
    return [(e, n) for e in task.evaluations for n in task.grids if not _sound_evaluation(folder, e.name, n, weights)]


def _sound_evaluation(folder: Path, evaluation: str, grid: int, weights: str) -> bool:
    try:
        return read_evaluation(folder, evaluation, grid, weights) is not None
    except DamagedError:
        return False


def read_evaluation(folder: Path, evaluation: str, grid: int, weights: str) -> dict[str, Any] | None:
    """The errors of one way to use the model at one grid; None if there are none for these weights."""
    values = read_json(evaluation_file(folder, evaluation, grid))
    return values if values is not None and _origin(evaluation, grid, weights).items() <= values.items() else None


def write_evaluation(folder: Path, evaluation: str, grid: int, weights: str, errors: Mapping[str, Any]) -> None:
    """Write the errors of one evaluation with the weights they belong to."""
    whole = {**_origin(evaluation, grid, weights), **without_nan(dict(errors))}
    write_atomic(evaluation_file(folder, evaluation, grid), sealed(whole), "the evaluation")


def _origin(evaluation: str, grid: int, weights: str) -> dict[str, Any]:
    return {"evaluation": evaluation, "grid": grid, "weights": weights}


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write a run's record."""
    write_atomic(folder / "record.json", sealed(record, indent=1), "the record")


def complete(root: Path, task: Task) -> bool:
    """Whether a task has an undamaged record and every evaluation of its weights."""
    folder = folder_of(root, task)
    try:
        record = read_json(folder / "record.json")
    except DamagedError:
        return False
    if record is None or missing(folder, task, str(record.get("weights"))):
        return False
    return record.get("status") == "diverged" or not unpictured(folder, task, str(record.get("weights")))


def unpictured(folder: Path, task: Task, weights: str) -> list[tuple[Way, int]]:
    """The pictures that a run with these weights still lacks: absent, damaged, or of other weights."""
    return [(way, n) for way, n in task.pictures if not sound_picture(folder, way.name, n, weights)]


def load(study: Study, root: Path, allow_mixed: bool = False) -> list[ErrorRow]:
    """Every number of a study that has been measured, in the study's order; missing runs are left out.

    Raises a ValueError for records that cannot be compared, because they were made from different data or by different
    versions of the code (``allow_mixed`` permits the latter).
    """
    rows: list[ErrorRow] = []
    origins: dict[str, dict[str, list[str]]] = {"data": defaultdict(list), "numerics": defaultdict(list)}
    for run in study.runs():
        task = task_of(run, study.evaluations)
        folder = folder_of(root, task)
        record = read_json(folder / "record.json")
        if record is None:
            continue
        if record.get("format") != FORMAT:
            raise ValueError(f"{folder}: the record has format {record.get('format')!r}, this version reads {FORMAT}")
        origins["data"][f"{run.variant.problem} {record['data']}"].append(task.key)
        origins["numerics"][str(record["numerics"])].append(task.key)
        for e in study.evaluations:
            for n in run.variant.test:
                errors = read_evaluation(folder, e.name, n, str(record.get("weights")))
                if errors is not None:
                    rows.append(_row(run, e.name, n, errors[study.metric]))
    _agree(study, origins, allow_mixed)
    return rows


def _row(run: Run, way: str, grid: int, errors: Sequence[float | None]) -> ErrorRow:
    values = [float("nan") if v is None else 100 * float(v) for v in errors]
    return ErrorRow(run.variant.name, run.method.label, way, grid, run.seed, sum(values) / len(values))


def _agree(study: Study, origins: Mapping[str, Mapping[str, list[str]]], allow_mixed: bool) -> None:
    versions: dict[str, set[str]] = defaultdict(set)
    for named in origins["data"]:
        problem, _, version = named.partition(" ")
        versions[problem].add(version)
    for problem, numbers in versions.items():
        if len(numbers) > 1:
            raise ValueError(
                f"{study.name}: records were made from {len(numbers)} different versions of the {problem} data; errors "
                f"on different data cannot be compared. Delete the older runs, or use another results folder"
            )
    if len(origins["numerics"]) > 1 and not allow_mixed:
        counts = ", ".join(f"{len(keys)} by {version}" for version, keys in origins["numerics"].items())
        raise ValueError(
            f"{study.name}: records were made by different versions of the code ({counts}). Run the older ones again "
            f"(delete their folders), or allow the mixture with --allow-mixed"
        )


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object whose hash agrees, or None if there is no such file; a DamagedError names a damaged file."""
    try:
        data = read_bytes(path, MOST_JSON)
    except (FileNotFoundError, NotADirectoryError):
        return None
    values = unsealed(data, path)
    # JSON holds a control character only as an escape, but for DEL; a report reads ten thousand files without any.
    if data.isascii() and b"\\" not in data and b"\x7f" not in data:
        return values
    with parsing(path, "not a record", DamagedError):
        shown: dict[str, Any] = printable_values(values)
        return shown


def read_or_set_aside(path: Path) -> dict[str, Any] | None:
    """Like :func:`read_json`; a damaged file is renamed, so that it is made again."""
    try:
        return read_json(path)
    except DamagedError as error:
        log.warning("%s; set aside as %s, it is made again", error, set_aside(path).name)
        return None
