"""Shifts of the training grid by parts of its spacing: where inputs come from, and where outputs go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm._tensors import constant
from quadnorm.adapt.watching.nodes import interpolation
from quadnorm.carry.lines import matrix_at
from quadnorm.measures._cache import CACHE
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS, among


class Phase(NamedTuple):
    """The samples of a new axis that lie ``theta`` of the way from one training node to the next: ``target`` (T,).

    ``choices``: the runs that have outputs there, each the number of its shift, θ or θ − 1, the ``node`` (T,) that is
    read, and its share, or shares (T,) where some samples have one of the two runs only.
    """

    theta: float
    target: np.ndarray
    choices: list[tuple[int, np.ndarray, float | np.ndarray]]


@dataclass(frozen=True)
class AxisShifts:
    """The shifts of the training grid along an axis that together give the samples of a new one.

    ``values``: in spacings of the training grid. Inputs of shifted grids lie at the places ``rows``: there fields are
    given by the ``matrix`` (R, n), or where all places are samples by ``index``; ``beyond`` marks places outside of the
    samples, which continue the field by odd reflection about the outermost sample, ``edge``. ``at`` (S, n0): the places
    of each shifted grid. Outputs are read as the ``phases`` say, and give ``size`` samples.
    """

    size: int
    values: tuple[float, ...]
    at: np.ndarray
    index: Tensor  # (R,): the sample at each place, or the nearest one; beyond the samples their mirror image
    beyond: Tensor | None
    edge: Tensor
    matrix: Tensor | None
    phases: tuple[Phase, ...]

    def taken(self, x: Tensor, dim: int) -> Tensor:
        """A field's values at the places of all shifted grids."""
        device = x.device
        if not (x.is_floating_point() or x.is_complex()):  # labels: the nearest sample's
            inside = self.index if self.beyond is None else torch.where(self.beyond, self.edge, self.index)
            return x.index_select(dim, inside.to(device))
        if self.matrix is not None:
            dtype = x.dtype if x.dtype in (torch.float64, torch.complex64, torch.complex128) else torch.float32
            with full_precision(x):
                y = torch.matmul(x.to(dtype).movedim(dim, -1), self.matrix.to(device, dtype).T)
            return y.movedim(-1, dim).to(x.dtype)
        y = x.index_select(dim, self.index.to(device))
        if self.beyond is None:
            return y
        edge = x.index_select(dim, self.edge.to(device))
        along = [-1 if k == dim else 1 for k in range(x.ndim)]
        return torch.where(self.beyond.to(device).view(along), 2 * edge - y, y)


