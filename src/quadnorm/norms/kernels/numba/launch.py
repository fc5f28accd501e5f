"""Forward and backward of the weighted norm by the CPU programs: threads, and which program a shape takes."""

from __future__ import annotations

import threading
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
_one_at_a_time = threading.Lock()


def forward(given: Inputs, y: Tensor, stats: Tensor) -> None:
    """Write y like x (B, C, *spatial) and the statistics (3, B, G). All tensors are contiguous and of one dtype."""
    x, w, weight, bias, _, eps, centre, _ = given
    gamma = x.new_ones(x.shape[1]) if weight is None else weight
    beta = x.new_zeros(x.shape[1]) if bias is None else bias
    inputs = x.data_ptr(), w.data_ptr(), gamma.data_ptr(), beta.data_ptr(), float(eps), centre
    _run(programs.forward_rows, programs.forward_blocks, given, *inputs, y.data_ptr(), stats.data_ptr())


def backward(given: Inputs, g: Tensor, stats: Tensor, dx: Tensor, wrt_w: bool) -> ParameterGradients:
    """Write dx like x; return the parameters' gradients."""
    x, w, weight, _, _, _, centre, _ = given
    B, C = x.shape[:2]
    gamma = x.new_ones(C) if weight is None else weight
    sums, dbeta, dgamma = w.new_empty((2, B, C)), w.new_empty((C,)), w.new_empty((C,))
    inputs = g.data_ptr(), x.data_ptr(), w.data_ptr(), gamma.data_ptr(), stats.data_ptr(), centre
    outputs = dx.data_ptr(), sums.data_ptr(), dbeta.data_ptr(), dgamma.data_ptr()
    _run(programs.backward_rows, programs.backward_blocks, given, *inputs, *outputs)
    return dbeta, dgamma, weights_gradient(given, stats, sums) if wrt_w else None


def _run(by_rows: Any, by_blocks: Any, given: Inputs, *arguments: Any) -> None:
    """Call a program. Whoever calls this keeps the tensors whose addresses it gives."""
    single_file = _not_threadsafe()
    threads = min(torch.get_num_threads(), MAX_THREADS)
    if _parallel._get_num_threads() != threads:  # numba's own function takes two locks first
        set_num_threads(threads)
    B, C = given.x.shape[:2]
    rows_of_w, N = given.w.shape
    # Whole rows reuse the cache; too few or unevenly many would leave threads idle.
    rows = B * given.groups
    program = by_rows if rows >= 4 * threads or rows % threads == 0 else by_blocks
    sizes = KINDS[given.x.dtype], B, C, N, given.groups, rows_of_w
    if single_file:
        with _one_at_a_time:
            program(*sizes, *arguments)
    else:
        program(*sizes, *arguments)


@cache
def _not_threadsafe() -> bool:
    """Numba's own work queue aborts when two threads enter it; its OpenMP and TBB layers do not."""
    # Numba's OpenMP layer is torch's too: starting it sets the number of threads of both to that of the machine.
    before = torch.get_num_threads()
    _parallel._launch_threads()
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)
    return bool(_parallel.threading_layer() == "workqueue")
