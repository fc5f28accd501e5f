"""What the cases share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from math import isfinite
from typing import Concatenate, ParamSpec

from quadnorm.lab.analysis.claims.verdicts import NOT_RUN, Case, Finding
from quadnorm.lab.analysis.comparisons import budget, runs_at
from quadnorm.lab.analysis.results import Library, Seeds
from quadnorm.lab.analysis.statistics.samples import common
from quadnorm.lab.analysis.statistics.summaries import summarize

P = ParamSpec("P")


def decided_by(kind: str) -> Callable[[Callable[Concatenate[Library, P], Finding]], Callable[P, Case]]:
    """Make a function of records and arguments a maker of cases: given the arguments, it waits for the records.

    ``kind`` names the statistic that decides, and stands in every finding.
    """

    def decorate(judgement: Callable[Concatenate[Library, P], Finding]) -> Callable[P, Case]:
        @wraps(judgement)
        def make(*args: P.args, **options: P.kwargs) -> Case:
            def case(library: Library) -> Finding:
                return replace(judgement(library, *args, **options), kind=kind)

            return case

        return make

    return decorate


def not_run(study: str, claimed: str) -> Finding:
    """No records, and how to get them."""
    return Finding(NOT_RUN, claimed=claimed, command=f"quadnorm study run {study} --preset desk")


def source(library: Library, study: str, seeds: int) -> str:
    """``extreme-crossres: desk, 3 seeds``."""
    return f"{study}: {budget(library.results(study), seeds)}"


def minus(text: str) -> str:
    """With true minus signs."""
    return text.replace("-", "−")


def interval(low: float, high: float, digits: int = 1) -> str:
    """`` [28.0, 34.1]``, or nothing with one seed."""
    return f" [{low:.{digits}f}, {high:.{digits}f}]" if isfinite(low) and isfinite(high) else ""


def on_common_seeds(library: Library, study: str, variant: str, runs: Callable[[str], Seeds]) -> dict[str, Seeds]:
    """What ``runs`` gives for each of the paper's methods that were run, on the seeds that all of these have.

    Rows of ours stay out: claims are about the paper's methods.
    """
    labels = [m.label for m in library.results(study).study.variant(variant).methods if m.row]
    by_method = {m: seeds for m in labels if (seeds := runs(m))}
    return dict(zip(by_method, common(*by_method.values()), strict=True)) if by_method else {}


def finite_means(runs: Mapping[str, Seeds]) -> dict[str, float]:
    """Mean errors by method, without those that have no seeds or a failed run."""
    return {m: mean for m, seeds in runs.items() if seeds and isfinite(mean := summarize(seeds).mean)}


def rise_of(
    library: Library, study: str, variant: str, method: str, native: int, far: int, evaluation: str = "as-trained"
) -> Seeds:
    """Degradation in points, seed by seed; empty if not run."""
    a, b = common(*(runs_at(library, study, variant, method, n, evaluation) for n in (native, far)))
    return {s: b[s] - a[s] for s in a}
