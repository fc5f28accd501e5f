"""The weighted normalization as one formula in plain torch operations, and its derivatives.

This is the definition that every kernel is tested against, and what every tracer, compiler, exporter and functional
transform sees: it is differentiable to any order and in both modes, and can be batched. Eager calls on plain tensors
take the kernels instead, which save less and run faster.

Shapes throughout: x (B, C, *spatial) with N samples, w (1 or B, N) with Σ w = 1 in each row, G groups of D = C/G
channels.
"""

from typing import Any

import torch
from torch import Tensor

from quadnorm import _torch
from quadnorm._precision import is_exporting, sum_dtype


def forward(
    x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, centre: bool
) -> Tensor:
    """γ·(x − μ)·rstd + β, in x's shape, dtype and memory format."""
    if torch.compiler.is_compiling() and not is_exporting():
        w = materialized(w)
    d, rstd = deviations(x, w, groups, eps, centre)
    B, G, D = d.shape[:3]
    # Everything per channel has the one shape (B, G, D, 1), so that a compiler fuses the sums of the backward.
    scale = rstd.expand(B, G, D, 1)
    if weight is not None:
        scale = scale * weight.reshape(1, G, D, 1)
    y = d * scale
    if bias is not None:
        y = y + bias.reshape(1, G, D, 1).expand(B, G, D, 1)
    return _like(y, x)


def deviations(x: Tensor, w: Tensor, groups: int, eps: float, centre: bool) -> tuple[Tensor, Tensor]:
    """Deviations x − μ (B, G, D, N) in the statistics' dtype and rstd = (v + ε)^(−1/2) (B, G, 1, 1).

    μ = (1/D) Σ w x and v = (1/D) Σ w (x − μ)², over the D channels and N samples of a group; without centring μ = 0.
    """
    d = _grouped(x, groups)
    ws = w.unsqueeze(1).unsqueeze(1)  # (1 or B, 1, 1, N)
    if centre:
        # The result does not depend on the point that deviations are first taken from, so it has no derivative.
        d = d - _near_mean(d.detach(), w.detach(), x)
    v = _average(d * ws * d, x)  # in this order: at an absent sample 0, even where the square overflows
    if centre:
        rest = _average(d * ws, x)
        # Squares that overflow mean an infinite variance; ∞ − ∞ would make it NaN.
        v = (v - (rest * rest).clamp_max(torch.finfo(v.dtype).max)).clamp_min(0)
        d = d - rest.expand(-1, -1, d.shape[2], 1)
    return d, torch.rsqrt(v + eps)


def _near_mean(d: Tensor, w: Tensor, x: Tensor) -> Tensor:
    """The mean of each group of d (B, G, D, N), which holds the values of x, nearly: (B, G, 1, 1).

    Summed as deviations from one sample that is there (w > 0). A constant group gives exactly its value; an offset of
    any size, or an outlier at that sample, costs digits here but not in the deviations from the result.
    """
    at = w.argmax(-1)  # (1 or B,)
    first = d.narrow(2, 0, 1)
    if w.shape[0] == 1:
        sample = first.index_select(3, at)
    else:
        sample = first.gather(3, at.reshape(-1, 1, 1, 1).expand(-1, d.shape[1], 1, 1))
    ws = w.unsqueeze(1).unsqueeze(1)
    return sample + _average((d - sample) * ws, x)


def _average(f: Tensor, x: Tensor) -> Tensor:
    """Σ over the samples of f (B, G, D, N), averaged over the channels: (B, G, 1, 1).

    The last spatial axis first: compilers add one number after the other, and short sums keep their digits.
    """
    return torch.unflatten(f, 3, (-1, x.shape[-1])).sum(4).sum(3, keepdim=True).mean(2, keepdim=True)


def backward(
    g: Tensor, x: Tensor, w: Tensor, weight: Tensor | None, groups: int, eps: float, centre: bool, wrt_w: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """dx, dγ, dβ and dw for the output's gradient g; differentiable again, since nothing was saved but the inputs.

    With ŷ = (x−μ)·rstd and h = γ·g, sums over a group:
    dx = rstd·(h − (w/D)·Σh − (w/D)·ŷ·Σhŷ),  dw = −(Σ_c ŷ/D)·Σh − (Σ_c ŷ²/2D)·Σhŷ  (up to a constant: Σw is fixed).
    """
    d, rstd = deviations(x, w, groups, eps, centre)
    B, G, D, N = d.shape
    xhat = d * rstd
    gs = g.reshape(d.shape).to(d.dtype)  # is_grads_batched=True knows few operations on g
    ws = w.reshape(-1, 1, 1, N)
    dweight = (gs * xhat).sum(3).reshape(B, -1).sum(0)
    dbias = gs.sum(3).reshape(B, -1).sum(0)
    h = gs if weight is None else gs * weight.reshape(1, G, D, 1)
    sum_h = h.sum((2, 3), keepdim=True) / D if centre else torch.zeros_like(rstd)
    sum_hx = (h * xhat).sum((2, 3), keepdim=True) / D
    dx = rstd * (h - ws * (sum_h + xhat * sum_hx))
    dw = None
    if wrt_w:
        per_point = -(xhat.sum(2, keepdim=True) * sum_h + xhat.square().sum(2, keepdim=True) * sum_hx / 2)
        dw = per_point.sum((1, 2))  # (B, N)
        dw = dw.sum(0, keepdim=True) if w.shape[0] == 1 else dw
    return _like(dx, x), dweight, dbias, dw


def _grouped(x: Tensor, groups: int) -> Tensor:
    """(B, C, *spatial) as (B, G, D, N), in the statistics' dtype; no size of x becomes part of a trace."""
    return torch.unflatten(x.flatten(2), 1, (groups, -1)).to(sum_dtype(x))


def _like(y: Tensor, x: Tensor) -> Tensor:
    """(B, G, D, N) in x's shape, dtype and memory format."""
    y = y.reshape(x.shape).to(x.dtype)
    kind = memory_format(x)
    return y if kind == torch.contiguous_format else y.contiguous(memory_format=kind)


def memory_format(x: Tensor) -> torch.memory_format:
    """The format that PyTorch's own norms give their output: channels last where x is, else contiguous."""
    if not torch.compiler.is_compiling() and _torch.transforms_active():  # vmap cannot say
        return torch.contiguous_format
    for ndim, kind in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if x.ndim == ndim and not x.is_contiguous() and x.is_contiguous(memory_format=kind):
            return kind
    return torch.contiguous_format


@torch.library.custom_op("quadnorm::materialized", mutates_args=())
def materialized(w: Tensor) -> Tensor:
    """A copy of w that a compiler makes once.

    Weights are short formulas of the index, and a compiler would fuse them into the sweeps over x: divisions in
    float64 for every sample of every channel, which take longer than reading the sample.
    """
    return w.clone()


materialized.register_fake(torch.empty_like)
materialized.register_autograd(lambda ctx, g: g)


@materialized.register_vmap
def _(info: Any, dims: tuple[int | None, ...], w: Tensor) -> tuple[Tensor, int | None]:
    copy: Tensor = materialized(w)
    return copy, dims[0]
