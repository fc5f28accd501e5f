"""Which tensors go to the Triton kernel. Importing this needs no Triton."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)  # float64 is left to PyTorch's operations

OLDEST = (3, 6)  # pyproject.toml's bound; torch for CUDA brings it from 2.10 on, and older Tritons before


@cache
def usable() -> bool:
    """Whether a Triton is installed that the kernel was written for and tested with."""
    if find_spec("triton") is None:
        return False
    import triton

    return tuple(map(int, re.findall(r"\d+", triton.__version__)[:2])) >= OLDEST


@cache
def kernel() -> Any:
    """The module with ``forward`` and ``backward``, or None without a usable Triton; imported on first use."""
    if not usable():
        return None
    from quadnorm.norms.kernels.triton import launch

    return launch


def serves(x: Tensor, requested: str) -> bool:
    """Whether x goes to the kernel, where ``requested`` is the kernel that was asked for.

    ``auto`` takes it for CUDA and ROCm tensors; ``triton`` also for CPU tensors in Triton's interpreter.

    >>> serves(torch.ones(1, 1, 4), "auto"), serves(torch.ones(1, 1, 4).double(), "triton")
    (False, False)
    """
    if requested not in ("auto", "triton") or x.dtype not in DTYPES or x.numel() == 0:
        return False
    if x.device.type == "cuda":
        return kernel() is not None
    if x.device.type != "cpu" or requested != "triton":
        return False
    launch = kernel()
    return launch is not None and launch.interpreted()
