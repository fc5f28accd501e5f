"""Where the n samples of an axis lie: the one table of placements.

Equispaced samples differ in two numbers only: how far the first one is from the left end of the axis, and how many
spacings fill the axis.

==========  ==============  =============  =====================  ==============================================
placement   node j          first node at  spacings on the axis   its quadrature rule
==========  ==============  =============  =====================  ==============================================
endpoint    j/(n−1)         0              n − 1                  ``trapezoid``: both ends are samples
cell        (j+½)/n         half a spacing n                      ``midpoint``: centres of n equal cells
periodic    j/n             0              n                      ``periodic``: the right end is the left end
left        j/n             0              n                      ``left``: not periodic, the right end is missing
interior    (j+1)/(n+1)     one spacing    n + 1                  ``interior``: both ends are missing
==========  ==============  =============  =====================  ==============================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quadnorm._suggest import unknown

Fractions = tuple[npt.NDArray[np.int64], int]
Placements = str | tuple[str, ...]  # one name for all axes, or one for each; :func:`as_placements` makes it


@dataclass(frozen=True)
class Placement:
    """The law that places n samples on [0, 1].

    ``first`` is the distance of the first node from the left end in *half* spacings, ``more`` the number of spacings
    that fill the axis minus n, ``rule`` the name of the quadrature rule that the samples take by default.

    >>> PLACEMENTS["interior"].nodes(3)
    tensor([0.2500, 0.5000, 0.7500], dtype=torch.float64)
    """

    name: str
    formula: str
    rule: str
    first: int
    more: int
    wraps: bool = False

    def fractions(self, n: int) -> Fractions:
        """The n nodes as exact fractions: numerators and their common denominator.

        >>> numerators, denominator = PLACEMENTS["cell"].fractions(4)
        >>> numerators.tolist(), denominator
        ([1, 3, 5, 7], 8)
        """
        if n + self.more == 0:  # a single endpoint-inclusive node sits in the middle
            return np.ones(1, dtype=np.int64), 2
        j = np.arange(n, dtype=np.int64)
        if self.first % 2:
            return 2 * j + self.first, 2 * (n + self.more)
        return j + self.first // 2, n + self.more

    def nodes(self, n: int) -> Tensor:
        """The n nodes in [0, 1], float64, increasing; only tensor operations on n, so that it can be traced."""
        if n == 1:
            return torch.full((1,), self.only, dtype=torch.float64, device="cpu")
        return (torch.arange(n, dtype=torch.float64, device="cpu") + self.first / 2) / (n + self.more)

    @property
    def only(self) -> float:
        """Where a single sample lies."""
        numerators, denominator = self.fractions(1)
        return float(numerators[0]) / denominator

    def spacing(self, n: int) -> float:
        """The distance of two neighbours."""
        return 1 / (n + self.more)

    def span(self, first: float, last: float, n: int) -> tuple[float, float]:
        """The ends of the axis whose n ≥ 2 samples run from ``first`` to ``last``.

        >>> PLACEMENTS["cell"].span(1.0, 2.0, 2)
        (0.5, 2.5)
        """
        h = (last - first) / (n - 1)
        return first - h * self.first / 2, last + h * (self.more + 1 - self.first / 2)

    def __str__(self) -> str:
        return self.formula


_TABLE = (
    Placement("endpoint", "j/(n−1), both ends included", "trapezoid", first=0, more=-1),
    Placement("cell", "(j+½)/n, cell centres", "midpoint", first=1, more=0),
    Placement("periodic", "j/n of a periodic axis", "periodic", first=0, more=0, wraps=True),
    Placement("left", "j/n of an axis that is not periodic", "left", first=0, more=0),
    Placement("interior", "(j+1)/(n+1), both ends left out", "interior", first=2, more=1),
)
PLACEMENTS = {p.name: p for p in _TABLE}


def placement_of(name: str) -> Placement:
    """Look a placement up by its name.

    >>> placement_of("cell").rule
    'midpoint'
    """
    try:
        return PLACEMENTS[name]
    except (KeyError, TypeError):
        raise ValueError(unknown("placement", name, PLACEMENTS)) from None


def placements_per_axis(names: str | Sequence[str], ndim: int) -> tuple[str, ...]:
    """One placement's name for each of ``ndim`` axes, checked.

    >>> placements_per_axis("cell", 2)
    ('cell', 'cell')
    """
    each = (names,) * ndim if isinstance(names, str) else tuple(names)
    if len(each) != ndim:
        raise ValueError(f"got {len(each)} placements {each} for {ndim} axes; give one name, or one per axis")
    for name in each:
        placement_of(name)
    return each


def as_placements(names: str | Sequence[str], ndim: int) -> Placements:
    """Placements in their shortest form: one name if all axes have the same, else a tuple with one name for each axis.

    >>> as_placements(["cell", "cell"], 2), as_placements(["endpoint", "periodic"], 2)
    ('cell', ('endpoint', 'periodic'))
    """
    each = placements_per_axis(names, ndim)
    return each[0] if len(set(each)) == 1 else each


def rules_of(names: str | Sequence[str]) -> str | tuple[str, ...]:
    """The quadrature rules of placements, in the form in which the placements are given.

    >>> rules_of("cell"), rules_of(("endpoint", "periodic"))
    ('midpoint', ('trapezoid', 'periodic'))
    """
    return placement_of(names).rule if isinstance(names, str) else tuple(placement_of(n).rule for n in names)


def among(source: str, m: int, target: str, n: int, j: Any = None) -> tuple[Any, int]:
    """Where the n nodes of ``target`` lie among the m nodes of ``source``, in units of the source's spacing, exactly.

    Returns numerators a and a denominator b: node j of the target has the index a[j]/b, an integer where it is a node
    of the source. ``j`` are 0 … n−1 as an integer array or tensor, by default numpy's.

    >>> a, b = among("cell", 4, "cell", 2)  # each new centre is halfway between two old ones
    >>> (a / b).tolist()
    [0.5, 2.5]
    """
    old, new = placement_of(source), placement_of(target)
    j = np.arange(n, dtype=np.int64) if j is None else j
    if m + old.more == 0:  # a single node in the middle: everything is taken from it
        return 0 * j, 1
    if n + new.more == 0:
        return 0 * j + (m + old.more - old.first), 2
    return (2 * j + new.first) * (m + old.more) - old.first * (n + new.more), 2 * (n + new.more)
