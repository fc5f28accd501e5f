"""Which reading of the paper fits each of its tables: the distance of the measured pattern from the printed one.

The pattern of a table is what its claims are about: the errors of QuadNorm and BlendQuadNorm over LayerNorm's at every
grid, and every norm's error at the farthest grid over its native one. Absolute errors are left out, because budgets
differ. The distance is the root mean square of the differences of the logarithms, in per cent; its uncertainty is a
jackknife over seeds, with Student's quantile. The closest reading is used, unless the catalog's own rows are not told
apart from it: then these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite, log, sqrt

from quadnorm.lab.analysis.claims.evidence import LISTING, Reading, Setting, readings_of, row_of, traits
from quadnorm.lab.analysis.results import Library, Seeds
from quadnorm.lab.analysis.statistics.paired import t_quantile
from quadnorm.lab.analysis.tables.study_table import BASELINE
from quadnorm.lab.studies import study as from_catalog
from quadnorm.lab.studies import study_names

Pattern = dict[tuple[str, str, int], float]  # ("ratio" or "growth", row, grid) → logarithm
READ_ROWS = ("quad", "blend")  # the kinds of norm that are compared with LayerNorm


@dataclass(frozen=True)
class Distance:
    """How far a reading's pattern is from the printed one, in per cent: in all, of its ratios, of its growths.

    ``error``: half the 95 % interval of ``value``. ``behind``: how much farther than the closest reading, with half the
    interval of that difference. ``used``: whether claims are judged under it.
    """

    reading: Reading
    value: float
    ratios: float
    growths: float
    error: float
    seeds: int
    behind: tuple[float, float] = (0.0, 0.0)
    used: bool = False

    @property
    def told_apart(self) -> bool:
        """Whether the interval of the difference to the closest reading excludes zero."""
        return self.behind[0] > self.behind[1]


def rows_read(setting: Setting) -> tuple[str, ...]:
    """The paper's rows that the pattern is made of: LayerNorm, QuadNorm and the blends that are printed and run."""
    printed = {label for label, _ in setting.full.printed()}
    kept = {m.label for m in setting.variant.methods}
    return tuple(
        m.label
        for m in setting.full.methods
        if m.label in printed & kept and (m.label == BASELINE or m.norm.partition(":")[0] in READ_ROWS)
    )


def pattern(errors: Mapping[tuple[str, int], float], rows: tuple[str, ...], grids: tuple[int, ...]) -> Pattern:
    """The logarithms of all ratios to LayerNorm, and of all growths.

    >>> p = pattern({("LayerNorm", 32): 2.0, ("LayerNorm", 64): 4.0, ("QuadNorm", 32): 3.0, ("QuadNorm", 64): 3.0},
    ...     ("LayerNorm", "QuadNorm"), (32, 64))
    >>> {key: round(value, 3) for key, value in p.items()}  # doctest: +NORMALIZE_WHITESPACE
    {('ratio', 'QuadNorm', 32): 0.405, ('ratio', 'QuadNorm', 64): -0.288,
     ('growth', 'LayerNorm', 64): 0.693, ('growth', 'QuadNorm', 64): 0.0}
    """
    ratios = {
        ("ratio", row, n): log(errors[row, n] / errors[BASELINE, n]) for row in rows if row != BASELINE for n in grids
    }
    growths = {("growth", row, grids[-1]): log(errors[row, grids[-1]] / errors[row, grids[0]]) for row in rows}
    return {**ratios, **growths}


def distances(library: Library, study: str, variant: str) -> list[Distance]:
    """Every reading of a setting whose rows have two seeds or more, the closest first; empty if there is no choice."""
    key = ("readings", study, variant)
    if key not in library.memo:
        library.memo[key] = _distances(library, study, variant)
    found: list[Distance] = library.memo[key]
    return found


