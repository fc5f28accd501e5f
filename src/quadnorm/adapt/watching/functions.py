"""Torch functions as such: one name for each in whatever form it is called, and families of them."""

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
