"""What the page begins with: counts, cards of the main settings, and a table with one row for each setting.

A card is one operator on one problem, from its training grid to the farthest test grid; everything that is compared on
it is averaged over the same seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan

from quadnorm.lab.analysis.comparisons import budget, way_title
from quadnorm.lab.analysis.figures.style import styles
from quadnorm.lab.analysis.results import Library, Results, Seeds
from quadnorm.lab.analysis.statistics.paired import common
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.study_table import native_grid
from quadnorm.lab.analysis.tables.table import Cell, Panel, Table, grid_name
from quadnorm.lab.report.chart import FIRST
from quadnorm.lab.studies import study_names
from quadnorm.lab.studies.study import Variant

# The studies whose cards come first; studies of the same models add to one card.
LEADS = ("anchored-crossres", "transfer-baselines", "demo", "quadrature-everywhere", "extreme-crossres", "real-darcy")
OPERATORS = {
    "fno": "FNO",
    "galerkin": "Galerkin Transformer",
    "transolver": "Transolver",
    "neuralop-fno": "neuraloperator's FNO",
    "physicsnemo-fno": "PhysicsNeMo's FNO",
}
USUAL = ("LayerNorm", "QuadNorm", "BlendQuadNorm", "None")
MOST_LINES = 7

RowKey = tuple[str, str]  # method, way


@dataclass(frozen=True)
class CardLine:
    """One method in one way of using it: errors at the training and at the far grid, in per cent."""

    method: str
    way: str
    colour: str
    native: float
    far: float

    @property
    def label(self) -> str:
        """``LayerNorm, anchored``."""
        name = "no norm" if self.method == "None" else self.method
        return name if self.way == "as-trained" else f"{name}, {way_title(self.way)}"

    @property
    def factor(self) -> float:
        """The error at the far grid divided by the error at the training grid."""
        return self.far / self.native


@dataclass(frozen=True)
class Card:
    """``lines`` are the usual comparisons and the smallest error of all; ``smallest`` is one of them."""

    title: str
    grids: tuple[int, int]
    study: str
    budget: str
    lines: tuple[CardLine, ...]

    @property
    def route(self) -> str:
        """``33² → 257²``."""
        return " → ".join(grid_name(n) for n in self.grids)

    @property
    def smallest(self) -> CardLine:
        """The smallest error at the far grid."""
        return min(self.lines, key=lambda line: line.far)

    @property
    def sentence(self) -> str:
        """The card in one or two sentences."""
        native, far = (grid_name(n) for n in self.grids)
        plain = [line for line in self.lines if line.way == "as-trained"]
        moved = [line for line in self.lines if line.way != "as-trained"]
        named = plain[:2] + moved[:1] if moved else plain[:3]
        grown = [f"{line.factor:.2f} times ({line.label})" for line in named]
        best = self.smallest
        return (
            f"{self.title}, trained at {native}: at {far} the error is {', '.join(grown)} what it is at {native}. "
            f"Smallest at {far}: {best.label}, {best.far:.2f} %."
        )

    @property
    def top(self) -> float:
        """The largest error, which the bars are drawn against."""
        return max(line.far for line in self.lines)


@dataclass
class _CardSetting:
    """Errors of one trained setting, gathered from the studies that share its models."""

    study: str
    results: Results
    variant: Variant
    native: dict[RowKey, Seeds]
    far: dict[RowKey, Seeds]


def cards(library: Library, most: int = 4) -> list[Card]:
    """The cards of the main settings; smoke runs, which learn nothing, give no cards."""
    settings: dict[str, _CardSetting] = {}
    for name in dict.fromkeys((*LEADS, *study_names())):
        results = library.comparable(name)
        if results is None:
            continue
        for v in results.study.variants:
            if native_grid(v) == v.test[-1] or len(v.train) > 1:
                continue
            _gather(settings, name, results, v)
    listed = [card for s in settings.values() if (card := _card(s)) is not None]
    return listed[:most]


def _gather(settings: dict[str, _CardSetting], name: str, results: Results, v: Variant) -> None:
    native, far = native_grid(v), v.test[-1]
    # Errors belong on one card only if everything except the method is the same.
    key = repr((v.operator, v.operator_params, v.problem, v.problem_params, v.budget, v.train, native, far))
    setting = settings.setdefault(key, _CardSetting(name, results, v, {}, {}))
    for method in v.methods:
        for way in results.study.evaluations:
            a, b = (results.of(v.name, method.label, n, way.name) for n in (native, far))
            if a and b:
                setting.native.setdefault((method.label, way.name), a)
                setting.far.setdefault((method.label, way.name), b)


def same_seeds(rows: Mapping[RowKey, Seeds]) -> dict[RowKey, Seeds]:
    """The rows restricted to their common seeds; rows that share no seed with the first row are left out."""
    if not rows:
        return {}
    first = next(iter(rows.values()))
    kept = {key: runs for key, runs in rows.items() if runs.keys() & first.keys()}
    return dict(zip(kept, common(*kept.values()), strict=True))


def _card(s: _CardSetting) -> Card | None:
    far = {key: runs for key, runs in same_seeds(s.far).items() if runs}
    lines: dict[RowKey, CardLine] = {}
    line_styles = styles(list(dict.fromkeys(method for method, _ in far)))
    for (method, way), runs in far.items():
        at_home = {seed: e for seed, e in s.native[method, way].items() if seed in runs}
        if at_home.keys() != runs.keys():
            continue
        native, moved = summarize(at_home).mean, summarize(runs).mean
        if isfinite(native) and isfinite(moved) and native > 0:
            lines[method, way] = CardLine(method, way, line_styles[method][0], native, moved)
    if len(lines) < 2:
        return None
    v = s.variant
    seeds = len(next(iter(far.values())))
    return Card(
        f"{OPERATORS.get(v.operator, v.operator)} on {v.problem}",
        (native_grid(v), v.test[-1]),
        s.study,
        f"{s.study}: {budget(s.results, seeds)}",
        tuple(_chosen(lines)),
    )


def _chosen(lines: Mapping[RowKey, CardLine]) -> list[CardLine]:
    """The usual norms as trained, LayerNorm in other ways, the better known first, and the smallest error of all."""
    keys = [(m, "as-trained") for m in USUAL if (m, "as-trained") in lines]
    parts = ("as-trained", "anchor-norms", "anchor-kernels")  # shown above; parts of a model, anchored
    moved = [way for m, way in lines if m == "LayerNorm" and not way.startswith(parts)]
    keys += [("LayerNorm", way) for way in sorted(moved, key=lambda way: FIRST.index(way) if way in FIRST else 9)]
    if len(keys) < 2:
        keys = list(lines)
    smallest = min(lines, key=lambda key: lines[key].far)
    keys = keys[:MOST_LINES]
    return [lines[key] for key in (keys if smallest in keys else [*keys, smallest])]


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
