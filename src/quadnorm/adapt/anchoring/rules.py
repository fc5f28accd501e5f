"""The rules for PyTorch's modules and for everything that owns a measure."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.anchoring import torch_modules as ours
from quadnorm.adapt.anchoring.calls import PICKED
from quadnorm.adapt.anchoring.registry import RULES, Outcome, Place, anchored, left, unchanged
from quadnorm.measures import Anchored, Blend, Grid, Measure
from quadnorm.measures.axes import RuleAxis
from quadnorm.operators import SpectralConv

COUNTING = Grid("counting")
STILL = "on cell-centred and periodic axes counting is already the integral; nothing moves with the resolution"


# --- modules that own a measure --------------------------------------------------------------------------------------


def anchored_measure(measure: Measure, place: Place) -> Measure | Outcome:
    """What a module's measure becomes, with the same weights at the training resolution; or why it is left."""
    if measure == COUNTING:
        return place.measure
    if isinstance(measure, Anchored):
        if measure == place.measure:
            return measure
        return left(f"is anchored already, at {'×'.join(map(str, measure.anchor))}")
    if isinstance(measure, Blend):
        if measure.counting is not None:
            return left("is anchored already")
        return _misplaced(measure.quadrature, place) or Blend(measure.alpha, measure.quadrature, place.measure)
    if isinstance(measure, Grid):
        return _misplaced(measure, place) or measure
    return left(f"{measure!r} belongs to one discretization; set the module's measure for each new one")


def _misplaced(measure: Measure, place: Place) -> Outcome | None:
    """The outcome for a rule whose nodes are not where the samples are; None if they are."""
    if not isinstance(measure, Grid):
        return None
    for k, (axis, at) in enumerate(zip(measure.axes(len(place.placements)), place.placements, strict=True)):
        if isinstance(axis, RuleAxis) and axis.rule.placement not in (at, {"left": "periodic"}.get(at)):
            return left(
                f"{axis.rule.name} weights belong to {axis.rule.placement} samples, but axis {k} has {at} samples; "
                f"the rule is wrong there and was left as trained"
            )
    return None


def own_measure(module: Any, place: Place) -> Outcome:
    """Norms, spectral convolutions, attention, operators: whatever has a ``measure`` that can be set."""
    before: Measure = module.measure
    after = anchored_measure(before, place)
    if isinstance(after, Outcome):
        return after
    if not place.moves and before == COUNTING:
        return unchanged(STILL)
    if after == before:
        what = "already anchored there" if isinstance(before, Anchored) else "a quadrature already"
        return unchanged(f"{before!r} is {what}; it does not move with the resolution beyond O(h²)")
    if isinstance(module, SpectralConv) and module.kernel == "quadrature" and module.period is None:
        module.period = (1.0,) * len(module.modes.kept)  # an anchored measure would bring the FFT's period along
    module.measure = after
    return anchored(module, f"{before!r} → {after!r}")


# --- PyTorch's norms and pools ---------------------------------------------------------------------------------------


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


def _running(module: nn.Module) -> Outcome:
    if module.training:
        return left(
            "in train mode its statistics count samples; in eval mode it uses running ones, which are no spatial sum"
        )
    return unchanged("running statistics in eval mode are no spatial sum; in train mode they would count samples")


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


def adaptive_maximum(module: Any, place: Place) -> Outcome:
    """``nn.AdaptiveMaxPool1d/2d/3d``."""
    size = module.output_size
    if any(s != 1 for s in (size if isinstance(size, tuple) else (size,))):
        return left(f"output_size={size}: bins of whole samples, whose edges move with the resolution")
    return left(PICKED)


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


def take_hooks(new: nn.Module, old: nn.Module) -> None:
    """Give a module the hooks of the one it replaces."""
    for name in vars(old):
        if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
            setattr(new, name, getattr(old, name))


# --- what cannot be anchored -----------------------------------------------------------------------------------------


def convolution(module: Any, place: Place) -> Outcome | None:
    """Kernels of a fixed number of samples."""
    kernel, stride = tuple(module.kernel_size), tuple(module.stride)
    pixels = "×".join(map(str, kernel))
    if any(s > 1 for s in stride):
        if kernel == stride:
            return left(f"patches of {pixels} samples, whatever their size in space")
        return left(f"kernel of {pixels} samples with stride {stride}: its width in space shrinks with the spacing")
    if all(k == 1 for k in kernel):
        return None
    pad = f", padding of {module.padding} samples" if any(module._reversed_padding_repeated_twice) else ""
    return left(f"kernel of {pixels} samples{pad}: its width in space shrinks with the spacing")


def batch_norm(module: Any, place: Place) -> Outcome:
    """Running statistics are no spatial sum; batch statistics are."""
    if module.track_running_stats:
        return _running(module)
    return left("averages over the batch and counts samples; statistics of a batch are not those of a grid")


def _fixed(why: str) -> Any:
    return lambda module, place: left(why)


def linear(module: Any, place: Place) -> Outcome | None:
    """A Linear over all grid points."""
    N = prod(place.measure.anchor)
    if module.in_features == N or module.out_features == N:
        return left(f"maps between the {N} samples of the training grid; it has no meaning on another grid")
    return None


def embedding(module: Any, place: Place) -> Outcome | None:
    """A table with one row per grid point."""
    sizes = {prod(place.measure.anchor), *place.measure.anchor}
    return left("a learned table with one row per training sample") if module.num_embeddings in sizes else None


POOL = "pools a fixed number of samples: its width in space shrinks with the spacing"
PAD = "pads a fixed number of samples: its width in space shrinks with the spacing"

RULES.update({nn.GroupNorm: group_norm, nn.LayerNorm: layer_norm, nn.RMSNorm: layer_norm})
RULES.update({nn.Linear: linear, nn.Embedding: embedding})
RULES.update(dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), instance_norm))
RULES.update(dict.fromkeys((nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d), adaptive_pool))
RULES.update(dict.fromkeys((nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d), adaptive_maximum))
RULES.update(
    dict.fromkeys(
        (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d), convolution
    )
)
RULES.update(dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm), batch_norm))
RULES.update(
    {
        kind: _fixed(why)
        for why, kinds in {
            POOL: (
                *(getattr(nn, f"{how}Pool{d}d") for how in ("Max", "Avg", "LP") for d in (1, 2, 3)),
                *(nn.FractionalMaxPool2d, nn.FractionalMaxPool3d),
            ),
            PAD: tuple(
                getattr(nn, f"{how}Pad{d}d")
                for how in ("Zero", "Constant", "Reflection", "Replication", "Circular")
                for d in (1, 2, 3)
            ),
            "moves samples into channels": (nn.PixelShuffle, nn.PixelUnshuffle, nn.Unfold, nn.Fold),
            "resamples by a factor or to a fixed size in samples": (
                *(nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d),
                *(nn.MaxUnpool1d, nn.MaxUnpool2d, nn.MaxUnpool3d),
            ),
        }.items()
        for kind in kinds
    }
)
