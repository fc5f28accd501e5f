"""Norms over samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.adapt.calls import Step, WeightedStep
from quadnorm.adapt.operations.base import StepRow, SumRow, register, register_sum
from quadnorm.adapt.operations.reductions import mean_square, moments

Dims = tuple[int, ...]


def _moments(x: Tensor, dims: Dims, centre: bool) -> tuple[Tensor, Tensor]:
    """Mean (zero without ``centre``) and mean square about it, dimensions kept."""
    y = x.to(sum_dtype(x))
    if not centre:
        return y.new_zeros(()), y.square().mean(dims, keepdim=True)
    v, m = torch.var_mean(y, dims, keepdim=True, correction=0)
    return m, v


def scaled(x: Tensor, moments: tuple[Tensor, Tensor], eps: float, weight: Any, bias: Any) -> Tensor:
    """γ(x − m)/√(v + ε) + β as one multiplication and addition."""
    m, v = moments
    scale = torch.rsqrt(v + eps)
    if weight is not None:
        scale = scale * weight.to(scale.dtype)
    shift = -m * scale
    if bias is not None:
        shift = shift + bias.to(scale.dtype)
    if scale.numel() > x.numel() or x.dtype != scale.dtype:
        return (x.to(scale.dtype) * scale + shift).to(x.dtype)
    return torch.addcmul(shift, x, scale)


def per_channel(p: Tensor | None, x: Tensor) -> Tensor | None:
    """γ or β, one number for each channel, as a factor of x (B, C, *spatial)."""
    return None if p is None else p.reshape(1, -1, *[1] * (x.ndim - 2))


# --- group, instance and batch norm: channels at 1, the rest is space ------------------------------------------------


def channel_groups(step: Step) -> int | None:
    """Groups of channels per batch entry; None: one mean for the whole batch."""
    given, name = step.arguments, step.call.name
    channels: int = given["input"].shape[1]
    return {"group_norm": given.get("num_groups"), "instance_norm": channels, "batch_norm": None}[name]


def over_space(step: Step) -> bool:
    """Whether a norm over channels and space takes statistics of its input; not running ones."""
    given, name = step.arguments, step.call.name
    if name == "instance_norm" and not given.get("use_input_stats", True):
        return False
    if name == "batch_norm" and not given.get("training", False):
        return False
    return bool(step.call.axes)


def _grouped(x: Tensor, groups: int | None) -> tuple[Tensor, Dims]:
    """X with an axis for its groups, and the dimensions that their statistics are taken over."""
    if groups is None:
        return x, (0, *range(2, x.ndim))
    y = x.reshape(x.shape[0], groups, -1, *x.shape[2:]) if groups != x.shape[1] else x
    return y, tuple(range(2, y.ndim))


def _group_moments(x: Tensor, groups: int | None) -> tuple[Tensor, Tensor]:
    """Mean and variance of every channel's group, (B or 1, C, 1, …)."""
    y, dims = _grouped(x, groups)
    m, v = _moments(y, dims, True)
    if groups is None or groups == x.shape[1]:
        return m, v
    shape = (*x.shape[:2], *[1] * (x.ndim - 2))
    per = x.shape[1] // groups
    m, v = (t.flatten(1).repeat_interleave(per, 1).reshape(shape) for t in (m, v))
    return m, v


def _keep_grouped(step: Step) -> Any:
    x, groups = step.arguments["input"], channel_groups(step)
    inner = {0, *range(2, x.ndim)} if groups is None else set(range(2, x.ndim))
    return _group_moments(x, groups) if set(step.moving(x)) <= inner else None


def _replay_grouped(step: Step) -> Tensor:
    x, moments = step.arguments["input"], step.kept
    if moments is None:
        moments = _group_moments(step.restricted(x, list(range(2, x.ndim))), channel_groups(step))
    return _scaled_per_channel(step, moments)


def _scaled_per_channel(step: Step, moments: tuple[Tensor, Tensor]) -> Tensor:
    given = step.arguments
    x = given["input"]
    weight, bias = (per_channel(given.get(name), x) for name in ("weight", "bias"))
    return scaled(x, moments, given.get("eps", 1e-5), weight, bias)


register(
    ["group_norm", "instance_norm", "batch_norm"],
    StepRow("replayed", "its mean and variance are the native run's", over_space, _keep_grouped, _replay_grouped),
)


# --- layer norm and RMS norm over trailing axes ----------------------------------------------------------------------


def trailing_dims(step: Step) -> list[int]:
    """The dimensions that ``normalized_shape`` stands for."""
    x, shape = step.arguments["input"], step.arguments["normalized_shape"]
    k = len(shape) if isinstance(shape, (tuple, list)) else 1
    return list(range(x.ndim - k, x.ndim))


