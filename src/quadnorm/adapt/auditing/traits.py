"""What in the data decides between the ways: fine scales, kinks, grids that nest, samples that miss the boundary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from quadnorm.adapt.auditing.commute import relative
from quadnorm.carry.grids import carry, nested
from quadnorm.measures.base import Shape

PLAIN = 0.01  # a share of a field that matters where no error is known to compare it with
OF_ERROR = 0.3  # of the error at the training grid: in quadrature, 4 % of it


@dataclass(frozen=True)
class Traits:
    """Measured on the training grid and the one compared with it, and read off the grids; see :func:`traits`.

    ``detail`` and ``target_detail``: the shares of the finer input and target that lie between the coarser grid's
    samples; ``nests``: whether each grid contains the training grid or is part of it; ``finer``: whether any grid is
    finer; ``ends_early``: whether samples end before the domain does, so that upsampling extrapolates.
    """

    detail: float
    target_detail: float | None
    nests: bool
    finer: bool
    ends_early: bool

    def favours(self, error: float | None = None) -> str:
        """The way that such data favours as a rule, and why; ``error``: the model's at the training grid.

        >>> Traits(0.2, 0.002, nests=True, finer=True, ends_early=False).favours(error=0.05)
        'at_native: what upsampling misses of the targets is small beside the error, and it costs least'
        >>> Traits(0.2, 0.002, nests=False, finer=True, ends_early=False).favours(error=0.05)
        'anchor: the input has fine scales and the grids do not nest, so that the others interpolate it'
        """
        limit = PLAIN if error is None else OF_ERROR * error
        rough, kinked = self.detail > limit, (self.target_detail or 0.0) > limit
        if not self.finer:
            return "extend or at_native: on coarser grids they keep the training grid's sums"
        if rough and not self.nests:
            return "anchor: the input has fine scales and the grids do not nest, so that the others interpolate it"
        if kinked:
            return "anchor or extend: targets have kinks or fine scales, which upsampling cannot give"
        if self.ends_early:
            return "anchor or extend: samples end before the domain does, where upsampling extrapolates"
        if rough and self.target_detail is None:
            return "anchor or extend if outputs have the input's fine scales, else at_native; targets would tell"
        if self.target_detail is None:
            return "at_native: inputs are smooth, so that interpolation should lose little, and it costs least"
        return "at_native: what upsampling misses of the targets is small beside the error, and it costs least"


def between(x: Tensor, sizes: Shape, names: tuple[str, ...]) -> tuple[Tensor, float]:
    """The field without what lies between the samples of a grid of ``sizes``, and the share of it that this removes."""
    smooth = carry(carry(x, sizes, names), tuple(x.shape[2:]), names)
    return smooth, relative(smooth, x)


def traits(
    detail: float, target: Tensor | None, grids: Sequence[Shape], sizes: Shape, names: tuple[str, ...]
) -> Traits:
    """For inputs whose share of fine scales is ``detail``, and the target at the compared grid, if there are any."""
    others = [g for g in grids if g != sizes]

    def fit(g: Shape) -> bool:
        return all(nested(p, *sorted(pair)) for p, *pair in zip(names, sizes, g, strict=True))

    finer = any(n > n0 for g in others for n, n0 in zip(g, sizes, strict=True))
    measured = target if finer and target is not None and target.ndim == len(sizes) + 2 else None
    return Traits(
        detail=detail,
        target_detail=None if measured is None else between(measured, sizes, names)[1],
        nests=all(fit(g) for g in others),
        finer=finer,
        ends_early="left" in names,
    )
