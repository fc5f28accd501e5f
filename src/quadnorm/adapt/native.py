"""Run on the training grid, carry the output to the requested grid; alone, or with the anchored run's detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._suggest import unknown
from quadnorm.adapt.models import check_module, model_grid
from quadnorm.carry.grids import carry
from quadnorm.carry.lines import METHODS
from quadnorm.carry.scattered import AtNativePoints
from quadnorm.measures.base import Shape


def at_native(
    model: nn.Module,
    resolution: int | Sequence[int] | Tensor,
    placement: str | Sequence[str] | None = None,
    *,
    restrict: str = "cubic",
    interpolate: str = "cubic",
    weights: Tensor | None = None,
) -> AtNative | AtNativePoints:
    r"""The model run on its training grid, whatever grid it is asked on.

    .. math:: y = P\, G(R\, x)

    R takes the input to the training grid: the samples themselves where the grids nest, else interpolation. P
    carries the output back: cubic splines, on periodic axes Fourier zero-padding. All of it is differentiable and
    works on batches.

    Nothing in the network depends on the resolution then; what is lost is what the training grid cannot hold, of
    the input and of the output.

    Args:
        model: takes (B, C, \*spatial); not copied: training it trains this too.
        resolution, placement: of the training grid, as for :func:`quadnorm.anchor`. Or ``resolution`` is a tensor
            (N, d), the training mesh's points: see :class:`quadnorm.adapt.AtNativePoints`, which interpolates by
            lines.
        weights: (N,), of the training mesh's points, if the model is to be given them.
        restrict, interpolate: ``cubic``, ``linear`` or ``nearest``, for R and P. A piecewise constant input should
            be restricted by ``nearest``.

    >>> import torch
    >>> model = nn.Conv2d(1, 1, 3, padding=1)  # fixed pixels: no measure would help
    >>> wrapped = at_native(model, 17)
    >>> x = torch.randn(2, 1, 33, 33)
    >>> torch.equal(wrapped(x)[..., ::2, ::2], model(x[..., ::2, ::2]))
    True
    """
    check_module(model, "run")
    if isinstance(resolution, Tensor):
        return AtNativePoints(model, resolution, weights)
    if weights is not None:
        raise ValueError("weights belong to the points of a training mesh; a grid's samples have none of their own")
    sizes, names = model_grid(model, resolution, placement)
    return AtNative(model, sizes, names, restrict, interpolate)


class AtNative(nn.Module):
    """See :func:`at_native`."""

    def __init__(
        self,
        model: nn.Module,
        resolution: Shape,
        placements: tuple[str, ...],
        restrict: str = "cubic",
        interpolate: str = "cubic",
    ) -> None:
        super().__init__()
        for method in (restrict, interpolate):
            if method not in METHODS:
                raise ValueError(unknown("way to interpolate", method, METHODS))
        self.model = model
        self.resolution, self.placements = resolution, placements
        self.restrict, self.interpolate = restrict, interpolate

    def forward(self, x: Tensor, *args: Any, **options: Any) -> Tensor:
        """(B, C, *spatial) → (B, C', *spatial); further arguments go to the model."""
        shape = spatial_shape(x, len(self.resolution))
        y = self.model(carry(x, self.resolution, self.placements, self.restrict), *args, **options)
        return carry(y, shape, self.placements, self.interpolate)

    def extra_repr(self) -> str:
        """The grid and the ways."""
        return f"resolution={self.resolution}, placement={self.placements}, restrict={self.restrict!r}"


class Detailed(nn.Module):
    r"""An anchored model, corrected to agree with its native run at the training grid's nodes.

    .. math:: y = A x + P\,(A\,R x - R\,A x)

    A is the anchored model, which at the training grid is the model as trained; R and P are those of
    :func:`at_native`. On the nodes of the training grid y is the native run's value, between them it has the
    anchored run's detail.

    >>> import torch
    >>> from quadnorm.adapt import anchor
    >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    >>> fixed = anchor(model, 9, detail=True)
    >>> x = torch.randn(2, 1, 17)
    >>> torch.allclose(fixed(x)[..., ::2], model(x[..., ::2]), atol=1e-6)
    True
    """

    def __init__(
        self, model: nn.Module, resolution: Shape, placements: tuple[str, ...], restrict: str = "cubic"
    ) -> None:
        super().__init__()
        self.model = model
        self.resolution, self.placements, self.restrict = resolution, placements, restrict

    @property
    def anchor_report(self) -> Any:
        """What was anchored."""
        return self.model.anchor_report

    def forward(self, x: Tensor, *args: Any, **options: Any) -> Tensor:
        """(B, C, *spatial) → (B, C', *spatial); further arguments go to the model."""
        shape = spatial_shape(x, len(self.resolution))
        y: Tensor = self.model(x, *args, **options)
        if not torch.compiler.is_compiling() and shape == self.resolution:
            return y
        native = self.model(carry(x, self.resolution, self.placements, self.restrict), *args, **options)
        correction = native - carry(y, self.resolution, self.placements)
        return y + carry(correction, shape, self.placements)

    def extra_repr(self) -> str:
        """The grid."""
        return f"resolution={self.resolution}, placement={self.placements}"


def spatial_shape(x: Tensor, d: int) -> Shape:
    """The grid of x (B, C, *spatial)."""
    if x.ndim != d + 2:
        raise ValueError(f"expected (B, C, *spatial) with {d} spatial axes, got shape {tuple(x.shape)}")
    return tuple(x.shape[2:])
