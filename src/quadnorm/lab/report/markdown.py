"""The results as Markdown: pages for the documentation, and the table of verdicts in the README.

They are generated from records; the same records give the same bytes on any day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, repeat
from pathlib import Path

from quadnorm._files import write_atomic
from quadnorm.lab.analysis.claims.judging import CONTRADICTIONS, FIELD, Judged, judge_all
from quadnorm.lab.analysis.claims.readings import Distance, all_readings
from quadnorm.lab.analysis.claims.verdicts import (
    CONTRADICTED,
    NOT_RUN,
    NOT_TESTABLE,
    PARTLY,
    REPRODUCED,
    VERDICTS,
    Finding,
)
from quadnorm.lab.analysis.export import attempt, drawing
from quadnorm.lab.analysis.figures.style import standalone_svg
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.analysis.tables.reach import reach_table
from quadnorm.lab.analysis.tables.study_table import table_of
from quadnorm.lab.analysis.tables.writers import escaped
from quadnorm.lab.report.cards import cards, counts
from quadnorm.lab.studies import study as from_catalog

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
COMMAND = "make results"
PICTURED = drawing("printed")
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


def results_page(library: Library, picture: str = "") -> str:
    """The documentation's page of results: the answer, a figure (``picture``, beside the page), a table, then details.

    Details are folded; their heads are not, so that links find them. The tables of all studies are on another page.
    """
    n = counts(library)
    judged = judge_all(library)
    parts = ["# Results", "\n".join(f"- {sentence}" for sentence in sentences(judged, library))]
    if picture:
        parts += [f"![{PICTURED.title}]({picture})", f"*{PICTURED.caption}*"]
    parts += [
        readme_table(library),
        GUIDE,
        f"Generated from records by `{COMMAND}`; edits are lost. "
        f"{n.runs} trained models, {n.hours:.0f} hours of one core, in {n.studies} of {n.of} studies"
        + (f", {n.diverged} of them diverged" if n.diverged else "")
        + "; [all tables](results-studies.md).",
    ]
    reach = reach_table(library)
    if rows := reach.panels[0].rows:
        parts += [
            "## What each way reaches",
            "\n".join(f"- {escaped(card.sentence)} ({escaped(card.budget)})" for card in cards(library)),
            folded(f"All {len(rows)} settings", reach.markdown()),
        ]
    parts += ["## Verdicts on claims", verdict_summary(judged)]
    parts.append(folded(f"Each of the {len(judged)} claims, with its evidence", verdict_table(judged)))
    field = judge_all(library, FIELD)
    if any(j.models for j in field):
        parts += ["## Verdicts on claims of other papers", counted(j.verdict for j in field) + "."]
        parts.append(folded(f"Each of the {len(field)} claims, with its evidence", verdict_table(field)))
    if why := reasons(judged):
        parts += ["## Why some fall short, as far as we can tell", folded("A reason for each claim", why)]
    if table := readings_table(library):
        parts += ["## How the paper's tables were read", folded("The method, and every reading", READINGS, table)]
    contradictions = "\n".join(f"- *{name}*: {escaped(text)}" for name, text in CONTRADICTIONS.items())
    parts += ["## Where the paper's tables disagree", folded(f"{len(CONTRADICTIONS)} places", contradictions)]
    return _page(parts)


def folded(summary: str, *parts: str) -> str:
    """Markdown that opens with a click, on GitHub and on the site; the empty lines keep its inside Markdown."""
    return "\n\n".join((f"<details>\n<summary>{summary}</summary>", *parts, "</details>"))


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
    """Write the page of results, its figure and the tables beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, _ = attempt(PICTURED.name, library)
    picture = "" if figure is None else f"{path.stem}.svg"
    if figure is not None:
        write_atomic(path.with_name(picture), standalone_svg(figure, PICTURED.title).encode(), "the figure of results")
    write_atomic(path, results_page(library, picture).encode(), "the page of results")
    write_atomic(studies_file(path), studies_page(library).encode(), "the tables of results")


