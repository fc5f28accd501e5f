"""PyTorch's modules that average over space, under an anchored measure.

Each class differs from its base in one attribute, ``measure``, and becomes the base wherever that measure counts:
at the training resolution the output is the base's to the last bit. A module is anchored by changing its class, so
that its parameters, hooks, mode and identity stay what they are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from quadnorm._precision import sum_dtype
from quadnorm.adapt.anchoring.running_grid import RunningGrid, grid_of_row
from quadnorm.carry.grids import carry
from quadnorm.measures import Anchored, Measure, Separable, as_measure
from quadnorm.measures.anchored import AnchoredAxis
from quadnorm.measures.base import Shape
from quadnorm.measures.padded import PaddedAxis
from quadnorm.norms.kernels.core import normalize
from quadnorm.norms.quad import PROXY, leaf_call


def placements(measure: Anchored) -> tuple[str, ...]:
    """The training grid's placement on each axis."""
    return tuple(a._placement for a in measure._axes if isinstance(a, (AnchoredAxis, PaddedAxis)))


def counts(measure: Measure, spatial: Shape) -> bool:
    """Whether the measure is the plain average on these samples."""
    if torch.compiler.is_compiling():  # asking would compile the training grid's size into a dynamic graph
        return False
    return isinstance(measure, Anchored) and measure.flat(spatial)


def weights_of(measure: Anchored, grid: Shape, x: Tensor) -> Tensor:
    """The weights of a grid's samples, (1, N), summing to 1, for a sum over x."""
    return measure.shared_weights(grid, x.device, sum_dtype(x)).reshape(1, -1)


def change_class(module: nn.Module, kind: type[nn.Module]) -> None:
    """Make the module one of class ``kind``.

    A parametrized module has a class of its own, with a property for each parametrized tensor: the new class has them
    too.
    """
    if parametrize.is_parametrized(module):
        own = {name: value for name, value in vars(type(module)).items() if name not in ("__dict__", "__weakref__")}
        kind = type(kind.__name__, (kind,), {**own, "__module__": kind.__module__, "__doc__": kind.__doc__})
    module.__class__ = kind


class AnchoredGroupNorm(nn.GroupNorm):
    """``nn.GroupNorm`` with mean and variance under ``measure``; (B, C, *spatial)."""

    measure: Anchored
    running_grid: RunningGrid | None = None

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, PROXY):
            return leaf_call(self, x)
        grid = grid_of_row(self.measure, tuple(x.shape[2:]), self.running_grid)
        if not grid or counts(self.measure, grid):
            return super().forward(x)
        return normalize(x, weights_of(self.measure, grid, x), self.weight, self.bias, self.num_groups, self.eps)


class _AnchoredInstanceNorm(nn.modules.instancenorm._InstanceNorm):
    measure: Anchored
    running_grid: RunningGrid | None = None

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, PROXY):
            return leaf_call(self, x)
        self._check_input_dim(x)  # type: ignore[no-untyped-call]
        batched = x.ndim > self._get_no_batch_dim()  # type: ignore[no-untyped-call]
        grid = grid_of_row(self.measure, tuple(x.shape[2:] if batched else x.shape[1:]), self.running_grid)
        if counts(self.measure, grid):
            return super().forward(x)
        field = x if batched else x.unsqueeze(0)
        w = weights_of(self.measure, grid, x)
        y = normalize(field, w, self.weight, self.bias, field.shape[1], self.eps)
        return y if batched else y.squeeze(0)


class AnchoredInstanceNorm1d(_AnchoredInstanceNorm, nn.InstanceNorm1d):
    """``nn.InstanceNorm1d`` under ``measure``."""


class AnchoredInstanceNorm2d(_AnchoredInstanceNorm, nn.InstanceNorm2d):
    """``nn.InstanceNorm2d`` under ``measure``."""


class AnchoredInstanceNorm3d(_AnchoredInstanceNorm, nn.InstanceNorm3d):
    """``nn.InstanceNorm3d`` under ``measure``."""


