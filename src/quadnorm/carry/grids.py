"""Fields carried from one grid to another: cubic splines, Fourier series on periodic axes, lines, nearest samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from quadnorm._precision import full_precision, is_exporting
from quadnorm._suggest import unknown
from quadnorm._tensors import constant
from quadnorm.carry.lines import KEEP_SAMPLES, METHODS, Axis1D, fourier, matrix, nearest
from quadnorm.measures._cache import CACHE
from quadnorm.measures.placement import PLACEMENTS, among, placements_per_axis


def carry(
    x: Tensor,
    shape: Sequence[int],
    placement: str | Sequence[str] = "endpoint",
    method: str = "cubic",
    *,
    source: str | Sequence[str] | None = None,
) -> Tensor:
    r"""Samples of a field on one grid, as samples on another grid of the same domain.

    Along every axis a linear map, :math:`y_i = \sum_j M_{ij} x_j`, so the result is differentiable and batches cost
    nothing extra. Where a new node is an old one, its value is the old value, but for ``antialias`` and ``mean``.

    Args:
        x: (..., \*spatial).
        shape: the new grid's samples per axis; their number says which axes are spatial.
        placement: where the new samples lie, for all axes or one each.
        method: ``cubic``, the interpolating spline whose third derivative is continuous at the second and last but
            one node (order 4), and on periodic axes the trigonometric interpolant, which is Fourier zero-padding;
            ``linear`` (order 2); ``nearest`` (values stay those of the field; ties go to the even index); ``bicubic``,
            Keys' cubic convolution (order 3); ``antialias``, on the way to fewer samples those whose cubic
            interpolation is nearest to the field (what they cannot hold is taken out, not folded in), else ``cubic``;
            ``mean``, the mean over each new sample's cell, which conserves integrals: for data that are cell averages.
            All wrap around on periodic axes. Labels (integers, booleans) take the
            nearest sample, whatever the method; complex fields are carried part by part.
        source: where the samples of x lie; default as ``placement``.

    >>> carry(torch.tensor([0.0, 1.0, 4.0, 9.0, 16.0]), (9,))  # the spline of a parabola is the parabola
    tensor([ 0.0000,  0.2500,  1.0000,  2.2500,  4.0000,  6.2500,  9.0000, 12.2500,
            16.0000])
    """
    sizes = tuple(shape)
    new = placements_per_axis(placement, len(sizes))
    old = new if source is None else placements_per_axis(source, len(sizes))
    if method not in METHODS:
        raise ValueError(unknown("way to interpolate", method, METHODS))
    if x.ndim < len(sizes):
        raise ValueError(f"a field of shape {tuple(x.shape)} has no {len(sizes)} spatial axes to carry to {sizes}")
    if x.is_complex():
        parts = (carry(part, sizes, new, method, source=old) for part in (x.real, x.imag))
        return torch.complex(*parts)
    if not x.is_floating_point():
        method = "nearest"  # between labels there is nothing
    dims = range(-len(sizes), 0)
    if torch.compiler.is_compiling():  # a comparison of sizes would become a condition of the compiled graph
        for dim, n, a, b in zip(dims, sizes, old, new, strict=True):
            x = _along(x, dim, Axis1D(a, x.shape[dim], b, n), method)
        return x
    axes = {dim: Axis1D(a, x.shape[dim], b, n) for dim, n, a, b in zip(dims, sizes, old, new, strict=True)}
    # The axis that shrinks most goes first: the others then have less to do.
    for dim, axis in sorted(axes.items(), key=lambda item: item[1].n / item[1].m):
        x = _along_eager(x, dim, axis, method)
    return x


def nested(placement: str, coarse: int, fine: int) -> bool:
    """Whether every node of the coarse axis is a node of the fine one.

    >>> nested("endpoint", 33, 65), nested("cell", 32, 64)
    (True, False)
    """
    a, b = among(placement, fine, placement, coarse)
    return bool((a % b == 0).all())


def _along_eager(x: Tensor, dim: int, axis: Axis1D, method: str) -> Tensor:
    if axis.source == axis.target and axis.m == axis.n:
        return x
    new, old = _shared(axis)
    if len(new) == axis.n and method in KEEP_SAMPLES:
        return x.index_select(dim, torch.tensor(old, device=x.device))
    y = _along(x, dim, axis, method)
    if new and method == "cubic" and axis.wraps:  # the FFT returns them up to rounding
        at, kept = torch.tensor(new, device=x.device), torch.tensor(old, device=x.device)
        y = y.index_copy(dim, at, x.index_select(dim, kept))
    return y


@constant
@lru_cache(maxsize=256)
def _shared(axis: Axis1D) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Indices of the new nodes that are old ones, and of these old ones."""
    a, b = among(*axis)
    index = a // b % axis.m if axis.wraps else a // b
    same = (a % b == 0) & (index >= 0) & (index < axis.m)
    return tuple(same.nonzero()[0].tolist()), tuple(index[same].tolist())


def _along(x: Tensor, dim: int, axis: Axis1D, method: str) -> Tensor:
    if method == "nearest":
        return x.index_select(dim, nearest(axis, x.device))
    dtype = x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32
    with full_precision(x):
        field = x.to(dtype).movedim(dim, -1)
        if method == "cubic" and PLACEMENTS[axis.source].wraps and not is_exporting():
            y = fourier(field, axis.target, axis.n)
        else:
            y = field @ _matrix(axis, method, x.device, dtype).T
    return y.movedim(-1, dim).to(x.dtype)


def _matrix(axis: Axis1D, method: str, device: torch.device, dtype: torch.dtype) -> Tensor:
    if torch.compiler.is_compiling():  # a trace must contain the formula, not a tensor from the cache
        return matrix(axis, method, device).to(dtype)
    key = ("carry", axis, method, device, dtype)
    return CACHE.get(key, lambda: matrix(axis, method).to(device=device, dtype=dtype))
