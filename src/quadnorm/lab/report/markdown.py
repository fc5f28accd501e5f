"""The results as Markdown: a page for the documentation, and the table at the head of the README.

Both are generated from records; the same records give the same bytes on any day.
"""

from __future__ import annotations

from pathlib import Path

from quadnorm._files import write_atomic
from quadnorm.lab.analysis.claims.contradictions import CONTRADICTIONS
from quadnorm.lab.analysis.claims.verdicts import NOT_RUN, VERDICTS, Judged, judge_all
from quadnorm.lab.analysis.library import Library
from quadnorm.lab.analysis.statistics.summaries import summarize
from quadnorm.lab.analysis.tables.reach import COLUMNS, Reach, reach_table, reaches
from quadnorm.lab.analysis.tables.study_table import table_of
from quadnorm.lab.analysis.tables.text import escaped
from quadnorm.lab.report.cards import OPERATORS, cards
from quadnorm.lab.report.overview import counts

UNLEARNED = 25.0  # LayerNorm's error in % at the training grid from which on a model has not learned its problem
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
COMMAND = "make results"
FULL_SIZE = (
    "Trained with the paper's samples, epochs, width and grids, one seed: an anchor for the smaller runs below, not a "
    "study. The data are drawn anew, and every grid sees the same test instances."
)

GUIDE = """\
What the paper claims, and what our own runs show. Every number is a relative L² error in %, unless its table says
otherwise: smaller is better. The words used below:

- *as trained*: the model is used on the other grid as it is. *Anchored*, *extended*, *run at the training grid*: the
  same trained weights, used in one of three ways that need no training.
- *native*: at the training grid. *32² → 256²*: trained on 32 × 32 samples, tested on 256 × 256.
- *desk*: a small budget that runs in minutes on two cores, with fewer samples and often coarser grids than the paper's.
  Compare the rows of a table with each other, not its numbers with the paper's.
- *↳ paper*: what the paper prints for the row above."""


def results_page(library: Library) -> str:
    """The documentation's page of results."""
    n = counts(library)
    judged = judge_all(library)
    parts = [
        "# Results",
        GUIDE,
        f"Generated from records by `{COMMAND}`; edits are lost.",
        f"{n.runs} trained models in {n.studies} of {n.of} studies"
        + (f", {n.diverged} of them diverged" if n.diverged else "")
        + ".",
        "\n".join(f"- {escaped(card.sentence)} ({escaped(card.budget)})" for card in cards(library)),
    ]
    table = reach_table(library)
    if table.panels[0].rows:
        parts += ["## What each way reaches", table.markdown()]
    parts += ["## Verdicts on claims", verdict_summary(judged), verdict_table(judged)]
    parts.append("### Where the paper's tables disagree")
    parts.append("\n".join(f"- *{name}*: {escaped(text)}" for name, text in CONTRADICTIONS.items()))
    full_size = library.of_full_size()
    if full_size:
        parts += ["## Runs of the paper's size", FULL_SIZE]
        for results in full_size:
            parts += [f"### {results.study.name}, paper preset", table_of(results).markdown()]
    studies = list(library.all_comparable())
    if studies:
        parts.append("## Studies")
        for results in studies:
            shown = table_of(results)
            parts += [f"### {results.study.name}", f"`{shown.command}`", shown.markdown()]
    return "\n\n".join(stripped for part in parts if (stripped := part.strip())) + "\n"


def verdict_summary(judged: tuple[Judged, ...]) -> str:
    """``12 reproduced, 3 partly, …``, separately for the paper's claims and ours."""
    lines = []
    for ours, whose in ((False, "The paper's claims"), (True, "Ours")):
        group = [j.verdict for j in judged if j.claim.ours == ours]
        listed = ", ".join(f"{group.count(v)} {v}" for v in VERDICTS if v in group)
        lines.append(f"{whose}: {listed}.")
    return " ".join(lines)


