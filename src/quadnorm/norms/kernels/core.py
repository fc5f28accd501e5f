"""The one entrance to the weighted core.

Plain tensors go to a kernel, whose backward keeps only x, the weights and the statistics. Compilers, exporters,
tracers, functional transforms, forward-mode AD, fake tensors and other subclasses get the formula in plain operations,
which has all derivatives.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from quadnorm._tensors import is_plain, recorded_before_dispatch
from quadnorm.norms.kernels import dispatch, formula


def normalize(
    x: Tensor,
    w: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    groups: int = 1,
    eps: float = 1e-5,
    centre: bool = True,
) -> Tensor:
    """γ·(x − μ)·rstd + β for x (B, C, *spatial) and weights w (1 or B, N) that sum to 1; without ``centre``, μ = 0."""
    # One call to modes, as PyTorch's own norms are. A recorder must be seen here: modes see no other mode behind them.
    if has_torch_function((x, w)) and not recorded_before_dispatch():
        seen: Tensor = handle_torch_function(normalize, (x, w), x, w, weight, bias, groups, eps, centre)
        return seen
    if weight is not None and weight.dtype != w.dtype:
        weight = weight.to(w.dtype)
    if bias is not None and bias.dtype != w.dtype:
        bias = bias.to(w.dtype)
    if not is_plain(x, w, weight, bias):
        return formula.forward(x, w, weight, bias, groups, eps, centre)
    if torch.is_grad_enabled():
        y: Tensor = Normalize.apply(x, w, weight, bias, groups, eps, centre)  # type: ignore[no-untyped-call]
        return y
    return dispatch.forward(x, w, weight, bias, groups, eps, centre)[0]


class Normalize(torch.autograd.Function):
    """The kernels as one differentiable operation."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        groups: int,
        eps: float,
        centre: bool,
    ) -> Tensor:
        y, stats = dispatch.forward(x, w, weight, bias, groups, eps, centre)
        ctx.save_for_backward(x, w, weight, stats)
        ctx.options = groups, eps, centre, bias is not None
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, w, weight, stats = ctx.saved_tensors
        groups, eps, centre, has_bias = ctx.options
        wrt_w = ctx.needs_input_grad[1]
        # Whoever differentiates again, or many gradients at once, needs the formula; the kernel knows neither.
        if torch.is_grad_enabled() or not is_plain(grads[0], x):
            dx, dweight, dbias, dw = formula.backward(grads[0], x, w, weight, groups, eps, centre, wrt_w)
        else:
            dx, sums = dispatch.backward(grads[0], x, w, weight, stats, eps, centre)
            dbias, dweight = sums.sum(1)
            dw = weights_gradient(x, w, weight, stats, sums, centre) if wrt_w else None
        return dx, dw, dweight if weight is not None else None, dbias if has_bias else None, None, None, None


def weights_gradient(x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, sums: Tensor, centre: bool) -> Tensor:
    """Dw as in :func:`formula.backward`, one batch entry at a time; sums Σ g and Σ g·ŷ over the samples, (2, B, C)."""
    B, C = x.shape[:2]
    G = stats.shape[2]
    dw = torch.zeros(B, w.shape[1], dtype=w.dtype, device=w.device)
    h = (sums if weight is None else sums * weight).reshape(2, B, G, C // G).mean(3)  # (2, B, G)
    for b in range(B):
        high, low, rstd = stats[:, b, :, None, None]
        xhat = (x[b].reshape(G, C // G, -1).to(w.dtype) - high - low) * rstd
        dw[b] = -(xhat.square().sum(1) * h[1, b, :, None] / 2).sum(0)
        if centre:
            dw[b] -= (xhat.sum(1) * h[0, b, :, None]).sum(0)
    return dw.sum(0, keepdim=True) if w.shape[0] == 1 else dw
