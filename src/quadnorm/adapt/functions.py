"""Torch functions as such: one name for each in whatever form it is called, and its arguments by name."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from torch import Tensor
from torch.overrides import resolve_name

from quadnorm.adapt.trees import TENSOR

PREFIXES = ("fft_", "linalg_", "special_")
OPERATORS = {
    "truediv": "div",
    "rtruediv": "div",
    "itruediv": "div",
    "true_divide": "div",
    "divide": "div",
    "rdiv": "div",
    "idiv": "div",
    "multiply": "mul",
    "rmul": "mul",
    "imul": "mul",
    "radd": "add",
    "iadd": "add",
    "subtract": "sub",
    "rsub": "sub",
    "isub": "sub",
    "rpow": "pow",
    "ipow": "pow",
    "imatmul": "matmul",
    "concat": "cat",
    "concatenate": "cat",
    "vector_norm": "norm",
    "matrix_norm": "norm",
}


@lru_cache(maxsize=4096)
def canonical(func: Any) -> str:
    """The function's own name without its form.

    >>> import torch
    >>> canonical(torch.fft.rfft2), canonical(torch.Tensor.mean), canonical(torch.Tensor.__itruediv__)
    ('rfft2', 'mean', 'div')
    >>> canonical(torch.Tensor.add_), canonical(torch.Tensor.T.__get__)
    ('add', 'T')
    """
    name = getattr(func, "__name__", "") or type(func).__name__
    if name == "__get__":
        return (resolve_name(func) or "").split(".")[-2:][0]
    module = getattr(func, "__module__", None) or ""
    if module.startswith("quadnorm."):
        return f"quadnorm.{getattr(func, '__qualname__', name)}"
    if module == "torch.autograd":
        return f"autograd.{name}"  # not the attribute ``grad`` of a tensor
    name = name.split(".")[0].strip("_")
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return OPERATORS.get(name, name)


@lru_cache(maxsize=4096)
def writes(func: Any) -> bool:
    """Whether the call changes its first argument: ``add_``, ``+=``, ``x[…] = y``."""
    name = (getattr(func, "__name__", "") or "").split(".")[0]
    if name.startswith("__"):
        return name == "__setitem__" or name[2:-2] in ("iadd", "isub", "imul", "itruediv", "ipow", "imatmul", "idiv")
    return name.endswith("_") and not name.startswith("_")


ARITHMETIC = frozenset(["add", "sub", "mul", "div", "pow", "floor_divide", "addcmul", "addcdiv", "sqrt", "lerp"])

JOINED = frozenset(["cat", "stack"])  # fields put beside each other

MEETS = ARITHMETIC | JOINED | {"where", "masked_fill", "maximum", "minimum"}  # fields sample by sample


_REDUCE = ("input", "dim", "keepdim")
_FFT = ("input", "n", "dim", "norm")
_FFTN = ("input", "s", "dim", "norm")
_CONV = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")

PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), _FFT),
    **dict.fromkeys(
        (
            *("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"),
            *("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"),
        ),
        _FFTN,
    ),
    "getitem": ("input", "index"),
    "pad": ("input", "pad", "mode", "value"),
    "group_norm": ("input", "num_groups", "weight", "bias", "eps"),
    "instance_norm": (
        *("input", "running_mean", "running_var", "weight", "bias"),
        *("use_input_stats", "momentum", "eps"),
    ),
    "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps"),
    "rms_norm": ("input", "normalized_shape", "weight", "eps"),
    "batch_norm": ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
    "quadnorm.normalize": ("input", "w", "weight", "bias", "groups", "eps", "centre"),
    "quadnorm.SpectralConv.forward": ("self", "input", "bias", "weights"),
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), ("input", "dim")),
    "normalize": ("input", "p", "dim", "eps"),
    **dict.fromkeys(("matmul", "bmm", "mm", "mv", "rmatmul", "dot", "inner", "outer", "vdot"), ("input", "other")),
    "autograd.grad": ("outputs", "inputs", "grad_outputs"),
    "linear": ("input", "weight", "bias"),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv"), ("onto", "input", "other")),
    "tensordot": ("input", "other", "dims"),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale"),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _CONV),
    **dict.fromkeys(("mean", "sum", "nanmean", "nansum", "logsumexp", "amax", "amin"), _REDUCE),
}

# The functional and the module-level form order some arguments differently: torch.batch_norm, torch.instance_norm.
_LOW_LEVEL = {
    "batch_norm": ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps", "cudnn"),
    "instance_norm": (
        *("input", "weight", "bias", "running_mean", "running_var"),
        *("use_input_stats", "momentum", "eps", "cudnn"),
    ),
}


def bound(name: str, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by name.

    >>> bound("rfft2", ("x", (4, 4)), {"norm": "ortho"})
    {'input': 'x', 's': (4, 4), 'norm': 'ortho'}
    """
    names = PARAMETERS.get(name, ())
    if name in _LOW_LEVEL and len(args) == 9:
        names = _LOW_LEVEL[name]
    given = dict(zip(names, args, strict=False))
    given.update(kwargs)
    if "axis" in given:
        given["dim"] = given.pop("axis")
    if "self" in kwargs and "input" in names:
        given["input"] = given.pop("self")
    return given


def index_items(index: Any, ndim: int) -> list[Any] | None:
    """An index with one item for each of ``ndim`` dimensions; None for one with tensors or new axes.

    >>> index_items((..., slice(1, 3)), 3)
    [slice(None, None, None), slice(None, None, None), slice(1, 3, None)]
    """
    items = list(index) if isinstance(index, tuple) else [index]
    if any(item is None or item is TENSOR or isinstance(item, Tensor) for item in items):
        return None
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (ndim - len(items) + 1)
    return items + [slice(None)] * (ndim - len(items))
