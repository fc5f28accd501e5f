"""Which kernel runs: numba's where it is installed and serves, torch's otherwise.

``QUADNORM_KERNEL=torch`` or ``numba`` in the environment forces one; :func:`use_kernel` does so for a block of code.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.norms.kernels import blocked
from quadnorm.norms.kernels.memory import empty_like

KERNELS = ("auto", "numba", "torch")
_forced: list[str] = []


def requested() -> str:
    """The kernel that was asked for: ``auto``, ``numba`` or ``torch``."""
    name = _forced[-1] if _forced else os.environ.get("QUADNORM_KERNEL", "auto").strip().lower() or "auto"
    if name not in KERNELS:
        raise ValueError(unknown("kernel in QUADNORM_KERNEL", name, KERNELS))
    if name == "numba" and find_spec("numba") is None:
        raise ImportError("the numba kernel was asked for, but numba is not installed: pip install 'quadnorm[fast]'")
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


def numba_serves(x: Tensor) -> bool:
    """Whether x goes to the numba kernel: float32 or float64 on the CPU, and the kernel is there."""
    name = requested()
    if name == "torch" or x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return False
    return _kernel() is not None and not _Fork.happened


@cache
def _kernel() -> ModuleType | None:
    """The kernel's module; importing it is left to the first use, so that ``import quadnorm`` stays free of numba."""
    if find_spec("numba") is None:
        return None
    from quadnorm.norms.kernels import numba as numba_kernel

    return numba_kernel


class _Fork:
    """OpenMP threads do not survive a fork, and numba ends a process that tries: children take the torch kernel."""

    happened = False

    @classmethod
    def note(cls) -> None:
        cls.happened = _kernel.cache_info().currsize > 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Fork.note)

_one_at_a_time = threading.Lock()


def _run(name: str, rows: int, *arguments: Any) -> None:
    kernel = _kernel()
    assert kernel is not None
    single_file = _not_threadsafe()
    threads = min(torch.get_num_threads(), kernel.MAX_THREADS)
    if kernel.get_num_threads() != threads:
        kernel.set_num_threads(threads)
    # Whole rows reuse the cache; too few or unevenly many would leave threads idle.
    even = rows >= 4 * threads or rows % threads == 0
    run = getattr(kernel, name + ("_rows" if even else "_blocks"))
    arrays = [a.numpy() if isinstance(a, Tensor) else a for a in arguments]
    if single_file:
        with _one_at_a_time:
            run(*arrays)
    else:
        run(*arrays)


@cache
def _not_threadsafe() -> bool:
    """Numba's own work queue aborts when two threads enter it; its OpenMP and TBB layers do not."""
    from numba.np.ufunc import parallel  # untyped

    layer: Any = parallel

    # Numba's OpenMP layer is torch's too: starting it sets the number of threads of both to that of the machine.
    before = torch.get_num_threads()
    layer._launch_threads()
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)
    return bool(layer.threading_layer() == "workqueue")


def forward(
    x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    """See :func:`quadnorm.norms.kernels.blocked.forward`; x (B, C, N) contiguous, of any floating dtype."""
    if x.dtype in (torch.float16, torch.bfloat16):  # the float32 result, rounded: to the last bit, whatever the kernel
        y, stats = forward(x.float(), w, weight, bias, groups, eps, centre)
        return y.to(x.dtype), stats
    if x.numel() == 0 or not numba_serves(x):
        return blocked.forward(x, w, weight, bias, groups, eps, centre)
    B, C, _ = x.shape
    y = empty_like(x)
    stats = torch.empty(3, B, groups, dtype=x.dtype)
    weight = torch.ones(C, dtype=x.dtype) if weight is None else weight.detach().contiguous()
    bias = torch.zeros(C, dtype=x.dtype) if bias is None else bias.detach().contiguous()
    _run("forward", B * groups, x.detach(), w.detach().contiguous(), weight, bias, eps, centre, y, stats)
    return y, stats


def backward(
    g: Tensor, x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    """See :func:`quadnorm.norms.kernels.blocked.backward`; g and x (B, C, N) contiguous, of any floating dtype."""
    if x.dtype in (torch.float16, torch.bfloat16):
        dx, sums = backward(g.float(), x.float(), w, weight, stats, eps, centre)
        return dx.to(x.dtype), sums
    if x.numel() == 0 or not numba_serves(x):
        return blocked.backward(g, x, w, weight, stats, eps, centre)
    B, C, _ = x.shape
    dx = empty_like(x)
    sums = torch.empty(2, B, C, dtype=x.dtype)
    weight = torch.ones(C, dtype=x.dtype) if weight is None else weight.detach().contiguous()
    _run(
        "backward",
        B * stats.shape[2],
        g.detach(),
        x.detach(),
        w.detach().contiguous(),
        weight,
        stats.detach(),
        centre,
        dx,
        sums,
    )
    return dx, sums
