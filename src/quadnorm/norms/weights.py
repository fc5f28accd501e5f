"""What each sample counts: weights from a measure, weights and masks given at call time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from quadnorm import _torch
from quadnorm._precision import sum_dtype
from quadnorm._tensors import is_plain
from quadnorm.measures import Measure, Separable
from quadnorm.measures.base import Shape

if TYPE_CHECKING:
    from quadnorm.norms.kernels.numba.launch import PreparedKernel


class Plan(NamedTuple):
    """How a norm averages over the samples of one input."""

    weights: Tensor | None
    """(1 or B, N), each row summing to 1; None: plain averages, taken by PyTorch's own kernel."""
    has_absent: bool = False
    """Whether samples may be absent (weight 0), whose values must not be read."""
    ready: PreparedKernel | None = None
    """The CPU kernel for plain inputs of this plan's shape, if it serves them."""


def measure_weights(measure: Measure, x: Tensor, spatial: Shape) -> Tensor:
    """The measure's weights for the samples of x (B, C, *spatial), (1, N), in the statistics' dtype."""
    if _has_no_numbers(x):
        return x.new_empty((1, measure._checked(spatial)[0] * _count(spatial[1:])), dtype=sum_dtype(x))
    return measure.shared_weights(spatial, x.device, sum_dtype(x)).reshape(1, -1)


def _has_no_numbers(x: Tensor) -> bool:
    """Whether x has a shape and no values (a meta or fake tensor), and no trace is being recorded."""
    if torch.compiler.is_compiling() or not (x.is_meta or isinstance(x, _torch.FakeTensor)):
        return False
    return _torch.get_proxy_mode() is None


def _count(spatial: Shape) -> int:
    N = 1
    for n in spatial:
        N = N * n
    return N


def leaves_samples_out(measure: Measure, spatial: Shape) -> bool:
    """Whether a measure gives samples of this shape the weight 0: they are absent. Rules on grids give none."""
    _, measure = measure.counting_part()  # what is not there is not counted either
    if isinstance(measure, Separable):
        return False
    if not is_plain():
        return True
    answers = _ABSENT.setdefault(measure, {})
    if spatial not in answers:
        answers[spatial] = bool((measure.shared_weights(spatial) == 0).any())
    return answers[spatial]


# An answer lives as long as its measure, and does not keep it alive.
_ABSENT: WeakKeyDictionary[Measure, dict[Shape, bool]] = WeakKeyDictionary()


def call_plan(measure: Measure | None, weights: Any, mask: Any, x: Tensor, spatial: Shape) -> Plan:
    """The plan for weights and a mask given at call time, of which one may be None; with weights, the measure too.

    ``weights`` take the place of the measure's (of a blend's, of its quadrature), ``mask`` multiplies either.
    """
    if weights is None:
        assert measure is not None
        w = measure_weights(measure.counting_part()[1], x, spatial)
    else:
        w = given_weights(weights, x, spatial)
    if mask is not None:
        w = w * given_mask(mask, x, spatial)
        check_weights(w, "the mask leaves")
    # On a CPU the smallest weight is at hand; elsewhere reading it would cost more than assuming the worst.
    has_absent = not is_plain(w) or w.device.type != "cpu" or bool((w == 0).any())
    return Plan(scaled(w, sum_dtype(x)), has_absent)


def given_weights(weights: Any, x: Tensor, spatial: Shape) -> Tensor:
    """Weights (*spatial), (B, *spatial) or with the samples flattened, checked, as (1 or B, N); not yet scaled."""
    w = weights if isinstance(weights, Tensor) else torch.as_tensor(weights, device="cpu")
    if w.is_complex():
        raise TypeError(f"weights must be real numbers, got {w.dtype}")
    dtype = sum_dtype(x)
    w = w.to(device=x.device, dtype=torch.promote_types(w.dtype, dtype) if w.is_floating_point() else dtype)
    flat = _rows(w, "weights have", x, spatial)
    check_weights(flat, "the weights leave")
    return flat


