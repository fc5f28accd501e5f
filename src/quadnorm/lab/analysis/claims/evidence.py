"""What a case of a claim is judged by: the records of a setting under one reading of the paper, and its printed cells.

The paper leaves open which norms its rows are (see ``with_readings`` in the studies' catalog). A :class:`Reading` is
one choice of them; under it every row that the paper prints is one of our rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import sqrt

from quadnorm.lab.analysis.comparisons import here
from quadnorm.lab.analysis.results import Library, Results, Seeds, printed_variant
from quadnorm.lab.analysis.statistics.paired import common, t_quantile
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.study_table import BASELINE, native_grid
from quadnorm.lab.studies import study as from_catalog
from quadnorm.lab.studies.paper import PrintedCell, paper_table
from quadnorm.lab.studies.study import STAND_INS, Method, Variant

TOO_FAR = 2.0  # if LayerNorm's native error is this many times the printed one, the models have not learned enough
OWN = "our studies' own rows"


@dataclass(frozen=True)
class Reading:
    """One choice for each thing that the paper leaves open; an empty string stands for the catalog's own row.

    ``baseline``: LayerNorm over (C, H, W) or ``token``; ``mode``: of QuadNorm; ``weights``: the grid's own or
    ``trapezoid`` (on Helmholtz); ``block``: the operator's usual one or the ``other`` one.
    """

    baseline: str = ""
    mode: str = ""
    weights: str = ""
    block: str = ""

    def __str__(self) -> str:
        parts = (
            {"token": "token-wise LayerNorm", "spatial": "LayerNorm over (C, H, W)"}.get(self.baseline),
            self.mode and f"QuadNorm in {self.mode} mode",
            {"trapezoid": "trapezoid weights", "grid": "the grid's own weights"}.get(self.weights),
            {"other": "the other form of the block"}.get(self.block),
        )
        return ", ".join(filter(None, parts)) or OWN


# What the paper's listing does without arguments; it says nothing about blocks.
LISTING = Reading("spatial", "layer", "trapezoid", "usual")


def traits(method: Method, variant: Variant) -> dict[str, str]:
    """What a row is, in the terms of a reading; only what the row's norm leaves open."""
    kind, *options = method.norm.split(":")
    found = {"block": "other" if {"residual", "norms_per_block"} & set(method.operator) else "usual"}
    if kind in ("layer", "token") and variant.operator != "fno":
        found["baseline"] = "token" if kind == "token" else "spatial"
    if kind == "quad":
        found["mode"] = "instance" if "instance" in options else "layer"
    if kind in ("quad", "blend") and variant.problem == "helmholtz":
        found["weights"] = "trapezoid" if "trapezoid" in options else "grid"
    return found


def row_of(reading: Reading, label: str, variant: Variant) -> str | None:
    """The label of our row for a row of the paper's under a reading; None if the study has no such row."""
    base = variant.method(label)
    own = traits(base, variant)
    for method in (base, *(m for m in variant.methods if m.reads == label)):
        wanted = {k: getattr(reading, k) or own[k] for k in own}
        if traits(method, variant) == wanted:
            return method.label
    return None


