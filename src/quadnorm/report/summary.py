"""What a busy reader gets: counts, the one comparison that matters of each study, and a few sentences."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from quadnorm.analysis.results import Library, Results
from quadnorm.analysis.statistics import summarize
from quadnorm.analysis.tables import Cell, Panel, Table, grid_name, native_grid
from quadnorm.studies import study_names
from quadnorm.studies.study import Variant

# Where the sentences come from, the most telling first.
LEADS = ("anchored-crossres", "transfer-baselines", "demo", "extreme-crossres", "real-darcy-extreme")


@dataclass(frozen=True)
class Counts:
    """What there is."""

    studies: int
    of: int
    runs: int
    diverged: int
    unfinished: int


def counts(library: Library) -> Counts:
    """Runs are counted once, however many studies share them."""
    found = {f.key: f for name in study_names() for f in library.results(name).found}
    states = [f.status for f in found.values()]
    return Counts(
        studies=sum(library.results(name).any for name in study_names()),
        of=len(study_names()),
        runs=sum(s != "unfinished" for s in states),
        diverged=states.count("diverged"),
        unfinished=states.count("unfinished"),
    )


def sentences(library: Library, most: int = 5) -> list[str]:
    """Findings in words, from the studies that have records."""
    said: list[str] = []
    for name in (*LEADS, *study_names()):
        results = library.results(name)
        for variant in results.study.variants if results.any and results.study.preset != "smoke" else ():
            for text in _findings(results, variant):
                if text not in said:
                    said.append(text)
        if len(said) >= most:
            break
    return said[:most]


def _findings(results: Results, variant: Variant) -> list[str]:
    native, far = native_grid(variant), variant.test[-1]
    if native == far:
        return []
    baseline = _pair(results, variant, "LayerNorm", "as-trained")
    if baseline is None:
        return []
    where = f"{variant.operator} on {variant.problem}, trained at {grid_name(native)}"
    trained, moved = baseline
    said = [
        f"{where}: with LayerNorm the error goes from {trained:.2f} % at {grid_name(native)} to {moved:.2f} % at "
        f"{grid_name(far)} (×{moved / trained:.2f})"
    ]
    for method, e, words in (
        ("LayerNorm", "anchor-all", "the same weights with every spatial sum anchored"),
        ("LayerNorm", "upsample-spline", "the same weights run at the training grid, output interpolated"),
        ("QuadNorm", "as-trained", "QuadNorm"),
    ):
        if (found := _pair(results, variant, method, e)) is not None:
            said.append(f"{words}: {found[0]:.2f} % to {found[1]:.2f} % (×{found[1] / found[0]:.2f})")
    return ["; ".join(said) + "."]


def _pair(results: Results, variant: Variant, method: str, evaluation: str) -> tuple[float, float] | None:
    runs = [results.of(variant.name, method, n, evaluation) for n in (native_grid(variant), variant.test[-1])]
    if not all(runs):
        return None
    native, far = (summarize(r).mean for r in runs)
    return (native, far) if isfinite(native) and isfinite(far) and native > 0 else None


def overview(library: Library) -> Table:
    """One row for each study and setting with records."""
    rows = []
    for name in study_names():
        results = library.results(name)
        measured = {key[0] for key in results.errors}
        rows += [_overview_row(results, v) for v in results.study.variants if v.name in measured]
    columns = (
        "study",
        "setting",
        "preset",
        "best at the far grid",
        "its error",
        "LayerNorm there",
        "LayerNorm, native",
        "seeds",
    )
    return Table("overview", "At a glance", (Panel("", columns, tuple(rows), text_columns=4),))


def _overview_row(results: Results, variant: Variant) -> tuple[Cell, ...]:
    study, far = results.study, variant.test[-1]
    means = {}
    for m in variant.methods:
        for e in study.evaluations:
            if (runs := results.of(variant.name, m.label, far, e.name)) and isfinite(mean := summarize(runs).mean):
                means[m.label + (f", {e.label}" if len(study.evaluations) > 1 else "")] = mean
    best = min(means, key=lambda k: means[k]) if means else ""
    base = _pair(results, variant, "LayerNorm", "as-trained")
    native, moved = base or (float("nan"),) * 2
    route = " → ".join(dict.fromkeys((grid_name(native_grid(variant)), grid_name(far))))
    return (
        Cell(study.name),
        Cell(f"{variant.operator}, {variant.problem}, {route}"),
        Cell(study.preset),
        Cell(best or "—"),
        _number(means.get(best, float("nan"))),
        _number(moved),
        _number(native),
        Cell(str(len(results.seeds)), "value", len(results.seeds)),
    )


def _number(value: float) -> Cell:
    return Cell(f"{value:.2f}", "value", value) if isfinite(value) else Cell("—")
