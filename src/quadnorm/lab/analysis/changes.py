"""Compare two sets of records: which numbers became worse or better, failed, or disappeared.

A change counts if it is at least 2 % of the error and, with two seeds or more, significant in a paired t-test over
the seeds (Holm over all numbers of the study, 5 %). With one seed there is no test, and the change must be 5 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from quadnorm.lab.analysis.results import Library, Results
from quadnorm.lab.analysis.statistics.paired import PairedTest, common, holm, paired_t
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.table import Cell, Panel, Table, grid_name
from quadnorm.lab.studies import study_names
from quadnorm.lab.studies.study import PRESETS

LEAST, LEAST_ONE_SEED = 0.02, 0.05
CHANGE_KINDS = ("worse", "failed", "lost", "better", "new", "same")


@dataclass(frozen=True)
class Change:
    """One number of a study in both sets. Errors in per cent."""

    kind: str
    study: str
    preset: str
    variant: str
    method: str
    evaluation: str
    grid: int
    old: float
    new: float
    seeds: int
    p: float = float("nan")


def changes(new: Library, old: Library) -> tuple[Change, ...]:
    """Every number that is in either set, by study and preset."""
    listed: list[Change] = []
    for name in study_names():
        for preset in PRESETS:
            a, b = new.at(name, preset), old.at(name, preset)
            if a.any or b.any:
                listed += _study_changes(a, b)
    return tuple(listed)


def _study_changes(new: Results, old: Results) -> list[Change]:
    keys = list(dict.fromkeys((*new.errors, *old.errors)))
    both = {k: common(new.errors.get(k, {}), old.errors.get(k, {})) for k in keys}
    tests = holm({k: paired_t(a, b) for k, (a, b) in both.items() if a})
    rows = []
    for k in keys:
        a, b = both[k]
        means = [summarize(r).mean if r else float("nan") for r in (a or new.errors.get(k), b or old.errors.get(k))]
        kind = _kind(tests[k], *means) if a else ("new" if k in new.errors else "lost")
        test = tests.get(k)
        p = test.p_holm if test is not None else float("nan")
        rows.append(Change(kind, new.study.name, new.study.preset, *k, means[1], means[0], len(a), p))
    return rows


def _kind(test: PairedTest, new: float, old: float) -> str:
    if not (isfinite(new) and isfinite(old)):
        return "same" if isfinite(new) == isfinite(old) else "better" if isfinite(new) else "failed"
    share = abs(new - old) / abs(old) if old else float(new != old)
    counts = share >= LEAST and test.significant if test.n > 1 else share >= LEAST_ONE_SEED
    return ("worse" if new > old else "better") if counts else "same"


def changes_table(listed: tuple[Change, ...], most: int = 200) -> Table:
    """A table of the changes, the worst first; unchanged and new numbers are only counted."""
    shown = sorted(
        (c for c in listed if c.kind not in ("same", "new")),
        key=lambda c: (CHANGE_KINDS.index(c.kind), -abs(_share(c) or 0.0)),
    )
    rows = tuple(
        (
            Cell(c.kind, "failed" if c.kind in ("worse", "failed", "lost") else "text"),
            Cell(f"{c.study} ({c.preset})"),
            Cell(f"{c.variant}: {c.method}" + ("" if c.evaluation == "as-trained" else f", {c.evaluation}")),
            Cell(grid_name(c.grid), "value", c.grid),
            _number(c.old),
            _number(c.new),
            Cell(f"{100 * _share(c):+.1f} %".replace("-", "−"), "value", _share(c))
            if isfinite(_share(c))
            else Cell("—"),
            Cell(str(c.seeds), "value", c.seeds),
        )
        for c in shown[:most]
    )
    heads = ("change", "study", "number", "grid", "before", "now", "by", "seeds")
    count = {kind: sum(c.kind == kind for c in listed) for kind in CHANGE_KINDS}
    notes = [f"{count['same']} of {len(listed)} numbers stayed the same, {count['new']} are new."]
    if len(shown) > most:
        notes.append(f"{len(shown) - most} more changes are not shown.")
    return Table("changes", "Changes", (Panel("", heads, rows, text_columns=3),), notes=tuple(notes))


def _share(c: Change) -> float:
    return (c.new - c.old) / c.old if c.old and isfinite(c.old) and isfinite(c.new) else float("nan")


def _number(value: float) -> Cell:
    return Cell(f"{value:.2f}", "value", value) if isfinite(value) else Cell("—")
