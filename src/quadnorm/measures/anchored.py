"""The measure of a training grid, carried to any other grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quadnorm.measures.axes import Axis, GivenAxis, RuleAxis
from quadnorm.measures.base import Shape, whole_number
from quadnorm.measures.grid import Grid, Separable
from quadnorm.measures.mass import Mass, hat_moments
from quadnorm.measures.padded import PaddedAxis
from quadnorm.measures.rules import counting, ends, rule, trapezoid


class Anchored(Separable):
    r"""The counting measure of a training grid with n₀ samples per axis, at every resolution.

    A model that averages over its samples has learned with the counting measure of its training grid. That measure has
    a meaning between the samples: each of the n₀−1 gaps carries the mass 1/n₀, and the two outermost samples carry an
    extra 1/(2n₀) each (a single sample, n₀ = 1, carries all of it, in the middle). On n₀ ≥ 2 endpoint-inclusive nodes
    it is, per axis,

    .. math:: (1 - 1/n_0)\,\text{trapezoid} + (1/n_0)\,(\delta_{first} + \delta_{last})/2 .

    The weights on n samples are the integrals of their hat functions against it. At n₀ they are 1/n₀ to the last bit;
    at any other n they integrate smooth functions against the *same* measure up to O(h²), while counting moves by O(h).
    They are never negative. Where the training grid has mass beyond the outermost new samples (an endpoint-inclusive
    training grid on cell centres, a finer training grid on coarser interior samples), that mass goes to the outermost
    sample. Its inner neighbours then give it part of their weights, so that lines are still integrated exactly. Where a
    point mass lies beyond the new samples, the error is O(h^1.5).

    ===========================  =====================================================================================
    training grid                what anchoring means
    ===========================  =====================================================================================
    ``endpoint``                 the formula above: the boundary mass stays 1/n₀
    ``cell``, ``periodic``       counting already is the integral over the domain; nothing changes at any resolution
    ``left``                     gaps fill [0, 1−1/n₀] and the outermost samples are 0 and 1−1/n₀
    ``interior``                 gaps fill [h₀, 1−h₀], h₀ = 1/(n₀+1), and the outermost samples are its ends
    nonuniform nodes (a Grid)    counting is a density, high where samples are dense; the gaps keep it
    nonuniform, periodic         the same without ends: n₀ gaps around the circle
    ===========================  =====================================================================================

    Args:
        anchor: samples per axis of the training grid: a number for every axis, a tuple with one per axis, or the
            training :class:`Grid` itself if it was made from coordinates.
        placement: where the training samples lie, for all axes or one each: ``endpoint``, ``cell``, ``periodic``,
            ``left``, ``interior``, or the name of a rule with nodes of its own. Not for an ``anchor`` that is a Grid.
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
        train = _TrainingGrid.from_grid(anchor) if isinstance(anchor, Grid) else _TrainingGrid.named(anchor, placement)
        new = _targets(target, train.axes)
        if len(new) > len(train.axes):
            train = _TrainingGrid(train.sizes * len(new), train.axes * len(new), False)
        axes = tuple(AnchoredAxis(t, n, a) for t, n, a in zip(train.axes, train.sizes, new, strict=True))
        self._set(anchor=train.sizes, _axes=axes, _every=train.every)

    @classmethod
    def padded(cls, grid: Sequence[int], placement: Sequence[str], padding: Sequence[tuple[int, int]]) -> Anchored:
        """The same for a training grid with samples padded to it, (before, after) on each axis.

        ``anchor`` then is the padded size, and ``weights`` are asked for at padded sizes; the padding has the same
        length in space on every grid, to the nearest sample.

        >>> Anchored.padded((3,), ("endpoint",), ((0, 2),)).weights(9)  # 5 samples, 4 padded; the gap counts nothing
        tensor([0.1500, 0.1000, 0.1000, 0.1000, 0.1500, 0.0000, 0.1500, 0.1000, 0.1500],
               dtype=torch.float64)
        """
        axes = tuple(PaddedAxis(p, n, *pad) for n, p, pad in zip(grid, placement, padding, strict=True))
        for k, a in enumerate(axes):
            if a.placement == "endpoint" and a.n0 == 1 and a.native > 1:
                raise ValueError(
                    f"axis {k}: a single endpoint-inclusive sample has no spacing, so {a.native - 1} padded samples "
                    f"have no length in space; expected 2 or more samples on a padded axis, or another placement"
                )
        measure = object.__new__(cls)
        measure._set(anchor=tuple(a.native for a in axes), _axes=axes, _every=False)
        return measure

    def describe(self) -> str:
        grid = "×".join(str(n) for n in self.anchor) + (" on every axis" if self._every else "")
        return f"counting measure of the training grid {grid} ({', '.join(str(a) for a in self._axes)})"

    def __repr__(self) -> str:
        anchor = repr(self.anchor[0] if self._every else self.anchor)
        kinds = tuple(str(a) for a in self._axes)
        return f"Anchored({anchor})" if set(kinds) == {"endpoint"} else f"Anchored({anchor}, {', '.join(kinds)})"


