"""Tables: measured values beside the paper's, with what was not run and what failed said in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

from quadnorm.lab.analysis.results import Results, load_results, printed_variant
from quadnorm.lab.analysis.statistics.summaries import Runs, Summary, best_or_tied, degradation, summarize
from quadnorm.lab.studies.paper import PrintedCell
from quadnorm.lab.studies.study import Method, Study, Variant, Way

SPREADS = {"ci95": "95 % confidence interval", "std": "standard deviation"}


@dataclass(frozen=True)
class Cell:
    """One cell. ``kind``: ``value``, ``text``, ``missing`` (not run) or ``failed`` (no finite error).

    ``value`` and ``spread`` are what ``text`` shows, at full precision; ``paper`` is what the paper prints there.
    """

    text: str
    kind: str = "text"
    value: float = nan
    spread: float = nan
    bold: bool = False
    note: str = ""
    paper: PrintedCell | None = None
    href: str = ""  # a place on the same page


@dataclass(frozen=True)
class Panel:
    """Rows under one head. ``about`` says what was trained; ``numeric`` columns are aligned right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    about: tuple[str, ...] = ()
    text_columns: int = 1


@dataclass(frozen=True)
class Table:
    """A table of one or more panels, to be shown in any of six forms."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    command: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """Cells that were not run."""
        return sum(cell.kind == "missing" for panel in self.panels for row in panel.rows for cell in row)

    def terminal(self, console: Any = None) -> None:
        """Print with rich."""
        from quadnorm.lab.analysis.tables.terminal import terminal

        terminal(self, console)

    def text(self, width: int = 120) -> str:
        """What the terminal shows, without colours, in lines of at most ``width`` characters."""
        from quadnorm.lab.analysis.tables.terminal import plain

        return plain(self, width)

    def markdown(self) -> str:
        """Pipe tables; the paper's values in a row of their own."""
        from quadnorm.lab.analysis.tables.text import markdown

        return markdown(self)

    def csv(self) -> str:
        """One line per row; mean, spread and the paper's value in columns of their own, at full precision."""
        from quadnorm.lab.analysis.tables.text import csv_text

        return csv_text(self)

    def latex(self) -> str:
        """A ``tabular`` with booktabs rules, needing no other package."""
        from quadnorm.lab.analysis.tables.latex import latex

        return latex(self)

    def html(self) -> str:
        """``<table>`` elements, everything escaped."""
        from quadnorm.lab.analysis.tables.html import html

        return html(self)


def study_table(study: Study, root: Path | Sequence[Path], *, allow_mixed: bool = False) -> Table:
    """The table of a study from the records under ``root``.

    >>> from pathlib import Path
    >>> from quadnorm.lab.studies import study
    >>> table = study_table(study("demo").at("desk"), Path("no-such-folder"))
    >>> table.panels[0].rows[0][2].text, table.command
    ('not run', 'quadnorm study run demo --preset desk')
    """
    return table_of(load_results(study, root, allow_mixed=allow_mixed))


def table_of(results: Results) -> Table:
    """The table of what was measured of a study."""
    study = results.study
    panels = tuple(_panel(results, variant) for variant in study.variants)
    notes = list(study.notes)
    if study.preset == "smoke":
        notes.insert(0, "The smoke preset learns nothing: its numbers show that everything runs, and no more.")
    elif study.preset != "paper" and any(v.label for v in study.variants):
        notes.insert(
            0,
            f"The {study.preset} preset trains less and on coarser grids than the paper: compare methods with each "
            "other, not means with the paper's.",
        )
    return Table(
        name=study.name,
        title=study.title,
        panels=panels,
        caption=_caption(results),
        notes=tuple(notes),
        command=command(study),
        warnings=results.problems,
    )


def _caption(results: Results) -> str:
    study = results.study
    paper = "; below it, the paper's value" if any(v.label for v in study.variants) else ""
    if len(results.seeds) == 1:
        return f"Relative L² error in %, one seed: no interval and no test{paper}. Bold: the smallest of its column."
    return (
        f"Relative L² error in %, mean ± {SPREADS[study.statistic]} over seeds{paper}. Bold: best, or not told from "
        "the best by a paired t-test (Holm, 5 %); none where no two are told apart."
    )


def command(study: Study) -> str:
    """What to type to run a study."""
    return f"quadnorm study run {study.name} --preset {study.preset}"


def grid_name(n: int) -> str:
    """``64²``."""
    return f"{n}²"


def native_grid(variant: Variant) -> int:
    """The grid from which degradation counts: the finest that was trained on, or the first one tested."""
    trained = [n for n in variant.test if n in variant.train]
    return max(trained) if trained else variant.test[0]


def budget_lines(study: Study, variant: Variant) -> tuple[str, ...]:
    """What was trained, on what, and how long; and how that differs from the paper."""
    b, full = variant.budget, printed_variant(study, variant)
    params = ", ".join(f"{k} {v}" for k, v in variant.operator_params.items())
    trained = " and ".join(grid_name(n) for n in variant.train)
    setting = ", ".join(f"{k} {v}" for k, v in variant.problem_params.items())
    lines = [
        f"{variant.operator} ({params}) on {variant.problem}{f' ({setting})' if setting else ''}, trained at {trained}",
        f"{study.preset} preset: {b.train} training and {b.test} test samples, {b.epochs} epochs, batch {b.batch}, "
        f"learning rate {b.lr:g}",
    ]
    if variant.label and study.preset != "paper":
        p = full.budget
        grids = ", ".join(grid_name(n) for n in full.test)
        lines.append(f"paper ({variant.label}): {p.train} samples, {p.epochs} epochs, grids {grids}")
    return tuple(lines)


