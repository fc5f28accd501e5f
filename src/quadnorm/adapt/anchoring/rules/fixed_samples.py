"""Modules of a fixed number of samples, which no measure can anchor: the rules say why they are left."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import nn

from quadnorm.adapt.anchoring.rules.registry import RULES, Outcome, Place, left, unchanged
from quadnorm.adapt.anchoring.size_dependence import PICKED
from quadnorm.adapt.report import size_text


def _running(module: nn.Module) -> Outcome:
    if module.training:
        return left(
            "in train mode its statistics count samples; in eval mode it uses running ones, which are no spatial sum"
        )
    return unchanged("running statistics in eval mode are no spatial sum; in train mode they would count samples")


def adaptive_maximum(module: Any, place: Place) -> Outcome:
    """``nn.AdaptiveMaxPool1d/2d/3d``."""
    size = module.output_size
    if any(s != 1 for s in (size if isinstance(size, tuple) else (size,))):
        return left(f"output_size={size}: bins of whole samples, whose edges move with the resolution")
    return left(PICKED)


def convolution(module: Any, place: Place) -> Outcome | None:
    """Kernels of a fixed number of samples."""
    kernel, stride = tuple(module.kernel_size), tuple(module.stride)
    pixels = size_text(kernel)
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

RULES.update({nn.Linear: linear, nn.Embedding: embedding})
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
