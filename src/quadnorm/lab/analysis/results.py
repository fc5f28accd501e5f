"""Errors by seed, as tables, figures and claims need them: read from records, and what is wrong with these said."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from quadnorm.lab.studies import study as from_catalog
from quadnorm.lab.studies import study_names
from quadnorm.lab.studies.records import evaluation_file, load, read_json, task_of
from quadnorm.lab.studies.study import PRESETS, Run, Study, Variant

Seeds = dict[int, float]


@dataclass(frozen=True)
class Found:
    """One run on disk. ``record`` is its record.json; empty where the run has not finished or is ``damaged``."""

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
        """What the run took, if its record says so."""
        said = self.record.get("seconds")
        # Compared before it is converted: JSON's integers have no bound.
        return float(said) if isinstance(said, (int, float)) and 0 <= said < 1e12 else None


@dataclass(frozen=True)
class Results:
    """What was measured of a study. ``problems`` are said to the reader; ``mixed``: rows must not be compared."""

    study: Study
    errors: Mapping[tuple[str, str, str, int], Seeds]
    found: tuple[Found, ...] = ()
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
    study: Study, roots: Path | Sequence[Path], *, allow_mixed: bool = False, strict: bool = True
) -> Results:
    """Every number of a study in the records under ``roots``; where two have a run, the first one's counts.

    ``strict`` raises a ValueError for damaged or mixed records; otherwise they are problems of the result, and the
    rest is shown.
    """
    folders = [Path(roots)] if isinstance(roots, (str, Path)) else [Path(r) for r in roots]
    errors: dict[tuple[str, str, str, int], Seeds] = {}
    found: list[Found] = []
    problems: list[str] = []
    for run in study.runs():
        key = task_of(run, study.evaluations).key
        root = _holder(folders, key)
        if root is None:
            continue
        record, wrong = _read(study, run, root, key, errors)
        if wrong and strict:
            raise ValueError(wrong)
        problems += [wrong] if wrong else []
        found.append(Found(run, key, root / "runs" / key, record, bool(wrong)))
    said, mixed = _agreement(study, found)
    if strict and said and (mixed or not allow_mixed):
        raise ValueError(said[0])
    return Results(study, errors, tuple(found), tuple(problems + said), mixed)


def _holder(roots: Sequence[Path], key: str) -> Path | None:
    # os.path, because pathlib raises for folders that may not be read; these are reported where their files are.
    there = [root for root in roots if os.path.isdir(root / "runs" / key)]
    whole = [root for root in there if os.path.exists(root / "runs" / key / "record.json")]
    return next(iter(whole or there), None)


def _read(
    study: Study, run: Run, root: Path, key: str, errors: dict[tuple[str, str, str, int], Seeds]
) -> tuple[dict[str, Any], str]:
    """Add one run's errors; its record, and what is wrong with it."""
    one = replace(study, variants=(replace(run.variant, methods=(run.method,)),), seeds=(run.seed,))
    try:
        record = read_json(root / "runs" / key / "record.json") or {}
        for row in load(one, root):
            errors.setdefault((row.variant, row.method, row.evaluation, row.grid), {})[row.seed] = row.error
        return record, ""
    except (ValueError, OSError) as error:
        return {}, str(error)
    except (LookupError, TypeError, ArithmeticError, AttributeError) as error:
        return {}, f"{root / 'runs' / key}: the record lacks what this version reads ({type(error).__name__}: {error})"


def _agreement(study: Study, found: Sequence[Found]) -> tuple[list[str], bool]:
    """What to say about records of different origin, and whether their errors cannot stand side by side."""
    data: dict[str, set[str]] = {}
    code: dict[str, int] = {}
    for f in found:
        if f.record:
            problem = f"{f.run.variant.problem} {sorted(f.run.variant.problem_params.items())}"
            data.setdefault(problem, set()).add(str(f.record.get("data")))
            version = str(f.record.get("numerics"))
            code[version] = code.get(version, 0) + 1
    said = [
        f"{study.name}: records were made from {len(versions)} versions of the {problem.partition(' ')[0]} data, so "
        "their errors cannot be compared. Delete the older runs, or use another results folder"
        for problem, versions in data.items()
        if len(versions) > 1
    ]
    mixed = bool(said)
    if len(code) > 1:
        counts = ", ".join(f"{count} by {version}" for version, count in code.items())
        said.append(
            f"{study.name}: records were made by different versions of the code ({counts}). Run the older ones again "
            "(delete their folders), or allow the mixture with --allow-mixed"
        )
    return said, mixed


