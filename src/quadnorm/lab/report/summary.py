"""What a busy reader gets: counts, cards with the comparison that matters, and one row for each setting."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from quadnorm.lab.analysis.comparisons import budget
from quadnorm.lab.analysis.figures.palette import styles
from quadnorm.lab.analysis.results import Library, Results
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.table import Cell, Panel, Table, grid_name, native_grid
from quadnorm.lab.studies import study_names
from quadnorm.lab.studies.study import Variant

# Where the cards come from, the most telling first; studies of the same models add to one card.
LEADS = ("anchored-crossres", "transfer-baselines", "demo", "quadrature-everywhere", "extreme-crossres", "real-darcy")
USES = (
    ("LayerNorm", "as-trained", "LayerNorm"),
    ("LayerNorm", "anchor-all", "… the same weights, anchored"),
    ("LayerNorm", "native", "… run at the training grid, interpolated"),
    ("QuadNorm", "as-trained", "QuadNorm"),
    ("BlendQuadNorm", "as-trained", "BlendQuadNorm"),
    ("None", "as-trained", "no norm"),
)
# Lines of a card as the headline names them, and which of them it tells the growth of.
IN_WORDS = {
    "LayerNorm": "LayerNorm",
    "… the same weights, anchored": "LayerNorm anchored after training",
    "QuadNorm": "QuadNorm",
    "… run at the training grid, interpolated": "LayerNorm at the training grid, interpolated",
}
TOLD = tuple(IN_WORDS)[:3]
OPERATORS = {"fno": "FNO", "galerkin": "Galerkin Transformer", "transolver": "Transolver"}


@dataclass(frozen=True)
class Counts:
    """What there is."""

    studies: int
    of: int
    runs: int
    diverged: int
    unfinished: int
    unreadable: int


def counts(library: Library) -> Counts:
    """Runs are counted once, however many studies share them."""
    found = {f.key: f for name in study_names() for f in library.results(name).found}
    states = [f.status for f in found.values()]
    return Counts(
        studies=sum(library.results(name).any for name in study_names()),
        of=len(study_names()),
        runs=sum(s not in ("unfinished", "unreadable") for s in states),
        diverged=states.count("diverged"),
        unfinished=states.count("unfinished"),
        unreadable=states.count("unreadable"),
    )


@dataclass(frozen=True)
class Line:
    """One use of one method: errors at the training and at the far grid, in per cent."""

    words: str
    colour: str
    native: float
    far: float

    @property
    def factor(self) -> float:
        """Far over native."""
        return self.far / self.native


@dataclass
class Card:
    """One operator on one problem, from the training grid to the farthest."""

    title: str
    grids: tuple[int, int]
    study: str
    budget: str
    lines: dict[str, Line] = field(default_factory=dict)

    @property
    def route(self) -> str:
        """``33² → 257²``."""
        return " → ".join(grid_name(n) for n in self.grids)

    @property
    def sentence(self) -> str:
        """What the card says, for whoever reads one sentence only."""
        native, far = (grid_name(n) for n in self.grids)
        chosen = [k for k in TOLD if k in self.lines] or list(self.lines)[:4]
        grown = [f"{self.lines[k].factor:.2f} times ({IN_WORDS.get(k, k)})" for k in chosen]
        best = min(self.lines.values(), key=lambda line: line.far)
        return (
            f"{self.title}, trained at {native}: at {far} the error is {', '.join(grown)} what it is at {native}. "
            f"Smallest at {far}: {IN_WORDS.get(best.words, best.words)}, {best.far:.2f} %."
        )

    @property
    def top(self) -> float:
        """The largest error, which the bars are drawn against."""
        return max(line.far for line in self.lines.values())


def cards(library: Library, most: int = 4) -> list[Card]:
    """The transfer of the main settings; smoke runs say nothing and give none."""
    made: dict[str, Card] = {}
    for name in (*LEADS, *study_names()):
        results = library.results(name)
        if not results.any or results.study.preset == "smoke" or results.mixed:
            continue
        for v in results.study.variants:
            native, far = native_grid(v), v.test[-1]
            if native == far or len(v.train) > 1:
                continue
            lines = _lines(results, v)
            # Errors stand on one card only where everything but the method is the same.
            key = repr((v.operator, v.operator_params, v.problem, v.problem_params, v.budget, v.train, native, far))
            if len(lines) > 1 and (key in made or len(made) < most):
                about = f"{name}: {budget(results, len(results.seeds))}"
                title = f"{OPERATORS.get(v.operator, v.operator)} on {v.problem}"
                card = made.setdefault(key, Card(title, (native, far), name, about))
                card.lines = {**lines, **card.lines} if card.study == name else {**_usual(lines), **card.lines}
    for card in made.values():
        card.lines = {**_usual(card.lines), **card.lines}
    return list(made.values())


def _usual(lines: dict[str, Line]) -> dict[str, Line]:
    """The usual norms among them, in the usual order."""
    return {words: lines[words] for _, _, words in USES if words in lines}


def _lines(results: Results, variant: Variant) -> dict[str, Line]:
    found = {}
    for method, evaluation, words in USES:
        if (pair := _pair(results, variant, method, evaluation)) is not None:
            found[words] = Line(words, styles([method])[method][0], *pair)
    if len(found) > 1:
        return found
    # A study that compares something else than the usual norms: its methods, by their own names.
    looks = styles([m.label for m in variant.methods])
    first = results.study.evaluations[0].name
    return {
        m.label: Line(m.label, looks[m.label][0], *pair)
        for m in variant.methods[:6]
        if (pair := _pair(results, variant, m.label, first)) is not None
    }


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
    heads = "study|setting|preset|best at the far grid|its error|LayerNorm there|LayerNorm, native|seeds"
    return Table("overview", "At a glance", (Panel("", tuple(heads.split("|")), tuple(rows), text_columns=4),))


def _overview_row(results: Results, variant: Variant) -> tuple[Cell, ...]:
    study, far = results.study, variant.test[-1]
    means = {}
    for m in variant.methods:
        for e in study.evaluations:
            if (runs := results.of(variant.name, m.label, far, e.name)) and isfinite(mean := summarize(runs).mean):
                means[m.label + (f", {e.label}" if len(study.evaluations) > 1 else "")] = mean
    best = min(means, key=lambda k: means[k]) if means else ""
    native, moved = _pair(results, variant, "LayerNorm", "as-trained") or (float("nan"),) * 2
    route = "\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}".join(
        dict.fromkeys((grid_name(native_grid(variant)), grid_name(far)))
    )
    return (
        Cell(study.name, href=study.name),
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
