"""The weighted norm as compilers like it: statistics in one sweep over x, the backward in two.

The same values as :mod:`quadnorm.norms.formula`, arranged so that automatic differentiation makes sums over the samples
only, all of one shape (B, G, D): a compiler fuses these into one loop. Everything per group, channel or batch entry
follows from them.
"""

import torch
from torch import Tensor

from quadnorm.norms.formula import pivot, statistics_dtype


def forward(
    x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, centre: bool
) -> Tensor:
    """γ·(x − μ)·rstd + β, in x's shape and dtype."""
    B, C, N = x.shape[0], x.shape[1], w.shape[-1]
    D = C // groups
    d = x.reshape(B, groups, D, N).to(statistics_dtype(x))
    ws = w.reshape(-1, 1, 1, N)
    if centre:
        d = d - pivot(d, w)
    variance = (d * d * ws).sum(3, keepdim=True).mean(2, keepdim=True)  # (B, G, 1, 1)
    if centre:
        low = (d * ws).sum(3, keepdim=True).mean(2, keepdim=True)
        # One sweep for both moments. The pivot is a sample, so the difference is harmless unless that sample is far
        # out.
        variance = (variance - low * low).clamp_min(0)
        d = d - low.expand(B, groups, D, 1)
    scale = torch.rsqrt(variance + eps).expand(B, groups, D, 1)
    if weight is not None:
        scale = scale * weight.reshape(1, groups, D, 1)
    y = d * scale
    if bias is not None:
        y = y + bias.reshape(1, groups, D, 1).expand(B, groups, D, 1)
    return y.reshape(x.shape).to(x.dtype)
