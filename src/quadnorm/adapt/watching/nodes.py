"""Where the samples of a new grid lie among those of the training grid, padding included; values taken from one to the
other, and how many training samples each new one stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm._tensors import constant
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watching.forms import Form, Forms
from quadnorm.carry.lines import matrix_at
from quadnorm.measures import Anchored
from quadnorm.measures._cache import CACHE
from quadnorm.measures.base import Shape
from quadnorm.measures.padded import PaddedAxis
from quadnorm.measures.placement import PLACEMENTS, among


def positions(
    placement: str, n0: int, n: int, extra: int = 0, origin: int = 0, native_origin: int | None = None
) -> np.ndarray:
    """The places of n + ``extra`` samples as (fractional) indices into the samples of the training grid, which has n0.

    ``origin`` samples of the ``extra`` come before the grid, on the training grid ``native_origin`` (default: as many);
    beyond the grid the new spacing goes on.

    >>> positions("endpoint", 3, 5), positions("cell", 2, 4), positions("periodic", 2, 4)
    (array([0. , 0.5, 1. , 1.5, 2. ]), array([-0.25,  0.25,  0.75,  1.25]), array([0. , 0.5, 1. , 1.5]))
    """
    a, b = among(placement, n0, placement, n, np.arange(n + extra) - origin)
    return np.asarray(a / b + (origin if native_origin is None else native_origin), dtype=np.float64)


class PaddedGridAxis(NamedTuple):
    """One axis of a grid: its samples, how many are padded to them, and how many of these come first."""

    samples: int
    extra: int = 0
    origin: int = 0

    @property
    def length(self) -> int:
        """Samples with padding."""
        return self.samples + self.extra


def interpolation(at: np.ndarray, m: int, wraps: bool) -> Tensor:
    """M (P, m): values at m samples to values at the places ``at``, fractional indices; a spline, or waves if it
    ``wraps``."""
    place = torch.from_numpy(at if wraps else np.clip(at, -1.0, m))  # beyond lies padding, which is cut off again
    low = place.floor()
    return matrix_at(low.long(), place - low, m, "cubic", wraps)


def _transfer(placement: str, old: PaddedGridAxis, new: PaddedGridAxis, wraps: bool) -> Tensor:
    """M (new, old): values at the old samples to values at the new ones; where all of these are old ones, their indices
    (new,)."""
    a, b = among(placement, old.samples, placement, new.samples, np.arange(new.length) - new.origin)
    whole = a // b + old.origin
    if ((a % b == 0) & (whole >= 0) & (whole < old.length)).all():
        return torch.from_numpy(np.asarray(whole, dtype=np.int64))
    at = positions(placement, old.samples, new.samples, new.extra, new.origin, old.origin)
    return interpolation(at, old.length, wraps)


@dataclass(frozen=True)
class Nodes:
    """Two grids of the same domain: the training grid, and the one that is asked for.

    ``origins`` says for (axis, samples padded on the training grid) how many of these come first; ``padding`` how many
    are padded to the new grid, and how many of them come first, where a run has shown it: the model itself pads there.
    """

    native: Shape
    shape: Shape
    placements: tuple[str, ...]
    origins: Mapping[tuple[int, int], int] = field(default_factory=dict)
    padding: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    dilates: bool = False  # stencils keep their width in space, else their native results are interpolated

    def ratio(self, k: int) -> int | None:
        """How many times finer axis k is; None if that is not a whole number."""
        more = PLACEMENTS[self.placements[k]].more
        n0, n = self.native[k] + more, self.shape[k] + more
        return n // n0 if n0 > 0 and n % n0 == 0 and n >= n0 else None

    def extra(self, k: int, extra: int) -> int:
        """Samples padded to axis k of the new grid where ``extra`` are padded to the training grid."""
        return self.padding[k, extra][0] if (k, extra) in self.padding else extra

    def origin(self, k: int, extra: int) -> int:
        """How many of them come first."""
        return self.padding[k, extra][1] if (k, extra) in self.padding else self.origins.get((k, extra), 0)

    def pads(self, before: Forms, after: Forms, amounts: Sequence[int]) -> None:
        """Note that the model pads a tensor on the new grid by ``amounts``, in the order of ``F.pad``."""
        for at in range(len(amounts) // 2):
            a, b = before[-1 - at], after[-1 - at]
            if a.on_grid and b.on_grid and a.axes == b.axes and len(a.axes) == a.fold == b.fold == 1:
                k, first, both = a.axes[0], int(amounts[2 * at]), sum(map(int, amounts[2 * at : 2 * at + 2]))
                self.padding[k, b.extra[0]] = self.extra(k, a.extra[0]) + both, self.origin(k, a.extra[0]) + first

    def lengths(self, form: Form) -> Shape:
        """New samples along each grid axis of a form, padding included."""
        return tuple(self.shape[k] + self.extra(k, e) for k, e in zip(form.axes, form.extra, strict=True))

    def size(self, form: Form) -> int:
        """The size of an axis on the new grid."""
        return form.fold * prod(self.lengths(form))

    def carry(self, t: Tensor, dim: int, form: Form, *, wrap: bool = True) -> Tensor:
        """Axis ``dim`` of t from the training grid's samples to the new grid's."""
        return self._resampled(t, dim, form, self._native_axes(form), self._new_axes(form), wrap)

    def restrict(self, t: Tensor, dim: int, form: Form, *, wrap: bool = True) -> Tensor:
        """Axis ``dim`` of t from the new grid's samples to the training grid's."""
        return self._resampled(t, dim, form, self._new_axes(form), self._native_axes(form), wrap)

    def carried(self, t: Tensor, forms: Forms, *, wrap: bool = True) -> Tensor:
        """Every axis on the grid from the training grid's samples to the new grid's."""
        for dim, form in enumerate(forms):
            if form.on_grid and t.shape[dim] == form.size(self.native):
                t = self.carry(t, dim, form, wrap=wrap)
        return t

    def restricted(self, t: Tensor, forms: Forms, *, wrap: bool = True) -> Tensor:
        """Every axis on the grid from the new grid's samples to the training grid's."""
        for dim, form in enumerate(forms):
            if form.on_grid and t.shape[dim] == self.size(form):
                t = self.restrict(t, dim, form, wrap=wrap)
        return t

    def on_own_grid(self, t: Tensor, dim: int, k: int, size: int) -> Tensor:
        """Axis ``dim`` of t from a grid of its own to one with ``size`` samples, both placed as the samples of axis k
        are."""
        return self._along(t, dim, self.placements[k], PaddedGridAxis(t.shape[dim]), PaddedGridAxis(size), True)

    def places(self, form: Form) -> np.ndarray:
        """Positions of an axis's new samples, as (fractional) indices into its training samples."""
        (k,), (extra,) = form.axes, form.extra
        more = self.size(form) - self.shape[k]  # also where the axis is padded to a multiple of its length
        placed = self.placements[k], self.native[k], self.shape[k]
        return positions(*placed, more, self.origin(k, extra), self.origins.get((k, extra), 0))

    def _native_axes(self, form: Form) -> list[PaddedGridAxis]:
        pairs = zip(form.axes, form.extra, strict=True)
        return [PaddedGridAxis(self.native[k], e, self.origins.get((k, e), 0)) for k, e in pairs]

    def _new_axes(self, form: Form) -> list[PaddedGridAxis]:
        pairs = zip(form.axes, form.extra, strict=True)
        return [PaddedGridAxis(self.shape[k], self.extra(k, e), self.origin(k, e)) for k, e in pairs]

    def _resampled(
        self, t: Tensor, dim: int, form: Form, old: list[PaddedGridAxis], new: list[PaddedGridAxis], wrap: bool
    ) -> Tensor:
        if old == new:
            return t
        dim = dim % t.ndim
        split = (*t.shape[:dim], form.fold, *(a.length for a in old), *t.shape[dim + 1 :])
        y = t.reshape(split) if form.fold > 1 or len(form.axes) > 1 else t
        first = dim + 1 if form.fold > 1 or len(form.axes) > 1 else dim
        for at, (k, a, b) in enumerate(zip(form.axes, old, new, strict=True), start=first):
            if a != b:
                y = self._along(y, at, self.placements[k], a, b, wrap)
        return y.flatten(dim, dim + len(form.axes)) if y.ndim > t.ndim else y

    def _along(
        self, x: Tensor, dim: int, placement: str, old: PaddedGridAxis, new: PaddedGridAxis, wrap: bool
    ) -> Tensor:
        dtype = _matrix_dtype(x.dtype)
        wraps = wrap and placement == "periodic" and old.extra == 0

        def build() -> Tensor:
            M = _transfer(placement, old, new, wraps)
            return M.to(x.device, dtype if M.ndim == 2 else None)

        M = CACHE.get(("nodes", placement, old, new, wraps, x.device, dtype), build)
        return _mixed(x, dim, M) if M.ndim == 2 else x.index_select(dim, M)


