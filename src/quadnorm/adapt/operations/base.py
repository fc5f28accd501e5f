"""The table of operations: which functions mix samples, how each is anchored, and how it is extended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from quadnorm.adapt.calls import Call, Step, WeightedStep
from quadnorm.adapt.functions import bound

PRODUCTS = frozenset(
    {"matmul", "rmatmul", "bmm", "mm", "mv", "dot", "vdot", "inner", "linear"}
    | {"addmm", "baddbmm", "addbmm", "addmv", "einsum", "tensordot"}
)

COUNTED = "a reduction over samples, each counted the same"
INTEGRATED = "a trapezoidal sum, whose ends are the samples' and not the domain's"
PICKED = "picks from the samples: no sum, no measure to set"
SHARED = "shares out over samples, each counted the same"
NORMED = "a norm that counts samples"
FOURIER = "a Fourier transform of samples: its period moves with the resolution"
SUMMED = "a product that sums over samples, each counted the same"
ATTENDED = "softmax attention over samples, each counted the same"
KERNELS = "a kernel of a fixed number of samples"
POOLS = "pools a fixed number of samples"
RESAMPLED = "resamples by a factor or to a number of samples"
SHIFTED = "differences or shifts by a number of samples"
ORDERED = "accumulates or orders along the samples"
PATCHES = "patches of a fixed number of samples"
INDEXED = "reads or writes samples by their index"
PADDED = "padding by a number of samples"
DERIVED = "a derivative by the samples of what was summed over them"


@dataclass(frozen=True)
class Kind:
    """A family of functions; ``mixes(call)`` says whether a call of one mixes samples."""

    family: str
    why: str
    mixes: Callable[[Call], bool]


def _loses_axes(call: Call) -> bool:
    return bool(call.lost_axes)


def _sees_grid(call: Call) -> bool:
    return bool(call.axes)


def _kernel_of_several(call: Call) -> bool:
    """Whether a convolution has more than one sample in its kernel, or strides."""
    if not call.axes:
        return False
    weight = call.argument_shapes[1] if len(call.argument_shapes) > 1 else ()
    given = bound(call.name, call.args, call.kwargs)
    stride = given.get("stride", 1)
    strides = stride if isinstance(stride, (tuple, list)) else (stride,)
    return any(k != 1 for k in weight[2:]) or any(s != 1 for s in strides)


# Where the dimension stands among the arguments, if not second.
_DIM_AT = {"roll": 2, "diff": 2, "flip": 1, "rot90": 2, "gradient": 9, "topk": 2}


def _along_grid(call: Call) -> bool:
    """Whether the dimension that the call works along runs over samples; where none is named, whether any does."""
    if not call.axes:
        return False
    at = _DIM_AT.get(call.name, 1)
    dim = call.kwargs.get("dim", call.kwargs.get("dims", call.kwargs.get("axis")))
    if dim is None and len(call.args) > at:
        dim = call.args[at:] if call.name == "flip" and isinstance(call.args[at], int) else call.args[at]
    forms = call.argument_forms[0]
    default = {"sort": -1, "argsort": -1, "diff": -1, "topk": -1}.get(call.name)
    dim = default if dim is None else dim
    dims = range(len(forms)) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    return any(isinstance(d, int) and forms[d].moves for d in dims)


def _along_sequence(call: Call) -> bool:
    """Whether a recurrent layer runs along samples; not where each sample has a sequence of its own."""
    first = bool(call.kwargs.get("batch_first", call.args[8] if len(call.args) > 8 else False))
    return bool(call.axes) and call.argument_forms[0][1 if first and len(call.argument_forms[0]) == 3 else 0].moves


def _cuts(call: Call) -> bool:
    """Whether a slice leaves out samples of the grid itself, or every second one: not where it cuts off padding."""
    if not call.axes or not call.result_forms:
        return False
    before = {(k, e) for f in call.argument_forms[0] if f.on_grid for k, e in zip(f.axes, f.extra, strict=True)}
    inexact = {f.axes for f in call.argument_forms[0] if f.moves and not f.exact}
    for f in call.result_forms[0]:
        if f.moves and not f.exact and f.axes not in inexact:
            return True
        if f.on_grid and any(e < 0 and (k, e) not in before for k, e in zip(f.axes, f.extra, strict=True)):
            return True
    return bool(call.lost_axes)


def _kinds(family: str, why: str, mixes: Callable[[Call], bool], names: str) -> dict[str, Kind]:
    return dict.fromkeys(names.split(), Kind(family, why, mixes))


_DIMENSIONS = ("1d", "2d", "3d")


def _each(*stems: str) -> str:
    return " ".join(f"{stem}{d}" for stem in stems for d in _DIMENSIONS)


KINDS: dict[str, Kind] = {
    **_kinds(
        "reduction", COUNTED, _loses_axes, "mean sum nanmean nansum prod var std var_mean std_mean norm logsumexp"
    ),
    **_kinds("reduction", INTEGRATED, _loses_axes, "trapezoid trapz"),
    **_kinds("reduction", COUNTED, _loses_axes, "cosine_similarity dist count_nonzero all any cdist"),
    **_kinds("reduction", PICKED, _loses_axes, "amax amin aminmax max min median nanmedian quantile nanquantile mode"),
    **_kinds("reduction", PICKED, _loses_axes, "argmax argmin kthvalue"),
    **_kinds("reduction", COUNTED, _sees_grid, _each("adaptive_avg_pool")),
    **_kinds("reduction", PICKED, _sees_grid, _each("adaptive_max_pool")),
    **_kinds("share", SHARED, _along_grid, "softmax log_softmax softmin normalize gumbel_softmax"),
    **_kinds("norm", NORMED, _sees_grid, "group_norm instance_norm batch_norm layer_norm rms_norm quadnorm.normalize"),
    **_kinds("fourier", FOURIER, _sees_grid, "fft rfft fft2 rfft2 fftn rfftn ifft irfft ifft2 irfft2 ifftn irfftn"),
    **_kinds("fourier", FOURIER, _sees_grid, "quadnorm.SpectralConv.forward"),
    **_kinds("product", SUMMED, _loses_axes, " ".join(PRODUCTS)),
    **_kinds("attention", ATTENDED, _sees_grid, "scaled_dot_product_attention multi_head_attention_forward"),
    **_kinds("kernel", KERNELS, _kernel_of_several, _each("conv", "conv_transpose")),
    **_kinds("kernel", POOLS, _sees_grid, _each("avg_pool", "max_pool", "lp_pool", "fractional_max_pool")),
    **_kinds("kernel", POOLS, _sees_grid, _each("max_pool_with_indices", "max_unpool")),
    **_kinds("kernel", POOLS, _sees_grid, " ".join(f"max_pool{d}_with_indices" for d in _DIMENSIONS)),
    **_kinds("kernel", POOLS, _sees_grid, " ".join(f"adaptive_max_pool{d}_with_indices" for d in _DIMENSIONS)),
    **_kinds("kernel", RESAMPLED, _sees_grid, "interpolate upsample grid_sample upsample_nearest upsample_bilinear"),
    **_kinds("kernel", PATCHES, _sees_grid, "unfold fold pixel_shuffle pixel_unshuffle im2col col2im"),
    **_kinds("order", SHIFTED, _along_grid, "roll diff gradient"),
    **_kinds(
        "order", ORDERED, _along_grid, "cumsum cumprod cummax cummin logcumsumexp cumulative_trapezoid sort argsort"
    ),
    **_kinds("order", ORDERED, _along_grid, "flip fliplr flipud rot90 topk"),
    **_kinds("order", ORDERED, _along_sequence, "gru lstm rnn_tanh rnn_relu"),
    **_kinds("order", FOURIER, _sees_grid, "hfft ihfft hfft2 ihfft2 hfftn ihfftn stft istft"),
    **_kinds("order", INDEXED, _along_grid, "index_select gather take_along_dim scatter scatter_add index_add"),
    **_kinds("order", INDEXED, _loses_axes, "solve inv pinv cholesky qr svd eigh det"),
    **_kinds("order", DERIVED, _sees_grid, "autograd.grad"),
    **_kinds("slice", SHIFTED, _cuts, "getitem narrow select unbind split chunk"),
    **_kinds("padding", PADDED, _sees_grid, "pad"),
}


@dataclass(frozen=True)
class StepRow:
    """How one family of functions is extended.

    ``mixes(step)`` says whether the call mixes samples; ``keep(step)`` what the native run stores; ``replay(step)``
    gives the result on the new grid. ``action`` and ``why`` are for the report.
    """

    action: str
    why: str
    mixes: Callable[[Step], bool]
    keep: Callable[[Step], Any]
    replay: Callable[[Step], Any]


ROWS: dict[str, StepRow] = {}


def register(names: Iterable[str], row: StepRow) -> None:
    """One row for several functions."""
    ROWS.update(dict.fromkeys(names, row))


def step_row(step: Step) -> StepRow | None:
    """How a call is extended; None if it acts on single samples."""
    row = ROWS.get(step.call.name)
    return row if row is not None and step.call.axes and row.mixes(step) else None


@dataclass(frozen=True)
class SumRow:
    """How one family of functions is anchored.

    ``applies(step)`` says whether the call takes a sum over samples, or pads them; ``result(step)`` is what it gives
    under the training grid's measure; ``why`` stands in the report.
    """

    why: str
    applies: Callable[[WeightedStep], bool]
    result: Callable[[WeightedStep], Any]


SUMS: dict[str, SumRow] = {}


def register_sum(names: Iterable[str], row: SumRow) -> None:
    """One row for several functions."""
    SUMS.update(dict.fromkeys(names, row))


def sum_row(step: WeightedStep) -> SumRow | None:
    """How a call's sum is anchored; None if it takes none, or none that can be."""
    row = SUMS.get(step.call.name)
    return row if row is not None and step.call.axes and row.applies(step) else None
