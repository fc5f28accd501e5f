"""The measure of a training grid, carried to any other grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from quadnorm.measures.axes import Axis, Coordinates, RuleAxis
from quadnorm.measures.base import Shape
from quadnorm.measures.grid import Grid, Separable
from quadnorm.measures.rules import counting, ends, rule, trapezoid


class Anchored(Separable):
    r"""The counting measure of a training grid with n₀ samples per axis, at every resolution.

    A model that averages over its samples has learned with the counting measure of its training grid. That measure has
    a meaning between the samples: each of the n₀−1 gaps carries the mass 1/n₀, and the two outermost samples carry an
    extra 1/(2n₀) each. On endpoint-inclusive nodes it is, per axis,

    .. math:: (1 - 1/n_0)\,\text{trapezoid} + (1/n_0)\,(\delta_{first} + \delta_{last})/2 .

    The weights on n samples are the integrals of their hat functions against it. At n₀ they are 1/n₀ to the last bit;
    at any other n they integrate smooth functions against the *same* measure up to O(h²), while counting moves by O(h).

    ===========================  =====================================================================================
    training grid                what anchoring means
    ===========================  =====================================================================================
    ``endpoint``                 the formula above: the boundary mass stays 1/n₀
    ``cell``, ``periodic``       counting already is the integral over the domain; nothing changes at any resolution
    ``left``                     gaps fill [0, 1−1/n₀] and the outermost samples are 0 and 1−1/n₀
    nonuniform nodes (a Grid)    counting is a density, high where samples are dense; the gaps keep it
    nonuniform, periodic         the same without ends: n₀ gaps around the circle
    ===========================  =====================================================================================

    Args:
        anchor: samples per axis of the training grid: a number for every axis, a tuple with one per axis, or the
            training :class:`Grid` itself if it was made from coordinates.
        placement: where the training samples lie, for all axes or one each: ``endpoint``, ``cell``, ``periodic``,
            ``left``, or the name of a rule with nodes of its own. Not for an ``anchor`` that is a Grid.
        target: the :class:`Grid` whose nodes the new samples lie on; default the same placement as in training.

    >>> Anchored(3).weights(3)
    tensor([0.3333, 0.3333, 0.3333], dtype=torch.float64)
    >>> Anchored(3).weights(5)  # the boundary mass is still 1/3
    tensor([0.2500, 0.1667, 0.1667, 0.1667, 0.2500], dtype=torch.float64)
    """

    anchor: Shape

    def __init__(
        self,
        anchor: int | Sequence[int] | Grid,
        placement: str | Sequence[str] = "endpoint",
        *,
        target: Grid | None = None,
    ) -> None:
        every = False
        if isinstance(anchor, Grid):
            if anchor.shape is None:
                raise ValueError(
                    f"{anchor!r} does not say how many samples training had; pass the numbers, as in "
                    f"Anchored((33, 33)), or a grid made by Grid.from_coordinates"
                )
            sizes, train = anchor.shape, anchor.axes(len(anchor.shape))
        else:
            sizes = tuple(anchor) if isinstance(anchor, Sequence) else (anchor,)
            for n in sizes:
                if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                    raise ValueError(
                        f"anchor must hold the training grid's samples per axis (1 or more), got {anchor!r}"
                    )
            names = [placement] * len(sizes) if isinstance(placement, str) else list(placement)
            if len(sizes) == 1 and len(names) > 1 and not isinstance(anchor, Sequence):
                sizes *= len(names)
            if len(names) != len(sizes) or not sizes:
                raise ValueError(f"got {len(sizes)} anchors and {len(names)} placements; expected one of each per axis")
            every = not isinstance(anchor, Sequence) and isinstance(placement, str)
            train = tuple(RuleAxis(rule(name)) for name in names)
        new = _targets(target, train)
        if len(new) > len(train):
            train, sizes, every = train * len(new), sizes * len(new), False
        axes = tuple(AnchoredAxis(t, n, a) for t, n, a in zip(train, sizes, new, strict=True))
        self._set(anchor=sizes, _axes=axes, _every=every)

    def describe(self) -> str:
        grid = "×".join(str(n) for n in self.anchor) + (" on every axis" if self._every else "")
        return f"counting measure of the training grid {grid} ({', '.join(str(a) for a in self._axes)})"

    def __repr__(self) -> str:
        anchor = repr(self.anchor[0] if self._every else self.anchor)
        kinds = tuple(str(a) for a in self._axes)
        return f"Anchored({anchor})" if set(kinds) == {"endpoint"} else f"Anchored({anchor}, {', '.join(kinds)})"


@dataclass(frozen=True)
class AnchoredAxis:
    """One axis: the counting measure of ``n0`` samples placed by ``train``, on the nodes of ``target``."""

    train: Axis
    n0: int
    target: Axis

    @property
    def lo(self) -> float:
        return self.target.lo

    @property
    def hi(self) -> float:
        return self.target.hi

    @property
    def size(self) -> int | None:
        return self.target.size

    @property
    def _placement(self) -> str:
        if isinstance(self.train, RuleAxis):
            return self.train.rule.placement
        return str(self.train)

    @property
    def _same(self) -> bool:
        """Training and new samples are placed by the same law."""
        if isinstance(self.train, RuleAxis) and isinstance(self.target, RuleAxis):
            return self.train.rule.placement == self.target.rule.placement
        return self.train == self.target

    def nodes(self, n: int) -> Tensor:
        return self.target.nodes(n)

    def flat(self, n: int) -> bool:
        return n == 1 or (self._same and (n == self.n0 or self._placement in ("cell", "periodic")))

    def weights(self, n: int) -> Tensor:
        if self._same:
            if self._placement == "endpoint":
                return _endpoint(n, self.n0)
            if self.flat(n):
                return counting(n)
        gaps, masses, atoms = _continuum(self.train, self.n0)
        nodes = self.target.nodes(n).numpy()
        if isinstance(self.train, Coordinates) and self.train.periodic:
            return torch.from_numpy(_on_circle(nodes, gaps, masses, self.hi - self.lo))
        return torch.from_numpy(_monotone(nodes, gaps, masses, atoms))

    def __str__(self) -> str:
        if self._same:
            return self._placement
        return f"{self._placement} → {self.target}"


def _endpoint(n: int, n0: int) -> Tensor:
    """The closed form on endpoint-inclusive nodes; only tensor operations on n, so that it can be traced."""
    if n == 1 or (not torch.compiler.is_compiling() and n == n0):
        return counting(n)
    return (1 - 1 / n0) * trapezoid(n) + ends(n) / (2 * n0)


def _targets(target: Grid | None, train: tuple[Axis, ...]) -> tuple[Axis, ...]:
    if target is None:
        return train
    if not isinstance(target, Grid):
        raise TypeError(f"target must be a Grid that says where the new samples lie, got {target!r}")
    axes = target.axes(target.ndim or len(train))
    if len(axes) != len(train) and len(train) != 1:
        raise ValueError(f"the training grid has {len(train)} axes and the target {len(axes)}")
    for k, (t, a) in enumerate(zip(train, axes, strict=False)):
        if (t.lo, t.hi) != (a.lo, a.hi):
            raise ValueError(
                f"axis {k}: the training grid is on [{t.lo:g}, {t.hi:g}], the target on [{a.lo:g}, {a.hi:g}]; "
                f"give both the same bounds"
            )
    return axes


# --- the counting measure between the samples ------------------------------------------------------------------------


def _continuum(train: Axis, n0: int) -> tuple[np.ndarray, np.ndarray, list[tuple[float, float]]]:
    """Edges of the gaps, the mass in each gap (uniform inside), and the atoms (place, mass)."""
    if isinstance(train, RuleAxis) and train.rule.placement in ("cell", "periodic"):
        return np.array([train.lo, train.hi]), np.ones(1), []
    x = np.sort(train.nodes(n0).numpy())
    if n0 == 1:
        return np.empty(0), np.empty(0), [(float(x[0]), 1.0)]
    if isinstance(train, Coordinates) and train.periodic:
        return np.append(x, x[0] + train.hi - train.lo), np.full(n0, 1 / n0), []
    return x, np.full(n0 - 1, 1 / n0), [(float(x[0]), 0.5 / n0), (float(x[-1]), 0.5 / n0)]


def _monotone(nodes: np.ndarray, gaps: np.ndarray, masses: np.ndarray, atoms: list[tuple[float, float]]) -> np.ndarray:
    if nodes.size == 1:
        return np.ones(1)
    if nodes[0] > nodes[-1]:
        return np.ascontiguousarray(_monotone(nodes[::-1], gaps, masses, atoms)[::-1])
    return hat_moments(nodes, gaps, masses, atoms)


def hat_moments(
    nodes: np.ndarray, gaps: np.ndarray, masses: np.ndarray, atoms: list[tuple[float, float]]
) -> np.ndarray:
    """∫ φ_i dμ for the hat functions φ_i of increasing ``nodes`` (two or more), linear beyond the ends.

    μ has mass ``masses[j]`` spread evenly over [gaps[j], gaps[j+1]] and point masses ``atoms``. On one interval [a, b]
    of the nodes with μ-mass M and first moment S about a, the hat of b collects S/(b−a) and the hat of a the rest.
    Exact, O(n + n₀).
    """
    cuts = np.concatenate([[-np.inf], nodes[1:-1], [np.inf]])  # mass beyond the ends goes to the end intervals
    mass, moment = _cumulative(cuts, gaps, masses)
    M = np.diff(mass)
    S = np.diff(moment) - nodes[:-1] * M
    for place, m in atoms:
        k = int(np.clip(np.searchsorted(nodes, place, side="right") - 1, 0, nodes.size - 2))
        M[k] += m
        S[k] += m * (place - nodes[k])
    right = S / np.diff(nodes)
    w = np.zeros(nodes.size)
    w[:-1] += M - right
    w[1:] += right
    return w


def _cumulative(t: np.ndarray, gaps: np.ndarray, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mass and first moment (about 0) of the spread part of μ to the left of each t."""
    if masses.size == 0:
        return np.zeros(t.size), np.zeros(t.size)
    t = np.clip(t, gaps[0], gaps[-1])
    j = np.clip(np.searchsorted(gaps, t, side="right") - 1, 0, masses.size - 1)
    density = masses / np.diff(gaps)
    centres = (gaps[1:] + gaps[:-1]) / 2
    before = np.concatenate([[0.0], np.cumsum(masses)])[j]
    moment = np.concatenate([[0.0], np.cumsum(masses * centres)])[j]
    inside = density[j] * (t - gaps[j])
    return before + inside, moment + inside * (t + gaps[j]) / 2


def _on_circle(nodes: np.ndarray, gaps: np.ndarray, masses: np.ndarray, period: float) -> np.ndarray:
    """The same on a circle: unroll μ over three turns and read one turn of hats off it."""
    if nodes.size > 1 and nodes[0] > nodes[-1]:
        return np.ascontiguousarray(_on_circle(nodes[::-1], gaps, masses, period)[::-1])
    turns = np.concatenate([gaps[:-1] - period, gaps[:-1], gaps + period])
    # Nodes of the turn [x_0, x_0 + period], with one interval on each side so that no hat extrapolates.
    ring = np.concatenate([[nodes[-1] - period], nodes, [nodes[0] + period]])
    mass, moment = _cumulative(ring, turns, np.tile(masses, 3))
    M = np.diff(mass)
    right = (np.diff(moment) - ring[:-1] * M) / np.diff(ring)
    w: np.ndarray = right[:-1] + (M - right)[1:]
    return w
