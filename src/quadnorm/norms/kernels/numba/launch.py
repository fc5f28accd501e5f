"""Forward and backward of the weighted norm by the CPU programs: threads, and which program a shape takes."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import torch
from numba import config, get_num_threads, set_num_threads
from numba.np.ufunc import parallel
from torch import Tensor

from quadnorm.norms.kernels.inputs import Inputs, weights_gradient
from quadnorm.norms.kernels.numba import programs

MAX_THREADS: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]

_one_at_a_time = threading.Lock()


def forward(given: Inputs, y: Tensor, stats: Tensor) -> None:
    """Write y (B, C, N) and the statistics (3, B, G)."""
    x, w, weight, bias, _, eps, centre, _ = given
    gamma = torch.ones(x.shape[1], dtype=x.dtype, device="cpu") if weight is None else weight.detach().contiguous()
    beta = torch.zeros(x.shape[1], dtype=x.dtype, device="cpu") if bias is None else bias.detach().contiguous()
    arguments = [t.numpy() for t in (x, w.contiguous(), gamma, beta)], (eps, centre), [y.numpy(), stats.numpy()]
    _run(programs.forward_rows, programs.forward_blocks, stats, arguments)


def backward(given: Inputs, g: Tensor, stats: Tensor, dx: Tensor, sums: Tensor, wrt_w: bool) -> Tensor | None:
    """Write dx (B, C, N) and the sums Σ g and Σ g·ŷ (2, B, C); return w's gradient if asked for."""
    x, w, weight, _, _, _, centre, _ = given
    gamma = torch.ones(x.shape[1], dtype=x.dtype, device="cpu") if weight is None else weight.detach().contiguous()
    arguments = [t.numpy() for t in (g, x, w.contiguous(), gamma, stats)], (centre,), [dx.numpy(), sums.numpy()]
    _run(programs.backward_rows, programs.backward_blocks, stats, arguments)
    return weights_gradient(given, stats, sums) if wrt_w else None


def _run(by_rows: Any, by_blocks: Any, stats: Tensor, arguments: Any) -> None:
    single_file = _not_threadsafe()
    threads = min(torch.get_num_threads(), MAX_THREADS)
    if get_num_threads() != threads:
        set_num_threads(threads)
    # Whole rows reuse the cache; too few or unevenly many would leave threads idle.
    rows = stats.shape[1] * stats.shape[2]
    kernel = by_rows if rows >= 4 * threads or rows % threads == 0 else by_blocks
    inputs, options, outputs = arguments
    if single_file:
        with _one_at_a_time:
            kernel(*inputs, *options, *outputs)
    else:
        kernel(*inputs, *options, *outputs)


@cache
def _not_threadsafe() -> bool:
    """Numba's own work queue aborts when two threads enter it; its OpenMP and TBB layers do not."""
    layer: Any = parallel
    # Numba's OpenMP layer is torch's too: starting it sets the number of threads of both to that of the machine.
    before = torch.get_num_threads()
    layer._launch_threads()
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)
    return bool(layer.threading_layer() == "workqueue")
