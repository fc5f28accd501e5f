"""Forward and backward of the weighted norm by the CPU programs: threads, and which program a shape takes."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch
from numba import config, set_num_threads
from numba.np.ufunc import parallel
from torch import Tensor

from quadnorm.norms.kernels.inputs import Inputs, ParameterGradients, weights_gradient
from quadnorm.norms.kernels.numba import programs

MAX_THREADS: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
KINDS = {torch.float32: np.float32(0), torch.float64: np.float64(0)}  # what the programs are compiled for

_parallel: Any = parallel


def forward(given: Inputs, y: Tensor, stats: Tensor) -> None:
    """Write y like x (B, C, *spatial) and the statistics (3, B, G). All tensors are contiguous and of one dtype."""
    x, w, weight, bias, _, eps, centre, _ = given
    Ready(x.shape, w).forward(x, weight, bias, eps, centre, y, stats)


def backward(given: Inputs, g: Tensor, stats: Tensor, dx: Tensor, wrt_w: bool) -> ParameterGradients:
    """Write dx like x; return the parameters' gradients."""
    sums, dbeta, dgamma = Ready(given.x.shape, given.w).backward(given.x, given.weight, given.centre, g, stats, dx)
    return dbeta, dgamma, weights_gradient(given, stats, sums) if wrt_w else None


class Ready:
    """The programs for one shape of x and one set of weights w (1 or B, N), ready to be called.

    A layer keeps it from one call to the next. On small fields, what a call does besides running the program is a good
    part of its time: Python that the field has displaced from the cache. All of it that stays the same is done here.
    """

    __slots__ = ("_address", "_entrance", "_neutral", "_sizes", "dtype", "per_channel", "w")

    def __init__(self, shape: torch.Size, w: Tensor) -> None:
        self.w, self.dtype, self._address = w, w.dtype, w.data_ptr()
        self._sizes = KINDS[w.dtype], shape[0], shape[1], w.shape[1], w.shape[0]
        self.per_channel = shape[1:2]  # the shape of γ and β
        self._neutral: tuple[Tensor, Tensor] | None = None
        self._entrance = _entrance()

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centre: bool, y: Tensor, stats: Tensor
    ) -> None:
        """Write y like x (B, C, *spatial) and the statistics (3, B, G). All tensors are contiguous and of w's dtype."""
        weight, bias = self._one(1) if weight is None else weight, self._one(0) if bias is None else bias
        gamma, beta = weight.data_ptr(), bias.data_ptr()
        kind, B, C, N, rows_of_w = self._sizes
        G = stats.shape[2]
        program = programs.forward_rows if _by_rows(B * G) else programs.forward_blocks
        with self._entrance:
            program(
                kind, B, C, N, G, rows_of_w, x.data_ptr(), self._address, gamma, beta, float(eps), centre,
                y.data_ptr(), stats.data_ptr(),
            )  # fmt: skip

    def backward(
        self, x: Tensor, weight: Tensor | None, centre: bool, g: Tensor, stats: Tensor, dx: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Write dx like x; return Σ g and Σ g·ŷ over the samples, (2, B, C), and over the batch too, (C,) each."""
        weight = self._one(1) if weight is None else weight
        gamma = weight.data_ptr()
        kind, B, C, N, rows_of_w = self._sizes
        G = stats.shape[2]
        sums, dbeta, dgamma = stats.new_empty((2, B, C)), stats.new_empty((C,)), stats.new_empty((C,))
        program = programs.backward_rows if _by_rows(B * G) else programs.backward_blocks
        with self._entrance:
            program(
                kind, B, C, N, G, rows_of_w, g.data_ptr(), x.data_ptr(), self._address, gamma, stats.data_ptr(), centre,
                dx.data_ptr(), sums.data_ptr(), dbeta.data_ptr(), dgamma.data_ptr(),
            )  # fmt: skip
        return sums, dbeta, dgamma

    def reads(self, *saved: Tensor | None) -> bool:
        """Whether what was saved for the derivative lies in memory as the forward left it.

        Hooks on saved tensors may give back other strides, or another precision.
        """
        for t in saved:
            if t is not None and (t.dtype != self.dtype or not t.is_contiguous() or not t.is_cpu):
                return False
        return True

    def _one(self, value: int) -> Tensor:
        """The numbers 0 … 0 or 1 … 1, one per channel. The caller holds them: another thread may replace the pair."""
        pair = self._neutral
        if pair is None:
            C = self._sizes[2]
            pair = self._neutral = self.w.new_zeros(C), self.w.new_ones(C)
        return pair[value]


def _by_rows(rows: int) -> bool:
    """Whether a task is a whole row, which reuses the cache; too few or unevenly many would leave threads idle."""
    threads = min(torch.get_num_threads(), MAX_THREADS)
    if _parallel._get_num_threads() != threads:  # numba's own function takes two locks first
        set_num_threads(threads)
    return rows >= 4 * threads or rows % threads == 0


@cache
def _entrance() -> AbstractContextManager[Any]:
    """Where calls pass: one at a time for numba's own work queue, which aborts when two threads enter it.

    Its OpenMP and TBB layers let all of them in.
    """
    # Numba's OpenMP layer is torch's too: starting it sets the number of threads of both to that of the machine.
    before = torch.get_num_threads()
    _parallel._launch_threads()
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)
    return threading.Lock() if _parallel.threading_layer() == "workqueue" else nullcontext()