@dataclass(frozen=True)
class _TrainingGrid:
    """Samples and axes of the training grid; ``every``: the only axis stands for any number of them."""

    sizes: Shape
    axes: tuple[Axis, ...]
    every: bool

    @classmethod
    def from_grid(cls, grid: Grid) -> _TrainingGrid:
        if grid.shape is None:
            raise ValueError(
                f"{grid!r} does not say how many samples training had; pass the numbers, as in Anchored((33, 33)), or "
                f"a grid made by Grid.from_coordinates"
            )
        return cls(grid.shape, grid.axes(len(grid.shape)), False)

    @classmethod
    def named(cls, anchor: int | Sequence[int], placement: str | Sequence[str]) -> _TrainingGrid:
        sizes = tuple(anchor) if isinstance(anchor, Sequence) else (anchor,)
        numbers = [whole_number(n) for n in sizes]
        sizes = tuple(n for n in numbers if n is not None and n >= 1)
        if len(sizes) < len(numbers):
            raise ValueError(f"anchor must hold the training grid's samples per axis (1 or more), got {anchor!r}")
        names = [placement] * len(sizes) if isinstance(placement, str) else list(placement)
        if not isinstance(anchor, Sequence):
            sizes *= len(names)
        if len(names) != len(sizes) or not sizes:
            raise ValueError(f"got {len(sizes)} anchors and {len(names)} placements; expected one of each per axis")
        every = not isinstance(anchor, Sequence) and isinstance(placement, str)
        return cls(sizes, tuple(RuleAxis(rule(name)) for name in names), every)


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
        mass = _continuum(self.train, self.n0)
        nodes = self.target.nodes(n)
        if isinstance(self.train, GivenAxis) and self.train.periodic:
            return _monotone(nodes, lambda x: _on_circle(x, mass, self.hi - self.lo))
        return _monotone(nodes, lambda x: hat_moments(x, mass))

    def __str__(self) -> str:
        if self._same:
            return self._placement
        return f"{self._placement} → {self.target}"


def _endpoint(n: int, n0: int) -> Tensor:
    """The closed form on endpoint-inclusive nodes; only tensor operations on n, so that it can be traced."""
    if n == 1 or (not torch.compiler.is_compiling() and n == n0):
        return counting(n)
    if n0 == 1:  # the only sample lies in the middle: on the middle sample, or half on each of the middle two
        return (1 - (torch.arange(n, dtype=torch.float64, device="cpu") - (n - 1) / 2).abs()).clamp_min(0)
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


def _continuum(train: Axis, n0: int) -> Mass:
    """The counting measure of n0 samples: 1/n0 in every gap, half of that more at both ends."""
    if isinstance(train, RuleAxis) and train.rule.placement in ("cell", "periodic"):
        return Mass(_float64([train.lo, train.hi]), _float64([1.0]))
    x = train.nodes(n0).sort().values
    if isinstance(train, GivenAxis) and train.periodic:
        return Mass(torch.cat([x, x[:1] + (train.hi - train.lo)]), torch.full_like(x, 1 / n0))
    if n0 == 1:
        return Mass(x, x.new_empty(0), ((x, 1.0),))
    return Mass(x, torch.full_like(x[1:], 1 / n0), ((x[:1], 0.5 / n0), (x[-1:], 0.5 / n0)))


def _float64(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device="cpu")


def _monotone(nodes: Tensor, weights: Callable[[Tensor], Tensor]) -> Tensor:
    """``weights`` of increasing nodes, for nodes in either direction."""
    if nodes.shape[0] == 1:
        return torch.ones_like(nodes)
    if not torch.compiler.is_compiling() and nodes[0] > nodes[-1]:  # rules have increasing nodes
        return weights(nodes.flip(0)).flip(0)
    return weights(nodes)


def _on_circle(nodes: Tensor, mass: Mass, period: float) -> Tensor:
    """The same on a circle: unroll μ over three turns and read one turn of hats off it."""
    edges = torch.cat([mass.edges[:-1] - period, mass.edges[:-1], mass.edges + period])
    turns = Mass(edges, mass.spread.repeat(3))
    # Nodes of the turn [x_0, x_0 + period], with one interval on each side so that no hat extrapolates.
    ring = torch.cat([nodes[-1:] - period, nodes, nodes[:1] + period])
    total, moment = turns.left_of(ring)
    M = total.diff()
    right = (moment.diff() - ring[:-1] * M) / ring.diff()
    return right[:-1] + (M - right)[1:]
