"""Which kernel runs: Triton's on GPUs, numba's on the CPU, where they are installed and serve; torch's otherwise.

``QUADNORM_KERNEL=torch``, ``numba`` or ``triton``
in the environment forces one; :func:`use_kernel` does so for a block of code.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.norms.kernels import blocked, memory
from quadnorm.norms.kernels.formula import memory_format
from quadnorm.norms.kernels.inputs import Inputs
from quadnorm.norms.kernels.triton import choice

KERNELS = ("auto", "numba", "torch", "triton")
EXTRAS = {"numba": "fast", "triton": "triton"}
HALF = (torch.float16, torch.bfloat16)
NUMBA = (torch.float32, torch.float64)  # what the numba kernel is compiled for
_forced: list[str] = []


def requested() -> str:
    """The kernel that was asked for: ``auto``, ``numba``, ``torch`` or ``triton``."""
    name = _forced[-1] if _forced else os.environ.get("QUADNORM_KERNEL", "auto").strip().lower() or "auto"
    if name not in KERNELS:
        raise ValueError(unknown("kernel in QUADNORM_KERNEL", name, KERNELS))
    if name in EXTRAS and find_spec(name) is None:
        command = f"pip install 'quadnorm[{EXTRAS[name]}]'"
        raise ImportError(f"the {name} kernel was asked for, but {name} is not installed: {command}")
    return name


@contextmanager
def use_kernel(name: str) -> Iterator[None]:
    """Force a kernel inside a ``with`` block, for tests and benchmarks.

    >>> with use_kernel("torch"):
    ...     requested()
    'torch'
    """
    _forced.append(name)
    try:
        requested()
        yield
    finally:
        _forced.pop()


def triton_serves(x: Tensor) -> bool:
    """Whether x goes to the Triton kernel: float32 or shorter on a GPU, or on the CPU if asked for and interpreted."""
    if x.device.type == "cpu" and not _forced and "QUADNORM_KERNEL" not in os.environ:
        return False
    return choice.serves(x, requested())


def numba_serves(x: Tensor) -> bool:
    """Whether x goes to the numba kernel: float32 or float64 on the CPU, and the kernel is there and may run."""
    if x.device.type != "cpu" or x.dtype not in NUMBA or x.numel() == 0:
        return False
    if (_forced or "QUADNORM_KERNEL" in os.environ) and requested() == "torch":
        return False
    return numba_kernel() is not None


@cache
def numba_kernel() -> ModuleType | None:
    """The kernel's module, or None where it cannot run; imported on first use, so that ``import quadnorm`` is quick."""
    if find_spec("numba") is None or _Fork.ended_numbas_threads or (_numba_has_threads() and _is_forked()):
        return None
    from quadnorm.norms.kernels.numba import launch as kernel

    return kernel


def _numba_has_threads() -> bool:
    """Whether anybody, we or the user's own code, has started numba's threads."""
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    return bool(getattr(parallel, "_is_initialized", False))


def _is_forked() -> bool:
    """Whether ``multiprocessing`` forked this process, perhaps before this module could notice."""
    return multiprocessing.parent_process() is not None and multiprocessing.get_start_method(allow_none=True) == "fork"


class _Fork:
    """OpenMP threads do not survive a fork, and numba ends a process that tries: children take the torch kernel."""

    ended_numbas_threads = False

    @classmethod
    def happened(cls) -> None:
        cls.ended_numbas_threads |= _numba_has_threads()
        numba_kernel.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Fork.happened)


def forward(given: Inputs) -> tuple[Tensor, Tensor]:
    """Output like x (B, C, *spatial), and the statistics (3, B, G): high and low part of the mean, and rstd."""
    x = given.x
    if x.dtype in HALF and not triton_serves(x):  # the float32 result, rounded: to the last bit, whatever the kernel
        y, stats = forward(given._replace(x=x.float()))
        return y.to(x.dtype), stats
    flat, y = _prepared(given)
    stats = torch.empty(3, x.shape[0], given.groups, dtype=flat.w.dtype, device=x.device)
    _kernel(flat.x).forward(flat, y.view(flat.x.shape), stats)
    return y if x.is_contiguous() else y.contiguous(memory_format=memory_format(x)), stats


def backward(given: Inputs, g: Tensor, stats: Tensor, wrt_w: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradient like x, Σ g and Σ g·ŷ over the samples, (2, B, C), and the weights' gradient if asked for."""
    x = given.x
    if x.dtype in HALF and not triton_serves(x):
        dx, sums, dw = backward(given._replace(x=x.float()), g.float(), stats, wrt_w)
        return dx.to(x.dtype), sums, dw
    flat, dx = _prepared(given)
    sums = torch.empty(2, *x.shape[:2], dtype=flat.w.dtype, device=x.device)
    flat_g, flat_dx = g.detach().contiguous().view(flat.x.shape), dx.view(flat.x.shape)
    dw = _kernel(flat.x).backward(flat, flat_g, stats, flat_dx, sums, wrt_w)
    return dx if x.is_contiguous() else dx.contiguous(memory_format=memory_format(x)), sums, dw


def _kernel(x: Tensor) -> Any:
    if x.device.type == "cpu" and not _forced and "QUADNORM_KERNEL" not in os.environ:  # nearly always: ask no more
        return (numba_kernel() if x.dtype in NUMBA and x.numel() else None) or blocked
    return choice.kernel() if triton_serves(x) else numba_kernel() if numba_serves(x) else blocked


def _prepared(given: Inputs) -> tuple[Inputs, Tensor]:
    """The same call with x contiguous, as (B, C, N), and memory for a result in the shape of x.

    The result itself must not be a view: autograd forbids operations in place on a view that a function returns.
    """
    x, w = given.x.detach().contiguous(), given.w.detach()
    result = torch.empty_like(x)
    if result.nbytes >= memory.LARGE:
        memory.ask_for_huge_pages(result)
    return given._replace(x=x.view(*x.shape[:2], w.shape[1]), w=w), result