def _panel(results: Results, variant: Variant) -> Panel:
    study = results.study
    several = len(study.evaluations) > 1
    native, far = native_grid(variant), variant.test[-1]
    full = printed_variant(study, variant)
    printed = full.printed()
    heads = ["method"] + (["used"] if several else [])
    for n, theirs in zip(variant.test, full.test, strict=True):
        stands_for = f" (paper {grid_name(theirs)})" if theirs != n and variant.label else ""
        heads.append(grid_name(n) + (" native" if n == native else "") + stands_for)
    heads += [f"{grid_name(native)} → {grid_name(far)}"] if far != native else []
    heads.append("seeds")

    best = {n: set() if results.mixed else _best(results, variant, n) for n in variant.test}
    rows = []
    for method in variant.methods:
        for e in study.evaluations:
            row = [Cell(method.label)] + ([Cell(e.label)] if several else [])
            theirs_row: dict[int, PrintedCell] = {}
            for n, m in zip(variant.test, full.test, strict=True):
                # The paper knows no other use of a model than as it was trained.
                if e is study.evaluations[0] and (method.label, m) in printed:
                    theirs_row[n] = printed[method.label, m]
                runs = results.of(variant.name, method.label, n, e.name)
                bold = (method.label, e.name) in best[n]
                row.append(_value(study, runs, bold, theirs_row.get(n)))
            if far != native:
                row.append(_degradation(results, variant, method, e, native, far, theirs_row))
            row.append(_seeds(results, variant, method))
            rows.append(tuple(row))
    title = variant.name if len(study.variants) > 1 else ""
    return Panel(title, tuple(heads), tuple(rows), budget_lines(study, variant), 2 if several else 1)


def _best(results: Results, variant: Variant, n: int) -> set[tuple[str, str]]:
    """(method, evaluation) of the best and those tied with it, on the seeds that all of them have."""
    runs = {
        (m.label, e.name): found
        for m in variant.methods
        for e in results.study.evaluations
        if (found := results.of(variant.name, m.label, n, e.name))
    }
    common = set.intersection(*(set(r) for r in runs.values())) if runs else set()
    if len(runs) < 2 or not common:
        return set()
    names = {f"{k}": key for k, key in enumerate(runs)}
    shared: Mapping[str, Runs] = {k: {s: runs[key][s] for s in sorted(common)} for k, key in names.items()}
    best = {names[k] for k in best_or_tied(shared)}
    return set() if len(best) == len(runs) else best


def _value(study: Study, runs: Mapping[int, float], bold: bool, paper: PrintedCell | None) -> Cell:
    if not runs:
        return Cell("not run", "missing", note=command(study), paper=paper)
    return summary_cell(summarize(dict(runs), study.statistic), bold, paper)


def summary_cell(s: Summary, bold: bool = False, paper: PrintedCell | None = None) -> Cell:
    """A cell of mean ± spread; a failed run is said to have failed."""
    if not isfinite(s.mean):
        return Cell(
            "diverged" if s.n == 1 else s.note.split(" runs ")[0] + " diverged", "failed", note=s.note, paper=paper
        )
    return Cell(str(s), "value", s.mean, s.spread, bold, s.note, paper)


def _degradation(
    results: Results,
    variant: Variant,
    method: Method,
    e: Way,
    native: int,
    far: int,
    printed: Mapping[int, PrintedCell],
) -> Cell:
    a, b = (results.of(variant.name, method.label, n, e.name) for n in (native, far))
    common = sorted(a.keys() & b.keys())
    paper = None
    if native in printed and far in printed:
        low, high = printed[native].value, printed[far].value
        paper = PrintedCell(_rise(high - low, high / low)) if low and high else None
    if not common:
        return Cell("not run", "missing", note=command(results.study), paper=paper)
    rise = degradation({s: a[s] for s in common}, {s: b[s] for s in common})
    if not isfinite(rise.mean):
        return Cell("—", "failed", note=rise.note, paper=paper)
    factor = sum(b[s] for s in common) / sum(a[s] for s in common)
    return Cell(_rise(rise.mean, factor), "value", rise.mean, rise.spread, note=rise.note, paper=paper)


def _rise(points: float, factor: float) -> str:
    # A rise that rounds to nothing has no sign.
    shown = f"{points:+.2f}" if abs(points) >= 0.005 else "0.00"
    return f"{shown} (×{factor:.2f})".replace("-", "−")


def _seeds(results: Results, variant: Variant, method: Method) -> Cell:
    done = {s for (v, m, _, _), runs in results.errors.items() if (v, m) == (variant.name, method.label) for s in runs}
    planned = len(results.study.seeds)
    text = str(planned) if len(done) == planned else f"{len(done)} of {planned}"
    return Cell(text, "value", len(done), note="seeds " + ", ".join(str(s) for s in sorted(done)) if done else "")
