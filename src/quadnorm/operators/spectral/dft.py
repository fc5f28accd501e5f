"""Cosine and sine matrices: where along an axis a Fourier sum samples its waves, its weights and its period."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from quadnorm.carry.waves import angles
from quadnorm.measures import PLACEMENTS, Blend, Grid, Masked, Measure, Separable, rule
from quadnorm.measures._cache import CACHE
from quadnorm.measures.anchored import AnchoredAxis
from quadnorm.measures.axes import Axis, RuleAxis
from quadnorm.measures.placement import Placements, placements_per_axis

COUNTING = Grid("counting")


@dataclass(frozen=True)
class Wave:
    """The phase of the first wave along one axis, s_j = r_j / L in turns, and the weights of its samples.

    ``axis`` is None for the published FFT, which knows nothing of nodes: s_j = j/n. Otherwise r_j are the axis' nodes
    mapped to [0, 1] and L is ``period``, by default 1 — and for an anchored axis the period that the FFT had on the
    training grid, in which training sample i sits at i/n₀. ``padding`` extends the field by zero to 1 + padding of its
    length; a longer period is all that this takes.
    """

    axis: Axis | None
    period: float | None = None
    padding: float = 0.0

    def turns(self, n: int) -> Tensor:
        """s_j for j = 0 … n−1, float64."""
        if self.axis is None:
            s = torch.arange(n, dtype=torch.float64, device="cpu") / n
            return s / (1 + self.padding)
        return self.turns_at((self.axis.nodes(n) - self.axis.lo) / (self.axis.hi - self.axis.lo))

    def turns_at(self, r: Tensor) -> Tensor:
        """S at places r of the axis, which runs from 0 to 1; float64."""
        if self.period is not None:
            r = r / self.period
        elif isinstance(self.axis, AnchoredAxis):
            r = _training_turns(self.axis, r)
        return r / (1 + self.padding)

    def weights(self, n: int) -> Tensor:
        """Weights that sum to 1, float64."""
        if self.axis is None:
            return torch.full((n,), 1 / n, dtype=torch.float64, device="cpu")
        return self.axis.weights(n)

    @property
    def is_flat(self) -> bool:
        """Whether the sum may be a discrete Fourier transform at some n: no padding, equal weights."""
        return not self.padding and (self.axis is None or self.axis.flat(64))

    def equispaced(self, n: int) -> bool:
        """Whether the sum over this axis is a discrete Fourier transform: equal weights, s_j = (j + const)/n."""
        if self.padding or self.axis is None:
            return not self.padding
        if n == 1 or not self.axis.flat(n):
            return n == 1
        if isinstance(self.axis, AnchoredAxis):  # equal weights: at n₀, or on cell centres and circles
            return self.period is None
        if not isinstance(self.axis, RuleAxis):
            return False
        where = PLACEMENTS.get(self.axis.rule.placement)
        return where is not None and abs(where.spacing(n) * n / (self.period or 1.0) - 1) < 1e-12

    def native(self, n: int) -> float | None:
        """Length in samples of the transform that this axis stands for, or None if it is no transform of samples."""
        if self.axis is None:
            return n * (1 + self.padding)
        if isinstance(self.axis, AnchoredAxis) and self.period is None:
            return self.axis.n0 * (1 + self.padding)
        return n * (1 + self.padding) if self.equispaced(n) else None


def _training_turns(axis: AnchoredAxis, r: Tensor) -> Tensor:
    """The phase that the training grid's FFT gave to the place ``r``: i/n₀ at sample i, linear between samples."""
    train, n0 = axis.train, axis.n0
    if n0 == 1:
        return r
    if isinstance(train, RuleAxis) and train.rule.placement in PLACEMENTS:
        return r * ((n0 + PLACEMENTS[train.rule.placement].more) / n0)  # a constant shift of phase cancels
    nodes = (train.nodes(n0).numpy() - train.lo) / (train.hi - train.lo)
    index = np.arange(n0, dtype=np.float64)
    if nodes[0] > nodes[-1]:
        nodes, index = nodes[::-1], index[::-1]
    x = r.numpy()
    k = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, n0 - 2)
    return torch.from_numpy((index[k] + (x - nodes[k]) / (nodes[k + 1] - nodes[k]) * (index[k + 1] - index[k])) / n0)


def matrix(wave: Wave, n: int, top: int, role: str, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Rows cos(2πk s_j), then sin(2πk s_j), each for k = 0 … top; shape (2·top+2, n).

    The row sin 0 = 0 keeps the halves alike, and the number of rows even: odd sizes cost matrix products their speed.

    ``role``: ``"analysis"`` multiplies column j by w_j; ``"plain"`` leaves the waves alone (weights applied to the
    field, or an axis with all frequencies); ``"half"`` doubles the rows that stand for k and −k at once.
    """
    if torch.compiler.is_compiling():  # a trace must contain the formula, not a tensor from the cache
        return _matrix(wave, n, top, role).to(device=device, dtype=dtype)
    key = ("waves", wave, n, top, role, device, dtype)
    return CACHE.get(key, lambda: _matrix(wave, n, top, role).to(device=device, dtype=dtype).contiguous())


def _matrix(wave: Wave, n: int, top: int, role: str, places: Tensor | None = None) -> Tensor:
    """As :func:`matrix`; at ``places`` on the axis, from 0 to 1, if they are given, instead of the n nodes."""
    k = torch.arange(top + 1, dtype=torch.float64, device="cpu")
    angle = angles(k, wave.turns(n) if places is None else wave.turns_at(places))
    waves = torch.cat([torch.cos(angle), torch.sin(angle)])
    if role == "analysis":
        return waves * wave.weights(n)
    if role == "half":
        # Re(Y e^{iθ}) counts once at k = 0 and at the frequency n/2, which is its own negative; twice elsewhere.
        own = wave.native(n)
        twice = torch.tensor(
            [1.0 if j == 0 or own == 2 * j else 2.0 for j in range(top + 1)], dtype=torch.float64, device="cpu"
        )
        return waves * torch.cat([twice, twice])[:, None]
    return waves


def waves_at(wave: Wave, n: int, top: int, role: str, places: Tensor) -> Tensor:
    """The matrix of n samples, evaluated at other places (P,) on the axis, from 0 to 1: (2·top+2, P), float64."""
    return _matrix(wave, n, top, role, places)


def waves_of(
    measure: Measure,
    ndim: int,
    index_space: bool,
    placement: Placements,
    period: tuple[float, ...] | None,
    padding: tuple[float, ...],
) -> tuple[tuple[Wave, ...], Measure | None]:
    """One wave per axis, and the measure whose full weights must multiply the field first (None if the axes' do).

    ``index_space``: under the counting measure, phases are j/n as in the FFT.
    """
    if measure == COUNTING and index_space:
        return tuple(Wave(None, None, p) for p in padding), None
    base, full = measure, None
    while isinstance(base, (Blend, Masked)):
        base, full = (base.quadrature if isinstance(base, Blend) else base.base), measure
    if isinstance(base, Separable):
        axes = COUNTING.axes(ndim) if base == COUNTING else base.axes(ndim)
    else:
        axes, full = tuple(RuleAxis(rule(name)) for name in placements_per_axis(placement, ndim)), measure
    periods: tuple[float | None, ...] = period if period is not None else (None,) * ndim
    return tuple(Wave(a, p, q) for a, p, q in zip(axes, periods, padding, strict=True)), full
