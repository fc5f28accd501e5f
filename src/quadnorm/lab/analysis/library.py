"""Folders of records as a library: every study of the catalog in them, at the preset that most of its runs have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from quadnorm.lab.analysis.results import Results, load_results
from quadnorm.lab.studies import study as from_catalog
from quadnorm.lab.studies import study_names
from quadnorm.lab.studies.records import read_json, task_of
from quadnorm.lab.studies.study import PRESETS


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