def _matrix_dtype(dtype: torch.dtype) -> torch.dtype:
    if dtype in (torch.float64, torch.complex64, torch.complex128):
        return dtype
    return torch.float32


def _mixed(x: Tensor, dim: int, M: Tensor) -> Tensor:
    """M applied along one axis."""
    with full_precision(x):
        y = torch.matmul(x.to(M.dtype).movedim(dim, -1), M.T).movedim(-1, dim)
    return y.to(x.dtype) if x.is_floating_point() or x.is_complex() else y.round().to(x.dtype)


def at_training_nodes(output: Any, forms: tuple[Forms, ...], nodes: Nodes) -> list[Tensor]:
    """The tensors of an output on the new grid, at the training grid's nodes."""
    return [nodes.restricted(t, fs) for t, fs in zip(tensors(output), forms, strict=True)]


def relative_gap(output: Any, native: Any) -> float:
    """The largest relative L² difference among the tensors of two outputs; infinite where shapes differ, or where one
    is not finite and the native one is."""
    worst = 0.0
    pairs = list(zip(tensors(output), tensors(native), strict=True))
    for a, b in pairs:
        if a.shape != b.shape:
            return float("inf")
        if not (b.is_floating_point() or b.is_complex()) or b.numel() == 0:
            continue
        gap = (a.double() - b.double()) if not b.is_complex() else a - b
        size = torch.linalg.vector_norm(b.double() if not b.is_complex() else b).clamp_min(1e-30)
        found = float(torch.linalg.vector_norm(gap) / size)
        if found != found and bool(torch.isfinite(b).all()):
            return float("inf")
        worst = max(worst, found)
    return worst if pairs else float("nan")


