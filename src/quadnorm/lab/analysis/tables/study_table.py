"""The table of a study: errors by grid, the paper's values, degradation, tests against LayerNorm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from statistics import fmean

from quadnorm.lab.analysis.results import Results, Seeds, learned_alphas, load_results, printed_variant
from quadnorm.lab.analysis.statistics.paired import PairedTest, common, holm, paired_t
from quadnorm.lab.analysis.statistics.summaries import best_or_tied, degradation, summarize
from quadnorm.lab.analysis.tables.table import Cell, Panel, PrintedCell, Table, grid_name, p_text, summary_cell
from quadnorm.lab.studies.paper import SPREADS, paper_table
from quadnorm.lab.studies.study import Method, Study, Variant, Way

BASELINE = "LayerNorm"

RowKey = tuple[str, str]  # method, evaluation
Tests = dict[tuple[RowKey, int], PairedTest]


def command(study: Study) -> str:
    """The command that runs a study."""
    return f"quadnorm study run {study.name} --preset {study.preset}"


def native_grid(variant: Variant) -> int:
    """The grid that degradation is measured from: the finest training grid, or else the first test grid."""
    trained = [n for n in variant.test if n in variant.train]
    return max(trained) if trained else variant.test[0]


def has_baseline(results: Results, variant: Variant) -> bool:
    """Whether there is a LayerNorm row to test against, and another row to test."""
    rows = len(variant.methods) * len(results.study.evaluations)
    return rows > 1 and any(m.label == BASELINE for m in variant.methods)


def budget_lines(study: Study, variant: Variant) -> tuple[str, ...]:
    """The operator, the problem and the budget of a variant, and how they differ from the paper."""
    b, full = variant.budget, printed_variant(study, variant)
    params = ", ".join(f"{k} {v}" for k, v in variant.operator_params.items())
    trained = " and ".join(grid_name(n) for n in variant.train)
    setting = ", ".join(f"{k} {v}" for k, v in variant.problem_params.items())
    operator = f"{variant.operator} ({params})" if params else variant.operator
    lines = [
        f"{operator} on {variant.problem}{f' ({setting})' if setting else ''}, trained at {trained}",
        f"{study.preset} preset: {b.train} training and {b.test} test samples, {b.epochs} epochs, batch {b.batch}, "
        f"learning rate {b.lr:g}",
    ]
    if variant.label and study.preset != "paper":
        p = full.budget
        grids = ", ".join(grid_name(n) for n in full.test)
        runs = paper_table(variant.label).runs()
        lines.append(
            f"paper ({variant.label}): {p.train} samples, {p.epochs} epochs, grids {grids}{runs and f', {runs}'}"
        )
    return tuple(lines)


def panel_of(results: Results, variant: Variant) -> Panel:
    """The panel of one variant: a row for each method and way to use it."""
    study = results.study
    full = printed_variant(study, variant)
    printed = full.printed()
    tests = baseline_tests(results, variant)
    best: dict[int, set[RowKey]] = {n: set() if results.mixed else _best(results, variant, n) for n in variant.test}
    rows = []
    for method in variant.methods:
        theirs = {n: printed.get((method.label, m)) for n, m in zip(variant.test, full.test, strict=True)}
        for e in study.evaluations:
            # The paper uses every model as trained, so its values belong to that way only.
            beside = {n: c for n, c in theirs.items() if c is not None} if e is study.evaluations[0] else {}
            rows.append(_row(results, variant, method, e, beside, tests, best))
    title = variant.name if len(study.variants) > 1 else ""
    columns = _columns(study, variant, full, with_p=bool(tests))
    return Panel(title, columns, tuple(rows), budget_lines(study, variant), 2 if len(study.evaluations) > 1 else 1)


def _columns(study: Study, variant: Variant, full: Variant, with_p: bool) -> tuple[str, ...]:
    native, far = native_grid(variant), variant.test[-1]
    heads = ["method"] + (["used"] if len(study.evaluations) > 1 else [])
    for n, theirs in zip(variant.test, full.test, strict=True):
        stands_for = f" (paper {grid_name(theirs)})" if theirs != n and variant.label else ""
        heads.append(grid_name(n) + (" native" if n == native else "") + stands_for)
    heads += [f"{grid_name(native)} → {grid_name(far)}"] if far != native else []
    heads += ["p"] if with_p else []
    return (*heads, "seeds")


def _row(
    results: Results,
    variant: Variant,
    method: Method,
    way: Way,
    printed: dict[int, PrintedCell],
    tests: Tests,
    best: dict[int, set[RowKey]],
) -> tuple[Cell, ...]:
    """One method in one use: its errors by grid, with what the paper printed, then what follows from them."""
    study = results.study
    native, far = native_grid(variant), variant.test[-1]
    key = (method.label, way.name)
    row = [Cell(method.label)] + ([Cell(way.label)] if len(study.evaluations) > 1 else [])
    for n in variant.test:
        runs = results.of(variant.name, method.label, n, way.name)
        if not runs:
            row.append(Cell("not run", "missing", note=command(study), paper=printed.get(n)))
            continue
        summary = summarize(runs, study.spread(variant))
        row.append(summary_cell(summary, key in best[n], printed.get(n), _test_note(tests.get((key, n)))))
    if far != native:
        row.append(_degradation(results, variant, method, way, native, far, printed))
    if tests:
        row.append(_p_cell(tests.get((key, far))))
    return (*row, _seeds_cell(results, variant, method, way))


def baseline_tests(results: Results, variant: Variant) -> Tests:
    """Tests of each row at each grid against LayerNorm as trained, on common seeds; all are one Holm family.

    Empty without a LayerNorm row, for mixed data, or if no two rows share two seeds.
    """
    if results.mixed or not has_baseline(results, variant):
        return {}
    first = results.study.evaluations[0].name
    tests: Tests = {}
    for method in variant.methods:
        for e in results.study.evaluations:
            if (method.label, e.name) == (BASELINE, first):
                continue
            for n in variant.test:
                runs, base = common(
                    results.of(variant.name, method.label, n, e.name), results.of(variant.name, BASELINE, n, first)
                )
                # At the training grid an anchored model is the trained one, bit for bit: nothing to test.
                if len(runs) > 1 and runs != base:
                    tests[(method.label, e.name), n] = paired_t(runs, base)
    return holm(tests)


def _test_note(test: PairedTest | None) -> str:
    return "" if test is None or not isfinite(test.p_holm) else f"p = {p_text(test.p_holm)} against {BASELINE} (Holm)"


def _p_cell(test: PairedTest | None) -> Cell:
    if test is None or not isfinite(test.p_holm):
        return Cell("—", note=test.note if test is not None else "")
    note = f"{test.n} seeds, difference {test.difference:+.2f} points".replace("-", "−")
    return Cell(p_text(test.p_holm), "value", test.p_holm, note=note)


def _best(results: Results, variant: Variant, n: int) -> set[RowKey]:
    """(method, evaluation) of the best and those tied with it, on the seeds that all of them have."""
    by_row = {
        (m.label, e.name): runs
        for m in variant.methods
        for e in results.study.evaluations
        if (runs := results.of(variant.name, m.label, n, e.name))
    }
    if len(by_row) < 2:
        return set()
    shared: dict[RowKey, Seeds] = dict(zip(by_row, common(*by_row.values()), strict=True))
    if not all(shared.values()):
        return set()
    best = best_or_tied(shared)
    return set() if len(best) == len(by_row) else set(best)


def _degradation(
    results: Results,
    variant: Variant,
    method: Method,
    e: Way,
    native: int,
    far: int,
    printed: Mapping[int, PrintedCell],
) -> Cell:
    a, b = common(*(results.of(variant.name, method.label, n, e.name) for n in (native, far)))
    paper = None
    if native in printed and far in printed:
        low, high = printed[native].value, printed[far].value
        paper = PrintedCell(_rise(high - low, high / low)) if low and high else None
    if not a:
        return Cell("not run", "missing", note=command(results.study), paper=paper)
    rise = degradation(a, b)
    if not isfinite(rise.mean):
        return Cell("—", "failed", note=rise.note, paper=paper)
    factor = sum(b.values()) / sum(a.values())
    return Cell(_rise(rise.mean, factor), "value", rise.mean, rise.spread, note=rise.note, paper=paper)


def _rise(points: float, factor: float) -> str:
    # A rise that is rounded to zero is shown without a sign.
    shown = f"{points:+.2f}" if abs(points) >= 0.005 else "0.00"
    return f"{shown} (×{factor:.2f})".replace("-", "−")


def _seeds_cell(results: Results, variant: Variant, method: Method, e: Way) -> Cell:
    """The number of seeds behind the row's numbers; ``2–3 of 3`` if its cells differ."""
    by_grid = [set(results.of(variant.name, method.label, n, e.name)) for n in variant.test]
    counts = sorted({len(seeds) for seeds in by_grid})
    planned = len(results.study.seeds_of(method))
    text = "–".join(str(c) for c in dict.fromkeys((counts[0], counts[-1])))
    listed = sorted(set().union(*by_grid))
    note = "seeds " + ", ".join(str(s) for s in listed) if listed else ""
    return Cell(text if counts == [planned] else f"{text} of {planned}", "value", counts[0], note=note)


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