@constant
@lru_cache(maxsize=256)
@torch.inference_mode(mode=False)  # tensors born in inference mode could not be saved for a later backward pass
def axis_shifts(placement: str, n0: int, n: int, floor: bool, method: str) -> AxisShifts:
    """The shifts of an axis of n0 training samples that together give n samples.

    They give n, unless the two grids have so little in common that every new sample would need a run of its own: then
    the next whole multiple of the training grid, from which outputs are to be carried on.

    A new sample at θ of the way from one training node to the next takes (1 − θ) of the run that is shifted by θ, and θ
    of the run that is shifted by θ − 1; where one of the two nodes does not exist, all of the other. With ``floor`` all
    of the first, which is the same where the model commutes with rolls by one sample.
    """
    more, wraps = PLACEMENTS[placement].more, PLACEMENTS[placement].wraps
    size, ratio = n, -(-(n + more) // max(n0 + more, 1))
    a, b = among(placement, n0, placement, size)
    if len(set((a % b).tolist())) > 2 * ratio + 1:
        size = ratio * (n0 + more) - more
        a, b = among(placement, n0, placement, size)
    numerators: list[int] = []
    phases = []
    for s in sorted(set((a % b).tolist())):
        target = np.flatnonzero(a % b == s)
        low = a[target] // b
        pair = [(s, low, 1 - s / b), (s - b, low + 1, s / b)] if s and not floor else [(s, low, 1.0)]
        exist = [np.full(len(target), True) if wraps else (node >= 0) & (node < n0) for _, node, _ in pair]
        total = sum(share * e for (_, _, share), e in zip(pair, exist, strict=True))
        choices: list[tuple[int, np.ndarray, float | np.ndarray]] = []
        for (numerator, node, share), e in zip(pair, exist, strict=True):
            if e.any():
                at = node % n0 if wraps else node.clip(0, n0 - 1)
                choices.append((len(numerators), at, share if np.all(exist) else share * e / total))
                numerators.append(numerator)
        phases.append(Phase(s / b, target, choices))
    values = tuple(numerator / b for numerator in numerators)
    return AxisShifts(size, values, *_sources(placement, n0, n, numerators, b, method), tuple(phases))


def _sources(
    placement: str, n0: int, n: int, numerators: list[int], b: int, method: str
) -> tuple[np.ndarray, Tensor, Tensor | None, Tensor, Tensor | None]:
    """``at``, ``index``, ``beyond``, ``edge``, ``matrix`` for the training grid shifted by parts of its spacing / b."""
    more, wraps = PLACEMENTS[placement].more, PLACEMENTS[placement].wraps
    nodes, e = among(placement, n, placement, n0)  # unshifted nodes among the samples: nodes / e
    shifts = np.array(numerators)[:, None]
    if n + more:  # (n + more) / (n0 + more) samples make one training spacing
        nodes = nodes * b * (n0 + more) + e * shifts * (n + more)
        e = e * b * (n0 + more)
    nodes = np.broadcast_to(nodes, (len(numerators), n0))
    at, rows = np.unique(nodes % (e * n) if wraps else nodes, return_inverse=True)
    first, last = np.zeros_like(at), np.full_like(at, e * (n - 1))
    outside = np.zeros_like(at, dtype=bool) if wraps else (at < first) | (at > last)
    edge = np.where(at < 0, 0, n - 1)
    if not wraps:
        at = np.where(at < first, -at, np.where(at > last, 2 * last - at, at)).clip(first, last)
    low, rest = at // e, at % e
    index = low + (2 * rest > e)
    index = index % n if wraps else index
    rows = rows.reshape(nodes.shape)
    if method == "nearest":  # values stay those of the field
        index = np.where(outside, edge, index)
        return rows, torch.from_numpy(index), None, torch.from_numpy(edge), None
    matrix = None
    if rest.any():
        matrix = matrix_at(torch.from_numpy(low), torch.from_numpy(rest / e), n, method, wraps)
        at_edge = torch.eye(n, dtype=torch.float64, device="cpu")[torch.from_numpy(edge)]
        matrix = torch.where(torch.from_numpy(outside)[:, None], 2 * at_edge - matrix, matrix)
    beyond = torch.from_numpy(outside) if outside.any() else None
    return rows, torch.from_numpy(index), beyond, torch.from_numpy(edge), matrix


class GridShifts:
    """The shifted grids that together give the samples of a new one, and how their outputs are blended.

    Where one phase of each axis meets, a cell of the training grid is cut into simplices along its diagonal, on which
    shares are linear: of the axes that are blended those with the largest θ are shifted by θ − 1. So d + 1 runs do what
    2^d would, and the blend is continuous. An axis where some samples have one run only has shares of its own.

    >>> shifts = GridShifts(("periodic",) * 2, (8, 8), (16, 16), (False, False), "cubic")
    >>> shifts.shifts
    [(0.0, 0.0), (0.0, 0.5), (0.0, -0.5), (0.5, 0.0), (-0.5, 0.0), (0.5, 0.5), (-0.5, -0.5)]
    """

    def __init__(
        self, placements: tuple[str, ...], native: Shape, shape: Shape, floor: tuple[bool, ...], method: str
    ) -> None:
        self.native, self.key = native, (placements, native, shape, floor, method)
        self.axes = [axis_shifts(*axis, method) for axis in zip(placements, native, shape, floor, strict=True)]
        self.shape: Shape = tuple(axis.size for axis in self.axes)
        self.places = [_blended(phases) for phases in product(*(axis.phases for axis in self.axes))]
        self.runs = [tuple(number for number, _, _ in choices) for place in self.places for choices, _ in place]

    @property
    def shifts(self) -> list[tuple[float, ...]]:
        """Of each run the shift of each axis."""
        return [tuple(axis.values[s] for axis, s in zip(self.axes, run, strict=True)) for run in self.runs]

    def inputs(self, x: Tensor, dims: Sequence[int], runs: range) -> Tensor:
        """A field on the shifted grids of these runs, one after the other along its first axis if there are several."""
        d = len(dims)
        for axis, dim in zip(self.axes, dims, strict=True):
            x = axis.taken(x, dim)
        last = tuple(range(-d, 0))
        x = x.movedim(tuple(dims), last)
        index = CACHE.get(("shifted inputs", *self.key, runs, x.device), lambda: self._rows(runs).to(x.device))
        y = torch.unflatten(x.flatten(-d)[..., index], -1, (len(runs), *self.native))
        y = y.movedim(-1 - d, 0).flatten(0, 1) if len(runs) > 1 else y.squeeze(-1 - d)
        return torch.movedim(y, last, tuple(dims))

    def _rows(self, runs: range) -> Tensor:
        """Where the samples of these runs stand in the row of all places."""
        sizes = [len(axis.index) for axis in self.axes]
        row = [
            np.ravel_multi_index(np.ix_(*(a.at[s] for a, s in zip(self.axes, self.runs[k], strict=True))), sizes)
            for k in runs
        ]
        return torch.from_numpy(np.concatenate([r.ravel() for r in row]))

    def blended(self, parts: Sequence[Tensor]) -> Tensor:
        """A field (..., *shape) of its outputs (..., *native) of all runs."""
        d, like = len(self.native), parts[0]
        x = torch.stack(list(parts), -1 - d).flatten(-1 - d)
        index = CACHE.get(("shifted outputs", *self.key, x.device), lambda: self._outputs()[0].to(x.device))
        y = x[..., index[0]]
        if len(index) > 1:
            dtype = torch.float64 if x.dtype in (torch.float64, torch.complex128) else torch.float32
            key = ("shares of shifted outputs", *self.key, x.device, dtype)
            shares = CACHE.get(key, lambda: self._outputs()[1].to(x.device, dtype))
            y = y * shares[0]
            for at, share in zip(index[1:], shares[1:], strict=True):
                y = y + x[..., at] * share
        return torch.unflatten(y.to(like.dtype), -1, self.shape)

    def _outputs(self) -> tuple[Tensor, Tensor]:
        """Of each sample of the new grid the places in the row of all outputs that it is blended of, and their shares:
        (V, N) each."""
        most = max(map(len, self.places))
        index = np.zeros((most, *self.shape), dtype=np.int64)
        shares = np.zeros((most, *self.shape))
        run = 0
        for phases, place in zip(product(*(axis.phases for axis in self.axes)), self.places, strict=True):
            at = np.ix_(*(p.target for p in phases))
            for v, (choices, joint) in enumerate(place):
                nodes = np.ravel_multi_index(np.ix_(*(node for _, node, _ in choices)), self.native)
                index[v][at] = nodes + run * np.prod(self.native, dtype=np.int64)
                own = np.ix_(*(np.broadcast_to(1.0 if np.isscalar(s) else s, len(node)) for _, node, s in choices))
                shares[v][at] = joint * np.prod(np.broadcast_arrays(*own), axis=0)
                run += 1
            for v in range(len(place), most):  # a share of nothing, and of nothing that is not finite
                index[v][at] = index[0][at]
        return torch.from_numpy(index).flatten(1), torch.from_numpy(shares).flatten(1)


def _blended(phases: Sequence[Phase]) -> list[tuple[Any, float]]:
    """The choices of each axis that are blended where these phases meet, with their shares."""
    joint = [len(p.choices) == 2 and np.isscalar(p.choices[0][2]) for p in phases]
    found = []
    for numbers in product(*(range(len(p.choices)) for p in phases)):
        both = [(back, p.theta) for back, p, is_joint in zip(numbers, phases, joint, strict=True) if is_joint]
        share = min([t for back, t in both if back], default=1.0)
        share -= max([t for back, t in both if not back], default=0.0)
        if share > 0:
            found.append((tuple(p.choices[k] for p, k in zip(phases, numbers, strict=True)), share))
    return found


def whole_multiple(native: Shape, shape: Shape, placements: Sequence[str]) -> Shape:
    """The grid a whole number of times finer than the training grid that is the next to ``shape``, on every axis.

    >>> whole_multiple((33, 32), (100, 16), ("endpoint", "periodic"))
    (129, 32)
    """
    sizes = []
    for n0, n, placement in zip(native, shape, placements, strict=True):
        more = PLACEMENTS[placement].more
        sizes.append(max(-(-(n + more) // max(n0 + more, 1)), 1) * (n0 + more) - more)
    return tuple(sizes)


@constant
@lru_cache(maxsize=256)
@torch.inference_mode(mode=False)  # tensors born in inference mode could not be saved for a later backward pass
def shift_matrix(n: int, shift: float) -> Tensor:
    """M (n, n): values at n samples to values at places ``shift`` spacings further."""
    return interpolation(np.arange(n) + shift, n, wraps=False)
