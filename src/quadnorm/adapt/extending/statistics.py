"""Norms and softmax over samples: the native run's statistics, applied to the new samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.extending.steps import register

Dims = tuple[int, ...]


def _spread(x: Tensor, dims: Dims, centre: bool) -> tuple[Tensor, Tensor]:
    """Mean (zero without ``centre``) and mean square about it, dimensions kept."""
    y = x.to(sum_dtype(x))
    if not centre:
        return y.new_zeros(()), y.square().mean(dims, keepdim=True)
    v, m = torch.var_mean(y, dims, keepdim=True, correction=0)
    return m, v


def _scaled(x: Tensor, moments: tuple[Tensor, Tensor], eps: float, weight: Any, bias: Any) -> Tensor:
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


def _moments(step: Step, x: Tensor, dims: list[int], centre: bool = True) -> tuple[Tensor, Tensor] | None:
    """The native statistics of x over ``dims``; None where other axes move too, so that they must be taken anew."""
    inner = set(dims)
    if any(d not in inner for d in step.moving(x)):
        return None
    return _spread(x, tuple(dims), centre)


def _applied(step: Step, x: Tensor, dims: list[int], eps: float, weight: Any, bias: Any, centre: bool = True) -> Tensor:
    moments = step.kept
    if moments is None:
        moments = _spread(step.restricted(x, dims), tuple(dims), centre)
    return _scaled(x, moments, eps, weight, bias)


def _per_channel(p: Tensor | None, x: Tensor) -> Tensor | None:
    return None if p is None else p.reshape(1, -1, *[1] * (x.ndim - 2))


# --- group, instance and batch norm: channels at 1, the rest is space ------------------------------------------------


def _channel_groups(step: Step) -> int | None:
    """Groups of channels per batch entry; None: one mean for the whole batch."""
    g, name = step.given, step.call.name
    channels: int = g["input"].shape[1]
    return {"group_norm": g.get("num_groups"), "instance_norm": channels, "batch_norm": None}[name]


def _over_space(step: Step) -> bool:
    g, name = step.given, step.call.name
    if name == "instance_norm" and not g.get("use_input_stats", True):
        return False
    if name == "batch_norm" and not g.get("training", False):
        return False
    return bool(step.call.over)


def _grouped(x: Tensor, groups: int | None) -> tuple[Tensor, Dims]:
    if groups is None:
        return x, (0, *range(2, x.ndim))
    y = x.reshape(x.shape[0], groups, -1, *x.shape[2:]) if groups != x.shape[1] else x
    return y, tuple(range(2, y.ndim))


def _group_moments(x: Tensor, groups: int | None) -> tuple[Tensor, Tensor]:
    """Mean and variance of every channel's group, (B or 1, C, 1, …)."""
    y, dims = _grouped(x, groups)
    m, v = _spread(y, dims, True)
    if groups is None or groups == x.shape[1]:
        return m, v
    shape = (*x.shape[:2], *[1] * (x.ndim - 2))
    per = x.shape[1] // groups
    m, v = (t.flatten(1).repeat_interleave(per, 1).reshape(shape) for t in (m, v))
    return m, v


def _keep_grouped(step: Step) -> Any:
    x, groups = step.given["input"], _channel_groups(step)
    inner = {0, *range(2, x.ndim)} if groups is None else set(range(2, x.ndim))
    return _group_moments(x, groups) if set(step.moving(x)) <= inner else None


def _replay_grouped(step: Step) -> Tensor:
    g = step.given
    x, eps = g["input"], g.get("eps", 1e-5)
    moments = step.kept
    if moments is None:
        moments = _group_moments(step.restricted(x, list(range(2, x.ndim))), _channel_groups(step))
    return _scaled(x, moments, eps, _per_channel(g.get("weight"), x), _per_channel(g.get("bias"), x))


register(
    "group_norm instance_norm batch_norm",
    StepRow("replayed", "its mean and variance are the native run's", _over_space, _keep_grouped, _replay_grouped),
)


# --- layer norm and RMS norm over trailing axes ----------------------------------------------------------------------


def _trailing(step: Step) -> list[int]:
    x, shape = step.given["input"], step.given["normalized_shape"]
    k = len(shape) if isinstance(shape, (tuple, list)) else 1
    return list(range(x.ndim - k, x.ndim))


