"""Weighted normalization as a function, on grids and meshes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quadnorm import _torch
from quadnorm._precision import full_precision, sum_dtype
from quadnorm.measures import Measure
from quadnorm.measures.base import Shape
from quadnorm.norms.kernels.core import normalize
from quadnorm.norms.kernels.dispatch import HALF, numba_may_run
from quadnorm.norms.kernels.formula import memory_format
from quadnorm.norms.kernels.inputs import is_channels_last
from quadnorm.norms.weights import Plan, call_plan, leaves_samples_out, measure_weights


def quad_norm(
    x: Tensor,
    weights: Tensor | Measure,
    num_groups: int = 1,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    mask: Any = None,
) -> Tensor:
    r"""Normalize each group of channels by its mean and variance under the weights.

    .. math:: y = \gamma\,\frac{x - \mu}{\sqrt{v + \varepsilon}} + \beta, \qquad
        \mu = \frac1D\sum_{c,i} p_i\,x_{ci}, \quad v = \frac1D\sum_{c,i} p_i\,(x_{ci}-\mu)^2, \quad p_i = w_i/\sum_j w_j

    over the D = C/num_groups channels c of a group and all samples i. ``num_groups=1`` is the weighted LayerNorm over
    (C, \*spatial), ``num_groups=C`` the weighted InstanceNorm.

    Args:
        x: (B, C, \*spatial), any number of spatial axes.
        weights: (\*spatial) for all, or (B, \*spatial) for each; nonnegative, any scale. 0 means that the sample is
            absent: it does not enter the statistics, and NaN, infinite or fill values (beyond 1e15) there are read as
            0. Its own output is normalized like the others. Also a measure. May require grad.
        num_groups: number of groups; divides C.
        weight, bias: γ and β per channel, (C,).
        eps: added to the variance.
        mask: boolean, (\*spatial) or (B, \*spatial), True where a sample is there; multiplies the weights.

    Statistics are taken in float32 (float64 for float64 input), the output has x's dtype. Weights that are all zero for
    a batch entry raise a ValueError; in a trace, where values cannot be looked at, such an entry gets finite values
    without meaning.

    >>> x = torch.tensor([[[0.0, 1.0, 2.0]]])
    >>> quad_norm(x, torch.tensor([1.0, 2.0, 1.0]), eps=0.0)
    tensor([[[-1.4142,  0.0000,  1.4142]]])
    """
    spatial = spatial_shape(x, num_groups)
    if isinstance(weights, Measure) and mask is None:
        plan = Plan(measure_weights(weights, x, spatial), leaves_samples_out(weights, spatial))
    else:
        measure, given = (weights, None) if isinstance(weights, Measure) else (None, weights)
        plan = call_plan(measure, given, mask, x, spatial)
    assert plan.weights is not None
    return normalize(x, plan.weights, weight, bias, num_groups, eps, holes=plan.has_absent)


def spatial_shape(x: Tensor, num_groups: int, num_features: int | None = None) -> Shape:
    """The spatial shape of x (B, C, *spatial), or an error that says what is wrong with it."""
    if not x.is_floating_point():
        raise TypeError(
            f"expected a real floating-point tensor, got {x.dtype}; "
            f"use x.float(), or real and imaginary parts as channels"
        )
    if x.ndim < 3:
        raise ValueError(f"expected (B, C, *spatial) with at least one spatial axis, got shape {tuple(x.shape)}")
    # torch.jit.trace hands out tensors in place of sizes; numpy does not know of it.
    tracing = _torch.tracing_state() is not None
    _, C, *sizes = x.detach().cpu().numpy().shape if tracing else x.shape
    spatial: Shape = tuple(sizes)
    if num_features is not None and num_features != C:
        raise ValueError(f"the layer has {num_features} channels, the input of shape {tuple(x.shape)} has {C}")
    if num_groups < 1 or C % num_groups or C == 0:
        raise ValueError(f"num_groups must divide the number of channels, got num_groups={num_groups} and {C} channels")
    if not torch.compiler.is_compiling() and 0 in spatial:
        raise ValueError(f"the input has no samples to average over: spatial shape {spatial}")
    return spatial


def native_norm(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """PyTorch's own group norm of contiguous memory, to the last bit; half precision gives the float32 result, rounded.

    Where channels lie beside each other in the memory of a CPU, its kernel takes E[x²] − E[x]² in float32, which loses
    all digits where the mean is a few hundred standard deviations: there x is copied first.
    """
    if x.dtype in HALF or (weight is not None and weight.dtype != x.dtype):
        dtype = sum_dtype(x)
        weight, bias = (None if p is None else p.to(dtype) for p in (weight, bias))
        with full_precision(x):
            return _accurate(x.to(dtype), groups, weight, bias, eps).to(x.dtype)
    return _accurate(x, groups, weight, bias, eps)


def _accurate(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    # Compilers take the variance from deviations, and other devices have kernels for one memory format only.
    if torch.compiler.is_compiling() or x.device.type != "cpu" or x.is_contiguous():
        return nn.functional.group_norm(x, groups, weight, bias, eps)
    y = nn.functional.group_norm(x.contiguous(), groups, weight, bias, eps)
    return y.contiguous(memory_format=memory_format(x))


def counts_by_own_kernel(x: Tensor) -> bool:
    """Whether plain averages of a plain x are our kernel's: where PyTorch's is inaccurate, or slow in bfloat16."""
    if not x.is_cpu or not x.numel():
        return False
    if x.is_contiguous():
        return x.dtype == torch.bfloat16 and numba_may_run()
    return is_channels_last(x)
