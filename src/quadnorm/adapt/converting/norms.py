"""Which norms can be swapped for others: their channels, their layout, and what they average over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.modules import Outcome, left
from quadnorm.norms import NoNorm
from quadnorm.norms.baselines.uniform import CountingNorm, TokenNorm
from quadnorm.norms.quad import QuadNorm

TOKEN = (
    "normalizes each point over its own channels, no spatial average; pass grid=(n, …) for tokens (B, N, C) if it "
    "should become a spatial norm, which changes what the layer means"
)


@dataclass(frozen=True)
class SwappableNorm:
    """A norm that can be swapped: its channels, where they are, and a remark for the report."""

    channels: int
    layout: Any
    remark: str = ""


def describe_norm(
    module: nn.Module, grid: Sequence[int] | None, around: int | None = None
) -> SwappableNorm | Outcome | None:
    """What is known of a norm; the outcome "left" and why if it cannot be swapped; None if the module is no norm."""
    norm = _by_class(module, grid, around)
    if not isinstance(norm, SwappableNorm):
        return norm
    if _computed(module):
        return left(
            f"its {_computed(module)} is no parameter but computed (parametrized, pruned or quantized), which a swap "
            f"would lose; undo that first, as with torch.nn.utils.parametrize.remove_parametrizations"
        )
    if _own_forward(module):
        return replace(norm, remark=f"{norm.remark}; what {type(module).__name__}.forward does besides is dropped")
    return norm


def _by_class(module: nn.Module, grid: Sequence[int] | None, around: int | None) -> SwappableNorm | Outcome | None:
    m: Any = module
    if isinstance(m, nn.GroupNorm):
        return SwappableNorm(m.num_channels, "first")
    if isinstance(m, (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)):
        remark = "; its running statistics are dropped" if m.track_running_stats else ""
        return SwappableNorm(m.num_features, "first", remark)
    if isinstance(m, (TokenNorm, nn.LayerNorm)):
        return _layer_norm(m, grid)
    if isinstance(m, (CountingNorm, QuadNorm)):
        return SwappableNorm(m.num_features, m.layout)
    if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)):
        return left("statistics over the batch: a spatial norm has none; replace it by hand if you want that")
    if isinstance(m, nn.RMSNorm):
        pointwise = len(m.normalized_shape) == 1
        return left(TOKEN if pointwise else "scales per sample of a fixed grid; cannot move to another")
    if type(m).__name__ == "InstanceNorm" and type(m).__module__.startswith("neuralop."):
        if around is None or m.kwargs.get("weight") is not None:
            return left(
                "does not say how many channels it has; make the model with quadnorm.adapt.neuralop.use_quadnorm()"
            )
        return SwappableNorm(around, "first")
    return left("a norm that this does not know") if _named_norm(m) else None


def groups_of(module: nn.Module, channels: int) -> int | None:
    """How many means a norm takes per sample: 1 over all channels, ``channels`` for one each; None if it has none.

    >>> groups_of(nn.GroupNorm(2, 8), 8), groups_of(nn.InstanceNorm1d(8), 8), groups_of(nn.LayerNorm((8, 5)), 8)
    (2, 8, 1)
    """
    m: Any = module
    if isinstance(m, nn.GroupNorm):
        return int(m.num_groups)
    if isinstance(m, QuadNorm):
        return m.groups
    if isinstance(m, TokenNorm):
        return None
    if isinstance(m, nn.LayerNorm):
        return None if len(m.normalized_shape) == 1 else 1
    return channels  # InstanceNorm, torch's and neuraloperator's


def _computed(module: nn.Module) -> str:
    """The name of γ or β, if it is a tensor that the module computes or keeps otherwise; empty if there is none."""
    for name in ("weight", "bias"):
        value = getattr(module, name, None)
        if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
            return name
    return ""


def _own_forward(module: nn.Module) -> bool:
    """Whether the class is somebody's own, with a forward of its own."""
    kind: Any = type(module)
    known: Any = next(c for c in kind.__mro__ if c.__module__.startswith(("torch.", "quadnorm.", "neuralop.")))
    return kind.forward is not known.forward


def _named_norm(module: nn.Module) -> bool:
    """Classes whose name says norm, which hold parameters or sit at a leaf."""
    leaf = next(module.children(), None) is None
    return leaf and type(module).__name__.lower().endswith("norm") and not isinstance(module, NoNorm)


def _layer_norm(m: Any, grid: Sequence[int] | None) -> SwappableNorm | Outcome:
    pointwise = isinstance(m, TokenNorm) or len(m.normalized_shape) == 1
    if pointwise and grid is None:
        return left(TOKEN)
    if isinstance(m, TokenNorm):
        return SwappableNorm(m.num_features, m.layout, "; token-wise before, spatial now: another meaning")
    channels = m.normalized_shape[0]
    if pointwise:
        remark = "; token-wise before, spatial now: the layer means something else"
        return SwappableNorm(channels, tuple(grid or ()), remark)
    constant = all(_constant(p) for p in (m.weight, m.bias) if p is not None)
    return SwappableNorm(
        channels, "first", "" if constant else "; γ and β varied over the grid, their means over space were kept"
    )


def _constant(p: torch.Tensor) -> bool:
    if p.is_meta:  # without numbers; they will be those of a fresh layer, or be loaded
        return True
    flat = p.detach().flatten(1)
    return bool((flat == flat[:, :1]).all())