def given_mask(mask: Any, x: Tensor, spatial: Shape) -> Tensor:
    """A boolean mask (*spatial), (B, *spatial) or with the samples flattened, True where a sample is there."""
    m = mask if isinstance(mask, Tensor) else torch.as_tensor(mask, device="cpu")
    if m.dtype != torch.bool:
        raise TypeError(
            f"the mask must be boolean (True = the sample is there), got {m.dtype}; use mask.bool(), or weights= for "
            f"numbers that take the place of the measure"
        )
    return _rows(m.to(x.device), "the mask has", x, spatial)


def _rows(t: Tensor, subject: str, x: Tensor, spatial: Shape) -> Tensor:
    """One number for each sample as (1, N), or for each sample of each batch entry as (B, N)."""
    B, N = x.shape[0], _count(spatial)
    got = tuple(t.shape)
    if _same(got, spatial) or _same(got, (N,)):
        return t.reshape(1, N)
    if (_same(got[1:], spatial) or _same(got[1:], (N,))) and (got[0] == 1 or got[0] == B):
        return t.reshape(got[0], N)
    raise ValueError(
        f"{subject} shape {got}; expected one number per sample, {spatial}, "
        f"or one set for each of the {B} batch entries, {(B, *spatial)}"
    )


def _same(got: Shape, expected: Shape) -> bool:
    """Whether two shapes agree, size by size: ``in`` and ``==`` of tuples do not see that a compiler's symbol is 9."""
    if len(got) != len(expected):
        return False
    for a, b in zip(got, expected, strict=True):  # noqa: SIM110, a generator would break a compiled graph
        if a != b:
            return False
    return True


def check_weights(w: Tensor, subject: str) -> None:
    """Raise for weights (1 or B, N) that are negative, not finite or all zero.

    Values on a CPU are looked at. On a CUDA device they are asserted there, without waiting for it; elsewhere, and in a
    trace, they are taken as they come.
    """
    if w.numel() == 0 or not is_plain(w):
        return
    values = w.detach()
    if w.device.type == "cuda":
        check_on_device(values)
    elif w.device.type == "cpu":
        # The sum of weights that are all finite may still overflow, so it is taken of parts of the largest.
        low, high = (float(v) for v in values.aminmax())
        if low < 0:
            raise ValueError(f"weights must not be negative, got {low:g}; use 0 for a sample that is absent")
        if not high < float("inf") or low != low:
            raise ValueError("weights hold NaN or infinite values; expected finite numbers, 0 where a sample is absent")
        empty = (values.amax(1) <= 0).nonzero()[:, 0].tolist()
        if empty:
            raise ValueError(
                f"{subject} nothing of batch entries {empty[:10]} to average over: all weights are zero; "
                f"drop these entries, or keep at least one sample of each"
            )


def check_on_device(w: Tensor) -> None:
    """The same questions, asked on the device: no value comes back, and a wrong one ends the program there."""
    _torch.assert_async((w >= 0).all() & torch.isfinite(w).all(), "weights must be finite and not negative")
    _torch.assert_async((w.amax(1) > 0).all(), "all weights of a batch entry are zero: nothing to average over")


def scaled(w: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows divided by their sums. A row of zeros (possible only where values cannot be checked) stays zero."""
    # Divided by the largest first: weights of any scale, up to the largest number there is, keep a finite sum.
    w = w / w.detach().amax(1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)
    total = w.sum(1, keepdim=True)
    return (w / torch.where(total > 0, total, torch.ones_like(total))).to(dtype)


def blended(w: Tensor, alpha: float | Tensor) -> Tensor:
    """α·counting + (1−α)·w, where counting counts the samples that are there; w (1 or B, N) scaled."""
    present = (w > 0).to(w.dtype)
    counting = present / present.sum(1, keepdim=True).clamp_min(1)
    return alpha * counting + (1 - alpha) * w