def _distances(library: Library, study: str, variant: str) -> list[Distance]:
    own_setting = Setting(library, study, variant)
    rows, grids = rows_read(own_setting), own_setting.full.test
    if own_setting.results is None or len(rows) < 2 or BASELINE not in rows or len(grids) < 2:
        return []
    theirs = pattern({(row, n): own_setting.value(row, n) for row in rows for n in grids}, rows, grids)
    measured: list[tuple[Reading, dict[tuple[str, int], Seeds]]] = []
    for reading in readings_of(own_setting, rows):
        s = Setting(library, study, variant, reading)
        cells = {(row, n): s.errors(row, n) for row in rows for n in grids}
        if all(cells.values()) and all(isfinite(e) and e > 0 for c in cells.values() for e in c.values()):
            measured.append((reading, cells))
    if len(measured) < 2:
        return []
    seeds = set.intersection(*(set(c) for _, cells in measured for c in cells.values()))
    if len(seeds) < 2:
        return []
    # For every reading: the distance over all seeds, then without one seed after the other.
    listed: list[tuple[Reading, dict[str, float], list[float]]] = []
    for reading, cells in measured:
        whole, *without = (_distance(theirs, cells, seeds - {left}, rows, grids) for left in (None, *sorted(seeds)))
        listed.append((reading, whole, [p["all"] for p in without]))
    closest = min(listed, key=lambda entry: entry[1]["all"])
    found = []
    for reading, whole, parts in listed:
        apart = [a - b for a, b in zip(parts, closest[2], strict=True)]
        found.append(
            Distance(
                reading,
                whole["all"],
                whole["ratio"],
                whole["growth"],
                _jackknife(parts),
                len(seeds),
                (whole["all"] - closest[1]["all"], _jackknife(apart)),
            )
        )
    own, ranked = found[0], sorted(found, key=lambda d: d.value)  # the catalog's own rows come first, if they were run
    taken = ranked[0] if own.told_apart or own.reading != readings_of(own_setting, rows, run_only=False)[0] else own
    return [replace(d, used=d is taken) for d in ranked]


def _distance(
    theirs: Pattern,
    cells: Mapping[tuple[str, int], Seeds],
    seeds: set[int],
    rows: tuple[str, ...],
    grids: tuple[int, ...],
) -> dict[str, float]:
    means = {key: sum(runs[s] for s in seeds) / len(seeds) for key, runs in cells.items()}
    apart = {key: 100 * (value - theirs[key]) for key, value in pattern(means, rows, grids).items()}
    of = {kind: [v for key, v in apart.items() if kind in (key[0], "all")] for kind in ("ratio", "growth")}
    of["all"] = list(apart.values())
    return {kind: sqrt(sum(v * v for v in values) / len(values)) for kind, values in of.items()}


def _jackknife(parts: list[float]) -> float:
    """Half of a 95 % interval from the values without one seed each."""
    n = len(parts)
    mean = sum(parts) / n
    return t_quantile(0.975, n - 1) * sqrt((n - 1) / n * sum((p - mean) ** 2 for p in parts))


def best_reading(library: Library, study: str, variant: str) -> Reading:
    """The reading that a setting's claims are judged under; the catalog's own rows where there is no choice to make."""
    return next((d.reading for d in distances(library, study, variant) if d.used), Reading())


def tries(setting: Setting, labels: tuple[str, ...]) -> int:
    """Among how many different choices for these rows the setting's reading was found."""
    rows = {
        tuple(row_of(d.reading, label, setting.variant) for label in labels)
        for d in distances(setting.library, setting.study, setting.name)
    }
    return max(1, len(rows))


def all_readings(library: Library) -> dict[tuple[str, str], list[Distance]]:
    """The distances of every setting of the paper's studies that has several readings."""
    listed = {}
    for name in study_names():
        for v in from_catalog(name).variants:
            if v.label is not None and (found := distances(library, name, v.name)):
                listed[name, v.name] = found
    return listed


def listing_for(setting: Setting) -> Reading:
    """The listing's defaults, in the terms that the setting leaves open."""
    own: dict[str, str] = {}
    for m in setting.variant.methods:
        own |= traits(m, setting.variant)
    return Reading(**{k: getattr(LISTING, k) for k in own})
