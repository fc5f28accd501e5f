"""Why a call depends on the number of samples, told by the sizes of its tensors in one run on the training grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import Tensor
from torch.overrides import resolve_name

from quadnorm.adapt.report import Reason
from quadnorm.adapt.trees import tensors
from quadnorm.measures.base import Shape

ATTENDED, COUNTED, FOURIER, NORMED = (getattr(Reason, n).value for n in ("ATTENDED", "COUNTED", "FOURIER", "NORMED"))
PADDED, PATCHES, POOLS = (getattr(Reason, n).value for n in ("PADDED", "PATCHES", "POOLS"))
SHARED, SHIFTED = (getattr(Reason, n).value for n in ("SHARED", "SHIFTED"))
PICKED = (
    "picks from the samples: no sum, no measure to set; finer grids give it more to pick from, O(h²) on smooth fields"
)
KERNELS = "a convolution with kernels of a fixed number of samples"

REDUCTIONS = {
    **dict.fromkeys(("mean", "sum", "nanmean", "nansum", "prod", "var", "std", "var_mean", "std_mean"), COUNTED),
    **dict.fromkeys(("norm", "linalg_norm", "linalg_vector_norm", "linalg_matrix_norm", "logsumexp"), COUNTED),
    **dict.fromkeys(("trapezoid", "trapz", "cosine_similarity", "dist"), COUNTED),
    **dict.fromkeys(("amax", "amin", "aminmax", "max", "min", "median", "nanmedian", "quantile"), PICKED),
}
ALONG = {
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "gumbel_softmax", "normalize"), SHARED),
    **dict.fromkeys(("cumsum", "cumprod", "cumulative_trapezoid"), COUNTED),
    **dict.fromkeys(("roll", "diff", "gradient"), SHIFTED),
}
PRODUCT = "a matrix product that sums over samples"
CONTRACTION = "a contraction over samples, each counted the same"

CHANNEL_NORMS = ("group_norm", "instance_norm")  # over space by their definition
SHAPED_NORMS = ("layer_norm", "rms_norm")  # over space if the normalized shape has the grid's axes
# Where the two factors begin among the arguments.
PRODUCTS = {"matmul": 0, "bmm": 0, "mm": 0, "mv": 0, "__matmul__": 0, "baddbmm": 1, "addmm": 1, "addbmm": 1}
PIXELS = {
    "pad": PADDED,
    "interpolate": "a resampling to a number of samples",
    "unfold": PATCHES,
}
POOLINGS = {  # by how the name begins
    "adaptive_avg_pool": COUNTED,
    "adaptive_max_pool": PICKED,
    **dict.fromkeys(("avg_pool", "max_pool", "lp_pool", "fractional_max_pool"), POOLS),
}
NO_SUMS = (PICKED, SHIFTED, *PIXELS.values(), KERNELS, POOLS)


@dataclass(frozen=True)
class SizedCall:
    """One call of a torch function with a field among its arguments, on a grid of known sizes."""

    resolution: Shape
    name: str
    field: Tensor
    args: Any
    kwargs: Any
    result: Any

    @property
    def sizes(self) -> set[int]:
        """Numbers that stand for samples: those of each axis, and of all."""
        return grid_sizes(self.resolution)

    def axes_left(self) -> int | None:
        """How many axes of the grid the result has; None if it is no tensor."""
        y = next(iter(tensors(self.result)), None)
        return None if y is None else grid_axes(y, self.sizes)


def _reduction(c: SizedCall) -> str:
    axes = c.axes_left()
    return REDUCTIONS[c.name] if axes is not None and axes < grid_axes(c.field, c.sizes) else ""


def _along(c: SizedCall) -> str:
    """Whether the axis that the call works along has the grid's size; where none is named, whether any has."""
    at = {"normalize": 2, "gumbel_softmax": 4, "roll": 2, "diff": 2}.get(c.name, 1)
    default = {"normalize": 1, "diff": -1}.get(c.name)
    dim = c.kwargs.get("dim", c.kwargs.get("dims", c.args[at] if len(c.args) > at else default))
    dims = range(c.field.ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    return ALONG[c.name] if any(isinstance(k, int) and c.field.shape[k] in c.sizes for k in dims) else ""


def _shaped_norm(c: SizedCall) -> str:
    shape = c.args[1] if len(c.args) > 1 else c.kwargs.get("normalized_shape", ())
    return NORMED if c.sizes & set(shape) else ""


def _product(c: SizedCall) -> str:
    factors = tensors(c.args)[PRODUCTS[c.name] :]
    summed = bool(factors) and len(c.sizes) > 1 and factors[0].shape[-1] == max(c.sizes)
    return PRODUCT if summed else ""


def _einsum(c: SizedCall) -> str:
    """Whether it sums over all samples: their number, or every axis of the grid, is gone from its output."""
    equation = c.args[0]
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return ""
    inputs, output = equation.replace(" ", "").split("->")
    pairs = zip(inputs.split(","), tensors(c.args[1:]), strict=True)
    size = {k: n for letters, t in pairs for k, n in zip(letters, t.shape, strict=True)}
    lost = [n for k, n in size.items() if k not in output]
    gone = prod(c.resolution) in lost or all(lost.count(n) >= c.resolution.count(n) for n in c.resolution)
    return CONTRACTION if gone else ""


def _convolution(c: SizedCall) -> str:
    weight = c.args[1] if len(c.args) > 1 else c.kwargs["weight"]
    return "" if all(k == 1 for k in weight.shape[2:]) else KERNELS


def _always(reason: str) -> Callable[[SizedCall], str]:
    return lambda c: reason


RULES: dict[str, Callable[[SizedCall], str]] = {
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(ALONG, _along),
    **dict.fromkeys(CHANNEL_NORMS, _always(NORMED)),
    **dict.fromkeys(SHAPED_NORMS, _shaped_norm),
    **dict.fromkeys(PRODUCTS, _product),
    **dict.fromkeys(("scaled_dot_product_attention", "multi_head_attention_forward"), _always(ATTENDED)),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **{name: _always(reason) for name, reason in PIXELS.items()},
    "einsum": _einsum,
    "tensordot": lambda c: CONTRACTION if c.axes_left() == 0 else "",
}


def why_it_depends(resolution: Shape, func: Any, args: Any, kwargs: Any, result: Any) -> str:
    """Why a call depends on the number of samples, told by the sizes of what it is given; "" if it does not.

    >>> import torch
    >>> x = torch.rand(1, 3, 9, 9)
    >>> why_it_depends((9, 9), torch.mean, (x, (2, 3)), {}, x.mean((2, 3)))
    'a reduction over samples, each counted the same'
    """
    sizes = grid_sizes(resolution)
    field = next((t for t in tensors([args, kwargs]) if grid_axes(t, sizes)), None)
    if field is None:
        return ""
    name, path = getattr(func, "__name__", ""), resolve_name(func) or ""
    if "fft" in path and name.removeprefix("fft_").removeprefix("i").startswith(("rfft", "fft", "hfft")):
        return "" if "freq" in name or "shift" in name else FOURIER
    rule = RULES.get(name)
    if rule is not None:
        return rule(SizedCall(resolution, name, field, args, kwargs, result))
    return next((reason for begin, reason in POOLINGS.items() if name.startswith(begin)), "")


def grid_sizes(resolution: Shape) -> set[int]:
    """Numbers that stand for samples: those of each axis, and of all."""
    return {n for n in (*resolution, prod(resolution)) if n > 1}


def grid_axes(t: Tensor, sizes: set[int]) -> int:
    """How many axes of a tensor have the size of the grid's."""
    return sum(n in sizes for n in t.shape)
