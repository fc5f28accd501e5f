"""Errors by seed, read from the record folders of studies: the input of every table, figure and claim.

Each file is read once. A damaged or mixed record is reported in ``Results.problems`` (or raised, with ``strict``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Any

from quadnorm.lab.studies import study as from_catalog
from quadnorm.lab.studies import study_names
from quadnorm.lab.studies.records import FORMAT, evaluation_file, read_json, task_of
from quadnorm.lab.studies.study import Run, Study, Variant

Seeds = dict[int, float]
Reader = Callable[[Path], dict[str, Any] | None]
Key = tuple[str, str, str, int]  # variant, method, evaluation, grid


@dataclass(frozen=True)
class RecordedRun:
    """One run on disk. ``record`` is its record.json; empty if the run has not finished or is ``damaged``."""

    run: Run
    key: str
    folder: Path
    record: Mapping[str, Any]
    damaged: bool = False

    @property
    def status(self) -> str:
        """``done``, ``diverged``, ``unfinished`` or ``unreadable``."""
        if self.damaged:
            return "unreadable"
        return str(self.record.get("status", "done")) if self.record else "unfinished"

    @property
    def seconds(self) -> float | None:
        """Training time, if the record has it."""
        stored = self.record.get("seconds")
        # Compared before it is converted: integers in JSON may be too large for a float.
        return float(stored) if isinstance(stored, (int, float)) and 0 <= stored < 1e12 else None


@dataclass(frozen=True)
class Results:
    """The measured errors of a study. ``problems`` are warnings for the reader; ``mixed``: rows are not comparable."""

    study: Study
    errors: Mapping[Key, Seeds]
    runs: tuple[RecordedRun, ...] = ()
    problems: tuple[str, ...] = ()
    mixed: bool = False

    def of(self, variant: str, method: str, grid: int, evaluation: str = "as-trained") -> Seeds:
        """Errors in per cent by seed; empty if nothing was run."""
        return self.errors.get((variant, method, evaluation, grid), {})

    @property
    def any(self) -> bool:
        """Whether there is a number at all."""
        return bool(self.errors)

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that were run, sorted."""
        return tuple(sorted({seed for runs in self.errors.values() for seed in runs}))


def load_results(
    study: Study,
    roots: Path | Sequence[Path],
    *,
    allow_mixed: bool = False,
    strict: bool = True,
    read: Reader = read_json,
) -> Results:
    """Every number of a study in the records under ``roots``; if two roots have a run, the first one is used.

    ``strict`` raises a ValueError for damaged or mixed records; otherwise they are listed in ``problems``, and the
    remaining records are used. ``read`` returns the object in a JSON file, or None if there is no such file.
    """
    folders = [Path(roots)] if isinstance(roots, (str, Path)) else [Path(r) for r in roots]
    errors: dict[Key, Seeds] = {}
    runs: list[RecordedRun] = []
    problems: list[str] = []
    for run in study.runs():
        key = task_of(run, study.evaluations).key
        folder = _folder_of_run(folders, key)
        if folder is None:
            continue
        record: dict[str, Any] = {}
        problem = ""
        try:
            record, measured = _read_run(study, run, folder, read)
            for (evaluation, grid), error in measured.items():
                errors.setdefault((run.variant.name, run.method.label, evaluation, grid), {})[run.seed] = error
        except (ValueError, OSError) as error:
            problem = str(error)
        except (LookupError, TypeError, ArithmeticError, AttributeError) as error:
            problem = f"{folder}: the record lacks fields that this version needs ({type(error).__name__}: {error})"
        if problem and strict:
            raise ValueError(problem)
        problems += [problem] if problem else []
        runs.append(RecordedRun(run, key, folder, record if not problem else {}, bool(problem)))
    warnings, mixed = _disagreements(study, runs)
    if strict and warnings and (mixed or not allow_mixed):
        raise ValueError(warnings[0])
    return Results(study, errors, tuple(runs), tuple(problems + warnings), mixed)


def _folder_of_run(roots: Sequence[Path], key: str) -> Path | None:
    """The run's folder in the first root with a finished record, else in the first root that has one at all."""
    # os.path, because pathlib raises for folders without read permission; these are reported when their files are read.
    started = [folder for root in roots if os.path.isdir(folder := root / "runs" / key)]
    finished = [folder for folder in started if os.path.exists(folder / "record.json")]
    return next(iter(finished or started), None)


def _read_run(
    study: Study, run: Run, folder: Path, read: Reader
) -> tuple[dict[str, Any], dict[tuple[str, int], float]]:
    """The record, and the run's mean error in per cent by (evaluation, grid)."""
    record = read(folder / "record.json")
    if record is None:
        return {}, {}
    if record.get("format") != FORMAT:
        raise ValueError(f"{folder}: the record has format {record.get('format')!r}, this version reads {FORMAT}")
    measured = {}
    for evaluation in study.evaluations:
        for grid in run.variant.test:
            stored = read(evaluation_file(folder, evaluation.name, grid))
            # Errors that belong to other weights come from an older run with the same key.
            if stored is not None and stored.get("weights") == record.get("weights"):
                values = [nan if v is None else 100 * float(v) for v in stored[study.metric]]
                measured[evaluation.name, grid] = sum(values) / len(values)
    return record, measured


def _disagreements(study: Study, runs: Sequence[RecordedRun]) -> tuple[list[str], bool]:
    """Warnings about records of different origin, and whether their errors cannot be compared."""
    data: dict[str, set[str]] = {}
    code: dict[str, int] = {}
    for r in runs:
        if r.record:
            problem = f"{r.run.variant.problem} {sorted(r.run.variant.problem_params.items())}"
            data.setdefault(problem, set()).add(str(r.record.get("data")))
            version = str(r.record.get("numerics"))
            code[version] = code.get(version, 0) + 1
    warnings = [
        f"{study.name}: records were made from {len(versions)} versions of the {problem.partition(' ')[0]} data, so "
        "their errors cannot be compared. Delete the older runs, or use another results folder"
        for problem, versions in data.items()
        if len(versions) > 1
    ]
    mixed = bool(warnings)
    if len(code) > 1:
        counts = ", ".join(f"{count} by {version}" for version, count in code.items())
        warnings.append(
            f"{study.name}: records were made by different versions of the code ({counts}). Run the older ones again "
            "(delete their folders), or allow the mixture with --allow-mixed"
        )
    return warnings, mixed


def learned_alphas(results: Results, variant: str, method: str) -> dict[int, list[float]]:
    """The learned blend weight α of each layer by seed, where the records keep it (``alpha``: {layer: value})."""
    alphas: dict[int, list[float]] = {}
    for r in results.runs:
        stored = r.record.get("alpha")
        if (r.run.variant.name, r.run.method.label) == (variant, method) and isinstance(stored, dict):
            numbers = [float(v) for v in stored.values() if isinstance(v, (int, float)) and abs(v) <= 1]
            if numbers and len(numbers) == len(stored):
                alphas[r.run.seed] = numbers
    return alphas


def parameter_counts(results: Results, variant: str) -> list[int]:
    """The distinct numbers of parameters of the models that ran, complex ones counted once."""
    counts = {r.record.get("parameters") for r in results.runs if r.run.variant.name == variant and r.record}
    return sorted(n for n in counts if isinstance(n, int))


def printed_variant(study: Study, variant: Variant) -> Variant:
    """The variant at the paper's budget and grids, to which the paper's values belong."""
    if study.name in study_names():
        for full in from_catalog(study.name).variants:
            if full.name == variant.name and len(full.test) == len(variant.test):
                return full
    return variant