def verdict_table(judged: tuple[Judged, ...]) -> str:
    """One row per case of every claim that the records decide; below it, a list of the other claims."""
    rows = ["| verdict | claim | claimed | measured | records, statistic |", "|:--|:--|:--|:--|:--|"]
    for j in judged:
        decided = [f for f in j.findings if f.verdict != NOT_RUN]
        open_parts = len(j.findings) - len(decided)
        rest = f" (of {len(j.findings)} parts {open_parts} not run)" if open_parts else ""
        for k, f in enumerate(decided):
            first = k == 0
            verdict = f"**{j.verdict}**{rest}" if first else ""
            tables = " ".join(f"`{t}`" for t in j.claim.tables)
            claim = f"{escaped(j.claim.text)} {tables}".strip() if first else ""
            part = f" ({f.verdict})" if len(j.findings) > 1 else ""
            part += f". Not testable: {escaped(f.reason)}" if f.reason else ""
            rows.append(
                f"| {verdict} | {claim} | {escaped(f.claimed)} | {escaped(f.measured)}{part} | "
                f"{escaped(f.budget)}; {escaped(f.kind)} |"
            )
        if j.likely_reason:
            rows.append(f"|  | *Likely reason:* {escaped(j.likely_reason)} | | | |")
    undecided = [j.claim.name for j in judged if j.verdict == NOT_RUN]
    text = "\n".join(rows) if len(rows) > 2 else ""
    return text + (f"\n\nNot decided by these records: {', '.join(undecided)}." if undecided else "")


def readme_table(library: Library, most: int = 8) -> str:
    """The head table of a README: at most ``most`` settings, the largest gaps first, smallest error in bold.

    Settings whose models have not learned the problem are left out: they show nothing about grids.
    """
    learned = [r for r in reaches(library) if summarize(r.native).mean < UNLEARNED]
    listed = sorted(learned, key=lambda r: (-r.grids[1] / r.grids[0], r.operator, r.problem))
    shown = _one_per_pair(listed)[:most]
    if not shown:
        return "No comparable records yet."
    columns = [head for head in COLUMNS if any(head in r.far for r in shown)]
    heads = ["model, problem", "grids", "at the training grid", *columns, "seeds"]
    lines = ["| " + " | ".join(heads) + " |", "|:--|:--|" + "--:|" * (len(heads) - 2)]
    for r in shown:
        means = {head: summarize(runs) for head, runs in r.far.items()}
        best = min(means, key=lambda head: means[head].mean)
        cells = [f"{OPERATORS.get(r.operator, r.operator)}, {r.problem}", f"{r.grids[0]}² → {r.grids[1]}²"]
        cells.append(str(summarize(r.native)))
        for head in columns:
            text = str(means[head]) if head in means else "—"
            cells.append(f"**{text}**" if head == best else text)
        lines.append("| " + " | ".join([*cells, str(r.seeds)]) + " |")
    caption = (
        "Relative L² error in %, mean ± 95 % interval over seeds, at the finer grid. Columns (paper) are trained with "
        "that norm; the last ways use the trained LayerNorm model as it is, without retraining."
    )
    return "\n".join([*lines, "", caption, *reach_table(library).notes])


def _one_per_pair(listed: list[Reach]) -> list[Reach]:
    """The first of each (operator, problem)."""
    chosen: dict[tuple[str, str], Reach] = {}
    for r in listed:
        chosen.setdefault((r.operator, r.problem), r)
    return list(chosen.values())


def update_readme(path: Path, library: Library) -> None:
    """Replace the text between the two result marks of a README by the head table."""
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(
            f"{path} needs the lines {BEGIN} and {END}, once each and in this order; add them and try again"
        )
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    write_atomic(path, f"{head}{BEGIN}\n{readme_table(library)}\n{END}{tail}".encode(), "the README")


def write_results(path: Path, library: Library) -> None:
    """Write the page of results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, results_page(library).encode(), "the page of results")
