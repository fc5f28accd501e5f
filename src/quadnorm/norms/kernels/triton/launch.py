"""Forward and backward of the weighted norm by the device programs: memory for the results, tiles, launches.

Nothing here looks at a value, so that a call can be recorded into a CUDA graph: shapes decide which programs run.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from quadnorm.norms.kernels.inputs import Inputs, ParameterGradients
from quadnorm.norms.kernels.triton import programs
from quadnorm.norms.kernels.triton.tiles import (
    TILE,
    Tile,
    cuts,
    part_of_row,
    power_of_two,
    whole_row,
)

MERGED, MERGERS = 256, 128  # partial results that a merging program takes at a time, and its threads
SPLITS = 1024  # programs that the sweep with the weights' gradient should have, if there is that much to do

_one_at_a_time = threading.Lock()


def interpreted() -> bool:
    """Whether the programs run in Triton's interpreter (``TRITON_INTERPRET=1``), on CPU tensors."""
    return not isinstance(programs.forward_row, triton.runtime.JITFunction)


def forward(given: Inputs, y: Tensor, stats: Tensor) -> None:
    """Fill y like x (B, C, N), contiguous, and stats (3, B, G): high and low part of the mean, and rstd."""
    x, w, weight, bias, groups, eps, centre, holes = given.flat()
    B, C, N = x.shape
    D, rows = C // groups, B * groups
    if x.numel() == 0:
        return
    w, own = _weights(w)
    sizes = rows, groups, D, N, own
    with _on(x):
        if tile := whole_row(D, N):
            _launch(
                programs.forward_row, rows, tile, x, w, weight, bias, y, stats, *sizes, eps, CENTRE=centre, HOLES=holes
            )
            return
        tile = part_of_row(D, N)
        TD, TN = cuts(D, tile.channels), cuts(N, tile.samples)
        parts = stats.new_empty(4, rows, TD * TN)
        _launch(programs.moments_tile, rows * TD * TN, tile, x, w, parts, *sizes, TD, TN, CENTRE=centre, HOLES=holes)
        _run(programs.merge_row, rows, MERGERS, (parts, stats, rows, TD * TN, eps), CENTRE=centre, BT=MERGED)
        tile = part_of_row(C, N)
        TC, TN = cuts(C, tile.channels), cuts(N, tile.samples)
        _launch(
            programs.output_tile, B * TC * TN, tile, x, w, weight, bias, y, stats, B, C, D, N, own, TC, TN, HOLES=holes
        )


def backward(given: Inputs, g: Tensor, stats: Tensor, dx: Tensor, wrt_w: bool) -> ParameterGradients:
    """Fill dx like x; return the parameters' gradients."""
    given = given.flat()
    x, w, weight, _, groups, _, centre, holes = given
    B, C, N = x.shape
    D, rows = C // groups, B * groups
    shared = w.shape[0] == 1
    sums = w.new_empty((2, B, C))  # Σ g and Σ g·ŷ over the samples
    if x.numel() == 0:
        return w.new_zeros(C), w.new_zeros(C), torch.zeros_like(w) if wrt_w else None
    w, own = _weights(w)
    tile = whole_row(D, N) if groups == 1 or not wrt_w else None
    with _on(x):
        if tile:
            dw = sums.new_empty(B, 1, N) if wrt_w else None
            _launch(
                programs.backward_row, rows, tile, g, x, w, weight, stats, dx, dw, sums, rows, groups, D, N, own,
                CENTRE=centre, HOLES=holes,
            )  # fmt: skip
        else:
            dw = _backward_by_tiles(given, g, stats, dx, sums, wrt_w)
    if dw is not None:
        dw = dw.sum((0, 1)).unsqueeze(0) if shared else dw.sum(1)
    totals = sums.sum(1)
    return totals[0], totals[1], dw


def _backward_by_tiles(given: Inputs, g: Tensor, stats: Tensor, dx: Tensor, sums: Tensor, wrt_w: bool) -> Tensor | None:
    """Sums of all tiles, their merger, then the gradient: x and g are read twice."""
    x, w, weight, _, groups, _, centre, holes = given
    w, own = _weights(w)
    B, C, N = x.shape
    D, rows = C // groups, B * groups
    tile = part_of_row(C, N)
    TC, TN = cuts(C, tile.channels), cuts(N, tile.samples)
    parts = sums.new_empty(2, B * C, TN)
    _launch(programs.sums_tile, B * TC * TN, tile, g, x, w, stats, parts, B, C, D, N, own, TC, TN, HOLES=holes)
    folded = sums.new_empty(2, rows)
    channels = min(power_of_two(D), 32)
    _run(
        programs.merge_sums, rows, MERGERS, (parts, weight, sums, folded, rows, groups, D, TN),
        CENTRE=centre, BD=channels, BT=max(16, MERGED // channels),
    )  # fmt: skip
    loop, dw = 1, None
    if wrt_w:
        tile, loop = channels_together(B, C, N)
        TN = cuts(N, tile.samples)
    splits = cuts(C, tile.channels * loop)
    if wrt_w:
        dw = sums.new_empty(B, splits, N)
    _launch(
        programs.gradient_tile, B * splits * TN, tile, g, x, w, weight, stats, folded, dx, dw,
        B, C, D, N, own, splits, TN, loop, HOLES=holes,
    )  # fmt: skip
    return dw


def channels_together(B: int, C: int, N: int) -> tuple[Tile, int]:
    """A tile of many channels and few samples, and how many such tiles one program goes through.

    Each program leaves one partial sum of the weights' gradient per sample. All channels in one program would leave the
    least, but a device wants many programs.

    >>> channels_together(8, 64, 64 * 64)
    (Tile(channels=32, samples=64), 1)
    >>> channels_together(8, 512, 256 * 256)
    (Tile(channels=32, samples=64), 16)
    >>> channels_together(1, 2, 70000)
    (Tile(channels=2, samples=512), 1)
    """
    channels = min(32, power_of_two(C))
    samples = TILE // (2 * channels)
    while samples > max(64, 1024 // channels) and B * cuts(N, samples) < SPLITS:
        samples //= 2
    tiles = cuts(C, channels)
    enough = max(1, min(tiles, B * cuts(N, samples) * tiles // SPLITS))
    return Tile(channels, samples), 1 << (enough.bit_length() - 1)


def _weights(w: Tensor) -> tuple[Tensor, int]:
    """Contiguous weights, and the distance between those of one batch entry and the next: 0 if shared."""
    return w.contiguous(), 0 if w.shape[0] == 1 else w.shape[1]


def _on(x: Tensor) -> AbstractContextManager[Any]:
    """Triton launches on the current device; its interpreter is one for all threads."""
    if x.device.type == "cpu":
        return _one_at_a_time
    return torch.cuda.device(x.device) if x.device.type == "cuda" else nullcontext()


def warps(threads: int) -> int:
    """Threads as warps of 32, or wavefronts of 64 on ROCm."""
    return max(1, threads // (64 if torch.version.hip else 32))


def _launch(program: Any, count: int, tile: Tile, *arguments: Any, **options: Any) -> None:
    _run(program, count, tile.threads, arguments, BD=tile.channels, BN=tile.samples, **options)


def _run(program: Any, count: int, threads: int, arguments: tuple[Any, ...], **options: Any) -> None:
    detached = [a.detach() if isinstance(a, Tensor) else a for a in arguments]
    program[(count,)](*detached, **options, num_warps=warps(threads))
