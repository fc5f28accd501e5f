"""Shifts of the training grid by parts of its spacing: where inputs come from, and where outputs go, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm._tensors import constant
from quadnorm.adapt.watching.nodes import interpolation
from quadnorm.carry.lines import matrix_at
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS, among


@dataclass(frozen=True)
class Shift:
    """One shift of the training grid along an axis: where its inputs come from, and where its outputs go.

    ``value`` is in spacings of the training grid. Input: ``matrix`` (n0, n), or where all its nodes are samples
    ``index``; ``beyond`` marks nodes outside of the samples, which continue the field by odd reflection about the
    outermost sample, ``edge``. Output: the sample ``target`` takes ``share`` of the output at ``node``.
    """

    value: float
    index: Tensor  # (n0,): the sample at each node, or the nearest one; beyond the samples their mirror image
    beyond: Tensor | None
    edge: Tensor
    matrix: Tensor | None
    target: Tensor
    node: Tensor
    share: Tensor

    @constant
    def takes_all(self) -> bool:
        """Whether every target takes all of an output."""
        return bool((self.share == 1).all())

    def taken(self, x: Tensor, dim: int) -> Tensor:
        """A field's values at the shifted nodes."""
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
def axis_shifts(placement: str, n0: int, n: int, floor: bool, method: str) -> tuple[int, tuple[Shift, ...]]:
    """The shifts of an axis of n0 training samples that together give n samples, and how many they give.

    That is n, unless the two grids have so little in common that every new sample would need a run of its own: then it
    is the next whole multiple of the training grid, from which outputs are to be carried on.

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
    uses: dict[int, list[tuple[int, int, float]]] = {}  # shift · b → (target, node, share)
    for j, at in enumerate(a.tolist()):
        i, s = divmod(at, b)
        pair = [(s, i, 1.0)] if floor or not s else [(s, i, 1 - s / b), (s - b, i + 1, s / b)]
        exist = [(t, k % n0 if wraps else k, share) for t, k, share in pair if wraps or 0 <= k < n0]
        total = sum(share for _, _, share in exist)
        for t, k, share in exist:
            uses.setdefault(t, []).append((j, k, share / total))
    shifts = []
    for numerator in sorted(uses, key=abs):
        target, node, share = (torch.from_numpy(np.array(column)) for column in zip(*uses[numerator], strict=True))
        source = _source(placement, n0, n, (numerator, b), method)
        shifts.append(Shift(numerator / b, *source, target, node, share))
    return size, tuple(shifts)


def _source(
    placement: str, n0: int, n: int, shift: tuple[int, int], method: str
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
    """``index``, ``beyond``, ``edge`` and ``matrix`` for the training grid, shifted by a fraction of its spacing."""
    more, wraps = PLACEMENTS[placement].more, PLACEMENTS[placement].wraps
    at, e = among(placement, n, placement, n0)  # unshifted nodes among the samples: at / e
    if n + more:  # (n + more) / (n0 + more) samples make one training spacing
        at = at * shift[1] * (n0 + more) + e * shift[0] * (n + more)
        e = e * shift[1] * (n0 + more)
    first, last = np.zeros_like(at), np.full_like(at, e * (n - 1))
    outside = np.zeros_like(at, dtype=bool) if wraps else (at < first) | (at > last)
    edge = np.where(at < 0, 0, n - 1)
    if not wraps:
        at = np.where(at < first, -at, np.where(at > last, 2 * last - at, at)).clip(first, last)
    low, rest = at // e, at % e
    index = low + (2 * rest > e)
    index = index % n if wraps else index
    if method == "nearest":  # values stay those of the field
        index = np.where(outside, edge, index)
        return torch.from_numpy(index), None, torch.from_numpy(edge), None
    matrix = None
    if rest.any():
        matrix = matrix_at(torch.from_numpy(low), torch.from_numpy(rest / e), n, method, wraps)
        at_edge = torch.eye(n, dtype=torch.float64, device="cpu")[torch.from_numpy(edge)]
        matrix = torch.where(torch.from_numpy(outside)[:, None], 2 * at_edge - matrix, matrix)
    beyond = torch.from_numpy(outside) if outside.any() else None
    return torch.from_numpy(index), beyond, torch.from_numpy(edge), matrix


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
