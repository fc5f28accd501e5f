"""A field multiplied by one real matrix per axis, and the transpose of that: in the cheapest order of axes."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from math import log2, prod

import torch
from torch import Tensor

from quadnorm._tensors import is_plain

Matrices = tuple[Tensor, ...]

# Measured on one core (AVX-512, float32): per multiplication of the matrix products, and per point and octave of the
# FFT form.
DENSE_NS = 0.012
FFT_NS = 0.3
TRANSPOSED = 48  # samples per axis up to which a product transposes on the way


@lru_cache(maxsize=1024)
def cheapest_order(sizes: tuple[int, ...], rows: tuple[int, ...]) -> tuple[int, ...]:
    """The order of axes in which transforming ``sizes`` to ``rows`` takes the fewest multiplications."""

    def cost(order: tuple[int, ...]) -> int:
        now, total = list(sizes), 0
        for a in order:
            total += prod(now) * rows[a]
            now[a] = rows[a]
        return total

    return min(permutations(range(len(sizes))), key=lambda o: (cost(o), o[::-1] != tuple(range(len(sizes)))))


def dense_cost(sizes: tuple[int, ...], tops: tuple[int, ...]) -> float:
    """Estimated nanoseconds per channel of the matrix products, both ways (one CPU core)."""
    rows = tuple(2 * t + 2 for t in tops)
    now, work = list(sizes), 0
    for a in cheapest_order(sizes, rows):
        work += prod(now) * rows[a]
        now[a] = rows[a]
    return 2 * work * DENSE_NS


def fft_cost(sizes: tuple[int, ...]) -> float:
    """The same for the FFT there and back."""
    n = prod(sizes)
    return 2 * n * log2(max(n, 2)) * FFT_NS


def _along(t: Tensor, a: Tensor, axis: int) -> Tensor:
    """Multiply axis ``axis`` (counted from 2) of a contiguous (B, C, …) by the matrix ``a`` (new, old)."""
    shape = t.shape
    if axis + 3 == len(shape) and torch.compiler.is_compiling():
        return torch.nn.functional.linear(t, a)  # rows of a square grid of unknown size fold in here without a guard
    post = 1
    for s in shape[axis + 3 :]:
        post *= s
    if axis + 3 == len(shape):
        out = t.reshape(-1, shape[-1]) @ a.t()
    else:
        flat = t.reshape(-1, shape[axis + 2], post)
        out = torch.bmm(a.expand(flat.shape[0], -1, -1), flat)
    return out.reshape(*shape[: axis + 2], a.shape[0], *shape[axis + 3 :])


def _order(sizes: tuple[int, ...], rows: tuple[int, ...]) -> tuple[int, ...]:
    # Symbols cannot be compared without fixing them.
    if torch.compiler.is_compiling() or any(isinstance(n, torch.SymInt) for n in sizes):
        return tuple(reversed(range(len(sizes))))
    return cheapest_order(sizes, rows)


def analyse_real(x: Tensor, mats: Matrices) -> Tensor:
    """(B, C, *n) → (*rows, B, C)."""
    for axis in _order(tuple(x.shape[2:]), tuple(a.shape[0] for a in mats)):
        x = _along(x, mats[axis], axis)
    return x.permute(*range(2, x.ndim), 0, 1).contiguous()


def _transposing_pays(mats: Matrices) -> bool:
    """Whether the last product of a synthesis should bring B and C to the front, instead of a copy before the first.

    It then writes the field with long strides, which costs as much as the copy once a row leaves the cache.
    """
    if len(mats) != 2 or not is_plain() or mats[0].device.type != "cpu":
        return False
    (rows, sizes) = zip(*(a.shape for a in mats), strict=True)
    return min(rows) >= 16 and max(sizes) <= TRANSPOSED and cheapest_order(sizes, rows) == (1, 0)


def synthesise_real(t: Tensor, mats: Matrices) -> Tensor:
    """(*rows, B, C) → (B, C, *n), the transpose of :func:`analyse_real`."""
    if _transposing_pays(mats):
        a0, a1 = mats
        (r0, n0), (r1, n1) = a0.shape, a1.shape
        rows = torch.mm(a0.t(), t.reshape(r0, -1)).view(n0, r1, -1)  # (n0, r1, B·C)
        field = t.new_empty(rows.shape[2], n0, n1)
        torch.bmm(rows.transpose(1, 2), a1.expand(n0, -1, -1), out=field.transpose(0, 1))
        return field.view(*t.shape[2:], n0, n1)
    x = t.permute(t.ndim - 2, t.ndim - 1, *range(t.ndim - 2)).contiguous()
    for axis in reversed(_order(tuple(a.shape[1] for a in mats), tuple(a.shape[0] for a in mats))):
        x = _along(x, mats[axis].t(), axis)
    return x