READINGS = """\
The paper leaves open which norms stand behind some of its rows: whether LayerNorm in an attention model reduces over
(C, H, W) or over the channels of each token, whether QuadNorm runs in layer mode (the listing's default) or in instance
mode, and which weights it takes on the interior grid of Helmholtz. Each reading is a row of ours. Which one fits is
decided table by table: the distance is the root mean square, in per cent, between measured and printed ratios of errors
(to LayerNorm's, at every grid) and growths (of every norm, to the farthest grid), ± half of a 95 % interval over seeds
(a jackknife). *Behind*: how much farther than the closest, with its own interval; readings within it of zero are not
told apart. Claims are judged under the closest, or under our studies' own rows where these are not told from it (in
bold); what the others that are not told apart would say stands in the verdicts. Intervals of verdicts widen with the
number of readings that they were chosen among, so that no verdict comes from the choice."""


def counted(verdicts: Iterable[str]) -> str:
    """``12 reproduced, 3 partly``."""
    n = Counter(verdicts)
    return ", ".join(f"{n[v]} {v}" for v in VERDICTS if n[v])


def sentences(judged: tuple[Judged, ...], library: Library) -> list[str]:
    """Five sentences that a reader can quote, from the verdicts themselves."""
    paper = [j for j in judged if not j.claim.ours]
    run = [j for j in paper if j.models]
    if not run:
        return []
    holds = [j for j in paper if j.verdict == REPRODUCED]
    against = [j for j in paper if j.verdict == CONTRADICTED]
    only = [j for j in holds if j.listing not in (REPRODUCED, NOT_RUN)]
    models = frozenset().union(*(j.models for j in paper))
    problems = sorted({p for j in run for p in _problems(j)})
    seeds = Counter(f.budget.rpartition(", ")[2] for j in run for f in j.findings if "seed" in f.budget)
    first = (
        f"Of {len(paper)} claims of the paper, {counted(j.verdict for j in paper)}, each read as its table fits best; "
        f"with the defaults of the paper's listing, {counted(j.listing for j in paper)}."
    )
    second = f"What holds: {_named(holds, 1)}." if holds else "No claim holds in all its parts."
    third = (
        f"What holds only for a reading other than the listing's defaults: {_named(only)}."
        if only
        else "No verdict of “reproduced” depends on a reading other than the listing's defaults."
    )
    open_ones = [j for j in paper if j.verdict == PARTLY]
    agree = [j for j in open_ones if all(f.agrees for f in j.findings)]
    fourth = (
        (f"What does not hold: {_named(against)}" if against else "No claim is contradicted in all its parts")
        + f"; {len(open_ones)} more hold in part or are not decided, and in {len(agree)} of these every mean agrees "
        "with the paper but the seeds are too few to tell it from chance."
    )
    on_darcy = [j for j in holds if _problems(j) <= {"darcy"}]
    families = Counter(family for j in holds for family in set(j.families))
    most = families.most_common(1)
    fifth = (
        f"This rests on {len(models)} trained models of {len(problems)} problems ({', '.join(problems)}), mostly with "
        f"{seeds.most_common(1)[0][0]} each and a budget far below the paper's; {len(on_darcy)} of {len(holds)} "
        "reproduced claims rest on Darcy alone"
        + (f", {most[0][1]} of them on one family of models ({most[0][0]})" if most else "")
        + ", and by chance alone a case is called reproduced at most one time in twenty."
    )
    return [first, second, third, fourth, fifth]


def _problems(j: Judged) -> set[str]:
    return {part.split(", ")[1] for family in j.families for part in family.split("; ")}


def _named(judged: list[Judged], numbers: int = 0) -> str:
    """The names of claims, the first ones with what was claimed and measured."""
    shown = [f"({j.findings[0].claimed}; measured {j.findings[0].measured})" for j in judged[:numbers]]
    return "; ".join(
        f"*{j.claim.name}* {escaped(text)}".strip() for j, text in zip(judged, chain(shown, repeat("")), strict=False)
    )


