"""Weighted normalization of point clouds of different sizes, concatenated."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm import _torch
from quadnorm._precision import sum_dtype
from quadnorm._tensors import is_plain
from quadnorm.norms.kernels.inputs import FILL


def quad_norm_ragged(
    x: Tensor,
    weights: Tensor,
    batch: Tensor,
    num_groups: int = 1,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    batch_size: int | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    r""":func:`quad_norm` for point clouds of different sizes, concatenated.

    Args:
        x: (N, C), the samples of all clouds, in any order.
        weights: (N,), nonnegative, any scale per cloud; 0 means absent, as in :func:`quad_norm`.
        batch: (N,), the cloud that each sample belongs to, 0 ≤ batch < batch_size, as in PyTorch Geometric.
        num_groups, weight, bias, eps: as in :func:`quad_norm`.
        batch_size: number of clouds; default batch.max() + 1. Clouds without samples are allowed.
        mask: (N,), boolean, True where a sample is there; multiplies the weights.

    >>> x = torch.tensor([[0.0], [1.0], [2.0], [5.0], [7.0]])
    >>> w = torch.tensor([1.0, 2.0, 1.0, 1.0, 1.0])
    >>> quad_norm_ragged(x, w, torch.tensor([0, 0, 0, 1, 1]), eps=0.0)[:, 0]
    tensor([-1.4142,  0.0000,  1.4142, -1.0000,  1.0000])
    """
    w = _checked_weights(x, weights, mask, batch, num_groups)
    N, C = x.shape
    if not torch.compiler.is_compiling() and N == 0:
        return x * (1 if weight is None else weight)
    batch, size = _clouds(batch, batch_size)
    dtype, D = sum_dtype(x), C // num_groups
    w = w.to(torch.promote_types(w.dtype, dtype))
    # Divided by the largest first, so that the sums of weights of any scale are finite.
    largest = w.new_zeros(size).scatter_reduce(0, batch, w.detach(), "amax")
    _check_values(w, largest, batch)
    w = w / largest.clamp_min(torch.finfo(w.dtype).tiny)[batch]
    total = w.new_zeros(size).index_add(0, batch, w)
    p = (w / torch.where(total > 0, total, torch.ones_like(total))[batch]).to(dtype)[:, None]  # (N, 1)
    zero = torch.zeros((), dtype=x.dtype, device=x.device)
    xs = torch.where((p == 0) & ~(x.detach().abs() < FILL), zero, x).to(dtype).reshape(N, num_groups, D)
    d = xs - _near_mean(xs.detach(), p.detach(), batch, size)[batch][:, :, None]  # (N, G, D)
    rest = d.new_zeros(size, num_groups).index_add(0, batch, p * d.mean(2))
    square = d.new_zeros(size, num_groups).index_add(0, batch, (p[:, :, None] * d * d).mean(2))
    # Squares that overflow mean an infinite variance; ∞ − ∞ would make it NaN.
    var = (square - rest.square().clamp_max(torch.finfo(dtype).max)).clamp_min(0)
    y = ((d - rest[batch][:, :, None]) * torch.rsqrt(var + eps)[batch][:, :, None]).reshape(N, C)
    y = y if weight is None else y * weight.to(dtype)
    return (y if bias is None else y + bias.to(dtype)).to(x.dtype)


def _near_mean(x: Tensor, p: Tensor, batch: Tensor, size: int) -> Tensor:
    """The mean of each cloud of x (N, G, D), nearly: (size, G); exactly its value where a cloud is constant.

    Summed as deviations from one sample that is there, so that a large common offset cancels.
    """
    N, G, _ = x.shape
    order = torch.arange(N, device=x.device)
    first = torch.full((size,), N, device=x.device).scatter_reduce(0, batch, torch.where(p[:, 0] > 0, order, N), "amin")
    sample = x[first.clamp(max=N - 1)][:, :, 0]  # (size, G)
    return sample + x.new_zeros(size, G).index_add(0, batch, p * (x - sample[batch][:, :, None]).mean(2))


def _clouds(batch: Tensor, batch_size: int | None) -> tuple[Tensor, int]:
    """The cloud of each sample, and a bound on the number of clouds."""
    batch = batch.long()
    if is_plain(batch) and batch.device.type == "cpu":
        low, high = (int(n) for n in batch.aminmax())
        batch_size = high + 1 if batch_size is None else batch_size
        if low < 0 or high >= batch_size:
            raise ValueError(f"batch spans [{low}, {high}], expected 0 … {batch_size - 1}")
    if batch_size is not None:
        return batch, batch_size
    # The number is on the device and stays there. Clouds are renumbered in order of their index: no more than samples.
    ordered, order = batch.sort()
    rank = torch.cat([ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).to(ordered.dtype)]).cumsum(0)
    return torch.empty_like(rank).scatter(0, order, rank), batch.shape[0]


def _checked_weights(x: Tensor, weights: Any, mask: Any, batch: Tensor, num_groups: int) -> Tensor:
    if x.ndim != 2 or not x.is_floating_point():
        raise ValueError(f"x must be a floating-point tensor of shape (N, C), got {tuple(x.shape)} and {x.dtype}")
    N, C = x.shape
    w = weights.to(x.device) if isinstance(weights, Tensor) else torch.as_tensor(weights, device=x.device)
    w = w if w.is_floating_point() else w.to(sum_dtype(x))
    if tuple(w.shape) != (N,) or tuple(batch.shape) != (N,):
        raise ValueError(
            f"weights and batch must have one entry for each of the {N} samples, "
            f"got {tuple(w.shape)} and {tuple(batch.shape)}"
        )
    if batch.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"batch must hold the integer index of each sample's cloud, got {batch.dtype}")
    if num_groups < 1 or C % num_groups:
        raise ValueError(f"num_groups must divide the number of channels, got num_groups={num_groups} and {C} channels")
    if mask is not None:
        if mask.dtype != torch.bool or tuple(mask.shape) != (N,):
            raise ValueError(
                f"the mask must be boolean, with one entry for each of the {N} samples (True = it is there), got "
                f"{mask.dtype} of shape {tuple(mask.shape)}"
            )
        w = w * mask
    return w


def _check_values(w: Tensor, largest: Tensor, batch: Tensor) -> None:
    """Raise for weights (N,) and clouds that make no sense; ``largest`` holds each cloud's largest weight.

    Only where values can be read without waiting for a device; a CUDA device asserts what it can by itself.
    """
    if not is_plain(w, batch):
        return
    if w.device.type == "cuda":
        _torch.assert_async((w >= 0).all() & torch.isfinite(w).all(), "weights must be finite and not negative")
    if w.device.type != "cpu":
        return
    if float(w.detach().amin()) < 0:
        raise ValueError(f"weights must not be negative, got {float(w.amin()):g}; use 0 for a sample that is absent")
    if not bool(torch.isfinite(w).all()):
        raise ValueError("weights hold NaN or infinite values; expected finite numbers, 0 where a sample is absent")
    empty = sorted(set(batch[largest[batch] <= 0].tolist()))
    if empty:
        raise ValueError(
            f"all weights are zero in clouds {empty[:10]}: nothing is left to average over; drop their samples"
        )
