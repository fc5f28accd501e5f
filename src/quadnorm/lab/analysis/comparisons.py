"""Comparisons of two methods in one setting, and the ways to use a trained model, by their names in records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from quadnorm._ways import WAYS
from quadnorm.lab.analysis.results import Library, Results, Seeds, printed_variant
from quadnorm.lab.analysis.statistics.paired import Improvement, bootstrap_improvement, cohens_d, common, values
from quadnorm.lab.studies.study import Variant


@dataclass(frozen=True)
class Contrast:
    """A method against a baseline in one setting of a study.

    ``grid`` is the paper's resolution, even if a preset measures at a coarser one.
    """

    study: str
    variant: str
    grid: int
    method: str = "QuadNorm"
    baseline: str = "LayerNorm"


@dataclass(frozen=True)
class Comparison:
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


def here(results: Results, variant: Variant, grid: int) -> int:
    """The grid that corresponds to the paper's resolution at the preset of these results."""
    full = printed_variant(results.study, variant)
    if grid not in full.test:
        raise ValueError(f"{results.study.name} is not tested at {grid}²; there are {full.test}")
    return variant.test[full.test.index(grid)]


def runs_at(
    library: Library, study: str, variant: str, method: str, grid: int, evaluation: str = "as-trained"
) -> Seeds:
    """Errors by seed at the paper's resolution; empty if there are no comparable results."""
    results = library.comparable(study)
    if results is None:
        return {}
    return results.of(variant, method, here(results, results.study.variant(variant), grid), evaluation)


def compare_at(library: Library, contrast: Contrast) -> Comparison | None:
    """The comparison, or None if one side was not run."""
    if contrast not in library.memo:
        library.memo[contrast] = _compare(library, contrast)
    outcome: Comparison | None = library.memo[contrast]
    return outcome


def _compare(library: Library, p: Contrast) -> Comparison | None:
    method, baseline = common(
        runs_at(library, p.study, p.variant, p.method, p.grid),
        runs_at(library, p.study, p.variant, p.baseline, p.grid),
    )
    if not method:
        return None
    results = library.results(p.study)
    return Comparison(
        method,
        baseline,
        bootstrap_improvement(method, baseline),
        cohens_d(method, baseline),
        here(results, results.study.variant(p.variant), p.grid),
        budget(results, len(method)),
    )


def budget(results: Results, seeds: int) -> str:
    """``desk, 3 seeds``."""
    return f"{results.study.preset}, {seeds} seed{'s' if seeds != 1 else ''}"


def better_of(library: Library, contrast: Contrast) -> tuple[str, Comparison] | None:
    """The better of QuadNorm and BlendQuadNorm against LayerNorm, by mean error."""
    candidates = {
        name: compared
        for name in ("QuadNorm", "BlendQuadNorm")
        if (compared := compare_at(library, replace(contrast, method=name))) is not None
    }
    if not candidates:
        return None
    best = max(candidates, key=lambda name: candidates[name].improvement.value)
    return best, candidates[best]


AS_TRAINED, ANCHORED, EXTENDED, NATIVE, TRANSFERRED = WAYS

# Way → names of its evaluations in records.
NAMES: dict[str, tuple[str, ...]] = {
    AS_TRAINED: ("as-trained",),
    ANCHORED: ("anchored", "anchor-all"),
    EXTENDED: ("extended",),
    NATIVE: ("native",),
    TRANSFERRED: ("transferred",),
}
TITLES = {
    **{name: way.title for name, way in WAYS.items()},
    "anchor-norms": "norms anchored",
    "anchor-kernels": "all sums but the norms' anchored",
    "native-fourier": f"{WAYS[NATIVE].title}, zero-padded",
    "crop-pad": "fixed band",
    "bicubic": "bicubic data",
}


def way_of(evaluation: str) -> str | None:
    """The way that an evaluation belongs to, or None.

    >>> way_of("anchor-all"), way_of("crop-pad")
    ('anchored', None)
    """
    return next((way for way, names in NAMES.items() if evaluation in names), None)


def evaluation_for(way: str, evaluations: Iterable[str]) -> str | None:
    """The one of these evaluations that belongs to a way, or None.

    >>> evaluation_for("anchored", ["as-trained", "anchor-all"])
    'anchor-all'
    """
    return next((name for name in evaluations if name in NAMES[way]), None)


def way_title(evaluation: str) -> str:
    """The name of an evaluation for readers.

    >>> way_title("anchor-all"), way_title("crop-pad")
    ('anchored', 'fixed band')
    """
    return TITLES.get(way_of(evaluation) or evaluation, evaluation)
