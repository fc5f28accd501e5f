"""Helpers that the cases share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from inspect import signature
from math import isfinite, nan
from typing import Any, Concatenate, ParamSpec

from quadnorm.lab.analysis.claims.verdicts import NOT_RUN, NOT_TESTABLE, Case, Finding
from quadnorm.lab.analysis.comparisons import budget, runs_at
from quadnorm.lab.analysis.library import Library
from quadnorm.lab.analysis.results import Seeds, printed_variant
from quadnorm.lab.analysis.statistics.samples import common
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.panel import BASELINE, native_grid

P = ParamSpec("P")
TOO_FAR = 2.0  # if LayerNorm's native error is this many times the printed one, the models have not learned enough


def decided_by(kind: str) -> Callable[[Callable[Concatenate[Library, P], Finding]], Callable[P, Case]]:
    """Turn a function of (records, arguments) into one that takes the arguments and returns a case.

    ``kind`` names the statistic that decides; it is stored in every finding. If the models have not learned the
    problem, the finding is "not testable", whatever the function returns.
    """

    def decorate(judgement: Callable[Concatenate[Library, P], Finding]) -> Callable[P, Case]:
        @wraps(judgement)
        def make(*args: P.args, **options: P.kwargs) -> Case:
            def case(library: Library) -> Finding:
                finding = replace(judgement(library, *args, **options), kind=kind)
                bound = signature(judgement).bind(library, *args, **options).arguments
                why = "" if finding.verdict == NOT_RUN else next(filter(None, _not_learned(library, bound)), "")
                return replace(finding, verdict=NOT_TESTABLE, reason=why) if why else finding

            return case

        return make

    return decorate


def _not_learned(library: Library, arguments: Mapping[str, Any]) -> Iterator[str]:
    """For every setting of a case, why its models are too far from the paper's; empty if they are not."""
    if "contrasts" in arguments:
        settings = {(c.study, c.variant) for c in arguments["contrasts"]}
    else:
        settings = {(arguments["study"], arguments["variant"])} if "variant" in arguments else set()
    for study, name in sorted(settings):
        results = library.comparable(study)
        if results is None or results.study.preset == "paper":
            continue
        variant = results.study.variant(name)
        full, grid = printed_variant(results.study, variant), native_grid(variant)
        theirs = full.printed().get((BASELINE, full.test[variant.test.index(grid)]))
        ours = summarize(results.of(name, BASELINE, grid, "as-trained")).mean if theirs is not None else nan
        if theirs is not None and theirs.value is not None and ours > TOO_FAR * theirs.value:
            yield (
                f"at the {results.study.preset} preset {BASELINE}'s error at the training grid is {ours:.1f} %, "
                f"the paper's {theirs.value:.1f} %"
            )


def not_run(study: str, claimed: str) -> Finding:
    """The finding for missing records, with the command that would make them."""
    return Finding(NOT_RUN, claimed=claimed, command=f"quadnorm study run {study} --preset desk")


def source(library: Library, study: str, seeds: int) -> str:
    """``extreme-crossres: desk, 3 seeds``."""
    return f"{study}: {budget(library.results(study), seeds)}"


def minus(text: str) -> str:
    """The text with true minus signs instead of hyphens."""
    return text.replace("-", "−")


def interval(low: float, high: float, digits: int = 1) -> str:
    """`` [28.0, 34.1]``, or nothing with one seed."""
    return f" [{low:.{digits}f}, {high:.{digits}f}]" if isfinite(low) and isfinite(high) else ""


def on_common_seeds(library: Library, study: str, variant: str, runs: Callable[[str], Seeds]) -> dict[str, Seeds]:
    """The values of ``runs`` for the paper's methods, restricted to the seeds that all of these have.

    Rows of ours are left out: claims are about the paper's methods.
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
