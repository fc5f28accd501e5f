"""Claims of the paper, held against records: reproduced, partly, contradicted or not run.

============  ========================================================================================================
verdict       means
============  ========================================================================================================
reproduced    the effect has the claimed direction, its interval excludes none at all, and it has half the size or more
contradicted  no effect of the claimed direction is shown and half the claimed size is excluded; or a tenth is excluded
partly        anything between: smaller than claimed, not told from none, one seed only, or only some of several cases
not run       no records at the desk or paper preset (the smoke preset learns nothing)
============  ========================================================================================================

Half the size, because budgets differ: what a claim says must survive a smaller budget in kind, not to the digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite

from quadnorm.lab.analysis.results import Library

REPRODUCED, PARTLY, CONTRADICTED, NOT_RUN = VERDICTS = ("reproduced", "partly", "contradicted", "not run")


@dataclass(frozen=True)
class Evidence:
    """What the records say to one case of a claim."""

    verdict: str
    measured: str = ""
    claimed: str = ""
    budget: str = ""
    command: str = ""


@dataclass(frozen=True)
class Claim:
    """One claim, in our words. ``cases`` find the evidence; ``remarks`` name contradictions that bear on it."""

    name: str
    text: str
    tables: tuple[str, ...]
    cases: tuple[Callable[[Library], Evidence], ...]
    remarks: tuple[str, ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the evidence for it."""

    claim: Claim
    verdict: str
    evidence: tuple[Evidence, ...] = field(default=())


def judge(claim: Claim, library: Library) -> Judged:
    """The verdict over all cases: the common one, or ``partly`` where they differ; cases not run do not count."""
    evidence = tuple(case(library) for case in claim.cases)
    verdicts = {e.verdict for e in evidence} - {NOT_RUN}
    if not verdicts:
        return Judged(claim, NOT_RUN, evidence)
    return Judged(claim, verdicts.pop() if len(verdicts) == 1 else PARTLY, evidence)


def judge_all(library: Library) -> tuple[Judged, ...]:
    """The whole ledger, in its order."""
    from quadnorm.lab.analysis.claims.ledger import CLAIMS

    return tuple(judge(claim, library) for claim in CLAIMS)


def verdict_of(value: float, low: float, high: float, claimed: float) -> str:
    """The verdict on an effect of which ``claimed`` > 0 was printed, from its value and interval.

    >>> verdict_of(0.31, 0.28, 0.34, claimed=0.35), verdict_of(0.10, 0.05, 0.15, claimed=0.35)
    ('reproduced', 'partly')
    >>> verdict_of(0.02, -0.03, 0.07, claimed=0.35), verdict_of(0.10, -0.20, 0.40, claimed=0.35)
    ('contradicted', 'partly')
    """
    if not claimed > 0:
        raise ValueError(f"state the claimed effect as a positive number, got {claimed}; turn the comparison round")
    if not isfinite(value):
        return CONTRADICTED  # a run of it has no finite error: whatever was claimed, this is not it
    if not (isfinite(low) and isfinite(high)):
        return PARTLY if value > 0 else CONTRADICTED  # one seed: a direction, and no more
    if high < claimed / 10:
        return CONTRADICTED  # told from none or not, this is another effect than the one that was claimed
    if low > 0:
        return REPRODUCED if value >= claimed / 2 else PARTLY
    return CONTRADICTED if high < claimed / 2 else PARTLY