def trailing_moves(step: Step) -> bool:
    """Whether samples are among them."""
    return bool(set(trailing_dims(step)) & set(step.moving(step.arguments["input"])))


def is_centred(step: Step) -> bool:
    """Whether the mean is subtracted: by a layer norm, not by an RMS norm."""
    return step.call.name == "layer_norm"


def trailing_parameters(step: Step) -> tuple[float, Tensor | None, Tensor | None]:
    """ε, γ and β at the new nodes."""
    given = step.arguments
    x, eps = given["input"], given.get("eps")
    if eps is None:
        eps = 1e-5 if is_centred(step) else torch.finfo(x.dtype).eps
    forms = step.forms(x)[x.ndim - len(trailing_dims(step)) :]
    weight, bias = (
        None if given.get(name) is None else step.nodes.carried(given[name], forms) for name in ("weight", "bias")
    )
    return eps, weight, bias


def _keep_trailing(step: Step) -> tuple[Tensor, Tensor] | None:
    """The native statistics; None where other dimensions move too, so that they must be taken anew."""
    x, dims = step.arguments["input"], trailing_dims(step)
    return _moments(x, tuple(dims), is_centred(step)) if set(step.moving(x)) <= set(dims) else None


def _replay_trailing(step: Step) -> Tensor:
    x, dims, moments = step.arguments["input"], trailing_dims(step), step.kept
    if moments is None:
        moments = _moments(step.restricted(x, dims), tuple(dims), is_centred(step))
    return scaled(x, moments, *trailing_parameters(step))


register(
    ["layer_norm", "rms_norm"],
    StepRow(
        "replayed",
        "its statistics over space are the native run's",
        trailing_moves,
        _keep_trailing,
        _replay_trailing,
    ),
)


# --- this package's norms --------------------------------------------------------------------------------------------


def _keep_weighted(step: Step) -> Any:
    """Mean and variance of every channel's group under the norm's own weights."""
    given = step.arguments
    x, w, groups = given["input"], given["w"], given.get("groups", 1)
    y = x.flatten(2).to(sum_dtype(x)).reshape(x.shape[0], groups, x.shape[1] // groups, -1)  # (B, G, C/G, N)
    weights = w.to(y.dtype)[:, None, None]
    per = y.shape[2]
    m = (y * weights).sum((2, 3), keepdim=True) / per if given.get("centre", True) else y.new_zeros(1, 1, 1, 1)
    v = ((y - m).square() * weights).sum((2, 3), keepdim=True) / per
    shape = (x.shape[0], x.shape[1], *[1] * (x.ndim - 2))
    return tuple(t.expand(x.shape[0], groups, per, 1).reshape(shape) for t in (m, v))


register(
    ["quadnorm.normalize"],
    StepRow(
        "replayed",
        "its mean and variance are the native run's",
        lambda step: bool(step.call.axes),
        _keep_weighted,
        lambda step: _scaled_per_channel(step, step.kept),
    ),
)


def _anchor_grouped(step: WeightedStep) -> Tensor:
    """Group and instance norm."""
    given = step.arguments
    x, groups = given["input"], channel_groups(step)
    v, m = moments(step, x, list(range(2, x.ndim)), 0)
    if groups is not None and groups != x.shape[1]:  # the variance of a group: within its channels and between them
        m_g, square = (
            t.reshape(t.shape[0], groups, -1, *t.shape[2:]).mean(2, keepdim=True) for t in (m, v + m.square())
        )
        v_g = (square - m_g.square()).clamp_min(0)
        m, v = (t.expand(-1, -1, x.shape[1] // groups, *[1] * (x.ndim - 2)).flatten(1, 2) for t in (m_g, v_g))
    weight, bias = (per_channel(given.get(name), x) for name in ("weight", "bias"))
    return scaled(x, (m, v), given.get("eps", 1e-5), weight, bias)


def _anchor_trailing(step: WeightedStep) -> Tensor:
    """Layer norm and RMS norm."""
    x, dims = step.arguments["input"], trailing_dims(step)
    if is_centred(step):
        v, m = moments(step, x, dims, 0)
    else:
        m, v = x.new_zeros(()), mean_square(step, x, dims)
    return scaled(x, (m, v), *trailing_parameters(step))


register_sum(
    ["group_norm", "instance_norm"],
    SumRow("counting → anchored", over_space, _anchor_grouped),
)
register_sum(
    ["layer_norm", "rms_norm"],
    SumRow("counting → anchored", trailing_moves, _anchor_trailing),
)