def verdict_table(judged: tuple[Judged, ...]) -> str:
    """One row per claim: its verdict, the listing's, what was claimed and measured, and the models behind it."""
    rows = [
        "| claim | verdict | with the listing's defaults | claimed → measured | rests on |",
        "|:--|:--|:--|:--|:--|",
    ]
    for j in judged:
        tables = " ".join(f"`{t}`" for t in j.claim.tables)
        source = f" ({j.claim.source})" if j.claim.source else ""
        claim = f"*{escaped(j.claim.name)}*{source}: {escaped(j.claim.text)} {tables}".strip()
        several = len(j.findings) > 1
        parts = [_part(f, several) for f in j.findings if f.verdict != NOT_RUN]
        left = len(j.findings) - len(parts)
        parts += [f"{left} of {len(j.findings)} parts not run"] if left else []
        listing = "—" if j.claim.ours or j.claim.source else j.listing
        rows.append(f"| {claim} | **{j.verdict}** | {listing} | {'<br>'.join(parts)} | {_rests_on(j)} |")
    return "\n".join(rows)


def _part(f: Finding, several: bool) -> str:
    text = f"{escaped(f.claimed)} → {escaped(f.measured)}"
    text += f" ({f.verdict})" if several else ""
    text += f". Not testable: {escaped(f.reason)}" if f.reason and f.verdict == NOT_TESTABLE else ""
    text += "".join(f"; {escaped(c)}" for c in f.caveats)
    return text + "".join(f"; read as {escaped(name)}: {verdict}" for name, verdict in f.elsewhere)


def _rests_on(j: Judged) -> str:
    if not j.models:
        return "; ".join(dict.fromkeys(f.budget for f in j.findings if f.budget)) or "—"
    budgets = "; ".join(dict.fromkeys(f.budget for f in j.findings if f.budget))
    others = f"shared with {j.shared} other claims" if j.shared else "shared with no other claim"
    read = "; ".join(dict.fromkeys(f.reading for f in j.findings if f.reading))
    kinds = "; ".join(dict.fromkeys(f.kind for f in j.findings if f.kind))
    models = f"{len(j.models)} models ({escaped('; '.join(j.families))}; {escaped(budgets)}), {others}"
    return f"{models}. Read: {escaped(read)}. By: {escaped(kinds)}"


def reasons(judged: tuple[Judged, ...]) -> str:
    """Why claims fall short, one line each."""
    return "\n".join(
        f"- *{escaped(j.claim.name)}* ({j.verdict}): {escaped(j.likely_reason)}" for j in judged if j.likely_reason
    )


def readings_table(library: Library) -> str:
    """Every reading of every setting that has several, the closest first."""
    rows = [
        "| table | reading | distance | of ratios | of growths | behind the closest | seeds |",
        "|:--|:--|--:|--:|--:|--:|--:|",
    ]
    for (name, variant), found in all_readings(library).items():
        label = from_catalog(name).variant(variant).label
        where = f"`{label}`" + ("" if variant == "main" else f", {escaped(variant)}")
        for k, d in enumerate(found):
            rows.append(f"| {where if k == 0 else ''} | {_bold(escaped(str(d.reading)), d.used)} | {_numbers(d, k)} |")
    return "\n".join(rows) if len(rows) > 2 else ""


def _bold(text: str, yes: bool) -> str:
    return f"**{text}**" if yes else text


def _numbers(d: Distance, place: int) -> str:
    behind = "" if place == 0 else f"{d.behind[0]:.1f} ± {d.behind[1]:.1f}"
    return f"{d.value:.1f} ± {d.error:.1f} | {d.ratios:.1f} | {d.growths:.1f} | {behind} | {d.seeds}"
