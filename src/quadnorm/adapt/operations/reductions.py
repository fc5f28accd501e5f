"""Reductions over samples, softmax and ``F.normalize``, and derivatives of what was summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.adapt.calls import Step, WeightedStep
from quadnorm.adapt.operations.base import StepRow, SumRow, register, register_sum
from quadnorm.adapt.trees import tensors


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


register_sum(
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


register_sum(
    ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"],
    SumRow("counting → anchored", _to_one_bin, _pool),
)


def shared_dim(step: Step) -> int:
    """The dimension along which the shares of a total are taken."""
    x: Tensor = step.arguments["input"]
    dim = step.arguments.get("dim")
    if dim is None:
        dim = 1 if step.call.name == "normalize" or x.ndim not in (0, 1, 3) else 0
    return int(dim) % x.ndim


def along_space(step: Step) -> bool:
    """Whether that dimension runs over samples."""
    return shared_dim(step) in step.moving(step.arguments["input"])


def _total(step: Step, x: Tensor) -> Tensor:
    dim, name = shared_dim(step), step.call.name
    if name == "normalize":
        norm: Tensor = torch.linalg.vector_norm(x, step.arguments.get("p", 2.0), dim, keepdim=True)
        return norm
    return torch.logsumexp((-x if name == "softmin" else x).to(sum_dtype(x)), dim, keepdim=True)


def _replay_share(step: Step) -> Any:
    x, dim, name = step.arguments["input"], shared_dim(step), step.call.name
    form = step.forms(x)[dim]
    if form.on_grid and x.shape[dim] == form.size(step.nodes.native):
        return step.run()  # scores against the native run's keys
    total = step.kept
    if total is None:
        return step.run_with({id(x): step.restricted(x, [dim])})
    if name == "normalize":
        return x / total.clamp_min(step.arguments.get("eps", 1e-12))
    shares = (-x if name == "softmin" else x).to(total.dtype) - total
    return (shares if name == "log_softmax" else shares.exp()).to(step.arguments.get("dtype") or x.dtype)


def _keep_share(step: Step) -> Tensor | None:
    x = step.arguments["input"]
    return _total(step, x) if step.moving(x) == [shared_dim(step)] else None


register(
    ["softmax", "log_softmax", "softmin", "normalize"],
    StepRow("replayed", "its total over samples is the native run's", along_space, _keep_share, _replay_share),
)


def _anchor_share(step: WeightedStep) -> Any:
    """X divided by its sum over samples, each counted as in training.

    The values alone: whoever sums them next counts the samples again.
    """
    x, dim, name = step.arguments["input"], shared_dim(step), step.call.name
    counts = step.counts(x, [dim])
    if name == "normalize":
        p = step.arguments.get("p", 2.0)
        total = ((x.abs() ** p) * counts).sum(dim, keepdim=True).pow(1 / p)
        return x / total.clamp_min(step.arguments.get("eps", 1e-12)).to(x.dtype)
    y = (-x if name == "softmin" else x).to(sum_dtype(x))  # rounded once, at the end, as by torch
    y = y - torch.logsumexp(y + counts.log(), dim, keepdim=True).to(y.dtype)
    return (y if name == "log_softmax" else y.exp()).to(step.arguments.get("dtype") or x.dtype)


register_sum(
    ["softmax", "log_softmax", "softmin", "normalize"],
    SumRow("its total counts samples as in training", along_space, _anchor_share),
)


def _by_samples(step: WeightedStep) -> bool:
    """Whether it sums over samples or differentiates by them.

    Not with an axis of the grid hidden in a ``vmap``: which rows of a Jacobian these are cannot be seen.
    """
    return bool(step.call.axes) and not step.call.hidden_axes


def _derivative(step: WeightedStep) -> Any:
    r"""The derivative by each sample, per training sample that it stands for.

    With :math:`F = \sum_j c_j f(x_j)` anchored, :math:`\partial F / \partial x_j` has the factor :math:`c_j`, the
    number of training samples for which sample j stands; on the training grid it is one. It is divided out. Weights of
    the outputs (``grad_outputs``) are a sum over samples too, and get the factor.
    """
    given = dict(step.arguments)
    outputs, inputs = (tensors(given[name]) for name in ("outputs", "inputs"))
    weights = tensors(given.get("grad_outputs"))
    if len(weights) == len(outputs):
        given["grad_outputs"] = [w * _counts_of(step, y) for w, y in zip(weights, outputs, strict=True)]
    gradients = step.func(**given)
    return tuple(None if g is None else g / _counts_of(step, x) for g, x in zip(gradients, inputs, strict=True))


def _counts_of(step: WeightedStep, t: Tensor) -> Tensor:
    return step.counts(t, range(t.ndim)).to(t.dtype if t.is_floating_point() else None)


register_sum(["autograd.grad"], SumRow("derivative per training sample", _by_samples, _derivative))