OPEN = {"periodic": "left"}  # an axis has ends where a coordinate jumps


@dataclass(frozen=True)
class CountedNodes(Nodes):
    """The two grids, and the training grid's counting measure on the new one.

    ``open_ends``: sum over periodic axes as over an interval from the first to the last training sample, which is what
    a model has learned if a coordinate channel jumps where the axis closes.
    """

    open_ends: bool = False
    summed: frozenset[tuple[int, int]] = frozenset()  # (axis, samples padded to it) that sums see; others stay samples

    def padded(self, k: int, extra: int) -> PaddedAxis:
        """A grid axis with ``extra`` samples padded to it on the training grid."""
        before, own = self.origins.get((k, extra), 0), (k, extra) in self.origins and (k, extra) not in self.summed
        return PaddedAxis(self.placements[k], self.native[k], before, extra - before, in_samples=own)

    def extra(self, k: int, extra: int) -> int:
        """Samples of padding on the new grid for ``extra`` of them on the training grid."""
        return sum(self.padded(k, extra).padding(self.shape[k]))

    def origin(self, k: int, extra: int) -> int:
        """How many of them come before the grid."""
        return self.padded(k, extra).padding(self.shape[k])[0]

    @constant
    def own_counts(self, k: int, n0: int, n: int, like: Tensor) -> Tensor | None:
        """(n,): the same for a grid of its own, which has n0 samples in training, placed as those of axis k are."""
        w = n0 * Anchored((n0,), (self._placement(k),)).weights(n)
        return None if bool((w == 1).all()) else w.to(like.device, _count_dtype(like))

    def _placement(self, k: int) -> str:
        return OPEN.get(self.placements[k], self.placements[k]) if self.open_ends else self.placements[k]

    @constant
    def counts(self, form: Form, like: Tensor) -> Tensor | None:
        """(size,): how many training samples each new sample stands for; None where each stands for itself."""
        axes = []
        for k, e, n in zip(form.axes, form.extra, self.lengths(form), strict=True):
            n0 = self.native[k]
            if e > 0:
                axes.append((n0 + e) * self.padded(k, e).weights(n))
                continue
            axes.append((n0 + e) * Anchored((n0 + e,), (self._placement(k),)).weights(n))
        if all(bool((w == 1).all()) for w in axes):
            return None
        w = axes[0]
        for more in axes[1:]:
            w = (w[:, None] * more).flatten()
        return w.repeat(form.fold).to(like.device, _count_dtype(like))


def _count_dtype(like: Tensor) -> torch.dtype:
    return torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32
