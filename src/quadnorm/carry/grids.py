"""Fields carried from one grid to another: cubic splines, Fourier series on periodic axes, lines, nearest samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm._suggest import unknown
from quadnorm.measures import rule
from quadnorm.measures._cache import TensorCache

METHODS = ("cubic", "linear", "nearest")
_MATRICES = TensorCache(64 * 2**20)


def carry(
    x: Tensor, shape: Sequence[int], placement: str | Sequence[str] = "endpoint", method: str = "cubic"
) -> Tensor:
    r"""Samples of a field on one grid, as samples on another grid of the same domain and node placement.

    Along every axis a linear map, :math:`y_i = \sum_j M_{ij} x_j`, so the result is differentiable and batches cost
    nothing extra. Where a new node is an old one, its value is the old value, whatever the method.

    Args:
        x: (..., \*spatial).
        shape: the new grid's samples per axis; their number says which axes are spatial.
        placement: where samples lie, for all axes or one each.
        method: ``cubic``, the interpolating spline whose third derivative is continuous at the second and last but
            one node (order 4), and on periodic axes the trigonometric interpolant, which is Fourier zero-padding;
            ``linear`` (order 2) and ``nearest`` (values stay those of the field), which wrap around on periodic
            axes.

    >>> carry(torch.tensor([0.0, 1.0, 4.0, 9.0, 16.0]), (9,))  # the spline of a parabola is the parabola
    tensor([ 0.0000,  0.2500,  1.0000,  2.2500,  4.0000,  6.2500,  9.0000, 12.2500,
            16.0000])
    """
    sizes = tuple(shape)
    names = per_axis(placement, len(sizes))
    if method not in METHODS:
        raise ValueError(unknown("way to interpolate", method, METHODS))
    if x.ndim < len(sizes):
        raise ValueError(f"a field of shape {tuple(x.shape)} has no {len(sizes)} spatial axes to carry to {sizes}")
    # The axis that shrinks most goes first: the others then have less to do.
    axes = list(zip(range(-len(sizes), 0), sizes, names, strict=True))
    if torch.compiler.is_compiling():  # a comparison of sizes would become a condition of the compiled graph
        for axis, n, name in axes:
            x = _along(x, axis, n, name, method)
        return x
    for axis, n, name in sorted(axes, key=lambda a: a[1] / x.shape[a[0]]):
        if n != x.shape[axis]:
            x = _along(x, axis, n, name, method)
    return x


def per_axis(placement: str | Sequence[str], d: int) -> tuple[str, ...]:
    """One placement per axis, checked."""
    names = (placement,) * d if isinstance(placement, str) else tuple(placement)
    if len(names) != d:
        raise ValueError(f"got {len(names)} placements {names} for {d} axes; give one word, or one per axis")
    for name in names:
        if name not in ("endpoint", "cell", "periodic", "left"):
            raise ValueError(unknown("placement", name, ("endpoint", "cell", "periodic", "left")))
    return names


def nested(placement: str, coarse: int, fine: int) -> bool:
    """Whether every node of the coarse axis is a node of the fine one."""
    return _selection(placement, fine, coarse) is not None


def _along(x: Tensor, axis: int, n: int, placement: str, method: str) -> Tensor:
    m = x.shape[axis]
    dtype = x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32
    if torch.compiler.is_compiling():
        M = _matrix_op(placement, m, n, method).to(device=x.device, dtype=dtype)
    else:
        index = _selection(placement, m, n)
        if index is not None:
            return x.index_select(axis, torch.from_numpy(index).to(x.device))
        key = (placement, m, n, method, x.device, dtype)
        M = _MATRICES.get(
            key, lambda: torch.from_numpy(matrix(placement, m, n, method)).to(device=x.device, dtype=dtype)
        )
    y: Tensor = (x.to(dtype).movedim(axis, -1) @ M.T).movedim(-1, axis)
    return y.to(x.dtype)


@torch.library.custom_op("quadnorm::carry_matrix", mutates_args=())
def _matrix_op(placement: str, m: int, n: int, method: str) -> Tensor:
    return torch.from_numpy(matrix(placement, m, n, method).copy())


@_matrix_op.register_fake
def _(placement: str, m: int, n: int, method: str) -> Tensor:
    return torch.empty((n, m), dtype=torch.float64, device="cpu")


@lru_cache(maxsize=256)
def _selection(placement: str, m: int, n: int) -> Any:
    """Index of the old node that each new node is, or None if some new node lies between."""
    old, new = (rule(placement).nodes(k).numpy() for k in (m, n))
    at = np.abs(old[None, :] - new[:, None]).argmin(1)
    return at if np.abs(old[at] - new).max() < 1e-12 else None


def matrix(placement: str, m: int, n: int, method: str) -> np.ndarray:
    """M (n, m): values at the m old nodes to values at the n new ones."""
    old, new = (rule(placement).nodes(k).numpy() for k in (m, n))
    wraps = placement == "periodic"
    if method == "nearest":
        gap = np.abs(old[None, :] - new[:, None])
        M = np.eye(m)[(np.minimum(gap, 1 - gap) if wraps else gap).argmin(1)]
    elif m == 1:
        M = np.ones((n, 1))
    elif method == "linear":
        M = _lines(np.append(old, 1.0), new)[:, :m] + _last_is_first(old, new, m) if wraps else _lines(old, new)
    else:
        M = trigonometric(m, new) if wraps else spline(old, new)
    same = np.abs(old[None, :] - new[:, None]) < 1e-12
    return np.asarray(np.where(same.any(1)[:, None], same.astype(float), M))


def _last_is_first(old: np.ndarray, new: np.ndarray, m: int) -> np.ndarray:
    """What lines give to the node 1 of a periodic axis belongs to the node 0."""
    M = np.zeros((new.size, m))
    M[:, 0] = _lines(np.append(old, 1.0), new)[:, -1]
    return M


def _lines(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    k = np.clip(np.searchsorted(x, t, side="right") - 1, 0, x.size - 2)
    s = (t - x[k]) / (x[k + 1] - x[k])
    M = np.zeros((t.size, x.size))
    rows = np.arange(t.size)
    M[rows, k] = 1 - s
    M[rows, k + 1] = s
    return M


def spline(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The cubic spline through values at x, "not a knot" at its ends, evaluated at t: (t.size, x.size).

    Unknowns are the second derivatives m_k at the nodes. Inside, continuity of the first derivative, h₋m₋/6 +
    (h₋+h₊)m/3 + h₊m₊/6 = Δf₊/h₊ − Δf₋/h₋; at both ends, continuity of the third, (m₁−m₀)/h₀ = (m₂−m₁)/h₁. Fewer
    than four nodes give the polynomial through all of them.
    """
    n = x.size
    if n < 4:
        return np.stack(
            [np.prod([(t - x[j]) / (x[i] - x[j]) for j in range(n) if j != i], axis=0) for i in range(n)], axis=1
        )
    h = np.diff(x)
    A, R = np.zeros((n, n)), np.zeros((n, n))
    for row, (i, j) in ((0, (0, 1)), (n - 1, (n - 3, n - 2))):
        A[row, i : i + 3] = -h[j], h[i] + h[j], -h[i]
    for k, (a, b) in enumerate(pairwise(h), start=1):
        A[k, k - 1 : k + 2] = a / 6, (a + b) / 3, b / 6
        R[k, k - 1 : k + 2] = 1 / a, -1 / a - 1 / b, 1 / b
    second = np.linalg.solve(A, R)  # (n, n): second derivatives from values
    at = np.clip(np.searchsorted(x, t, side="right") - 1, 0, n - 2)
    w = h[at][:, None]
    right = ((t - x[at]) / h[at])[:, None]
    rest = 1 - right
    identity = np.eye(n)
    curve = (rest**3 - rest) * second[at] + (right**3 - right) * second[at + 1]
    return np.asarray(rest * identity[at] + right * identity[at + 1] + w**2 / 6 * curve)


def trigonometric(m: int, t: np.ndarray) -> np.ndarray:
    """The trigonometric interpolant of m samples on a period, at t: (t.size, m). An even m halves its highest wave."""
    k = np.arange(1, (m - 1) // 2 + 1)
    gap = t[:, None] - np.arange(m) / m
    M = 1 + 2 * np.cos(2 * np.pi * k[:, None, None] * gap).sum(0)
    if m % 2 == 0:
        M = M + np.cos(np.pi * m * t)[:, None] * np.cos(np.pi * np.arange(m))
    return np.asarray(M / m)
