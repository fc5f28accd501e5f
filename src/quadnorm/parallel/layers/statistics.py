r"""The weighted normalization of a field that is split over ranks.

Rank r has the mass W_r = Σ w_i of its samples (ΣW_r = 1), their mean μ_r and M_r = (1/D) Σ w (x − μ_r)². One all-gather
of (μ_r, M_r), 2·B·G numbers from each rank, and Chan's rule give the moments of the whole on every rank, alike to the
last bit:

.. math:: \mu = \sum_r W_r\,\mu_r, \qquad v = \sum_r M_r + W_r\,(\mu_r - \mu)^2 .

Nothing is a difference of large squares, and means travel as float64: an offset of 10⁶ costs no digits. Without
centring v = Σ_r M_r is a plain all-reduce. The derivative needs Σh and Σhŷ of every group (h = γg) and the sums that
are γ's and β's gradients: 2·B·G + 2·C numbers in one all-reduce, see :mod:`quadnorm.norms.kernels.formula`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.parallel.layers import blocked
from quadnorm.parallel.layers.formula import Options, formula


def normalize(x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, options: Options) -> Tensor:
    """γ·(x − μ)/√(v + ε) + β for this rank's x (B, C, *local) and weights w (1 or B, N), which sum to its mass."""
    dtype = sum_dtype(x)
    weight, bias = (None if p is None else p.to(dtype) for p in (weight, bias))
    with torch.autocast(x.device.type, enabled=False):
        if torch.compiler.is_compiling():
            return formula(x, w, weight, bias, options)
        y: Tensor = _Norm.apply(x, w, weight, bias, options)
        return y


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, options: Options) -> Tensor:
        stats = blocked.statistics(x, w, options)
        ctx.save_for_backward(x, w, weight, bias, *stats)
        ctx.options = options
        return blocked.applied(x, stats, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, w, weight, bias, *stats = ctx.saved_tensors
        options = ctx.options
        if torch.is_grad_enabled():  # somebody will differentiate again
            given = (x, w, weight, bias)
            wanted = [t for t, need in zip(given, ctx.needs_input_grad, strict=False) if need]
            grads = iter(torch.autograd.grad(formula(*given, options), wanted, g, create_graph=True))
            return *(next(grads) if need else None for need in ctx.needs_input_grad[:4]), None
        with torch.autocast(x.device.type, enabled=False):
            dx, dw, dweight, dbias = blocked.gradient(
                g, x, w, weight, bias is not None, stats, options, ctx.needs_input_grad[1]
            )
        return dx, dw, dweight, dbias, None
