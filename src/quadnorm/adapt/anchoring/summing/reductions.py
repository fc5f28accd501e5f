"""Means, sums, variances, vector norms and global pools over samples, each counted as it was in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.anchoring.summing.table import SumRow, register
from quadnorm.adapt.anchoring.summing.weights import WeightedStep


def mean(step: WeightedStep, x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    """Σ_j c_j x_j / n₀ over ``dims``, with c_j the count of sample j and n₀ the number of training samples."""
    return (x * step.counts(x, dims)).sum(dims, keepdim=keepdim) / step.native_count(x, dims)


def mean_square(step: WeightedStep, x: Tensor, dims: list[int]) -> Tensor:
    """Σ_j c_j x_j² / n₀, dimensions kept."""
    return (x.square() * step.counts(x, dims)).sum(dims, keepdim=True) / step.native_count(x, dims)


def moments(step: WeightedStep, x: Tensor, dims: list[int], correction: float) -> tuple[Tensor, Tensor]:
    """Variance and mean, dimensions kept."""
    m = mean(step, x, dims, True)
    n = step.native_count(x, dims)
    v = ((x - m).square() * step.counts(x, dims)).sum(dims, keepdim=True) / max(n - correction, 1e-30)
    return v, m


@dataclass
class Reduction:
    """The arguments of a reduction, whatever form it is called in."""

    x: Tensor
    dims: list[int]
    keepdim: bool
    p: Any = 2  # of a vector norm
    correction: float = 1  # of a variance
    dtype: torch.dtype | None = None


def _read(step: WeightedStep) -> Reduction:
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
    keepdim = bool(args.pop(0) if args else kwargs.get("keepdim", False))
    return Reduction(x, dims, keepdim, p, correction, kwargs.get("dtype"))


def _dims(value: Any, ndim: int) -> list[int]:
    if value is None:
        return list(range(ndim))
    many = value if isinstance(value, (tuple, list)) else (value,)
    return [d % ndim for d in many] or list(range(ndim))


def _reduce(step: WeightedStep) -> Any:
    reduction = _read(step)
    result = _reduced(step, step.call.name, reduction)
    return result if reduction.dtype is None else result.to(reduction.dtype)


def _reduced(step: WeightedStep, name: str, r: Reduction) -> Any:
    x, dims, keepdim = r.x, r.dims, r.keepdim
    if name == "mean":
        return mean(step, x, dims, keepdim).to(x.dtype)
    if name in ("sum", "count_nonzero"):
        values = x if name == "sum" else x != 0
        total = (values * step.counts(x, dims)).sum(dims, keepdim=keepdim)
        # Of a mask, the number of samples at the training grid, which need not be whole.
        return total.to(x.dtype) if values.is_floating_point() or values.is_complex() else total
    if name in ("nanmean", "nansum"):  # samples without a value count nowhere, as in PyTorch
        counts = step.counts(x, dims) * ~x.isnan()
        total = (torch.where(x.isnan(), 0, x) * counts).sum(dims, keepdim=keepdim)
        return (total / counts.sum(dims, keepdim=keepdim) if name == "nanmean" else total).to(x.dtype)
    if name == "logsumexp":
        return torch.logsumexp(x + step.counts(x, dims).log(), dims, keepdim=keepdim).to(x.dtype)
    if name == "norm":
        p = 2 if r.p in (None, "fro") else r.p
        if not isinstance(p, (int, float)) or p in (float("inf"), float("-inf"), 0):
            return step.run()
        return ((x.abs() ** p) * step.counts(x, dims)).sum(dims, keepdim=keepdim).pow(1 / p).to(x.dtype)
    v, m = ((t if keepdim else t.squeeze(tuple(dims))).to(x.dtype) for t in moments(step, x, dims, r.correction))
    return {"var": v, "std": v.sqrt(), "var_mean": (v, m), "std_mean": (v.sqrt(), m)}[name]


def _loses_axes(step: WeightedStep) -> bool:
    return bool(step.call.lost_axes)


register(
    ["mean", "nanmean", "sum", "nansum", "count_nonzero", "logsumexp", "norm", "var", "std", "var_mean", "std_mean"],
    SumRow("counting → anchored", _loses_axes, _reduce),
)


def _pool(step: WeightedStep) -> Any:
    x = step.args[0] if step.args else step.kwargs["input"]
    d = int(step.call.name[-2])
    return mean(step, x, list(range(x.ndim - d, x.ndim)), True).to(x.dtype)


def _to_one_bin(step: WeightedStep) -> bool:
    size = step.args[1] if len(step.args) > 1 else step.kwargs.get("output_size")
    return bool(step.call.axes) and all(s == 1 for s in (size if isinstance(size, (tuple, list)) else (size,)))


register(
    ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"],
    SumRow("counting → anchored", _to_one_bin, _pool),
)
