"""The verdicts in words and tables: five sentences to quote, a row per claim, and how the paper's tables were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, repeat

from quadnorm.lab.analysis.claims.judging import Judged
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
from quadnorm.lab.analysis.library import Library
from quadnorm.lab.analysis.tables.text import escaped
from quadnorm.lab.studies import study as from_catalog

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