@dataclass
class Setting:
    """The records of one variant of a study under one reading.

    ``tries``: among how many readings this one was chosen by the same records. ``used``: keys of the models read.
    """

    library: Library
    study: str
    name: str
    reading: Reading = Reading()
    tries: int = 1
    used: set[str] = field(default_factory=set)

    @property
    def level(self) -> float:
        """The level of intervals: 95 %, or more where choosing a reading would find an effect by chance too often.

        An effect is found by chance in one tail, 2.5 % of the time for each reading that was tried, in all at most 5 %.
        """
        return 1 - min(0.05, 0.1 / self.tries)

    @property
    def band_level(self) -> float:
        """The level of intervals that have to lie inside a band: each of the two tests at 5 % in all."""
        return 1 - 0.1 / self.tries

    @cached_property
    def results(self) -> Results | None:
        """The study's results if methods can be compared by them, else None."""
        return self.library.comparable(self.study)

    @cached_property
    def full(self) -> Variant:
        """The variant at the paper's budget, to which the printed cells belong."""
        return from_catalog(self.study).variant(self.name)

    @cached_property
    def variant(self) -> Variant:
        """The variant that was run; the paper's if none was."""
        return self.results.study.variant(self.name) if self.results is not None else self.full

    @property
    def preset(self) -> str:
        """``desk`` or ``paper``."""
        return self.results.study.preset if self.results is not None else "desk"

    def row(self, label: str) -> str | None:
        """Our row for the paper's under the reading, if the preset runs it."""
        return row_of(self.reading, label, self.variant)

    def errors(self, label: str, grid: int, way: str = "as-trained") -> Seeds:
        """Errors of a row in per cent by seed, at the paper's resolution; empty if not run."""
        if self.results is None or (row := self.row(label)) is None:
            return {}
        runs = self.results.of(self.name, row, here(self.results, self.variant, grid), way)
        keys = {
            r.run.seed: r.key for r in self.results.runs if (r.run.variant.name, r.run.method.label) == (self.name, row)
        }
        self.used |= {keys[seed] for seed in runs if seed in keys}
        return runs

    def pair(self, method: str, baseline: str, grid: int, way: str = "as-trained") -> tuple[Seeds, Seeds]:
        """Errors of two rows on their common seeds."""
        a, b = common(self.errors(method, grid, way), self.errors(baseline, grid, way))
        return a, b

    def rise(self, label: str, native: int, far: int) -> Seeds:
        """Degradation in points, seed by seed."""
        a, b = common(self.errors(label, native), self.errors(label, far))
        return {s: b[s] - a[s] for s in a}

    def rows(self) -> list[str]:
        """The labels of the paper's rows that the reading has a row of ours for."""
        return [m.label for m in self.variant.methods if m.row is not None and self.row(m.label) is not None]

    def printed(self, label: str, grid: int) -> PrintedCell:
        """The paper's cell."""
        cells = self.full.printed()
        if (label, grid) not in cells:
            raise ValueError(f"{self.study}, {self.name}: the paper prints no error of {label} at {grid}²")
        return cells[label, grid]

    def value(self, label: str, grid: int) -> float:
        """The paper's mean error in per cent."""
        number = self.printed(label, grid).value
        assert number is not None
        return number

    def deviation(self, label: str, grid: int) -> float:
        """The paper's standard deviation over seeds (ddof 1), from its ± and the number of its seeds."""
        table, cell = paper_table(self.full.label or ""), self.printed(label, grid)
        n = table.seeds or len(from_catalog(self.study).seeds)
        assert cell.spread is not None
        return (
            cell.spread * sqrt(n / (n - 1))
            if table.spread == "std"
            else cell.spread * sqrt(n) / t_quantile(0.975, n - 1)
        )

    def not_learned(self) -> str:
        """Why what norms do to these models says nothing about the paper's; empty if they have learned the problem."""
        if self.results is None or self.results.study.preset == "paper":
            return ""
        grid = native_grid(self.variant)
        theirs = self.full.printed().get((BASELINE, self.full.test[self.variant.test.index(grid)]))
        runs = self.results.of(self.name, BASELINE, grid, "as-trained")
        if theirs is None or theirs.value is None or not runs:
            return ""
        ours = summarize(runs).mean
        if ours <= TOO_FAR * theirs.value:
            return ""
        where = f"at the {self.preset} preset {BASELINE}'s error at the training grid"
        return f"{where} is {ours:.1f} %, the paper's {theirs.value:.1f} %"

    def caveats(self) -> tuple[str, ...]:
        """What stands between these records and the claim: other data, fewer epochs."""
        if self.results is None:
            return ()
        full, ran = printed_variant(self.results.study, self.variant), self.variant
        found = []
        if full.problem != ran.problem and full.problem in STAND_INS:
            found.append("drawn data stand in for the released files")
        if full.budget.epochs >= 300 > ran.budget.epochs:
            found.append(f"long training in the paper ({full.budget.epochs} epochs), {ran.budget.epochs} here")
        return tuple(found)

    def family(self) -> str:
        """The trained models behind it: operator, problem, training grid, width."""
        v = self.variant
        grids = "+".join(f"{n}²" for n in v.train)
        return f"{v.operator}, {v.problem}, {grids}, width {v.operator_params['width']}"


def readings_of(setting: Setting, labels: tuple[str, ...], run_only: bool = True) -> list[Reading]:
    """The readings under which every one of these rows was run (or may be), the catalog's own first."""
    options = {
        "baseline": ("spatial", "token"),
        "mode": ("instance", "layer"),
        "weights": ("grid", "trapezoid"),
        "block": ("usual", "other"),
    }
    own: dict[str, str] = {}
    for label in labels:
        own |= traits(setting.variant.method(label), setting.variant)
    open_here = [k for k in options if k in own]
    found = []
    for choice in product(*(sorted(options[k], key=lambda v, k=k: v != own[k]) for k in open_here)):
        reading = Reading(**dict(zip(open_here, choice, strict=True)))
        tried = Setting(setting.library, setting.study, setting.name, reading)
        if not run_only or all(tried.errors(label, tried.full.test[0]) for label in labels):
            found.append(reading)
    return found
