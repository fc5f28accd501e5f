"""The arguments of the functions that matter here, by name, whether given by position or by keyword."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.trees import TENSOR

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
