"""The weighted normalization as one formula in plain torch operations, and its derivatives.

This is the definition that every kernel is tested against. It is differentiable to any order and in both modes, can be
batched by
``vmap`` and traced; eager training takes the kernels instead, which save less and run faster.

Shapes throughout the core: x (B, C, *spatial) with N samples, w (1 or B, N) with Σ w = 1 in each row, G groups of D =
C/G channels.
"""

import torch
from torch import Tensor


def statistics_dtype(x: Tensor) -> torch.dtype:
    """Float64 stays, everything else is accumulated in float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def per_channel(v: Tensor, groups: int) -> Tensor:
    """(C,) or (B, C) as (1 or B, G, D, 1)."""
    return v.reshape(-1, groups, v.shape[-1] // groups, 1)


def pivot(x: Tensor, w: Tensor) -> Tensor:
    """One sample of each group that is really there (w > 0), (B, G, 1, 1), for x (B, G, D, N).

    Deviations are taken from it, so that a large common offset cancels exactly instead of in rounded sums.
    """
    where = w.argmax(-1)  # (1 or B,)
    if w.shape[0] == 1:
        return x[:, :, :1].index_select(3, where).detach()
    index = where.reshape(-1, 1, 1, 1).expand(-1, x.shape[1], 1, 1)
    return x[:, :, :1].gather(3, index).detach()


def deviations(x: Tensor, w: Tensor, groups: int, eps: float, centre: bool) -> tuple[Tensor, Tensor]:
    """Deviations x − μ (B, G, D, N) in the statistics' dtype and rstd = (v + ε)^(−1/2) (B, G, 1, 1).

    μ = (1/D) Σ w x and v = (1/D) Σ w (x − μ)², over the D channels and N samples of a group; without centring μ = 0.
    """
    B, C = x.shape[:2]
    xs = x.reshape(B, groups, C // groups, w.shape[-1]).to(statistics_dtype(x))
    ws = w.reshape(-1, 1, 1, w.shape[-1])  # (1 or B, 1, 1, N)
    D = C // groups
    d = xs
    if centre:
        d = xs - pivot(xs, w)
        d = d - (d * ws).sum((2, 3), keepdim=True) / D
    v = (d * d * ws).sum((2, 3), keepdim=True) / D
    return d, torch.rsqrt(v + eps)


def forward(
    x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, centre: bool
) -> Tensor:
    """γ·(x − μ)·rstd + β, in x's shape and dtype."""
    d, rstd = deviations(x, w, groups, eps, centre)
    y = d * rstd
    if weight is not None:
        y = y * per_channel(weight, groups)
    if bias is not None:
        y = y + per_channel(bias, groups)
    return y.reshape(x.shape).to(x.dtype)


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
    gs = g.reshape(B, G, D, N).to(d.dtype)
    ws = w.reshape(-1, 1, 1, N)
    dweight = (gs * xhat).sum(3).reshape(B, -1).sum(0)
    dbias = gs.sum(3).reshape(B, -1).sum(0)
    h = gs if weight is None else gs * per_channel(weight, groups)
    sum_h = h.sum((2, 3), keepdim=True) / D if centre else torch.zeros_like(rstd)
    sum_hx = (h * xhat).sum((2, 3), keepdim=True) / D
    dx = rstd * (h - ws * (sum_h + xhat * sum_hx))
    dw = None
    if wrt_w:
        per_point = -(xhat.sum(2, keepdim=True) * sum_h + xhat.square().sum(2, keepdim=True) * sum_hx / 2)
        dw = per_point.sum((1, 2))  # (B, N)
        dw = dw.sum(0, keepdim=True) if w.shape[0] == 1 else dw
    return dx.reshape(x.shape).to(x.dtype), dweight, dbias, dw