class OverGrid(nn.Module):
    """What ``nn.LayerNorm`` and ``nn.RMSNorm`` over channels and space, or space alone, share under ``measure``.

    ``normalized_shape`` is that of training. γ and β have one number for each sample of the training grid: fields,
    which other grids read by interpolation (cubic spline; Fourier on periodic axes). The spatial axes are the d axes
    from ``first_spatial``, an index into ``normalized_shape``.
    """

    measure: Anchored
    first_spatial: int
    normalized_shape: tuple[int, ...]
    eps: float | None
    weight: Tensor | None
    centre = True

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, PROXY):
            return leaf_call(self, x)
        k, d = len(self.normalized_shape), len(self.measure.anchor)
        inner = tuple(x.shape[x.ndim - k :])
        start = self.first_spatial
        spatial = inner[start : start + d]
        expected = (*self.normalized_shape[:start], *spatial, *self.normalized_shape[start + d :])
        if x.ndim < k or inner != expected:
            raise ValueError(
                f"got input of shape {tuple(x.shape)}, expected (..., {', '.join(map(str, expected))}) with any "
                f"number of samples on axes {start - k} … {start + d - 1 - k}"
            )
        if not torch.compiler.is_compiling() and inner == tuple(self.normalized_shape):
            native: Tensor = super().forward(x)
            return native
        w = self.measure.shared_weights(spatial, x.device, sum_dtype(x)).reshape(1, -1)
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        # (..., before, *spatial, after) as one batch entry of `others` channels on N samples
        y = x.reshape(-1, *inner).movedim(tuple(range(1 + start, 1 + start + d)), tuple(range(-d, 0)))
        y = normalize(y.flatten(1, -d - 1) if k > d else y.unsqueeze(1), w, None, None, 1, eps, self.centre)
        y = y.reshape(-1, *inner[:start], *inner[start + d :], *spatial)
        y = y.movedim(tuple(range(-d, 0)), tuple(range(1 + start, 1 + start + d))).reshape(x.shape)
        bias: Tensor | None = getattr(self, "bias", None)
        if self.weight is not None:
            y = y * self._carried(self.weight, spatial).to(y.dtype)
        return y if bias is None else y + self._carried(bias, spatial).to(y.dtype)

    def _carried(self, p: Tensor, spatial: Shape) -> Tensor:
        start, d = self.first_spatial, len(spatial)
        at = tuple(range(start, start + d))
        last = tuple(range(-d, 0))
        return carry(p.movedim(at, last), spatial, placements(self.measure)).movedim(last, at)


class AnchoredLayerNorm(OverGrid, nn.LayerNorm):
    """``nn.LayerNorm`` over space at any resolution, mean and variance under ``measure``."""


class AnchoredRMSNorm(OverGrid, nn.RMSNorm):
    """``nn.RMSNorm`` over space at any resolution, the mean square under ``measure``."""

    centre = False


class _AnchoredPool(nn.Module):
    measure: Anchored

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, PROXY):
            return leaf_call(self, x)
        d = len(self.measure.anchor)
        if counts(self.measure, tuple(x.shape[-d:])):
            y: Tensor = super().forward(x)
            return y
        return weighted_mean(x, self.measure, keepdim=True)


class AnchoredAvgPool1d(_AnchoredPool, nn.AdaptiveAvgPool1d):
    """``nn.AdaptiveAvgPool1d(1)`` under ``measure``."""


class AnchoredAvgPool2d(_AnchoredPool, nn.AdaptiveAvgPool2d):
    """``nn.AdaptiveAvgPool2d(1)`` under ``measure``."""


class AnchoredAvgPool3d(_AnchoredPool, nn.AdaptiveAvgPool3d):
    """``nn.AdaptiveAvgPool3d(1)`` under ``measure``."""


def weighted_mean(x: Tensor, measure: Anchored, keepdim: bool) -> Tensor:
    """Σ w_i x_i over the last axes of x, as many as the measure has."""
    d = len(measure.anchor)
    axes = tuple(range(-d, 0))
    w = measure.shared_weights(tuple(x.shape[-d:]), x.device, sum_dtype(x))
    return (x.to(w.dtype) * w).sum(axes, keepdim=keepdim).to(x.dtype)


class SpatialMean(nn.Module):
    r"""The mean over space, :math:`\sum_i w_i x_i`, under a measure that can be set: ``x.mean((-2, -1))`` as a module.

    Shapes: (B, C, \*spatial) → (B, C), or (B, C, 1, …) with ``keepdim``.

    >>> SpatialMean()(torch.tensor([[[0.0, 1.0, 5.0]]]))
    tensor([[2.]])
    """

    def __init__(self, keepdim: bool = False, measure: str | Measure = "counting") -> None:
        super().__init__()
        self.keepdim = keepdim
        self.measure: Measure = as_measure(measure)

    def forward(self, x: Tensor) -> Tensor:
        """Average over all axes but the first two."""
        if isinstance(x, PROXY):
            return leaf_call(self, x)
        axes = tuple(range(2, x.ndim))
        if not torch.compiler.is_compiling() and isinstance(self.measure, Separable) and self.measure.flat(x.shape[2:]):
            return x.mean(axes, keepdim=self.keepdim)
        w = self.measure.shared_weights(tuple(x.shape[2:]), x.device, sum_dtype(x))
        return (x.to(w.dtype) * w).sum(axes, keepdim=self.keepdim).to(x.dtype)

    def extra_repr(self) -> str:
        """What the constructor was given."""
        return f"keepdim={self.keepdim}, measure={self.measure!r}"
