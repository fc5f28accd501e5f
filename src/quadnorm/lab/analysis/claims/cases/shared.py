"""What the cases share."""

from __future__ import annotations

from math import isfinite

from quadnorm.lab.analysis.claims.verdicts import NOT_RUN, Finding
from quadnorm.lab.analysis.comparisons import budget, runs_at
from quadnorm.lab.analysis.results import Library, Seeds
from quadnorm.lab.analysis.statistics.samples import common


def not_run(study: str, claimed: str, kind: str) -> Finding:
    """No records, and how to get them."""
    return Finding(NOT_RUN, claimed=claimed, command=f"quadnorm study run {study} --preset desk", kind=kind)


def source(library: Library, study: str, seeds: int) -> str:
    """``extreme-crossres: desk, 3 seeds``."""
    return f"{study}: {budget(library.results(study), seeds)}"


def minus(text: str) -> str:
    """With true minus signs."""
    return text.replace("-", "−")


def interval(low: float, high: float, digits: int = 1) -> str:
    """`` [28.0, 34.1]``, or nothing with one seed."""
    return f" [{low:.{digits}f}, {high:.{digits}f}]" if isfinite(low) and isfinite(high) else ""


def rise_of(
    library: Library, study: str, variant: str, method: str, native: int, far: int, evaluation: str = "as-trained"
) -> Seeds:
    """Degradation in points, seed by seed; empty if not run."""
    a, b = common(*(runs_at(library, study, variant, method, n, evaluation) for n in (native, far)))
    return {s: b[s] - a[s] for s in a}
