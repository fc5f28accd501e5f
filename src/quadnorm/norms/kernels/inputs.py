"""What every kernel is given, and what they share: absent samples, and the gradient for the weights."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from quadnorm._tensors import is_plain

# Beyond this a value at an absent sample is a fill value (NaN, netCDF's 9.97e36, …): its square could overflow and 0·∞
# is NaN.
FILL = 1e15


# For β, γ and the weights of the measure; the last if it was asked for.
ParameterGradients = tuple[Tensor, Tensor, Tensor | None]


class Inputs(NamedTuple):
    """One call of the weighted norm: y = γ·(x − μ)·rstd + β, with the moments of ``groups`` groups under w."""

    x: Tensor
    """(B, C, *spatial); for the kernels contiguous, for numba's also with the channels last in memory."""
    w: Tensor
    """(1 or B, N), in the statistics' dtype; rows sum to 1."""
    weight: Tensor | None = None
    """γ (C,)."""
    bias: Tensor | None = None
    """β (C,)."""
    groups: int = 1
    eps: float = 1e-5
    centre: bool = True
    """Whether the mean is subtracted; without, μ = 0."""
    holes: bool = False
    """Whether the kernel must read fill values at samples of weight 0 as 0; only Triton's can."""

    def flat(self) -> Inputs:
        """The same with x, contiguous, as (B, C, N)."""
        x = self.x
        return self if x.ndim == 3 else self._replace(x=x.view(*x.shape[:2], self.w.shape[1]))


def is_channels_last(x: Tensor) -> bool:
    """Whether x (B, C, *spatial) lies in memory as (B, *spatial, C), one number after the other.

    >>> is_channels_last(torch.ones(2, 5, 3).mT), is_channels_last(torch.ones(2, 3, 5))
    (True, False)
    """
    if x.ndim == 4:
        return x.is_contiguous(memory_format=torch.channels_last)
    return x.movedim(1, -1).is_contiguous()


def weights_gradient(given: Inputs, stats: Tensor, sums: Tensor) -> Tensor:
    """The weights' gradient of :func:`quadnorm.norms.kernels.formula.backward`, entry by entry, for kernels without it.

    ``sums``: Σ g and Σ g·ŷ over the samples, (2, B, C).
    """
    x, w, weight = given.flat()[:3]
    B, C, N = x.shape
    G = stats.shape[2]
    dw = torch.zeros(B, N, dtype=w.dtype, device=w.device)
    h = (sums if weight is None else sums * weight).reshape(2, B, G, C // G).mean(3)  # (2, B, G)
    for b in range(B):
        high, low, rstd = stats[:, b, :, None, None]
        xhat = (x[b].reshape(G, C // G, N).to(w.dtype) - high - low) * rstd
        dw[b] = -(xhat.square().sum(1) * h[1, b, :, None] / 2).sum(0)
        if given.centre:
            dw[b] -= (xhat.sum(1) * h[0, b, :, None]).sum(0)
    return dw.sum(0, keepdim=True) if w.shape[0] == 1 else dw


def has_no_fill_values(x: Tensor) -> bool:
    """Whether x holds no NaN, infinite or fill value anywhere: most masked fields do not. Asked on a CPU only.

    One short sweep, where replacing them takes several, forward and backward.
    """
    if not x.is_cpu or not x.numel() or not is_plain(x):
        return False
    low, high = (float(v) for v in x.detach().aminmax())
    return low > -FILL and high < FILL  # NaN is neither


def fill_values(x: Tensor, w: Tensor) -> Tensor:
    """Where x (B, C, *spatial) holds NaN, infinite or fill values at absent samples (w = 0)."""
    return (w == 0).reshape(w.shape[0], 1, *x.shape[2:]) & ~(x.detach().abs() < FILL)


def without_fill_values(x: Tensor, w: Tensor) -> Tensor:
    """Input x with NaN, infinite and fill values at absent samples read as 0; everything else untouched."""
    return torch.where(fill_values(x, w), torch.zeros((), dtype=x.dtype, device=x.device), x)
