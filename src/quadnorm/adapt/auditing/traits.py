"""What of the data lies between the samples of the coarser grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from quadnorm.adapt.auditing.commute import relative
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Traits:
    """``detail`` and ``target_detail``: the shares of the finer input and target that lie between the coarser grid's
    samples; ``finer``: whether any grid is finer than the training grid."""

    detail: float
    target_detail: float | None
    finer: bool


def between(x: Tensor, sizes: Shape, names: tuple[str, ...]) -> tuple[Tensor, float]:
    """The field without what lies between the samples of a grid of ``sizes``, and the share of it that this removes."""
    smooth = carry(carry(x, sizes, names), tuple(x.shape[2:]), names)
    return smooth, relative(smooth, x)


def traits(
    detail: float, target: Tensor | None, grids: Sequence[Shape], sizes: Shape, names: tuple[str, ...]
) -> Traits:
    """For inputs whose share of fine scales is ``detail``, and the target at the compared grid, if there are any."""
    finer = any(n > n0 for g in grids for n, n0 in zip(g, sizes, strict=True))
    measured = target if finer and target is not None and target.ndim == len(sizes) + 2 else None
    return Traits(detail, None if measured is None else between(measured, sizes, names)[1], finer)
