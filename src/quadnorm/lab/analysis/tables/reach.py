"""The error that each way reaches: the paper's norms, anchoring, extension, running at the training grid.

One row per trained setting (operator, problem, grids). All errors of a row are over the same seeds and belong to the
farthest grid; the ways other than the paper's use the LayerNorm model without retraining.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quadnorm.lab.analysis.comparisons import ANCHORED, AS_TRAINED, EXTENDED, NATIVE, TRANSFERRED, evaluation_for
from quadnorm.lab.analysis.results import Library, Results, Seeds
from quadnorm.lab.analysis.statistics.paired import common
from quadnorm.lab.analysis.statistics.summaries import best_or_tied, summarize
from quadnorm.lab.analysis.tables.study_table import native_grid
from quadnorm.lab.analysis.tables.table import Cell, Panel, Table, grid_name, summary_cell
from quadnorm.lab.studies.study import Variant

LAYER, QUAD, BLEND = "LayerNorm", "QuadNorm", "BlendQuadNorm"
AS_IT_IS = "LayerNorm, as trained"
# Column → (method, way).
COLUMNS: dict[str, tuple[str, str]] = {
    AS_IT_IS: (LAYER, AS_TRAINED),
    "QuadNorm (paper)": (QUAD, AS_TRAINED),
    "BlendQuadNorm (paper)": (BLEND, AS_TRAINED),
    "LayerNorm, anchored": (LAYER, ANCHORED),
    "LayerNorm, extended": (LAYER, EXTENDED),
    "LayerNorm, run at the training grid": (LAYER, NATIVE),
    "LayerNorm, transferred": (LAYER, TRANSFERRED),
}


@dataclass(frozen=True)
class Reach:
    """One setting: LayerNorm's errors at the training grid, and the errors at the far grid by column, by seed."""

    study: str
    preset: str
    operator: str
    problem: str
    grids: tuple[int, int]
    native: Seeds
    far: Mapping[str, Seeds]
    traits: tuple[str, ...] = ()  # size, training grids and samples: what may tell settings of one name apart

    @property
    def seeds(self) -> int:
        """The number of seeds that every number of the row is averaged over."""
        return len(self.native)


def reaches(library: Library) -> list[Reach]:
    """Every setting with LayerNorm and at least one other column; studies that share models add to one setting."""
    gathered: dict[str, _Gathered] = {}
    for results in library.all_comparable():
        for v in results.study.variants:
            if native_grid(v) == v.test[-1]:
                continue
            key = repr((v.operator, v.operator_params, v.problem, v.problem_params, v.budget, v.train, v.test[-1]))
            setting = gathered.setdefault(key, _Gathered(results, v, {}, {}))
            setting.native |= results.of(v.name, LAYER, native_grid(v))
            for head, runs in _columns(results, v).items():
                setting.far.setdefault(head, {}).update(runs)
    listed = [reach for setting in gathered.values() if (reach := _reach(setting)) is not None]
    return sorted(listed, key=lambda r: (r.operator, r.problem, r.grids))


@dataclass
class _Gathered:
    """A setting before it is restricted to common seeds; named after the first study that has it."""

    results: Results
    variant: Variant
    native: Seeds
    far: dict[str, Seeds]


def _columns(results: Results, v: Variant) -> dict[str, Seeds]:
    names = [e.name for e in results.study.evaluations]
    columns: dict[str, Seeds] = {}
    for head, (method, way) in COLUMNS.items():
        evaluation = evaluation_for(way, names)
        runs = results.of(v.name, method, v.test[-1], evaluation) if evaluation else {}
        if runs:
            columns[head] = runs
    return columns


def _reach(setting: _Gathered) -> Reach | None:
    ordered = {head: setting.far[head] for head in COLUMNS if head in setting.far}
    if not setting.native or AS_IT_IS not in ordered or len(ordered) < 2:
        return None
    home, *others = common(setting.native, *ordered.values())
    if not home:
        return None
    v, study = setting.variant, setting.results.study
    by_column = dict(zip(ordered, others, strict=True))
    traits = (
        f"width {v.operator_params.get('width')}, {v.operator_params.get('layers')} layers",
        f"trained at {' + '.join(grid_name(n) for n in v.train)}",
        f"{v.budget.train} samples",
    )
    grids = native_grid(v), v.test[-1]
    return Reach(study.name, study.preset, v.operator, v.problem, grids, home, by_column, traits)


def reach_table(library: Library) -> Table:
    """A row per setting, with intervals; bold: the smallest of a row, and errors that a paired test ties with it."""
    rows = []
    listed = reaches(library)
    columns = [head for head in COLUMNS if any(head in r.far for r in listed)]
    wins = dict.fromkeys(columns, 0)
    names = names_apart(listed)
    for r, name in zip(listed, names, strict=True):
        best = best_or_tied(dict(r.far))
        if len(best) == len(r.far):
            best = frozenset()
        for head in best:
            wins[head] += 1
        grids = "\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}".join(grid_name(n) for n in r.grids)
        cells = [Cell(name), Cell(r.problem), Cell(grids), summary_cell(summarize(r.native))]
        for head in columns:
            runs = r.far.get(head)
            cells.append(summary_cell(summarize(runs), head in best) if runs else Cell("—", "missing"))
        cells.append(Cell(f"{r.seeds}, {r.preset}", "value", r.seeds, note=r.study))
        rows.append(tuple(cells))
    heads = ("operator", "problem", "grids", "LayerNorm at the training grid", *columns, "seeds")
    notes = [_wins_note(wins, len(listed))] if listed else []
    return Table(
        "reach",
        "What each way reaches at the farthest grid",
        (Panel("", heads, tuple(rows), text_columns=3),),
        "Relative L² error in %, mean ± 95 % confidence interval over the seeds that all columns of a row have. "
        "Bold: the smallest of its row, and what a paired t-test (Holm, 5 %) does not distinguish from it. "
        "Columns (paper) are trained with that norm; anchored, extended and run at the training grid use the "
        "trained LayerNorm model.",
        tuple(notes),
        "quadnorm study run anchored-crossres --preset desk",
    )


def names_apart(listed: list[Reach]) -> list[str]:
    """The operator of each setting, with the traits that differ between settings of one operator, problem and grids."""
    alike: dict[object, list[Reach]] = {}
    for r in listed:
        alike.setdefault((r.operator, r.problem, r.grids), []).append(r)
    names = []
    for r in listed:
        others = alike[r.operator, r.problem, r.grids]
        differing = (t for k, t in enumerate(r.traits) if len({o.traits[k] for o in others}) > 1)
        names.append(", ".join([r.operator, *differing]))
    return names


def _wins_note(wins: Mapping[str, int], settings: int) -> str:
    ranked = sorted(((count, head) for head, count in wins.items() if count), reverse=True)
    return (
        f"Smallest or tied, of {settings} setting{'s' * (settings != 1)}: "
        + ", ".join(f"{head} in {count}" for count, head in ranked)
        + "."
    )
