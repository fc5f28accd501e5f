"""Torch functions that depend on how many samples there are: which they are, and why."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import Tensor
from torch.overrides import resolve_name

from quadnorm.measures.base import Shape

COUNTED = "a reduction over samples, each counted the same"
PICKED = (
    "picks from the samples: no sum, no measure to set; finer grids give it more to pick from, O(h²) on smooth fields"
)
SHARED = "shares out over samples, each counted the same"
KERNELS = "a convolution with kernels of a fixed number of samples"
POOLS = "pools a fixed number of samples"
SHIFTED = "differences or shifts by a number of samples"

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
NORMS = ("group_norm", "instance_norm", "layer_norm", "rms_norm")
PRODUCTS = {"matmul": 0, "bmm": 0, "mm": 0, "mv": 0, "__matmul__": 0, "baddbmm": 1, "addmm": 1, "addbmm": 1}
PIXELS = {
    "pad": "padding by a number of samples",
    "interpolate": "a resampling to a number of samples",
    "unfold": "patches of a fixed number of samples",
}


NO_SUMS = (PICKED, SHIFTED, *PIXELS.values(), KERNELS, POOLS)


class Calls:
    """Tells which calls depend on the resolution of the grid, by the sizes of what they are given."""

    def __init__(self, resolution: Shape) -> None:
        self.resolution = resolution
        self.sizes = {n for n in (*resolution, prod(resolution)) if n > 1}

    def why(self, func: Any, args: Any, kwargs: Any, result: Any) -> str:
        """The reason, or "" if the call does not depend on the resolution."""
        name, path = getattr(func, "__name__", ""), resolve_name(func) or ""
        x = next((t for t in tensors([args, kwargs]) if self._axes(t)), None)
        if x is None:
            return ""
        if "fft" in path and name.removeprefix("fft_").removeprefix("i").startswith(("rfft", "fft", "hfft")):
            still = "freq" in name or "shift" in name
            return "" if still else "a Fourier transform of samples: its period moves with the resolution"
        if name in NORMS:
            shape = args[1] if len(args) > 1 else kwargs.get("normalized_shape", ())
            over_space = name in NORMS[:2] or bool(self.sizes & set(shape))
            return "a norm that counts samples" if over_space else ""
        if name in REDUCTIONS:
            y = next(iter(tensors(result)), None)
            return REDUCTIONS[name] if y is not None and self._axes(y) < self._axes(x) else ""
        if name in ALONG:
            return ALONG[name] if self._along(name, x, args, kwargs) else ""
        if name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
            return "softmax attention over samples, each counted the same"
        if name in PRODUCTS:
            given = tensors(args)[PRODUCTS[name] :]
            summed = bool(given) and len(self.sizes) > 1 and given[0].shape[-1] == max(self.sizes)
            return "a matrix product that sums over samples" if summed else ""
        if name == "einsum" and isinstance(args[0], str) and "->" in args[0] and "." not in args[0]:
            return self._contracted(args[0].replace(" ", ""), tensors(args[1:]))
        if name == "tensordot":
            y = next(iter(tensors(result)), None)
            return "a contraction over samples, each counted the same" if y is not None and not self._axes(y) else ""
        return _pixels(name, args, kwargs)

    def _axes(self, t: Tensor) -> int:
        return sum(n in self.sizes for n in t.shape)

    def _along(self, name: str, x: Tensor, args: Any, kwargs: Any) -> bool:
        """Whether the axis that the call works along has the grid's size; where none is named, whether any has."""
        at = {"normalize": 2, "gumbel_softmax": 4, "roll": 2, "diff": 2}.get(name, 1)
        dim = kwargs.get(
            "dim", kwargs.get("dims", args[at] if len(args) > at else {"normalize": 1, "diff": -1}.get(name))
        )
        dims = range(x.ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
        return any(isinstance(k, int) and x.shape[k] in self.sizes for k in dims)

    def _contracted(self, equation: str, operands: list[Tensor]) -> str:
        """Whether an einsum sums over all samples: their number, or every axis of the grid, is gone from its output."""
        inputs, output = equation.split("->")
        size = {
            k: n
            for word, t in zip(inputs.split(","), operands, strict=True)
            for k, n in zip(word, t.shape, strict=True)
        }
        lost = [n for k, n in size.items() if k not in output]
        gone = prod(self.resolution) in lost or all(lost.count(n) >= self.resolution.count(n) for n in self.resolution)
        return "a contraction over samples, each counted the same" if gone else ""


def _pixels(name: str, args: Any, kwargs: Any) -> str:
    if name in ("conv1d", "conv2d", "conv3d"):
        weight = args[1] if len(args) > 1 else kwargs["weight"]
        pointwise = all(k == 1 for k in weight.shape[2:])
        return "" if pointwise else KERNELS
    if name.startswith("adaptive_avg_pool"):
        return COUNTED
    if name.startswith("adaptive_max_pool"):
        return PICKED
    if name.startswith(("avg_pool", "max_pool", "lp_pool", "fractional_max_pool")):
        return POOLS
    return PIXELS.get(name, "")


def tensors(value: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    return [t for v in value for t in tensors(v)] if isinstance(value, (tuple, list)) else []
