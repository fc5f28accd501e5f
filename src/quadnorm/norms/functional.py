"""Weighted normalization as functions: on grids and meshes, and on ragged batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm.measures import Measure
from quadnorm.norms.kernels.core import normalize
from quadnorm.norms.kernels.formula import statistics_dtype
from quadnorm.norms.weights import given_weights, has_holes, inspectable, scaled, without_fill_values


def quad_norm(
    x: Tensor,
    weights: Tensor | Measure,
    num_groups: int = 1,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    r"""Normalize each group of channels by its mean and variance under the weights.

    .. math:: y = \gamma\,\frac{x - \mu}{\sqrt{v + \varepsilon}} + \beta, \qquad
        \mu = \frac1D\sum_{c,i} p_i\,x_{ci}, \quad v = \frac1D\sum_{c,i} p_i\,(x_{ci}-\mu)^2, \quad p_i = w_i/\sum_j w_j

    over the D = C/num_groups channels c of a group and all samples i. ``num_groups=1`` is the weighted LayerNorm over
    (C, \*spatial),
    ``num_groups=C`` the weighted InstanceNorm.

    Args:
        x: (B, C, \*spatial), any number of spatial axes.
        weights: (\*spatial) for all, or (B, \*spatial) for each; nonnegative, any scale. 0 means that the sample is
            absent: it does not enter the statistics, and NaN, infinite or fill values (beyond 1e15) there are read as
            0. Its own output is normalized like the others. Also a measure. May require grad.
        num_groups: number of groups; divides C.
        weight, bias: γ and β per channel, (C,).
        eps: added to the variance.

    Statistics are taken in float32 (float64 for float64 input), the output has x's dtype. Weights that are all zero for
    a batch entry raise a ValueError; in a trace, where values cannot be looked at, such an entry gets finite values
    without meaning.

    >>> x = torch.tensor([[[0.0, 1.0, 2.0]]])
    >>> quad_norm(x, torch.tensor([1.0, 2.0, 1.0]), eps=0.0)
    tensor([[[-1.4142,  0.0000,  1.4142]]])
    """
    spatial = checked(x, num_groups)
    if isinstance(weights, Measure):
        w = weights.shared_weights(spatial, x.device, statistics_dtype(x)).reshape(1, -1)
        holes = torch.compiler.is_compiling() or has_holes(weights, spatial)
    else:
        w, holes = scaled(given_weights(weights, x, spatial), statistics_dtype(x)), True
    if holes:
        x = without_fill_values(x, w)
    return normalize(x, w, weight, bias, num_groups, eps)


def checked(x: Tensor, num_groups: int, num_features: int | None = None) -> tuple[int, ...]:
    """The spatial shape of x (B, C, *spatial), or an error that says what is wrong with it."""
    if not x.is_floating_point():
        raise TypeError(
            f"expected a real floating-point tensor, got {x.dtype}; "
            f"use x.float(), or real and imaginary parts as channels"
        )
    if x.ndim < 3:
        raise ValueError(f"expected (B, C, *spatial) with at least one spatial axis, got shape {tuple(x.shape)}")
    C = x.shape[1]
    if num_features is not None and num_features != C:
        raise ValueError(f"the layer has {num_features} channels, the input of shape {tuple(x.shape)} has {C}")
    if num_groups < 1 or C % num_groups or C == 0:
        raise ValueError(f"num_groups must divide the number of channels, got num_groups={num_groups} and {C} channels")
    spatial = tuple(x.shape[2:])
    if not torch.compiler.is_compiling() and 0 in spatial:
        raise ValueError(f"the input has no samples to average over: spatial shape {spatial}")
    return spatial


def quad_norm_ragged(
    x: Tensor,
    weights: Tensor,
    batch: Tensor,
    num_groups: int = 1,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    batch_size: int | None = None,
) -> Tensor:
    r""":func:`quad_norm` for point clouds of different sizes, concatenated.

    Args:
        x: (N, C), the samples of all clouds, in any order.
        weights: (N,), nonnegative, any scale per cloud; 0 means absent, as in :func:`quad_norm`.
        batch: (N,), the cloud that each sample belongs to, 0 ≤ batch < batch_size, as in PyTorch Geometric.
        batch_size: number of clouds; default batch.max() + 1. Clouds without samples are allowed.

    >>> x = torch.tensor([[0.0], [1.0], [2.0], [5.0], [7.0]])
    >>> w = torch.tensor([1.0, 2.0, 1.0, 1.0, 1.0])
    >>> quad_norm_ragged(x, w, torch.tensor([0, 0, 0, 1, 1]), eps=0.0)[:, 0]
    tensor([-1.4142,  0.0000,  1.4142, -1.0000,  1.0000])
    """
    w, size = _ragged_inputs(x, weights, batch, num_groups, batch_size)
    N, C = x.shape
    if N == 0:
        return x * (1 if weight is None else weight)
    dtype, D = statistics_dtype(x), C // num_groups
    w = w.to(torch.promote_types(w.dtype, dtype))
    total = w.new_zeros(size).index_add(0, batch, w)
    if inspectable(w) and bool((total[batch] <= 0).any()):
        empty = sorted(set(batch[total[batch] <= 0].tolist()))
        raise ValueError(
            f"all weights are zero in clouds {empty[:10]}: nothing is left to average over; drop their samples"
        )
    p = (w / torch.where(total > 0, total, torch.ones_like(total))[batch]).to(dtype)[:, None]  # (N, 1)
    xs = torch.where((p == 0) & ~(x.detach().abs() < 1e15), torch.zeros((), dtype=x.dtype, device=x.device), x).to(
        dtype
    )
    # Deviations from a sample that is there: large offsets cancel exactly, constant clouds give exactly β.
    order = torch.arange(N, device=x.device)
    first = torch.full((size,), N, device=x.device).scatter_reduce(0, batch, torch.where(p[:, 0] > 0, order, N), "amin")
    d = xs.reshape(N, num_groups, D)
    d = d - d[first.clamp(max=N - 1)][:, :, :1].detach()[batch]  # (N, G, D)
    mean = d.new_zeros(size, num_groups).index_add(0, batch, p * d.mean(2))
    d = d - mean[batch][:, :, None]
    var = d.new_zeros(size, num_groups).index_add(0, batch, p * d.square().mean(2))
    y = (d * torch.rsqrt(var + eps)[batch][:, :, None]).reshape(N, C)
    y = y if weight is None else y * weight.to(dtype)
    return (y if bias is None else y + bias.to(dtype)).to(x.dtype)


def _ragged_inputs(
    x: Tensor, weights: Any, batch: Tensor, num_groups: int, batch_size: int | None
) -> tuple[Tensor, int]:
    if x.ndim != 2 or not x.is_floating_point():
        raise ValueError(f"x must be a floating-point tensor of shape (N, C), got {tuple(x.shape)} and {x.dtype}")
    N, C = x.shape
    w = torch.as_tensor(weights, device=x.device)
    w = w if w.is_floating_point() else w.to(statistics_dtype(x))
    if tuple(w.shape) != (N,) or tuple(batch.shape) != (N,):
        raise ValueError(
            f"weights and batch must have one entry for each of the {N} samples, "
            f"got {tuple(w.shape)} and {tuple(batch.shape)}"
        )
    if batch.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"batch must hold the integer index of each sample's cloud, got {batch.dtype}")
    if num_groups < 1 or C % num_groups:
        raise ValueError(f"num_groups must divide the number of channels, got num_groups={num_groups} and {C} channels")
    if batch_size is None:
        batch_size = int(batch.max()) + 1 if N else 0
    if N and inspectable(w):
        low, high, least = int(batch.min()), int(batch.max()), float(w.detach().amin())
        if low < 0 or high >= batch_size:
            raise ValueError(f"batch spans [{low}, {high}], expected 0 … {batch_size - 1}")
        if least < 0:
            raise ValueError(f"weights must not be negative, got {least:g}; use 0 for a sample that is absent")
        if not bool(torch.isfinite(w).all()):
            raise ValueError("weights hold NaN or infinite values; expected finite numbers, 0 where a sample is absent")
    return w, batch_size
