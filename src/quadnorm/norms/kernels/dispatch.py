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
from quadnorm.norms.kernels.inputs import Inputs, ParameterGradients, is_channels_last
from quadnorm.norms.kernels.triton import choice

KERNELS = ("auto", "numba", "torch", "triton")
EXTRAS = {"numba": "fast", "triton": "triton"}
HALF = (torch.float16, torch.bfloat16)
NUMBA = (torch.float32, torch.float64, torch.bfloat16)  # what the numba kernel is compiled for
_forced: list[str] = []


def requested() -> str:
    """The kernel that was asked for: ``auto``, ``numba``, ``torch`` or ``triton``."""
    if _forced:
        return _forced[-1]
    return _checked(os.environ.get("QUADNORM_KERNEL", "auto").strip().lower() or "auto")


def _checked(name: str) -> str:
    if name not in KERNELS:
        raise ValueError(unknown("kernel in QUADNORM_KERNEL", name, KERNELS))
    if name in EXTRAS and find_spec(name) is None:
        command = f"pip install 'quadnorm[{EXTRAS[name]}]'"
        raise ImportError(f"the {name} kernel was asked for, but {name} is not installed: {command}")
    if name == "triton" and not choice.usable():
        oldest = ".".join(map(str, choice.OLDEST))
        raise ImportError(f"the triton kernel was asked for, but it needs Triton {oldest} or newer: take a newer torch")
    return name


def numba_may_run() -> bool:
    """Whether nobody has asked for another kernel, and this one can run in this process."""
    name = requested() if _forced or "QUADNORM_KERNEL" in os.environ else "auto"
    return name in ("auto", "numba") and numba_kernel() is not None


@contextmanager
def use_kernel(name: str) -> Iterator[None]:
    """Force a kernel inside a ``with`` block, for tests and benchmarks.

    >>> with use_kernel("torch"):
    ...     requested()
    'torch'
    """
    _forced.append(_checked(name))
    try:
        yield
    finally:
        _forced.pop()


def triton_serves(x: Tensor) -> bool:
    """Whether x goes to the Triton kernel: float32 or shorter on a GPU, or on the CPU if asked for and interpreted."""
    return choice.serves(x, requested())


def numba_serves(x: Tensor) -> bool:
    """Whether x goes to the numba kernel: of a dtype that it knows, on the CPU, and the kernel is there and may run."""
    if not x.is_cpu or x.dtype not in NUMBA or not x.numel():
        return False
    name = requested()
    if name == "torch" or (name == "triton" and choice.serves(x, name)):
        return False
    return numba_kernel() is not None


@cache
def numba_kernel() -> ModuleType | None:
    """The kernel's module, or None where it cannot run; imported on first use, so that ``import quadnorm`` is quick."""
    if find_spec("numba") is None:
        return None
    from quadnorm.norms.kernels.numba import launch as kernel

    if _Fork.ended_numbas_threads or (_numba_has_threads() and _is_forked()):
        kernel.run_without_threads()
    return kernel


def _numba_has_threads() -> bool:
    """Whether anybody, we or the user's own code, has started numba's threads."""
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    return bool(getattr(parallel, "_is_initialized", False))


def _is_forked() -> bool:
    """Whether ``multiprocessing`` forked this process, perhaps before this module could notice."""
    return multiprocessing.parent_process() is not None and multiprocessing.get_start_method(allow_none=True) == "fork"


class _Fork:
    """OpenMP threads do not survive a fork, and numba ends a process that tries: a child's kernel runs without."""

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
    kernel = _kernel(given)
    if kernel is not None:
        y, stats = result_like(x), given.w.new_empty((3, x.shape[0], given.groups))
        kernel.forward(given, y, stats)
        return y, stats
    y, stats = forward(_put_in_order(given))
    return y.to(x.dtype).contiguous(memory_format=memory_format(x)), stats


def backward(given: Inputs, g: Tensor, stats: Tensor, wrt_w: bool = False) -> tuple[Tensor, *ParameterGradients]:
    """Gradient like x, and those for β, γ and, if asked for, the weights."""
    x = given.x
    kernel = _kernel(given)
    if not stats.is_contiguous() or stats.dtype != given.w.dtype:  # as a hook on saved tensors may leave them
        stats = stats.to(given.w.dtype).contiguous()
    if kernel is not None:
        if g.stride() != x.stride() or g.dtype != x.dtype or g.is_neg():
            g = torch.empty_like(x).copy_(g)
        dx = result_like(x)
        dbeta, dgamma, dw = kernel.backward(given, g, stats, dx, wrt_w)
        return dx, dbeta, dgamma, dw
    given = _put_in_order(given)
    dx, dbeta, dgamma, dw = backward(given, g.to(given.x.dtype), stats, wrt_w)
    return dx.to(x.dtype).contiguous(memory_format=memory_format(x)), dbeta, dgamma, dw


def _kernel(given: Inputs) -> Any:
    """The kernel that serves these inputs as they are; None if they must be put in order first.

    Numbers must lie in memory one after the other, with their own sign, and all but x be of one type.
    """
    x, w = given.x, given.w
    dtype = w.dtype
    contiguous = x.is_contiguous()
    if x.is_neg() or not (contiguous or is_channels_last(x)):
        return None
    for t in given[1:4]:
        if t is not None and (t.dtype != dtype or not t.is_contiguous() or t.is_neg()):
            return None
    name = requested() if _forced or "QUADNORM_KERNEL" in os.environ else "auto"
    if not (x.is_cpu and name in ("auto", "numba")) and choice.serves(x, name):
        return choice.kernel() if contiguous else None
    if x.is_cpu and name != "torch" and x.numel() and x.dtype in NUMBA:
        kernel = numba_kernel()
        if kernel is not None:
            return kernel
    # Half precision is the float32 result, rounded, to the last bit, whatever the kernel.
    return blocked if contiguous and x.dtype == dtype else None


def _put_in_order(given: Inputs) -> Inputs:
    x, w = given.x.detach().resolve_neg(), given.w.detach().resolve_neg().contiguous()
    weight, bias = (None if t is None else t.detach().to(w.dtype).resolve_neg().contiguous() for t in given[2:4])
    triton = triton_serves(x)
    if not triton and not (x.dtype in NUMBA and numba_serves(x)):
        x = x.to(w.dtype)
    if triton or not (is_channels_last(x) and numba_serves(x)):
        x = x.contiguous()
    return Inputs(x, w, weight, bias, *given[4:])


def result_like(x: Tensor) -> Tensor:
    """Memory for a result in the shape of x that lies in memory as x does.

    It must not be a view: autograd forbids operations in place on a view that a function returns.
    """
    result = torch.empty_like(x)
    if result.nbytes >= memory.LARGE:
        memory.ask_for_huge_pages(result)
    return result
