"""The weighted norm as compilers like it: statistics in one sweep over x, the backward in two.

The same values as :mod:`quadnorm.norms.kernels.formula`, arranged so that automatic differentiation makes sums over the
samples only, all of one shape (B, G, D): a compiler fuses these into one loop. Everything per group, channel or batch
entry follows from them.
"""

from typing import Any

import torch
from torch import Tensor

from quadnorm.norms.kernels.formula import pivot, statistics_dtype


def forward(
    x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, centre: bool
) -> Tensor:
    """γ·(x − μ)·rstd + β, in x's shape and dtype."""
    if not torch.compiler.is_exporting():  # an exported program is to run elsewhere, without this package
        w = materialized(w)
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
