"""Verdicts on claims of the paper: reproduced, partly, contradicted, not testable or not run.

============  ========================================================================================================
verdict       means
============  ========================================================================================================
reproduced    the effect has the claimed direction, its confidence interval excludes zero, and its size is at least
              half of what was claimed; of a claim of equality, the interval lies inside the margin. In every case
contradicted  the interval does not exclude zero but excludes half the claimed size; or it excludes a tenth of it; of a
              claim of equality, the interval lies outside the margin. In every case that could be tested
partly        anything between: smaller than claimed, an interval that contains zero and half the claimed size, or
              several cases with different verdicts, those that could not be tested among them
not testable  the models behind the records have not learned the problem (at the training grid LayerNorm's error is more
              than twice the printed one), or there is one seed, or α is where it began
not run       no records at the desk or paper preset (the smoke preset learns nothing)
============  ========================================================================================================

Half the size is enough, because budgets differ: with a smaller budget a claim should still hold, not digit for digit.
By chance alone a case is called reproduced at most one time in twenty, also where a reading of the paper was chosen
among several by the same records (see :mod:`quadnorm.lab.analysis.claims.judging`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from quadnorm.lab.analysis.statistics.intervals import Estimate

VERDICTS = ("reproduced", "partly", "contradicted", "not testable", "not run")
REPRODUCED, PARTLY, CONTRADICTED, NOT_TESTABLE, NOT_RUN = VERDICTS


@dataclass(frozen=True)
class Finding:
    """The result of one case of a claim.

    ``kind`` names the statistic that decides, ``reason`` says why a case is not testable, ``caveats`` what stands
    between the records and the claim. ``models`` are the keys of the trained models that it rests on, ``family`` says
    which these are, ``reading`` how the paper's rows were read. ``agrees``: whether the value itself, whatever its
    interval, is what was claimed. ``elsewhere``: (reading, verdict) of readings that are not told from the closest and
    say something else.
    """

    verdict: str
    measured: str = ""
    claimed: str = ""
    budget: str = ""
    command: str = ""
    kind: str = ""
    reason: str = ""
    caveats: tuple[str, ...] = ()
    models: frozenset[str] = frozenset()
    family: str = ""
    reading: str = ""
    agrees: bool = False
    elsewhere: tuple[tuple[str, str], ...] = ()


def effect_verdict(e: Estimate, claimed: float) -> str:
    """The verdict on an effect of which ``claimed`` > 0 was printed.

    >>> effect_verdict(Estimate(0.31, 0.28, 0.34, 3), claimed=0.35)
    'reproduced'
    >>> effect_verdict(Estimate(0.10, 0.05, 0.15, 3), claimed=0.35)
    'partly'
    >>> effect_verdict(Estimate(0.02, -0.03, 0.07, 3), claimed=0.35)
    'contradicted'
    >>> effect_verdict(Estimate(0.10, -0.20, 0.40, 3), claimed=0.35)
    'partly'
    """
    if not claimed > 0:
        raise ValueError(f"state the claimed effect as a positive number, got {claimed}; swap the two methods")
    if not isfinite(e.value):
        return CONTRADICTED  # a run has no finite error
    if not e.has_interval:
        return NOT_TESTABLE
    if e.high < claimed / 10:
        return CONTRADICTED  # the effect, even if above zero, is far smaller than claimed
    if e.low > 0:
        return REPRODUCED if e.value >= claimed / 2 else PARTLY
    return CONTRADICTED if e.high < claimed / 2 else PARTLY


def band_verdict(inner: Estimate, outer: Estimate, low: float, high: float) -> str:
    """The verdict on a value that is claimed to lie in [low, high], by two intervals of it.

    ``inner`` decides that it does: at level 1 − 2α it lies inside by chance at most α of the time (two one-sided
    tests). ``outer``, the usual interval, decides that it does not.

    >>> band_verdict(Estimate(0.5, 0.4, 0.6, 3), Estimate(0.5, 0.3, 0.7, 3), 0.35, 0.65)
    'reproduced'
    """
    if not isfinite(inner.value):
        return CONTRADICTED
    if not inner.has_interval:
        return NOT_TESTABLE
    if low <= inner.low and inner.high <= high:
        return REPRODUCED
    return CONTRADICTED if outer.high < low or outer.low > high else PARTLY


def together(verdicts: list[str]) -> str:
    """The verdict over the cases of a claim.

    >>> together(["reproduced", "reproduced"]), together(["reproduced", "not testable"])
    ('reproduced', 'partly')
    >>> together(["contradicted", "not testable"]), together(["not run", "not testable"])
    ('contradicted', 'not testable')
    """
    decided = {v for v in verdicts if v not in (NOT_TESTABLE, NOT_RUN)}
    if not decided:
        return NOT_TESTABLE if NOT_TESTABLE in verdicts else NOT_RUN
    if len(decided) > 1 or (decided == {REPRODUCED} and len(set(verdicts)) > 1):
        return PARTLY
    return decided.pop()
