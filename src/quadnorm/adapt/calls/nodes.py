"""Where the samples of a new grid lie among those of the training grid, padding included, and values taken there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from quadnorm.adapt.calls.forms import Form, Forms
from quadnorm.carry.lines import spline
from quadnorm.measures._cache import TensorCache
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import among

_MATRICES = TensorCache(64 * 2**20)


def positions(placement: str, n0: int, n: int, extra: int = 0, origin: int = 0) -> np.ndarray:
    """The places of n + ``extra`` samples as (fractional) indices into the n0 + ``extra`` samples of the training grid.

    ``origin`` samples of the ``extra`` come before the grid; beyond the grid the new spacing goes on.

    >>> positions("endpoint", 3, 5), positions("cell", 2, 4), positions("periodic", 2, 4)
    (array([0. , 0.5, 1. , 1.5, 2. ]), array([-0.25,  0.25,  0.75,  1.25]), array([0. , 0.5, 1. , 1.5]))
    """
    a, b = among(placement, n0, placement, n, np.arange(n + extra) - origin)
    return np.asarray(a / b + origin, dtype=np.float64)


@lru_cache(maxsize=512)
def _between(placement: str, old: int, new: int, extra: int, origin: int, wraps: bool) -> Tensor:
    """M (new + extra, old + extra): values at the old samples to values at the new ones; exact where they coincide."""
    at, m = positions(placement, old, new, extra, origin), old + extra
    if m == 1:
        return torch.ones(new + extra, 1, dtype=torch.float64)
    if wraps:
        waves = np.exp(2j * np.pi * np.outer(at / m, np.arange(m // 2 + 1)))
        waves[:, 1 : (m + 1) // 2] *= 2
        return torch.from_numpy((waves @ np.fft.rfft(np.eye(m), axis=0)).real / m)
    place = torch.from_numpy(np.clip(at, -1.0, m))  # beyond lies padding, which is cut off again
    low = place.floor()
    return spline(low.long(), place - low, m)


@lru_cache(maxsize=512)
def _selection(placement: str, old: int, new: int, extra: int, origin: int) -> Tensor | None:
    """The old sample that each new sample is, or None if some new sample lies between."""
    a, b = among(placement, old, placement, new, np.arange(new + extra) - origin)
    whole = a // b + origin
    same = (a % b == 0) & (whole >= 0) & (whole < old + extra)
    return torch.from_numpy(np.asarray(whole, dtype=np.int64)) if same.all() else None


@dataclass(frozen=True)
class Nodes:
    """Two grids of the same domain: the training grid, and the one that is asked for."""

    native: Shape
    shape: Shape
    placements: tuple[str, ...]
    origins: Mapping[tuple[int, int], int] = field(default_factory=dict)  # of (axis, extra samples)

    def carry(self, t: Tensor, dim: int, form: Form, *, wrap: bool = True) -> Tensor:
        """Axis ``dim`` of t from the training grid's samples to the new grid's."""
        return self._taken(t, dim, form, self.native, self.shape, wrap)

    def restrict(self, t: Tensor, dim: int, form: Form, *, wrap: bool = True) -> Tensor:
        """Axis ``dim`` of t from the new grid's samples to the training grid's."""
        return self._taken(t, dim, form, self.shape, self.native, wrap)

    def carried(self, t: Tensor, forms: Forms, *, wrap: bool = True) -> Tensor:
        """Every axis on the grid from the training grid's samples to the new grid's."""
        for dim, form in enumerate(forms):
            if form.on_grid and t.shape[dim] == form.size(self.native):
                t = self.carry(t, dim, form, wrap=wrap)
        return t

    def places(self, form: Form) -> np.ndarray:
        """Of an axis along one grid axis: its new samples as indices into its training samples."""
        (k,), (extra,) = form.axes, form.extra
        more = form.size(self.shape) - self.shape[k]  # also where the axis is padded to a multiple of its length
        return positions(self.placements[k], self.native[k], self.shape[k], more, self.origins.get((k, extra), 0))

    def _taken(self, t: Tensor, dim: int, form: Form, old: Shape, new: Shape, wrap: bool) -> Tensor:
        if form.size(old) == form.size(new) and form.sizes(old) == form.sizes(new):
            return t
        dim = dim % t.ndim
        split = (*t.shape[:dim], form.fold, *form.sizes(old), *t.shape[dim + 1 :])
        y = t.reshape(split) if form.fold > 1 or len(form.axes) > 1 else t
        first = dim + 1 if form.fold > 1 or len(form.axes) > 1 else dim
        for at, (k, extra) in enumerate(zip(form.axes, form.extra, strict=True), start=first):
            if old[k] != new[k]:
                y = self._along(y, at, k, old[k], new[k], extra, wrap)
        return y.flatten(dim, dim + len(form.axes)) if y.ndim > t.ndim else y

    def _along(self, x: Tensor, dim: int, k: int, old: int, new: int, extra: int, wrap: bool) -> Tensor:
        placed = (self.placements[k], old, new, extra, self.origins.get((k, extra), 0))
        index = _selection(*placed)
        if index is not None:
            return x.index_select(dim, index.to(x.device))
        dtype = _matrix_dtype(x.dtype)
        wraps = wrap and self.placements[k] == "periodic" and extra == 0
        M = _MATRICES.get(
            (placed, wraps, x.device, dtype),
            lambda: _between(*placed, wraps).to(x.device, dtype),
        )
        return _mixed(x, dim, M)


def _matrix_dtype(dtype: torch.dtype) -> torch.dtype:
    if dtype in (torch.float64, torch.complex64, torch.complex128):
        return dtype
    return torch.float32


def _mixed(x: Tensor, dim: int, M: Tensor) -> Tensor:
    """M applied along one axis."""
    y = torch.matmul(x.to(M.dtype).movedim(dim, -1), M.T).movedim(-1, dim)
    return y.to(x.dtype) if x.is_floating_point() or x.is_complex() else y.round().to(x.dtype)
