"""Claims of the paper compared with records: reproduced, partly, contradicted, not testable or not run.

============  ========================================================================================================
verdict       means
============  ========================================================================================================
reproduced    the effect has the claimed direction, its confidence interval excludes zero, and its size is at least
              half of what was claimed
contradicted  the interval does not exclude zero but excludes half the claimed size; or it excludes a tenth of it
partly        anything between: smaller than claimed, an interval that contains zero and half the claimed size, one
              seed only, or several cases with different verdicts
not testable  the models behind the records have not learned the problem: at the training grid LayerNorm's error is more
              than twice the printed one, and what the norms do to such models says nothing about the paper's
not run       no records at the desk or paper preset (the smoke preset learns nothing)
============  ========================================================================================================

Half the size is enough, because budgets differ: with a smaller budget a claim should still hold, not digit for digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from quadnorm.lab.analysis.claims.reasons import REASONS
from quadnorm.lab.analysis.library import Library

VERDICTS = ("reproduced", "partly", "contradicted", "not testable", "not run")
REPRODUCED, PARTLY, CONTRADICTED, NOT_TESTABLE, NOT_RUN = VERDICTS


@dataclass(frozen=True)
class Finding:
    """The result of one case of a claim.

    ``kind`` names the statistic that decides, ``reason`` says why a case is not testable.
    """

    verdict: str
    measured: str = ""
    claimed: str = ""
    budget: str = ""
    command: str = ""
    kind: str = ""
    reason: str = ""


Case = Callable[[Library], Finding]


@dataclass(frozen=True)
class Claim:
    """One claim in our words. Each case gives a finding; ``remarks`` are keys of ``CONTRADICTIONS`` that bear on it."""

    name: str
    text: str
    tables: tuple[str, ...]
    cases: tuple[Case, ...]
    remarks: tuple[str, ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the findings behind it."""

    claim: Claim
    verdict: str
    findings: tuple[Finding, ...] = ()

    @property
    def likely_reason(self) -> str:
        """Why the records may differ from the paper's values; empty if they agree, or if we know no reason."""
        return REASONS.get(self.claim.name, "") if self.verdict in (PARTLY, CONTRADICTED) else ""


def judge(claim: Claim, library: Library) -> Judged:
    """The verdict over the cases that could be tested: the common one, or ``partly`` where they differ."""
    findings = tuple(case(library) for case in claim.cases)
    verdicts = {f.verdict for f in findings}
    if not verdicts - {NOT_TESTABLE, NOT_RUN}:
        return Judged(claim, NOT_TESTABLE if NOT_TESTABLE in verdicts else NOT_RUN, findings)
    verdicts -= {NOT_TESTABLE, NOT_RUN}
    return Judged(claim, verdicts.pop() if len(verdicts) == 1 else PARTLY, findings)


def judge_all(library: Library) -> tuple[Judged, ...]:
    """The whole ledger, in its order."""
    from quadnorm.lab.analysis.claims.ledger import CLAIMS

    return tuple(judge(claim, library) for claim in CLAIMS)


def graded(wholly: bool, in_part: bool) -> str:
    """The verdict on a claim that is judged by thresholds: all of it holds, some of it, or nothing.

    >>> graded(True, True), graded(False, True), graded(False, False)
    ('reproduced', 'partly', 'contradicted')
    """
    return REPRODUCED if wholly else PARTLY if in_part else CONTRADICTED


def verdict_of(value: float, low: float, high: float, claimed: float) -> str:
    """The verdict on an effect of which ``claimed`` > 0 was printed, from its value and interval.

    >>> verdict_of(0.31, 0.28, 0.34, claimed=0.35), verdict_of(0.10, 0.05, 0.15, claimed=0.35)
    ('reproduced', 'partly')
    >>> verdict_of(0.02, -0.03, 0.07, claimed=0.35), verdict_of(0.10, -0.20, 0.40, claimed=0.35)
    ('contradicted', 'partly')
    """
    if not claimed > 0:
        raise ValueError(f"state the claimed effect as a positive number, got {claimed}; swap the two methods")
    if not isfinite(value):
        return CONTRADICTED  # a run has no finite error
    if not (isfinite(low) and isfinite(high)):
        return PARTLY if value > 0 else CONTRADICTED  # one seed: a direction, and no more
    if high < claimed / 10:
        return CONTRADICTED  # the effect, even if above zero, is far smaller than claimed
    if low > 0:
        return REPRODUCED if value >= claimed / 2 else PARTLY
    return CONTRADICTED if high < claimed / 2 else PARTLY
