"""The measured errors of a study, and folders of records as a library of the catalog's studies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import nan
from pathlib import Path
from typing import Any

from quadnorm.lab.studies import study as from_catalog
from quadnorm.lab.studies import study_names
from quadnorm.lab.studies.records import FORMAT, evaluation_file, read_json, task_of
from quadnorm.lab.studies.study import PRESETS, Run, Study, Variant

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
    """Every number of a study in the records under ``roots``; if two roots have a run, the one with more
    evaluations is used.

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
    """The run's folder: of the finished ones that with the most evaluations, else the first that there is."""
    # os.path, because pathlib raises for folders without read permission; these are reported when their files are read.
    # A report looks for tens of thousands of folders, and making a Path takes longer than asking for one.
    started = [folder for root in roots if os.path.isdir(folder := f"{root}/runs/{key}")]
    finished = [folder for folder in started if os.path.exists(f"{folder}/record.json")]
    found = max(finished, key=_evaluations) if len(finished) > 1 else next(iter(finished or started), None)
    return None if found is None else Path(found)


def _evaluations(folder: str) -> int:
    try:
        return len(os.listdir(f"{folder}/evaluations"))
    except OSError:
        return 0


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


@dataclass
class Library:
    """Folders of records, and the catalog's studies in them, each at the preset that most of its runs have.

    ``names``: what a reader knows the folders by, where that is not their path.
    """

    roots: Sequence[Path]
    names: Sequence[str] = ()
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)  # a cache for values computed from these records
    _results: dict[tuple[str, str], Results] = field(default_factory=dict, repr=False)
    _files: dict[Path, dict[str, Any] | None] = field(default_factory=dict, repr=False)
    _unreadable: dict[Path, str] = field(default_factory=dict, repr=False)

    @cached_property
    def folders(self) -> dict[str, Path]:
        """Every run folder under the roots, by name; if two roots have a run, the first one is used."""
        by_name: dict[str, Path] = {}
        for root in reversed(list(self.roots)):
            runs = Path(root) / "runs"
            by_name |= {f.name: f for f in sorted(runs.iterdir()) if f.is_dir()} if runs.is_dir() else {}
        return by_name

    def at(self, name: str, preset: str) -> Results:
        """A study's results at a preset, with every further seed of the catalog that was run on all its grids."""
        if (name, preset) not in self._results:
            full = from_catalog(name)
            study = full.at(preset)
            planned = study.seeds
            study = replace(study, seeds=full.seeds)
            if self.folders.keys().isdisjoint(_run_keys(name, preset)):
                self._results[name, preset] = Results(replace(study, seeds=planned), {})
            else:
                results = load_results(study, self.roots, allow_mixed=True, strict=False, read=self.read)
                results = _without_parts(results, planned)
                seeds = tuple(s for s in full.seeds if s in planned or s in results.seeds)
                self._results[name, preset] = replace(results, study=replace(study, seeds=seeds))
        return self._results[name, preset]

    def read(self, path: Path) -> dict[str, Any] | None:
        """A JSON file, read once, because studies share runs. A damaged file raises an error at every call."""
        if path not in self._files:
            try:
                self._files[path] = read_json(path)
            except (ValueError, OSError) as error:
                self._unreadable[path] = str(error)
                raise
        return self._files[path]

    def passed_over(self) -> list[str]:
        """What is wrong with each file that could not be read so far."""
        return [self.known_as(message) for _, message in sorted(self._unreadable.items())]

    def known_as(self, text: str, quote: Callable[[str], str] = str) -> str:
        """A text with the names of packs instead of the paths that they were unpacked to; ``quote`` for HTML."""
        for root, name in zip(self.roots, self.names, strict=False):
            text = text.replace(str(root), quote(name)) if str(root) != name else text
        return text

    def results(self, name: str) -> Results:
        """A study's results at the preset with the most runs, the larger one if two have as many; smoke runs only if
        there are no others, and ``desk`` if there are none at all.

        A single run of the paper's size does not take the place of a whole study: see :meth:`of_full_size`.
        """
        *small, desk, paper = (self.at(name, preset) for preset in PRESETS)
        there = [r for r in (paper, desk) if r.any or r.problems]
        if there:
            return max(there, key=lambda r: len(r.runs))
        return next((r for r in small if r.any or r.problems), desk)

    def of_full_size(self) -> list[Results]:
        """Runs of the paper's size that no study shows, each once, with the methods that were run."""
        listed: list[Results] = []
        seen: set[str] = set()
        for name in study_names():
            results = self.at(name, "paper")
            keys = {r.key for r in results.runs if r.record}
            if keys <= seen or self.results(name) is results:
                continue
            seen |= keys
            listed.append(_with_what_ran(results))
        return listed

    def comparable(self, name: str) -> Results | None:
        """The results if they allow comparing methods, else None: not for smoke runs and not for mixed records."""
        results = self.results(name)
        return results if results.any and results.study.preset != "smoke" and not results.mixed else None

    def all_comparable(self) -> Iterator[Results]:
        """The results of every study of the catalog that has some to compare."""
        for name in study_names():
            if (results := self.comparable(name)) is not None:
                yield results

    def unclaimed(self) -> list[Path]:
        """Run folders that belong to no study of the catalog at any preset."""
        claimed = {key for name in study_names() for preset in PRESETS for key in _run_keys(name, preset)}
        return [folder for key, folder in sorted(self.folders.items()) if key not in claimed]


def _without_parts(results: Results, planned: Sequence[int]) -> Results:
    """The same results without seeds beyond the planned ones that only a part of the cells have.

    Other studies leave such runs behind; a row whose cells average over different seeds would compare nothing.
    """
    study = results.study
    whole: dict[tuple[str, str], set[int]] = {}
    for v in study.variants:
        for m in v.methods:
            cells = [results.of(v.name, m.label, n, e.name).keys() for n in v.test for e in study.evaluations]
            whole[v.name, m.label] = set(planned).union(set.intersection(*map(set, cells)))
    errors = {}
    for (variant, method, way, grid), seeds in results.errors.items():
        kept = {seed: error for seed, error in seeds.items() if seed in whole[variant, method]}
        if kept:
            errors[variant, method, way, grid] = kept
    return replace(results, errors=errors)


def _with_what_ran(results: Results) -> Results:
    """The same results of a study without the methods and seeds that were not run."""
    ran = {(variant, method) for variant, method, _, _ in results.errors}
    variants = (
        replace(v, methods=tuple(m for m in v.methods if (v.name, m.label) in ran)) for v in results.study.variants
    )
    study = replace(results.study, variants=tuple(v for v in variants if v.methods), seeds=results.seeds)
    return replace(results, study=study)


def library_of(roots: Path | Sequence[Path] | Library) -> Library:
    """A library of these folders; a library is returned unchanged."""
    if isinstance(roots, Library):
        return roots
    return Library([Path(roots)] if isinstance(roots, (str, Path)) else [Path(r) for r in roots])


@cache
def _run_keys(name: str, preset: str) -> tuple[str, ...]:
    """The names of the run folders of a study of the catalog, for every seed."""
    full = from_catalog(name)
    study = replace(full.at(preset), seeds=full.seeds)
    return tuple(dict.fromkeys(task_of(run, study.evaluations).key for run in study.runs()))
