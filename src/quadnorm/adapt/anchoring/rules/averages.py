"""Rules for PyTorch's modules that average over space: norms, global pools, and modules that turn out to be a mean."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.anchoring import torch_modules as ours
from quadnorm.adapt.anchoring.rules.fixed_samples import _running
from quadnorm.adapt.anchoring.rules.registry import RULES, STILL, Outcome, Place, anchored, left, unchanged
from quadnorm.adapt.models import take_hooks


def _swap(module: nn.Module, kind: type[nn.Module], place: Place, why: str = "counting → anchored") -> Outcome:
    if not place.moves:
        return unchanged(STILL)
    ours.change_class(module, kind)
    module.measure = place.measure  # type: ignore[assignment]
    return anchored(module, why)


def group_norm(module: nn.Module, place: Place) -> Outcome:
    """``nn.GroupNorm``."""
    return _swap(module, ours.AnchoredGroupNorm, place)


def instance_norm(module: nn.Module, place: Place) -> Outcome:
    """``nn.InstanceNorm1d/2d/3d``."""
    if getattr(module, "track_running_stats", False):
        return _running(module)
    kinds = {1: ours.AnchoredInstanceNorm1d, 2: ours.AnchoredInstanceNorm2d, 3: ours.AnchoredInstanceNorm3d}
    d = next(k for k in kinds if isinstance(module, getattr(nn, f"InstanceNorm{k}d")))
    return _swap(module, kinds[d], place)


def layer_norm(module: Any, place: Place) -> Outcome | None:
    """``nn.LayerNorm`` and ``nn.RMSNorm``: pointwise over channels alone, a spatial sum over the training grid."""
    shape, grid = tuple(module.normalized_shape), place.measure.anchor
    d = len(grid)
    starts = [k for k in range(len(shape) - d + 1) if shape[k : k + d] == grid]
    if not starts:
        if len(shape) == 1 and shape[0] != prod(grid):
            return None
        return left(f"normalized_shape {shape} does not contain the grid {grid}; which axes are space is not clear")
    start = starts[-1]
    if not place.moves and not module.elementwise_affine:
        return unchanged(STILL + "; at other resolutions PyTorch's own norm refuses the shape")
    rms = isinstance(module, nn.RMSNorm)
    ours.change_class(module, ours.AnchoredRMSNorm if rms else ours.AnchoredLayerNorm)
    module.measure, module.first_spatial = place.measure, start
    why = "counting → anchored"
    if module.elementwise_affine:
        has = "γ has" if rms else "γ and β have"
        why += f"; {has} one value per training sample, other grids read them by interpolation"
    return anchored(module, why)


def adaptive_pool(module: Any, place: Place) -> Outcome:
    """``nn.AdaptiveAvgPool1d/2d/3d``."""
    size = module.output_size
    if any(s != 1 for s in (size if isinstance(size, tuple) else (size,))):
        return left(f"output_size={size}: bins of whole samples, whose edges move with the resolution")
    kinds = {1: ours.AnchoredAvgPool1d, 2: ours.AnchoredAvgPool2d, 3: ours.AnchoredAvgPool3d}
    d = next(k for k in kinds if isinstance(module, getattr(nn, f"AdaptiveAvgPool{k}d")))
    if d != len(place.measure.anchor):
        return left(f"averages over {d} of the grid's {len(place.measure.anchor)} axes")
    return _swap(module, kinds[d], place)


def plain_mean(module: nn.Module, place: Place) -> Outcome | None:
    """A module without parameters that turns out to be ``x.mean(spatial axes)``, whatever its class."""
    d = len(place.measure.anchor)
    if next(module.parameters(), None) is not None or next(module.children(), None) is not None or not place.shapes:
        return None
    shape, kept = place.shapes[0], (1,) * d
    if (
        len(shape) != d + 2
        or shape[2:] != place.measure.anchor
        or place.outputs not in ((shape[:2],), (shape[:2] + kept,))
    ):
        return None
    axes, keepdim = tuple(range(2, d + 2)), place.outputs[0] != shape[:2]
    for sizes in (shape[2:], tuple(n + 1 + k for k, n in enumerate(shape[2:]))):
        random = torch.Generator("cpu").manual_seed(0)
        x = torch.randn(2, shape[1], *sizes, generator=random, dtype=torch.float64, device="cpu")
        try:
            y = module(x)
        except Exception:  # the module is anybody's, and was not made for these numbers
            return None
        mean = x.mean(axes, keepdim=keepdim)
        if not isinstance(y, torch.Tensor) or (y.shape, y.dtype) != (mean.shape, mean.dtype):
            return None
        if not torch.allclose(y, mean, rtol=1e-10, atol=1e-12):
            return None
    if not place.moves:
        return unchanged(STILL)
    new = ours.SpatialMean(keepdim, place.measure)
    take_hooks(new, module)
    return anchored(new, "gives the mean over space; replaced by SpatialMean, counting → anchored")


RULES.update({nn.GroupNorm: group_norm, nn.LayerNorm: layer_norm, nn.RMSNorm: layer_norm})
RULES.update(dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), instance_norm))
RULES.update(dict.fromkeys((nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d), adaptive_pool))
