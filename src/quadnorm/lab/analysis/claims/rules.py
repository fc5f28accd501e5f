"""What a rule is: it turns the records of a setting and the paper's cells into one finding; :mod:`.gains` and
:mod:`.likeness` have the rules.

What was claimed is computed from the printed cells of the setting's table. Where the paper prints a number elsewhere,
the case names that cell (``cell``); a number that only its text has is ``stated``, and a size of ours, where the paper
gives none, ``ours``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from quadnorm.lab.analysis.claims.evidence import Setting
from quadnorm.lab.analysis.claims.verdicts import NOT_RUN, NOT_TESTABLE, Finding, band_verdict, effect_verdict
from quadnorm.lab.analysis.statistics.intervals import Estimate
from quadnorm.lab.studies.paper import paper_table

Rule = Callable[..., Finding]
RULES: dict[str, Rule] = {}
QUAD, LAYER, NONE = "QuadNorm", "LayerNorm", "None"


def rule(kind: str) -> Callable[[Rule], Rule]:
    """Register a rule under its function's name; ``kind`` names the statistic that decides."""

    def register(judgement: Rule) -> Rule:
        def judged(*settings: Setting, **options: Any) -> Finding:
            finding = replace(judgement(*settings, **options), kind=kind)
            s = settings[0] if settings else None
            if s is None:
                return finding
            if finding.verdict == NOT_RUN:
                return replace(finding, command=f"quadnorm study run {s.study} --preset desk")
            why = next(filter(None, (t.not_learned() for t in settings)), finding.reason)
            return replace(finding, verdict=NOT_TESTABLE, reason=why) if why else finding

        RULES[judgement.__name__] = judged
        return judged

    return register


def minus(text: str) -> str:
    """The text with true minus signs instead of hyphens."""
    return text.replace("-", "−")


def interval(e: Estimate, digits: int = 1, scale: float = 1.0) -> str:
    """`` [28.0, 34.1]``; `` [unbounded]``; nothing with one seed."""
    if not e.has_interval:
        return ""
    if not (isfinite(e.low) and isfinite(e.high)):
        return " [unbounded]"
    return f" [{scale * e.low:.{digits}f}, {scale * e.high:.{digits}f}]"


def cell_value(table: str, row: str, column: str, nth: int = 0) -> float:
    """A number in a cell of the paper: the row that begins with these words, the column of this head."""
    for panel in paper_table(table).panels:
        for cells in panel.rows:
            if " | ".join(c.text for c in cells).startswith(row) and column in panel.columns:
                return cells[panel.columns.index(column)].numbers[nth]
    raise ValueError(f"{table} has no row that begins with {row!r} and a column {column!r}")


def claimed_number(
    from_cells: Callable[[], float], cell: Mapping[str, Any] | None, stated: float | None, ours: float | None
) -> tuple[float, str]:
    """What was claimed, and a word on where it is from if that is not the setting's own table."""
    if cell is not None:
        return cell_value(**cell), f" ({cell['table']})"
    if stated is not None:
        return stated, " (in the text)"
    if ours is not None:
        return ours, " (the size is ours: the paper prints none)"
    return from_cells(), ""


def seeds_text(s: Setting, n: int) -> str:
    """``extreme-crossres: desk, 3 seeds``."""
    return f"{s.study}: {s.preset}, {n} seed{'s' if n != 1 else ''}"


def finding_of(
    s: Setting, verdict: str, measured: str, text: str, n: int, note: str = "", agrees: bool = False
) -> Finding:
    """The finding of ``n`` seeds; ``note`` says why it is not testable, where the verdict is that."""
    reason = (note or "one seed") if verdict == NOT_TESTABLE else ""
    return Finding(verdict, minus(measured), text, seeds_text(s, n), reason=reason, agrees=agrees)


def on_effect(s: Setting, e: Estimate, claimed: float, shown: str, text: str) -> Finding:
    """The finding on an effect of which ``claimed`` was printed."""
    shown = shown if isfinite(e.value) else e.note
    return finding_of(s, effect_verdict(e, claimed), shown, text, e.n, e.note, e.value >= claimed / 2)


def in_band(
    s: Setting, estimate: Callable[[float], Estimate], low: float, high: float, shown: str, text: str
) -> Finding:
    """The finding on a value that is claimed to lie in a band; ``shown`` has places for value and interval."""
    inner, outer = estimate(s.band_level), estimate(s.level)
    words = shown.format(inner.value, interval(inner, 2)) if isfinite(inner.value) else inner.note
    verdict = band_verdict(inner, outer, low, high)
    return finding_of(s, verdict, words, text, inner.n, inner.note, low <= inner.value <= high)
