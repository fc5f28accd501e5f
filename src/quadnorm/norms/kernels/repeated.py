"""The shortest way to the CPU kernel: a layer that is called with the same shape and weights again and again.

Values are those of :func:`quadnorm.norms.kernels.core.normalize`, which decides anew at every call. On small fields its
decisions take a good part of the time: a field that has just passed through the cache has displaced the code that takes
them. Here they were taken at the first call, and few questions remain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from quadnorm._tensors import is_plain
from quadnorm.norms.kernels import dispatch
from quadnorm.norms.kernels.core import backward_by_formula
from quadnorm.norms.kernels.inputs import Inputs, is_channels_last

if TYPE_CHECKING:
    from quadnorm.norms.kernels.numba.launch import PreparedKernel

_PLAIN = (nn.Parameter, Tensor)


def prepare(x: Tensor, w: Tensor) -> PreparedKernel | None:
    """The kernel for plain inputs like x under the weights w; None if another kernel serves them."""
    ours = x.is_cpu and x.dtype in dispatch.NUMBA and x.numel() > 0 and (x.is_contiguous() or is_channels_last(x))
    if not ours or w.requires_grad or w.is_neg() or not w.is_contiguous():
        return None
    kernel = dispatch.numba_kernel()
    return None if kernel is None else kernel.PreparedKernel(x, w)


def serves(ready: PreparedKernel, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> bool:
    """Whether the kernel may run on x, plain and of the shape and dtype it was prepared for, as it lies in memory."""
    # PreparedKernel.serves, without the call: the dtype is known here.
    if x.is_neg() or not (is_channels_last(x) if ready.channels_last else x.is_contiguous()):
        return False
    if not dispatch.numba_may_run():
        return False
    for t in (weight, bias):
        if t is not None and (
            type(t) not in _PLAIN
            or t.dtype != ready.dtype
            or t.shape != ready.per_channel
            or not t.is_cpu
            or not t.is_contiguous()
            or t.is_neg()
        ):
            return False
    return True


def normalize(
    ready: PreparedKernel, x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, centre: bool
) -> Tensor:
    """γ·(x − μ)·rstd + β by the prepared kernel."""
    if torch.is_grad_enabled():
        y: Tensor = NormalizeAgain.apply(x, weight, bias, ready, groups, eps, centre)
        return y
    y, stats = dispatch.result_like(x), ready.w.new_empty((3, x.shape[0], groups))
    ready.forward(x, weight, bias, eps, centre, y, stats)
    return y


class NormalizeAgain(torch.autograd.Function):
    """:class:`quadnorm.norms.kernels.core.Normalize` by a prepared kernel."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        x, weight, bias, ready, groups, eps, centre = given
        y, stats = dispatch.result_like(x), ready.w.new_empty((3, x.shape[0], groups))
        ready.forward(x, weight, bias, eps, centre, y, stats)
        ctx.save_for_backward(x, weight, stats)
        ctx.setting = ready, groups, eps, centre, bias is not None
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        g = grads[0]
        x, weight, stats = ctx.saved_tensors
        ready, groups, eps, centre, has_bias = ctx.setting
        # Whoever differentiates again, or many gradients at once, needs the formula; the kernel knows neither.
        if torch.is_grad_enabled() or not is_plain(g, x):
            dx, dgamma, dbeta, _ = backward_by_formula(g, Inputs(x, ready.w, weight, None, groups, eps, centre), False)
        elif ready.serves(g) and dispatch.numba_may_run() and ready.reads(x, weight, stats):
            dx = dispatch.result_like(x)
            _, dbeta, dgamma = ready.backward(x, weight, centre, g, stats, dx)
        else:
            given = Inputs(x, ready.w, weight, None, groups, eps, centre)
            dx, dbeta, dgamma, _ = dispatch.backward(given, g, stats)
        return dx, dgamma if weight is not None else None, dbeta if has_bias else None, None, None, None, None
