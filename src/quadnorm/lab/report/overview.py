"""Counts of studies and runs, and a table with one row for each setting that has records."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan

from quadnorm.lab.analysis.library import Library
from quadnorm.lab.analysis.results import Results
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.panel import native_grid
from quadnorm.lab.analysis.tables.table import Cell, Panel, Table, grid_name
from quadnorm.lab.report.cards import same_seeds
from quadnorm.lab.studies import study_names
from quadnorm.lab.studies.study import Variant


@dataclass(frozen=True)
class Counts:
    """The number of studies with results, of all studies, and of runs by state; ``hours`` of training on one core."""

    studies: int
    of: int
    runs: int
    diverged: int
    unfinished: int
    unreadable: int
    hours: float = 0.0


def counts(library: Library) -> Counts:
    """The counts of a library; a run that several studies share is counted once."""
    every = [r for name in study_names() for r in library.results(name).runs]
    runs = {r.key: r for r in [*every, *(r for full in library.of_full_size() for r in full.runs)]}
    states = [r.status for r in runs.values()]
    return Counts(
        studies=sum(library.results(name).any for name in study_names()),
        of=len(study_names()),
        runs=sum(s not in ("unfinished", "unreadable") for s in states),
        diverged=states.count("diverged"),
        unfinished=states.count("unfinished"),
        unreadable=states.count("unreadable"),
        hours=sum(r.seconds or 0.0 for r in runs.values()) / 3600,
    )


def overview(library: Library) -> Table:
    """One row for each study and setting with records. All errors of a row are over the same seeds."""
    rows = []
    for name in study_names():
        results = library.results(name)
        measured = {variant for variant, _, _, _ in results.errors}
        rows += [_row(results, v) for v in results.study.variants if v.name in measured]
    heads = (
        "study|setting|preset|smallest at the far grid|its error|LayerNorm there|LayerNorm at the training grid|seeds"
    )
    caption = "Relative L² error in %, each row's means over the seeds that all its methods have."
    panel = Panel("", tuple(heads.split("|")), tuple(rows), text_columns=4)
    return Table("overview", "At a glance", (panel,), caption)


def _row(results: Results, variant: Variant) -> tuple[Cell, ...]:
    study, native, far = results.study, native_grid(variant), variant.test[-1]
    by_row = {
        (m.label, e.name): runs
        for m in variant.methods
        for e in study.evaluations
        if (runs := results.of(variant.name, m.label, far, e.name))
    }
    labels = {e.name: e.label for e in study.evaluations}
    shared = same_seeds(by_row)
    means = {key: mean for key, runs in shared.items() if runs and isfinite(mean := summarize(runs).mean)}
    best = min(means, key=lambda k: means[k]) if means else None
    name = "—" if best is None else best[0] + (f", {labels[best[1]]}" if len(labels) > 1 else "")
    layer = shared.get(("LayerNorm", "as-trained"), {})
    at_home = {s: e for s, e in results.of(variant.name, "LayerNorm", native).items() if s in layer}
    route = "\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}".join(dict.fromkeys((grid_name(native), grid_name(far))))
    seeds = len(next(iter(shared.values()), {}))
    return (
        Cell(study.name, href=study.name),
        Cell(f"{variant.operator}, {variant.problem}, {route}"),
        Cell(study.preset),
        Cell(name),
        _number(means[best] if best is not None else nan),
        _number(summarize(layer).mean if layer else nan),
        _number(summarize(at_home).mean if at_home else nan),
        Cell(str(seeds), "value", seeds),
    )


def _number(value: float) -> Cell:
    return Cell(f"{value:.2f}", "value", value) if isfinite(value) else Cell("—")
