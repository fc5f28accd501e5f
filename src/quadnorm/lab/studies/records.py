"""Records: one folder per training run, complete or resumable, never half-written.

    <root>/runs/<key>/config.yaml, environment.json, metrics.jsonl, best.safetensors   from the training room
    <root>/runs/<key>/evaluations/<evaluation>@<grid>.json                            every test sample's error
    <root>/runs/<key>/record.json                                                     written last: it is whole

The key names what decides the weights (problem, operator, norm, grid, budget, seed), so studies that train the same
model share its record. A record states the code and the data it came from; records that do not agree are not mixed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadnorm.lab.studies.study import Run, Study, Way

FORMAT = 1


@dataclass(frozen=True)
class Task:
    """A run as an executor gets it: plain data, to be pickled and sent."""

    key: str
    config: Mapping[str, Any]
    evaluations: tuple[Way, ...]
    grids: tuple[int, ...]
    epochs: int


@dataclass(frozen=True)
class Row:
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
    text = json.dumps([FORMAT, config], sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    words = [run.variant.operator, run.variant.problem, run.method.norm, "x".join(str(n) for n in run.variant.train)]
    slug = re.sub(r"[^a-z0-9.]+", "-", "-".join(words).lower()).strip("-")
    return Task(f"{slug}-s{run.seed}-{digest}", config, evaluations, run.variant.test, run.variant.budget.epochs)


def tasks_of(study: Study) -> dict[str, Task]:
    """Every task of a study by key; variants that share a run share its task."""
    tasks: dict[str, Task] = {}
    for run in study.runs():
        task = task_of(run, study.evaluations)
        if task.key in tasks:
            grids = tuple(dict.fromkeys((*tasks[task.key].grids, *task.grids)))
            task = Task(task.key, task.config, task.evaluations, grids, task.epochs)
        tasks[task.key] = task
    return tasks


def folder_of(root: Path, task: Task) -> Path:
    """Where a task's run lives."""
    return root / "runs" / task.key


def evaluation_file(folder: Path, evaluation: str, grid: int) -> Path:
    """The file with the errors of one way to use the model at one grid."""
    return folder / "evaluations" / f"{evaluation}@{grid}.json"


def missing(root: Path, task: Task) -> list[tuple[Way, int]]:
    """What a task's record still lacks; empty if it is complete."""
    folder = folder_of(root, task)
    lacking = [(e, n) for e in task.evaluations for n in task.grids if not evaluation_file(folder, e.name, n).exists()]
    return lacking


def complete(root: Path, task: Task) -> bool:
    """Whether a task has its record and every evaluation."""
    return (folder_of(root, task) / "record.json").exists() and not missing(root, task)


def load(study: Study, root: Path, allow_mixed: bool = False) -> list[Row]:
    """Every number of a study that has been measured, in the study's order; runs that are not there are left out.

    Raises a ValueError for records that cannot stand side by side: made from other data, or by other code (the latter
    can be allowed).
    """
    rows: list[Row] = []
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
                found = read_json(evaluation_file(folder, e.name, n))
                if found is not None:
                    rows.append(_row(run, e.name, n, found[study.metric]))
    _agree(study, origins, allow_mixed)
    return rows


def _row(run: Run, way: str, grid: int, errors: Sequence[float | None]) -> Row:
    values = [float("nan") if v is None else 100 * float(v) for v in errors]
    return Row(run.variant.name, run.method.label, way, grid, run.seed, sum(values) / len(values))


def _agree(study: Study, origins: Mapping[str, Mapping[str, list[str]]], allow_mixed: bool) -> None:
    versions: dict[str, set[str]] = defaultdict(set)
    for named in origins["data"]:
        problem, _, version = named.partition(" ")
        versions[problem].add(version)
    for problem, found in versions.items():
        if len(found) > 1:
            raise ValueError(
                f"{study.name}: records were made from {len(found)} different versions of the {problem} data; errors "
                f"on different data cannot be compared. Delete the older runs, or use another results folder"
            )
    if len(origins["numerics"]) > 1 and not allow_mixed:
        counts = ", ".join(f"{len(keys)} by {version}" for version, keys in origins["numerics"].items())
        raise ValueError(
            f"{study.name}: records were made by different versions of the code ({counts}). Run the older ones again "
            f"(delete their folders), or allow the mixture with --allow-mixed"
        )


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None if there is no such file; damaged files are named."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged ({error}); delete it and run the study again") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged (not an object); delete it and run the study again")
    return found
