"""Forward and backward of the weighted norm by the CPU programs: threads, and which program a shape takes."""

from __future__ import annotations

import threading
import types
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch
from numba import config, njit, set_num_threads
from numba.np.ufunc import parallel
from torch import Tensor

from quadnorm.norms.kernels.inputs import Inputs, ParameterGradients, is_channels_last, weights_gradient
from quadnorm.norms.kernels.numba import channels_last, programs

MAX_THREADS: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
# What the programs are compiled for; numba knows bfloat16 by its bits only.
KINDS: dict[torch.dtype, Any] = {
    torch.float32: np.float32(0),
    torch.float64: np.float64(0),
    torch.bfloat16: np.uint16(0),
}

_parallel: Any = parallel
_without_threads: list[bool] = []  # not empty where the programs must run in the calling thread


def forward(given: Inputs, y: Tensor, stats: Tensor) -> None:
    """Write y like x (B, C, *spatial), contiguous or with the channels last in memory, and the statistics (3, B, G)."""
    x, w, weight, bias, _, eps, centre, _ = given
    PreparedKernel(x, w).forward(x, weight, bias, eps, centre, y, stats)


def backward(given: Inputs, g: Tensor, stats: Tensor, dx: Tensor, wrt_w: bool) -> ParameterGradients:
    """Write dx like x; return the parameters' gradients."""
    sums, dbeta, dgamma = PreparedKernel(given.x, given.w).backward(given.x, given.weight, given.centre, g, stats, dx)
    return dbeta, dgamma, weights_gradient(given, stats, sums) if wrt_w else None


class PreparedKernel:
    """The programs for tensors like x and one set of weights w (1 or B, N), ready to be called.

    A layer keeps it from one call to the next. On small fields, what a call does besides running the program is a good
    part of its time: Python that the field has displaced from the cache. All of it that stays the same is done here.
    """

    __slots__ = ("_address", "_entrance", "_neutral", "_sizes", "channels_last", "dtype", "of_x", "per_channel", "w")

    def __init__(self, x: Tensor, w: Tensor) -> None:
        self.w, self.dtype, self._address = w, w.dtype, w.data_ptr()
        self.of_x, self.channels_last = x.dtype, not x.is_contiguous()
        self._sizes = KINDS[x.dtype], KINDS[w.dtype], x.shape[0], x.shape[1], w.shape[1], w.shape[0]
        self.per_channel = x.shape[1:2]  # the shape of γ and β
        self._neutral: tuple[Tensor, Tensor] | None = None
        self._entrance = _entrance()

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centre: bool, y: Tensor, stats: Tensor
    ) -> None:
        """Write y like x (B, C, *spatial) and the statistics (3, B, G); γ, β and the statistics are of w's dtype."""
        weight, bias = self._one(1) if weight is None else weight, self._one(0) if bias is None else bias
        gamma, beta = weight.data_ptr(), bias.data_ptr()
        kind, real, B, C, N, rows_of_w = self._sizes
        G, threads = stats.shape[2], _threads()
        rows = B * G
        program = programs.forward_rows if rows >= 4 * threads or rows % threads == 0 else programs.forward_blocks
        if self.channels_last:
            program = channels_last.forward
        if _without_threads:
            program = _in_one_thread(program)
        with self._entrance:
            program(
                kind, real, B, C, N, G, rows_of_w, threads, x.data_ptr(), self._address, gamma, beta, float(eps),
                centre, y.data_ptr(), stats.data_ptr(),
            )  # fmt: skip

    def backward(
        self, x: Tensor, weight: Tensor | None, centre: bool, g: Tensor, stats: Tensor, dx: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Write dx like x; return Σ g and Σ g·ŷ over the samples, (2, B, C), and over the batch too, (C,) each."""
        weight = self._one(1) if weight is None else weight
        gamma = weight.data_ptr()
        kind, real, B, C, N, rows_of_w = self._sizes
        G, threads = stats.shape[2], _threads()
        rows = B * G
        sums, dbeta, dgamma = stats.new_empty((2, B, C)), stats.new_empty((C,)), stats.new_empty((C,))
        program = programs.backward_rows if rows >= 4 * threads or rows % threads == 0 else programs.backward_blocks
        if self.channels_last:
            program = channels_last.backward
        if _without_threads:
            program = _in_one_thread(program)
        with self._entrance:
            program(
                kind, real, B, C, N, G, rows_of_w, threads, g.data_ptr(), x.data_ptr(), self._address, gamma,
                stats.data_ptr(), centre, dx.data_ptr(), sums.data_ptr(), dbeta.data_ptr(), dgamma.data_ptr(),
            )  # fmt: skip
        return sums, dbeta, dgamma

    def serves(self, x: Tensor) -> bool:
        """Whether a plain x of the right shape and device also lies in memory as the programs expect it."""
        if x.dtype != self.of_x or x.is_neg():
            return False
        return is_channels_last(x) if self.channels_last else x.is_contiguous()

    def reads(self, x: Tensor, weight: Tensor | None, stats: Tensor) -> bool:
        """Whether what was saved for the derivative lies in memory as the forward left it.

        Hooks on saved tensors may give back other strides, or another precision.
        """
        for t in (weight, stats):
            if t is not None and (t.dtype != self.dtype or not t.is_contiguous() or not t.is_cpu):
                return False
        return x.is_cpu and self.serves(x)

    def _one(self, value: int) -> Tensor:
        """The numbers 0 … 0 or 1 … 1, one per channel. The caller holds them: another thread may replace the pair."""
        pair = self._neutral
        if pair is None:
            C = self._sizes[3]
            pair = self._neutral = self.w.new_zeros(C), self.w.new_ones(C)
        return pair[value]


def run_without_threads() -> None:
    """From now on let the programs run in the thread that calls them, with the same bits.

    Threads do not survive a fork, and numba ends a process that asks for them again.
    """
    _without_threads.append(True)


@cache
def _in_one_thread(program: Any) -> Any:
    """The same program, compiled without threads."""
    source = program.py_func
    # Under another name: in the disk cache it would otherwise be taken for the one with threads.
    name = f"{source.__name__}_in_one_thread"
    copy = types.FunctionType(source.__code__, source.__globals__, name, source.__defaults__, source.__closure__)
    copy.__qualname__, copy.__module__ = name, source.__module__
    return njit(nogil=True, cache=True, error_model="numpy")(copy)


def _threads() -> int:
    """Threads of the programs: as many as torch's."""
    if _without_threads:
        return 1
    threads = min(torch.get_num_threads(), MAX_THREADS)
    if _parallel._get_num_threads() != threads:  # numba's own function takes two locks first
        set_num_threads(threads)
    return threads


@cache
def _entrance() -> AbstractContextManager[Any]:
    """Where calls pass: one at a time for numba's own work queue, which aborts when two threads enter it.

    Its OpenMP and TBB layers let all of them in.
    """
    if _without_threads:
        return nullcontext()
    # Numba's OpenMP layer is torch's too: starting it sets the number of threads of both to that of the machine.
    before = torch.get_num_threads()
    _parallel._launch_threads()
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)
    return threading.Lock() if _parallel.threading_layer() == "workqueue" else nullcontext()
