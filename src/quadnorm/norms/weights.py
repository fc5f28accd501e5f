"""Weights given at call time: checked, flattened and scaled to sum to 1."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from quadnorm.measures import Blend, Measure, Separable
from quadnorm.measures.base import Shape
from quadnorm.norms.kernels.formula import statistics_dtype

# Beyond this a value at an absent sample is a fill value (NaN, netCDF's 9.97e36, …): its square could overflow and 0·∞
# is NaN.
FILL = 1e15


def given_weights(weights: Any, x: Tensor, spatial: Shape) -> Tensor:
    """Weights (*spatial), (B, *spatial) or with the samples flattened, checked, as (1 or B, N); not yet scaled."""
    w = torch.as_tensor(weights)
    if w.is_complex():
        raise TypeError(f"weights must be real numbers, got {w.dtype}")
    B = x.shape[0]
    N = 1
    for n in spatial:
        N = N * n
    w = w.to(
        device=x.device,
        dtype=torch.promote_types(w.dtype, statistics_dtype(x)) if w.is_floating_point() else statistics_dtype(x),
    )
    got = tuple(w.shape)
    if got in (spatial, (N,)):
        flat = w.reshape(1, N)
    elif got[1:] in (spatial, (N,)) and got[0] in (1, B):
        flat = w.reshape(got[0], N)
    else:
        raise ValueError(
            f"weights have shape {got}; expected one per sample, {spatial}, "
            f"or one set for each of the {B} batch entries, {(B, *spatial)}"
        )
    if inspectable(flat):
        _check(flat)
    return flat


def given_mask(mask: Any, x: Tensor, spatial: Shape) -> Tensor:
    """A boolean mask (*spatial), (B, *spatial) or with the samples flattened, True where a sample is there."""
    m = torch.as_tensor(mask)
    if m.dtype != torch.bool:
        raise TypeError(
            f"the mask must be boolean (True = the sample is there), got {m.dtype}; use mask.bool(), or weights= for "
            f"numbers that take the place of the measure"
        )
    return given_weights(m, x, spatial).bool()


def _check(w: Tensor) -> None:
    if w.numel() == 0:
        return
    values = w.detach()
    # One transfer from the device for all three questions.
    low, total, high = torch.stack([values.amin(), values.sum(1).amin(), values.amax()]).tolist()
    if low < 0:
        raise ValueError(f"weights must not be negative, got {low:g}; use 0 for a sample that is absent")
    if not (total < float("inf") and high < float("inf")):
        raise ValueError("weights hold NaN or infinite values; expected finite numbers, 0 where a sample is absent")
    if total <= 0:
        empty = (values.sum(1) <= 0).nonzero()[:, 0].tolist()
        raise ValueError(
            f"all weights are zero for batch entries {empty[:10]}: nothing is left to average over; "
            f"drop these entries, or give them weights"
        )


def scaled(w: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows divided by their sums. A row of zeros (possible only in a trace, which cannot check) stays zero."""
    w = w / w.detach().amax(1, keepdim=True).clamp_min(
        torch.finfo(w.dtype).tiny
    )  # weights of any scale: keep the sum representable
    total = w.sum(1, keepdim=True)
    return (w / torch.where(total > 0, total, torch.ones_like(total))).to(dtype)


def blended(w: Tensor, alpha: float | Tensor) -> Tensor:
    """α·counting + (1−α)·w, where counting counts the samples that are there; w (1 or B, N) scaled."""
    present = (w > 0).to(w.dtype)
    counting = present / present.sum(1, keepdim=True).clamp_min(1)
    return alpha * counting + (1 - alpha) * w


def without_fill_values(x: Tensor, w: Tensor) -> Tensor:
    """Input x with NaN, infinite and fill values at absent samples (w = 0) read as 0; everything else untouched."""
    if inspectable(w) and not bool((w == 0).any()):
        return x
    fill = (w == 0).reshape(-1, 1, *x.shape[2:]) & ~(x.detach().abs() < FILL)
    return torch.where(fill, torch.zeros((), dtype=x.dtype, device=x.device), x)


def inspectable(*tensors: Tensor | None) -> bool:
    """Whether values can be looked at: no trace, no meta or fake tensor or other subclass, no functorch transform."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return all(t is None or ((type(t) is Tensor or type(t) is torch.nn.Parameter) and not t.is_meta) for t in tensors)


@lru_cache(maxsize=256)
def has_holes(measure: Measure, shape: Shape) -> bool:
    """Whether a measure leaves samples out (weight 0) at this shape. Rules on grids do not."""
    if isinstance(measure, Separable):
        return False
    if isinstance(measure, Blend) and measure.alpha > 0:
        return False
    return bool((measure.shared_weights(shape) == 0).any())
