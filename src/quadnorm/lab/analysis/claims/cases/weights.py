"""Claims about weights on meshes: measured here from closed forms, so they need no records."""

from __future__ import annotations

from functools import cache

from quadnorm.lab.analysis.claims.cases.shared import decided_by
from quadnorm.lab.analysis.claims.verdicts import Finding, graded
from quadnorm.lab.analysis.library import Library


@cache
def factor_of(family: str, n: int) -> float:
    """Bias of the mean with equal weights over the bias with control volumes, on the family's n × n mesh."""
    import numpy as np

    from quadnorm.lab.theory.meshes.bias import bias
    from quadnorm.lab.theory.meshes.biases import FAMILIES

    f = FAMILIES[family]
    points, weights, _ = f.make(n, np.random.default_rng(0))
    return bias(points, weights, f.field).factor("mean")


@decided_by("bias against the exact mean")
def bias_factor(_: Library, family: str, claimed: float, n: int = 64) -> Finding:
    """Control volumes divide the bias of the mean by more than ``claimed`` on the n × n mesh of a family."""
    factor = factor_of(family, n)
    verdict = graded(factor >= claimed, factor >= claimed / 10)
    text = f"bias divided by more than {claimed:g} on {family} meshes"
    return Finding(verdict, f"divided by {factor:.0f} at {n}²", text, f"sin πx · sin πy, {n}² nodes")
