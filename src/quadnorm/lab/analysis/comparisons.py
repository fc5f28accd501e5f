"""One method against another at one grid of one study: what derived tables and claims are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from quadnorm.lab.analysis.results import Library, Results, Seeds, printed_variant
from quadnorm.lab.analysis.statistics.samples import values
from quadnorm.lab.analysis.statistics.summaries import Improvement, bootstrap_improvement, cohens_d
from quadnorm.lab.studies.study import Variant


@dataclass(frozen=True)
class Place:
    """A number of a study: ``grid`` is the paper's resolution, whatever a preset makes of it."""

    study: str
    variant: str
    grid: int
    method: str = "QuadNorm"
    baseline: str = "LayerNorm"


@dataclass(frozen=True)
class Compared:
    """Two methods on the seeds that both have. ``d`` is Cohen's; ``grid`` is where it was measured."""

    method: Seeds
    baseline: Seeds
    improvement: Improvement
    d: float
    grid: int
    budget: str

    @property
    def means(self) -> tuple[float, float]:
        """Mean errors of the baseline and of the method, in per cent."""
        return float(values(self.baseline).mean()), float(values(self.method).mean())


def variant_of(results: Results, name: str) -> Variant:
    """A variant of a study by name, as it was run."""
    return results.study.variant(name)


def here(results: Results, variant: Variant, grid: int) -> int:
    """The grid that stands for the paper's resolution at the preset of these results."""
    full = printed_variant(results.study, variant)
    if grid not in full.test:
        raise ValueError(f"{results.study.name} is not tested at {grid}²; there are {full.test}")
    return variant.test[full.test.index(grid)]


def runs_at(
    library: Library, study: str, variant: str, method: str, grid: int, evaluation: str = "as-trained"
) -> Seeds:
    """Errors by seed at the paper's resolution; empty if there are none that may be compared."""
    results = library.results(study)
    # Smoke runs learn nothing, and errors on different data say nothing about methods.
    if results.study.preset == "smoke" or results.mixed:
        return {}
    v = variant_of(results, variant)
    return results.of(variant, method, here(results, v, grid), evaluation)


def common(*runs: Mapping[int, float]) -> list[Seeds]:
    """The same seeds of every set of runs."""
    shared = sorted(set.intersection(*(set(r) for r in runs)))
    return [{s: r[s] for s in shared} for r in runs]


def compare_at(library: Library, place: Place) -> Compared | None:
    """The comparison, or None if one side was not run."""
    if place not in library.memo:
        library.memo[place] = _compare(library, place)
    found: Compared | None = library.memo[place]
    return found


def _compare(library: Library, p: Place) -> Compared | None:
    method, baseline = common(
        runs_at(library, p.study, p.variant, p.method, p.grid),
        runs_at(library, p.study, p.variant, p.baseline, p.grid),
    )
    if not method:
        return None
    results = library.results(p.study)
    return Compared(
        method,
        baseline,
        bootstrap_improvement(method, baseline),
        cohens_d(method, baseline),
        here(results, variant_of(results, p.variant), p.grid),
        budget(results, len(method)),
    )


def budget(results: Results, seeds: int) -> str:
    """``desk, 3 seeds``."""
    return f"{results.study.preset}, {seeds} seed{'s' if seeds != 1 else ''}"


def better_of(library: Library, place: Place) -> tuple[str, Compared] | None:
    """The better of QuadNorm and BlendQuadNorm against LayerNorm, by mean error."""
    found = {
        name: compared
        for name in ("QuadNorm", "BlendQuadNorm")
        if (compared := compare_at(library, replace(place, method=name))) is not None
    }
    if not found:
        return None
    best = max(found, key=lambda name: found[name].improvement.value)
    return best, found[best]
