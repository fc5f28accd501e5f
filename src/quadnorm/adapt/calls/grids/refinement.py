"""Grids that are finer than the training grid."""

from __future__ import annotations

from quadnorm.measures.base import Shape


def refinements(placement: str, n: int) -> list[int]:
    """Sizes for the second run along an axis: one that contains the training nodes, then ones that divide as n does."""
    nested = {"endpoint": 2 * n - 1, "interior": 2 * n + 1, "cell": 3 * n}.get(placement, 2 * n)
    return list(dict.fromkeys([nested, 2 * n, n + 16]))


def refined_grid(native: Shape, placements: tuple[str, ...]) -> Shape:
    """A grid that contains the training grid, finer along every axis.

    >>> refined_grid((9, 8), ("endpoint", "periodic"))
    (17, 16)
    """
    return tuple(refinements(p, n)[0] for n, p in zip(native, placements, strict=True))
