"""The table of one study: its panels, caption and notes."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from statistics import fmean

from quadnorm.lab.analysis.results import Results, learned_alphas, load_results
from quadnorm.lab.analysis.tables.panel import BASELINE, command, has_baseline, native_grid, panel_of
from quadnorm.lab.analysis.tables.table import Table
from quadnorm.lab.studies.paper import SPREADS
from quadnorm.lab.studies.study import Study

NOT_LEARNED = 4  # times the best row's error


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
    """The table of a study whose results are loaded already."""
    study = results.study
    panels = tuple(panel_of(results, variant) for variant in study.variants)
    notes = list(study.notes)
    if study.preset == "smoke":
        notes.insert(0, "The smoke preset learns nothing: its numbers show only that everything runs.")
    elif study.preset != "paper" and any(v.label for v in study.variants):
        notes.insert(
            0,
            f"The {study.preset} preset trains less and on coarser grids than the paper: compare methods with each "
            "other, not means with the paper's.",
        )
    notes += [*_unlearned(results), *_learned(results)]
    return Table(
        name=study.name,
        title=study.title,
        panels=panels,
        caption=_caption(results),
        notes=tuple(notes),
        command=command(study),
        warnings=results.problems,
    )


def _unlearned(results: Results) -> list[str]:
    """Rows whose error at the training grid is so far above the best one's that they show nothing about other grids."""
    lines = []
    way = results.study.evaluations[0].name
    for variant in results.study.variants:
        native = native_grid(variant)
        seeds = {m.label: results.of(variant.name, m.label, native, way).values() for m in variant.methods}
        means = {label: fmean(errors) for label, errors in seeds.items() if errors}
        best = min((m for m in means.values() if isfinite(m)), default=inf)
        for label, mean in means.items():
            if isfinite(mean) and mean > max(NOT_LEARNED * best, 20):
                whose = label if len(results.study.variants) == 1 else f"{variant.name}, {label}"
                lines.append(
                    f"{whose} has {mean:.1f} % at the training grid, the best row {best:.1f} %: it has not learned the "
                    "problem in this budget, and its rows say nothing about other grids."
                )
    return lines


def _learned(results: Results) -> list[str]:
    """Learned blend weights α after training, one line for each method that learns them."""
    lines = []
    for variant in results.study.variants:
        for method in variant.methods:
            by_seed = learned_alphas(results, variant.name, method.label)
            if by_seed:
                every = [a for layers in by_seed.values() for a in layers]
                mean = sum(every) / len(every)
                lines.append(
                    f"{variant.name}, {method.label}: learned α {mean:.2f} on average, {min(every):.2f} to "
                    f"{max(every):.2f} over {len(by_seed)} seeds and their layers (the paper: 0.3 to 0.4)."
                )
    return lines


def _caption(results: Results) -> str:
    study = results.study
    paper = "; below it, the paper's value" if any(v.label for v in study.variants) else ""
    if len(results.seeds) == 1:
        return f"Relative L² error in %, one seed: no interval and no test{paper}. Bold: the smallest of its column."
    kinds = dict.fromkeys(study.spread(v) for v in study.variants)
    spread = " or ".join(SPREADS[kind] for kind in kinds)
    if len(kinds) > 1:
        spread += " (as the paper prints each table)"
    tests = ""
    if any(has_baseline(results, v) for v in study.variants):
        tests = f" p: paired t-test against {BASELINE} as trained at the last grid, Holm-corrected over the table."
    return (
        f"Relative L² error in %, mean ± {spread} over seeds{paper}. Bold: the smallest of its column, and those that "
        "a paired t-test (Holm, 5 %) on the seeds common to all rows does not distinguish from it; no bold where it "
        f"distinguishes none.{tests}"
    )
