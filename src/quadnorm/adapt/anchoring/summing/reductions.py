"""Means, sums, variances, norms and softmax over samples, each counted as it was in training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.adapt.anchoring.summing.weights import Weighted, nothing, register
from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.extending import statistics


def _dims(value: Any, ndim: int) -> list[int]:
    if value is None:
        return list(range(ndim))
    many = value if isinstance(value, (tuple, list)) else (value,)
    return [d % ndim for d in many] or list(range(ndim))


def _mean(s: Weighted, x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return (x * s.counts(x, dims)).sum(dims, keepdim=keep) / s.native_count(x, dims)


def _moments(s: Weighted, x: Tensor, dims: list[int], correction: float) -> tuple[Tensor, Tensor]:
    """Variance and mean, dimensions kept."""
    m = _mean(s, x, dims, True)
    n = s.native_count(x, dims)
    v = ((x - m).square() * s.counts(x, dims)).sum(dims, keepdim=True) / max(n - correction, 1e-30)
    return v, m


def _squeezed(t: Tensor, dims: list[int], keep: bool) -> Tensor:
    return t if keep else t.squeeze(tuple(dims))


def _reduce(step: Step) -> Any:
    assert isinstance(step, Weighted)
    name, args, kwargs = step.call.name, list(step.args), dict(step.kwargs)
    x = args.pop(0) if args else kwargs.pop("input", kwargs.pop("self", None))
    p: Any = 2
    if name == "norm":
        p = args.pop(0) if args else kwargs.get("p", kwargs.get("ord", 2))
    dims = _dims(args.pop(0) if args else kwargs.get("dim", kwargs.get("axis")), x.ndim)
    correction: float = 1
    if name in ("var", "std", "var_mean", "std_mean"):
        if (args and isinstance(args[0], bool) and len(args) > 1) or (args and "keepdim" in kwargs):
            correction = float(args.pop(0))
        correction = float(kwargs.get("correction", kwargs.get("unbiased", correction)))
    keep = bool(args.pop(0) if args else kwargs.get("keepdim", False))
    out = _reduced(step, name, x, dims, keep, p, correction)
    return out if kwargs.get("dtype") is None else out.to(kwargs["dtype"])


def _reduced(step: Weighted, name: str, x: Tensor, dims: list[int], keep: bool, p: Any, correction: float) -> Any:
    if name in ("mean", "nanmean"):
        return _mean(step, x.nan_to_num() if name == "nanmean" else x, dims, keep).to(x.dtype)
    if name in ("sum", "nansum"):
        return (x * step.counts(x, dims)).sum(dims, keepdim=keep).to(x.dtype)
    if name == "logsumexp":
        return torch.logsumexp(x + step.counts(x, dims).log(), dims, keepdim=keep).to(x.dtype)
    if name == "norm":
        p = 2 if p in (None, "fro") else p
        if not isinstance(p, (int, float)) or p in (float("inf"), float("-inf"), 0):
            return step.run()
        return ((x.abs() ** p) * step.counts(x, dims)).sum(dims, keepdim=keep).pow(1 / p).to(x.dtype)
    v, m = (_squeezed(t, dims, keep).to(x.dtype) for t in _moments(step, x, dims, correction))
    return {"var": v, "std": v.sqrt(), "var_mean": (v, m), "std_mean": (v.sqrt(), m)}[name]


def _loses(step: Step) -> bool:
    return bool(step.call.lost)


register(
    "mean nanmean sum nansum logsumexp norm var std var_mean std_mean",
    StepRow("anchored", "counting → anchored", _loses, nothing, _reduce),
)


def _pooled(step: Step) -> Any:
    assert isinstance(step, Weighted)
    x = step.args[0] if step.args else step.kwargs["input"]
    d = int(step.call.name[-2])
    return _mean(step, x, list(range(x.ndim - d, x.ndim)), True).to(x.dtype)


def _to_one(step: Step) -> bool:
    size = step.args[1] if len(step.args) > 1 else step.kwargs.get("output_size")
    return bool(step.call.over) and all(s == 1 for s in (size if isinstance(size, (tuple, list)) else (size,)))


register(
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d",
    StepRow("anchored", "counting → anchored", _to_one, nothing, _pooled),
)


# --- norms -----------------------------------------------------------------------------------------------------------


def _grouped(step: Step) -> Tensor:
    assert isinstance(step, Weighted)
    g = step.given
    x, groups = g["input"], statistics._channel_groups(step)
    dims = list(range(2, x.ndim))
    v, m = _moments(step, x, dims, 0)
    if groups is not None and groups != x.shape[1]:  # the variance of a group: within its channels and between them
        m_g, square = (
            t.reshape(t.shape[0], groups, -1, *t.shape[2:]).mean(2, keepdim=True) for t in (m, v + m.square())
        )
        v_g = (square - m_g.square()).clamp_min(0)
        m, v = (t.expand(-1, -1, x.shape[1] // groups, *[1] * (x.ndim - 2)).flatten(1, 2) for t in (m_g, v_g))
    weight, bias = (statistics._per_channel(g.get(k), x) for k in ("weight", "bias"))
    return statistics._scaled(x, (m, v), g.get("eps", 1e-5), weight, bias)


def _trailing(step: Step) -> Tensor:
    assert isinstance(step, Weighted)
    g, dims = step.given, statistics._trailing(step)
    x, centre = g["input"], step.call.name == "layer_norm"
    if centre:
        v, m = _moments(step, x, dims, 0)
    else:
        m, v = x.new_zeros(()), (x.square() * step.counts(x, dims)).sum(dims, keepdim=True) / step.native_count(x, dims)
    eps = g.get("eps")
    eps = (1e-5 if centre else torch.finfo(x.dtype).eps) if eps is None else eps
    forms = step.forms(x)[x.ndim - len(dims) :]
    weight, bias = (None if p is None else step.nodes.carried(p, forms) for p in (g.get("weight"), g.get("bias")))
    return statistics._scaled(x, (m, v), eps, weight, bias)


register(
    "group_norm instance_norm",
    StepRow("anchored", "counting → anchored", statistics._over_space, nothing, _grouped),
)
register(
    "layer_norm rms_norm", StepRow("anchored", "counting → anchored", statistics._trailing_moves, nothing, _trailing)
)


# --- softmax ---------------------------------------------------------------------------------------------------------


def _share(step: Step) -> Any:
    """X divided by its sum over samples, each counted as in training: the values alone, since whoever sums them next
    counts the samples again."""
    assert isinstance(step, Weighted)
    x, dim, name = step.given["input"], statistics._dim(step), step.call.name
    counts = step.counts(x, [dim])
    if name == "normalize":
        p = step.given.get("p", 2.0)
        total = ((x.abs() ** p) * counts).sum(dim, keepdim=True).pow(1 / p)
        return x / total.clamp_min(step.given.get("eps", 1e-12)).to(x.dtype)
    y = (-x if name == "softmin" else x).to(sum_dtype(x))  # rounded once, at the end, as by torch
    y = y - torch.logsumexp(y + counts.log(), dim, keepdim=True).to(y.dtype)
    dtype = step.given.get("dtype") or x.dtype
    return (y if name == "log_softmax" else y.exp()).to(dtype)


register(
    "softmax log_softmax softmin normalize",
    StepRow("anchored", "its total counts samples as in training", statistics._along_space, nothing, _share),
)