def _trailing_moves(step: Step) -> bool:
    return bool(set(_trailing(step)) & set(step.moving(step.given["input"])))


def _replay_trailing(step: Step) -> Tensor:
    g, dims = step.given, _trailing(step)
    x, centre = g["input"], step.call.name == "layer_norm"
    eps = g.get("eps")
    eps = (1e-5 if centre else torch.finfo(x.dtype).eps) if eps is None else eps
    forms = step.forms(x)[x.ndim - len(dims) :]
    weight, bias = (None if p is None else step.nodes.carried(p, forms) for p in (g.get("weight"), g.get("bias")))
    return _applied(step, x, dims, eps, weight, bias, centre)


register(
    "layer_norm rms_norm",
    StepRow(
        "replayed",
        "its statistics over space are the native run's",
        _trailing_moves,
        lambda s: _moments(s, s.given["input"], _trailing(s), s.call.name == "layer_norm"),
        _replay_trailing,
    ),
)


# --- this package's norms --------------------------------------------------------------------------------------------


def _keep_weighted(step: Step) -> Any:
    g = step.given
    x, w, groups = g["input"], g["w"], g.get("groups", 1)
    y = x.flatten(2).to(sum_dtype(x)).reshape(x.shape[0], groups, x.shape[1] // groups, -1)  # (B, G, C/G, N)
    weights = w.to(y.dtype)[:, None, None]
    per = y.shape[2]
    m = (y * weights).sum((2, 3), keepdim=True) / per if g.get("centre", True) else y.new_zeros(1, 1, 1, 1)
    v = ((y - m).square() * weights).sum((2, 3), keepdim=True) / per
    shape = (x.shape[0], x.shape[1], *[1] * (x.ndim - 2))
    return tuple(t.expand(x.shape[0], groups, per, 1).reshape(shape) for t in (m, v))


register(
    "quadnorm.normalize",
    StepRow(
        "replayed",
        "its mean and variance are the native run's",
        lambda s: bool(s.call.over),
        _keep_weighted,
        lambda s: _scaled(
            s.given["input"],
            s.kept,
            s.given.get("eps", 1e-5),
            _per_channel(s.given.get("weight"), s.given["input"]),
            _per_channel(s.given.get("bias"), s.given["input"]),
        ),
    ),
)


# --- softmax, F.normalize: shares of a total -------------------------------------------------------------------------


def _dim(step: Step) -> int:
    x: Tensor = step.given["input"]
    dim = step.given.get("dim")
    if dim is None:
        dim = 1 if step.call.name == "normalize" or x.ndim not in (0, 1, 3) else 0
    return int(dim) % x.ndim


def _along_space(step: Step) -> bool:
    return _dim(step) in step.moving(step.given["input"])


def _total(step: Step, x: Tensor) -> Tensor:
    dim, name = _dim(step), step.call.name
    if name == "normalize":
        norm: Tensor = torch.linalg.vector_norm(x, step.given.get("p", 2.0), dim, keepdim=True)
        return norm
    return torch.logsumexp((-x if name == "softmin" else x).to(sum_dtype(x)), dim, keepdim=True)


def _replay_share(step: Step) -> Any:
    x, dim, name = step.given["input"], _dim(step), step.call.name
    form = step.forms(x)[dim]
    if form.on_grid and x.shape[dim] == form.size(step.nodes.native):
        return step.run()  # scores against the native run's keys
    total = step.kept
    if total is None:
        return step.run_with({id(x): step.restricted(x, [dim])})
    if name == "normalize":
        return x / total.clamp_min(step.given.get("eps", 1e-12))
    shares = (-x if name == "softmin" else x).to(total.dtype) - total
    return (shares if name == "log_softmax" else shares.exp()).to(step.given.get("dtype") or x.dtype)


def _keep_share(step: Step) -> Tensor | None:
    x = step.given["input"]
    return _total(step, x) if step.moving(x) == [_dim(step)] else None


register(
    "softmax log_softmax softmin normalize",
    StepRow("replayed", "its total over samples is the native run's", _along_space, _keep_share, _replay_share),
)
