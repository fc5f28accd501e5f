"""The results as Markdown: a page for the documentation, and the table of verdicts in the README.

Both are generated from records; the same records give the same bytes on any day.
"""

from __future__ import annotations

from pathlib import Path

from quadnorm._files import write_atomic
from quadnorm.lab.analysis.claims.judging import Judged, judge_all
from quadnorm.lab.analysis.claims.ledger import CONTRADICTIONS, FIELD
from quadnorm.lab.analysis.claims.verdicts import VERDICTS
from quadnorm.lab.analysis.library import Library
from quadnorm.lab.analysis.tables.reach import reach_table
from quadnorm.lab.analysis.tables.study_table import table_of
from quadnorm.lab.analysis.tables.text import escaped
from quadnorm.lab.report.cards import cards
from quadnorm.lab.report.overview import counts
from quadnorm.lab.report.verdict_tables import READINGS, counted, readings_table, reasons, sentences, verdict_table

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
COMMAND = "make results"
FULL_SIZE = (
    "Trained with the paper's samples, epochs, width and grids, as many seeds as the column says: an anchor for the "
    "smaller runs below. The data are drawn anew, and every grid sees the same test instances."
)

GUIDE = """\
*Reproduced*: the claimed direction, a confidence interval that excludes zero, and at least half the claimed size, in
every part of a claim; of equality, an interval inside the margin. *Contradicted*: no such effect, and an interval that
excludes half the size. *Partly*: anything between, undecided among it. *Not testable*: the models have not learned the
problem. Intervals are Student's and Fieller's. *Desk*: a small budget that runs in minutes on two cores, with fewer
samples and often coarser grids than the paper's."""

WORDS = """\
Every number is a relative L² error in %, unless its table says otherwise: smaller is better. The words used below:

- *as trained*: the model is used on the other grid unchanged. *Anchored*, *extended*, *run at the training grid*,
  *transferred*: the same trained weights, used in one of four ways that need no training.
- *native*: at the training grid. *32² → 256²*: trained on 32 × 32 samples, tested on 256 × 256.
- *desk*: a small budget that runs in minutes on two cores, with fewer samples and often coarser grids than the paper's.
  Compare the rows of a table with each other, not its numbers with the paper's.
- *↳ paper*: what the paper prints for the row above. Rows without it are ours: other readings of the paper's rows,
  named by what they are."""


def results_page(library: Library) -> str:
    """The documentation's page of results: what can be quoted, the verdicts, the readings; the tables are elsewhere."""
    n = counts(library)
    judged = judge_all(library)
    parts = [
        "# Results",
        " ".join(sentences(judged, library)),
        GUIDE,
        f"Generated from records by `{COMMAND}`; edits are lost. "
        f"{n.runs} trained models, {n.hours:.0f} hours of one core, in {n.studies} of {n.of} studies"
        + (f", {n.diverged} of them diverged" if n.diverged else "")
        + "; [all tables](results-studies.md).",
        "## Verdicts on claims",
        verdict_summary(judged),
        verdict_table(judged),
    ]
    field = judge_all(library, FIELD)
    if any(j.models for j in field):
        parts += [
            "## Verdicts on claims of other papers",
            counted(j.verdict for j in field) + ".",
            verdict_table(field),
        ]
    if why := reasons(judged):
        parts += ["### Why some fall short, as far as we can tell", why]
    if table := readings_table(library):
        parts += ["## How the paper's tables were read", READINGS, table]
    parts += ["## Where the paper's tables disagree"]
    parts.append("\n".join(f"- *{name}*: {escaped(text)}" for name, text in CONTRADICTIONS.items()))
    reach = reach_table(library)
    if reach.panels[0].rows:
        parts += ["## What each way reaches", reach.markdown()]
        parts.append("\n".join(f"- {escaped(card.sentence)} ({escaped(card.budget)})" for card in cards(library)))
    return _page(parts)


def studies_page(library: Library) -> str:
    """The tables of every study, and of the runs of the paper's size."""
    parts = ["# Results, study by study", WORDS, f"Generated from records by `{COMMAND}`; edits are lost."]
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
    return _page(parts)


def _page(parts: list[str]) -> str:
    return "\n\n".join(stripped for part in parts if (stripped := part.strip())) + "\n"


def verdict_summary(judged: tuple[Judged, ...]) -> str:
    """``12 reproduced, 3 partly, …``, separately for the paper's claims and ours."""
    paper, ours = ([j.verdict for j in judged if j.claim.ours == own] for own in (False, True))
    return f"The paper's claims: {counted(paper)}. Ours: {counted(ours)}."


def readme_table(library: Library) -> str:
    """The table of a README: how many of the paper's claims hold, and the first of each kind.

    Each claim is judged twice: with the reading of the paper that fits its table best, and with the listing's defaults.
    """
    judged = [j for j in judge_all(library) if not j.claim.ours]
    lines = ["| the paper's claims | read as each table fits best | with the listing's defaults | the first of them |"]
    lines.append("|:--|--:|--:|:--|")
    for verdict in VERDICTS:
        found = [j for j in judged if j.verdict == verdict]
        others = sum(j.listing == verdict for j in judged)
        if found or others:
            first = f"{escaped(found[0].claim.text)}" if found else "—"
            lines.append(f"| {verdict} | {len(found)} | {others} | {first} |")
    return "\n".join(lines)


def update_readme(path: Path, library: Library) -> None:
    """Replace the text between the two result marks of a README by the table of verdicts."""
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(
            f"{path} needs the lines {BEGIN} and {END}, once each and in this order; add them and try again"
        )
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    write_atomic(path, f"{head}{BEGIN}\n{readme_table(library)}\n{END}{tail}".encode(), "the README")


def studies_file(path: Path) -> Path:
    """The page of tables beside a page of results."""
    return path.with_name(f"{path.stem}-studies{path.suffix}")


def write_results(path: Path, library: Library) -> None:
    """Write the page of results, and the tables beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, results_page(library).encode(), "the page of results")
    write_atomic(studies_file(path), studies_page(library).encode(), "the tables of results")
