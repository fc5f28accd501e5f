"""The table of one-dimensional rules: nodes on [0, 1] and weights that sum to 1.

A rule belongs to a placement of nodes (:mod:`quadnorm.measures.placement`). Weights are right only on the nodes they
were made for: trapezoid weights on cell-centred samples are wrong, and no code can see it from the values.

For n = 1 every rule is the one-point rule with weight 1. Weights are written in torch operations on ``n``, so that the
closed forms can be traced with a symbolic ``n``; the others say ``traceable=False``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.measures.gauss import (
    clenshaw_curtis,
    clenshaw_curtis_nodes,
    gauss_legendre,
    gauss_legendre_nodes,
    gauss_lobatto,
    gauss_lobatto_nodes,
)
from quadnorm.measures.placement import PLACEMENTS

# Closed Newton–Cotes weights in units of the spacing, by number of intervals. All are positive; the
# odd ones are exact to degree k, the even ones to degree k+1.
_NEWTON_COTES = {
    1: (1 / 2, 1 / 2),
    2: (1 / 3, 4 / 3, 1 / 3),
    3: (3 / 8, 9 / 8, 9 / 8, 3 / 8),
    4: (14 / 45, 64 / 45, 24 / 45, 64 / 45, 14 / 45),
    5: tuple(5 / 288 * c for c in (19, 75, 50, 50, 75, 19)),
    6: tuple(1 / 140 * c for c in (41, 216, 27, 272, 27, 216, 41)),
    7: tuple(7 / 17280 * c for c in (751, 3577, 1323, 2989, 2989, 1323, 3577, 751)),
}


def _full(n: int, value: float) -> Tensor:
    return torch.full((n,), value, dtype=torch.float64, device="cpu")


# --- weights ---------------------------------------------------------------------------------------------------------


def counting(n: int) -> Tensor:
    """Every sample counts the same: the average that LayerNorm, InstanceNorm and friends take.

    Nodes j/(n−1), weights 1/n. Exact for constants, order 1: it is (1−1/n)·trapezoid + (1/n)·(δ₀+δ₁)/2, and the
    boundary mass 1/n moves with n.
    """
    return _full(n, 1 / n)


def ends(n: int) -> Tensor:
    """1 at the first and the last of n ≥ 2 samples, 0 between."""
    j = torch.arange(n, device="cpu")
    return ((j == 0) | (j == n - 1)).to(torch.float64)


def trapezoid(n: int) -> Tensor:
    """Composite trapezoid: h at inner nodes, h/2 at both ends, h = 1/(n−1).

    Nodes j/(n−1). Exact to degree 1, order 2.
    """
    if n == 1:
        return _full(1, 1.0)
    return (1 - ends(n) / 2) / (n - 1)


def simpson(n: int) -> Tensor:
    """Composite Simpson, (1, 4, 2, …, 4, 1)·h/3 for odd n.

    Nodes j/(n−1). For even n three intervals are taken by the 3/8 rule, averaged over the two ends so that the weights
    stay symmetric. Positive; exact to degree 3, order 4 for every n ≥ 3 (n = 2 is the trapezoid rule, degree 1).
    """
    return _composite(n, 2)


def boole(n: int) -> Tensor:
    """Composite Boole, (7, 32, 12, 32, 7)·2h/45 per four intervals.

    Nodes j/(n−1). Where 4 does not divide n−1, one closing panel of 5, 6 or 7 intervals takes the rest by its own
    Newton–Cotes rule (degree ≥ 5), averaged over the two ends. Positive; exact to degree 5, order 6 for every n ≥ 5
    (for n = 2, 3, 4 a single panel: trapezoid, Simpson, 3/8).
    """
    return _composite(n, 4)


def _composite(n: int, step: int) -> Tensor:
    intervals = n - 1
    if intervals == 0:
        return _full(1, 1.0)
    rest = intervals % step
    closing = intervals if intervals < step else (step + rest if rest else 0)
    panels = (intervals - closing) // step
    w = _full(n, 0.0)
    if panels:
        for i, c in enumerate(_NEWTON_COTES[step]):
            w[i : i + (panels - 1) * step + 1 : step] += c
    if closing:
        w[-closing - 1 :] += torch.tensor(_NEWTON_COTES[closing], dtype=torch.float64, device="cpu")
        w = (w + w.flip(0)) / 2
    return w / intervals


def midpoint(n: int) -> Tensor:
    """Midpoint rule: 1/n at the centres of n equal cells.

    Nodes (j+½)/n. Exact to degree 1, order 2.
    """
    return _full(n, 1 / n)


def periodic(n: int) -> Tensor:
    """The trapezoid rule on a circle: 1/n at j/n.

    Nodes j/n, the right end identified with the left. Exact for trigonometric polynomials of degree < n, so it
    converges faster than any power for smooth periodic functions (Proposition "Quadrature collapses to uniform
    weights").
    """
    return _full(n, 1 / n)


def left(n: int) -> Tensor:
    """Samples at j/n of a field on [0, 1] that is *not* periodic; the right end is not sampled.

    Nodes j/n. Trapezoid on [0, 1−h], and the last interval by the line through the last two samples:
    h/2, h, …, h, h/2, 2h with h = 1/n. Exact to degree 1, order 2 (1/n each, the left Riemann sum, has order 1).
    Positive for n ≥ 3; n = 2 gives (0, 1), n = 1 gives 1.
    """
    if n == 1:
        return _full(1, 1.0)
    h = 1 / n
    if n == 2:
        return torch.tensor([0.0, 1.0], dtype=torch.float64, device="cpu")
    half = _full(1, h / 2)
    return torch.cat([half, _full(n - 3, h), half, _full(1, 2 * h)])


def interior(n: int) -> Tensor:
    """Samples at (j+1)/(n+1): neither end is sampled.

    Control volumes, the end cells reaching to the boundary: 3h/2, h, …, h, 3h/2 with h = 1/(n+1). Positive; exact to
    degree 1, order 2.
    """
    if n == 1:
        return _full(1, 1.0)
    return (1 + ends(n) / 2) / (n + 1)


# --- the table -------------------------------------------------------------------------------------------------------


NODES: dict[str, Callable[[int], Tensor]] = {
    **{name: p.nodes for name, p in PLACEMENTS.items()},
    "gauss-legendre": gauss_legendre_nodes,
    "gauss-lobatto": gauss_lobatto_nodes,
    "clenshaw-curtis": clenshaw_curtis_nodes,
}


@dataclass(frozen=True)
class Rule:
    """A one-dimensional rule on [0, 1]; ``rule.weights.__doc__`` says what it is.

    ``degree(n)`` is the highest polynomial degree integrated exactly, ``order`` the power of h at which the error falls
    for smooth (for ``periodic``: smooth periodic) functions, ``flat`` says that all weights are equal for every n.
    """

    name: str
    placement: str
    weights: Callable[[int], Tensor]
    degree: Callable[[int], int]
    order: float
    flat: bool = False
    traceable: bool = True

    def nodes(self, n: int) -> Tensor:
        """The n nodes on [0, 1], increasing."""
        return NODES[self.placement](n)

    def __repr__(self) -> str:
        return f"Rule({self.name!r})"

    def __reduce__(self) -> tuple[Callable[[str], "Rule"], tuple[str]]:
        return rule, (self.name,)


_TABLE = (
    Rule("counting", "endpoint", counting, lambda n: 1 if n < 3 else 0, 1, flat=True),
    Rule("trapezoid", "endpoint", trapezoid, lambda n: 1, 2),
    Rule("simpson", "endpoint", simpson, lambda n: 1 if n < 3 else 3, 4, traceable=False),
    Rule("boole", "endpoint", boole, lambda n: 1 if n < 3 else 3 if n < 5 else 5, 6, traceable=False),
    Rule("midpoint", "cell", midpoint, lambda n: 1, 2, flat=True),
    Rule("periodic", "periodic", periodic, lambda n: 0, inf, flat=True),
    Rule("left", "left", left, lambda n: 0 if n == 1 else 1, 2),
    Rule("interior", "interior", interior, lambda n: 1, 2),
    Rule("gauss-legendre", "gauss-legendre", gauss_legendre, lambda n: 2 * n - 1, inf, traceable=False),
    Rule("gauss-lobatto", "gauss-lobatto", gauss_lobatto, lambda n: max(2 * n - 3, 1), inf, traceable=False),
    Rule("clenshaw-curtis", "clenshaw-curtis", clenshaw_curtis, lambda n: n - 1 + n % 2, inf, traceable=False),
)
RULES = {r.name: r for r in _TABLE}


def rule(name: str) -> Rule:
    """Look a rule up by its name, or by a placement's name.

    >>> rule("trapezoid").weights(3)
    tensor([0.2500, 0.5000, 0.2500], dtype=torch.float64)
    """
    key = PLACEMENTS[name].rule if isinstance(name, str) and name in PLACEMENTS else name
    try:
        return RULES[key]
    except (KeyError, TypeError):
        raise ValueError(unknown("rule", name, {*RULES, *PLACEMENTS})) from None
