"""Cutting a tensor into blocks that stay in the cache of a CPU; other devices take everything at once."""

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

BLOCK = 2**17  # numbers per thread, half a MiB of float32: a block and its buffer fit a common L2 cache
SMALL = 2**20  # numbers that are one block: they fit the last cache, and calls would cost more than the cache gives

RUN = 8192  # samples that are added one after the other in the input's precision


def is_one_block(x: Tensor) -> bool:
    """Whether x is not cut."""
    return not x.is_cpu or x.numel() <= SMALL


def limit(x: Tensor) -> int:
    """Numbers in a block."""
    return max(x.numel(), 1) if is_one_block(x) else BLOCK * torch.get_num_threads()


def row_blocks(x: Tensor, size: int | None = None) -> Iterator[tuple[slice, slice, slice]]:
    """Blocks of x (R, D, N): whole rows where they fit, else channels of a row, else runs of a channel's samples."""
    R, D, N = x.shape
    size = size or limit(x)
    rows = max(1, size // max(1, D * N))
    channels = D if rows * D * N <= size else max(1, size // N)
    samples = N if channels * N <= size or channels > 1 else size
    for r in range(0, R, rows):
        for c in range(0, D, channels):
            for i in range(0, N, samples):
                yield slice(r, min(r + rows, R)), slice(c, min(c + channels, D)), slice(i, min(i + samples, N))


def channel_blocks(x: Tensor, space: Tensor) -> Iterator[tuple[int, slice, slice, Tensor]]:
    """Blocks of x (R, K, N) inside one row, each with a buffer of its size: the first part of ``space``."""
    R, K, N = x.shape
    size = limit(x)
    channels, samples = max(1, min(K, size // max(1, N))), min(N, size)
    buffer = space.view(-1)
    for r in range(R):
        for c in range(0, K, channels):
            for i in range(0, N, samples):
                k, n = min(channels, K - c), min(samples, N - i)
                yield r, slice(c, c + k), slice(i, i + n), buffer[: k * n].view(k, n)


@cache
def pieces(N: int) -> int:
    """Into how many equal pieces N samples are cut for summation: about N/8192, or 1 if no such number divides N.

    >>> pieces(64 * 64), pieces(512 * 512), pieces(129 * 129), pieces(10007)
    (1, 32, 3, 1)
    """
    fewest = -(-N // RUN)
    return next((R for R in range(fewest, 16 * fewest) if N % R == 0), 1)