def printed_variant(study: Study, variant: Variant) -> Variant:
    """The variant at the paper's budget: the small presets move its grids, the paper's values stay at theirs."""
    if study.name in study_names():
        for full in from_catalog(study.name).variants:
            if full.name == variant.name and len(full.test) == len(variant.test):
                return full
    return variant


def paper_grid(study: Study, variant: Variant, grid: int) -> int:
    """The paper's resolution that a preset's grid stands for."""
    return printed_variant(study, variant).test[variant.test.index(grid)]


@dataclass
class Library:
    """Record folders, and the studies of the catalog in them, each at the fullest preset that has a number."""

    roots: Sequence[Path]
    _kept: dict[tuple[str, str], Results] = field(default_factory=dict, repr=False)
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)  # of whoever computes from it more than once

    @cached_property
    def keys(self) -> dict[str, Path]:
        """Every run folder under the roots, by name; the first root wins."""
        found: dict[str, Path] = {}
        for root in reversed(list(self.roots)):
            runs = Path(root) / "runs"
            found |= {f.name: f for f in sorted(runs.iterdir()) if f.is_dir()} if runs.is_dir() else {}
        return found

    @cached_property
    def _claimed(self) -> dict[str, set[str]]:
        return {}

    def at(self, name: str, preset: str) -> Results:
        """A study's results at a preset, with every seed of the catalog that was run."""
        if (name, preset) not in self._kept:
            full = from_catalog(name)
            study = full.at(preset)
            planned = study.seeds
            study = replace(study, seeds=full.seeds)
            keys = _keys(name, preset)
            self._claimed.setdefault(name, set()).update(keys)
            if self.keys.keys().isdisjoint(keys):
                self._kept[name, preset] = Results(replace(study, seeds=planned), {})
            else:
                results = load_results(study, self.roots, allow_mixed=True, strict=False)
                seeds = tuple(s for s in full.seeds if s in planned or s in results.seeds)
                self._kept[name, preset] = replace(results, study=replace(study, seeds=seeds))
        return self._kept[name, preset]

    def results(self, name: str) -> Results:
        """A study's results at the fullest preset that has any; at ``desk`` if none has."""
        for preset in reversed(PRESETS):
            if (found := self.at(name, preset)).any or found.problems:
                return found
        return self.at(name, "desk")

    def presets(self, name: str) -> tuple[str, ...]:
        """The presets of a study that have numbers."""
        return tuple(p for p in PRESETS if self.at(name, p).any)

    def unclaimed(self) -> list[Path]:
        """Run folders that belong to no study of the catalog at any preset."""
        for name in study_names():
            for preset in PRESETS:
                self.at(name, preset)
        claimed = set().union(*self._claimed.values()) if self._claimed else set()
        return [folder for key, folder in sorted(self.keys.items()) if key not in claimed]


@cache
def _keys(name: str, preset: str) -> tuple[str, ...]:
    """The names of the run folders of a study of the catalog, for every seed."""
    full = from_catalog(name)
    study = replace(full.at(preset), seeds=full.seeds)
    return tuple(dict.fromkeys(task_of(run, study.evaluations).key for run in study.runs()))


def spectrum_of(found: Found, evaluation: str, grid: int) -> list[float]:
    """The residual's energy by radial wave number, in units of the truth's; empty if it was not recorded."""
    stored = read_json(evaluation_file(found.folder, evaluation, grid)) or {}
    return [float(v) for v in stored.get("spectrum", ())]
