"""Tensor-product grids."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from quadnorm.measures.axes import Axis, Bound, GivenAxis, RuleAxis, checked_bound
from quadnorm.measures.base import Measure, Shape
from quadnorm.measures.rules import rule


class Separable(Measure):
    """A product of one-dimensional measures: w_{ij…} = w_i · w_j · …

    Kernels that can use it take the 1-D :meth:`factors` instead of the full tensor.
    """

    _axes: tuple[Axis, ...]
    _every: bool  # the only axis stands for any number of them

    def axes(self, ndim: int) -> tuple[Axis, ...]:
        """One axis for each of ``ndim`` dimensions."""
        return self._axes * ndim if self._every else self._axes

    @property
    def total(self) -> float:
        return prod(a.hi - a.lo for a in self._axes)

    @property
    def shape(self) -> Shape | None:
        sizes = [a.size for a in self._axes]
        return None if any(n is None for n in sizes) else tuple(n for n in sizes if n is not None)

    @property
    def ndim(self) -> int | None:
        return None if self._every else len(self._axes)

    def _key(self) -> Hashable:
        return self._every, self._axes

    def factors(
        self, shape: int | Sequence[int], device: torch.device | str | None = None, dtype: torch.dtype = torch.float64
    ) -> tuple[Tensor, ...]:
        """The 1-D weights whose outer product :meth:`weights` is; each sums to 1.

        >>> Grid(("trapezoid", "periodic")).factors((3, 2))
        (tensor([0.2500, 0.5000, 0.2500], dtype=torch.float64), tensor([0.5000, 0.5000], dtype=torch.float64))
        """
        wanted = self._checked(shape)
        return tuple(
            a.weights(n).to(device=device, dtype=dtype) for a, n in zip(self.axes(len(wanted)), wanted, strict=True)
        )

    def nodes(
        self, shape: int | Sequence[int], device: torch.device | str | None = None, dtype: torch.dtype = torch.float64
    ) -> tuple[Tensor, ...]:
        """The 1-D coordinates of the samples along each axis.

        >>> Grid("midpoint").nodes(2)
        (tensor([0.2500, 0.7500], dtype=torch.float64),)
        """
        wanted = self._checked(shape)
        return tuple(
            a.nodes(n).to(device=device, dtype=dtype) for a, n in zip(self.axes(len(wanted)), wanted, strict=True)
        )

    def flat(self, shape: int | Sequence[int]) -> bool:
        """Whether all weights are equal at this shape: the sums are then plain averages, and native kernels serve."""
        wanted = self._checked(shape)
        return all(a.flat(n) for a, n in zip(self.axes(len(wanted)), wanted, strict=True))

    def _build(self, shape: Shape) -> Tensor:
        # One division instead of a product of roundings: flat weights equal 1/N to the last bit.
        if not torch.compiler.is_compiling() and self.flat(shape):
            return torch.full(shape, 1 / prod(shape), dtype=torch.float64, device="cpu")
        w, *rest = self.factors(shape)
        for f in rest:
            w = w.unsqueeze(-1) * f
        return w


class Grid(Separable):
    """Tensor-product quadrature on a box, at any resolution or on given coordinates.

    w_{ij…} = w_i · w_j · …, each factor from the table of rules (:data:`quadnorm.measures.RULES`).

    Args:
        rule: one rule's name for every axis in any dimension, or a sequence with one name per axis: ``trapezoid``,
            ``simpson``, ``boole``, ``counting`` on endpoint-inclusive nodes; ``midpoint`` on cell centres;
            ``periodic``; ``left``; ``gauss-legendre``, ``gauss-lobatto``, ``clenshaw-curtis`` on their own nodes. A
            placement's name (``endpoint``, ``cell``) stands for its rule.
        bounds: one (lo, hi) per axis; default [0, 1] each. They set :attr:`total` and :meth:`nodes`, never the weights.

    >>> Grid("trapezoid").weights((2, 3))
    tensor([[0.1250, 0.2500, 0.1250],
            [0.1250, 0.2500, 0.1250]], dtype=torch.float64)
    >>> Grid(("trapezoid", "periodic"), bounds=((0, 2), (0, 3))).total
    6.0
    """

    def __init__(self, rule: str | Sequence[str] = "trapezoid", *, bounds: Sequence[Bound] | None = None) -> None:
        limits = None if bounds is None else _bounds(bounds)
        if isinstance(rule, str):
            names: Sequence[str] = [rule] * (1 if limits is None else len(limits))
        elif isinstance(rule, Sequence) and rule:
            names = rule
        else:
            raise TypeError(f"rule must be a name or a sequence of names, one per axis, got {rule!r}")
        if limits is None:
            limits = [(0.0, 1.0)] * len(names)
        if len(limits) != len(names):
            raise ValueError(f"got {len(names)} rules and {len(limits)} bounds; expected one (lo, hi) per axis")
        axes = tuple(RuleAxis(_lookup(name), lo, hi) for name, (lo, hi) in zip(names, limits, strict=True))
        self._set(_axes=axes, _every=isinstance(rule, str) and bounds is None)

    @classmethod
    def from_coordinates(
        cls, *coordinates: Any, bounds: Sequence[Any] | None = None, periodic: bool | Sequence[bool] = False
    ) -> Grid:
        """A nonuniform tensor-product grid with control-volume weights, for the given nodes only.

        Args:
            coordinates: one 1-D array of strictly monotone nodes per axis.
            bounds: one (lo, hi) per axis (for a single axis also a plain pair). Where nodes stop short of the domain's
                ends, the end cells extend to the boundary. Default: the nodes' own span.
            periodic: whether an axis wraps around, for all axes or one each; needs ``bounds``, whose length is the
                period.

        >>> Grid.from_coordinates([0.0, 0.1, 1.0]).weights(3)
        tensor([0.0500, 0.5000, 0.4500], dtype=torch.float64)
        """
        d = len(coordinates)
        if d == 0:
            raise ValueError("from_coordinates needs at least one 1-D array of nodes")
        if bounds is not None and d == 1 and len(bounds) == 2 and not isinstance(bounds[0], Sequence):
            bounds = (bounds,)
        wraps = [periodic] * d if isinstance(periodic, bool) else list(periodic)
        if len(wraps) != d or (bounds is not None and len(bounds) != d):
            got = len(wraps) if len(wraps) != d else len(bounds or ())
            raise ValueError(
                f"got {d} coordinate arrays and {got} entries in bounds or periodic; expected one per axis"
            )
        return cls.of_axes(
            *(
                GivenAxis.of(x, None if bounds is None else bounds[k], wraps[k], f"axis {k}")
                for k, x in enumerate(coordinates)
            )
        )

    @classmethod
    def of_axes(cls, *axes: Axis) -> Grid:
        """The product of axes as they are."""
        grid = cls.__new__(cls)
        grid._set(_axes=axes, _every=False)
        return grid

    def describe(self) -> str:
        if self._every:
            return f"{self._axes[0]} on every axis of [0, 1]^d"
        box = " × ".join(f"[{a.lo:g}, {a.hi:g}]" for a in self._axes)
        return f"{' × '.join(str(a) for a in self._axes)} on {box}, total {self.total:g}"

    def __repr__(self) -> str:
        if any(a.size is not None for a in self._axes):
            return f"Grid.from_coordinates({', '.join(f'<{a}>' for a in self._axes)})"
        names = tuple(str(a) for a in self._axes)
        rule = repr(names[0]) if self._every else repr(names)
        limits = tuple((a.lo, a.hi) for a in self._axes)
        return f"Grid({rule})" if limits == ((0.0, 1.0),) * len(limits) else f"Grid({rule}, bounds={limits})"


def trapezoidal_weights_nd(
    shape: Sequence[int], device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Tensor-product trapezoid weights, the helper of the paper's listing: ``Grid("trapezoid").weights(shape)``.

    w_i = h inside, h/2 at both ends of each axis, h = 1/(n−1), and 1 for a single sample; they sum to 1. ``dtype``
    defaults to torch's default.

    >>> trapezoidal_weights_nd((2, 3))
    tensor([[0.1250, 0.2500, 0.1250],
            [0.1250, 0.2500, 0.1250]])
    """
    return Grid("trapezoid").weights(shape, device, torch.get_default_dtype() if dtype is None else dtype)


_lookup = rule  # the constructor's argument of the same name hides the function


def _bounds(bounds: Any) -> list[Bound]:
    try:
        pairs = list(bounds)
    except TypeError:
        raise ValueError(f"bounds must hold one (lo, hi) per axis, got {bounds!r}") from None
    return [checked_bound(b, f"axis {k}") for k, b in enumerate(pairs)]
