"""The torch kernel's short way on a CPU, where the mean is of the size of the standard deviation.

It is, inside most networks. Then a·x + b loses nothing against (x − μ)·rstd, and the raw moments Σ w x and Σ w x² lose
nothing against moments about a pivot. Most rules on grids give all samples but those of the faces one weight c: then
the moments are c times plain ones, which PyTorch takes in sweeps that only read, and a correction on the faces. For
other weights its batch-norm kernels make two sums in one sweep; they also write a·x + b. What is left, a few numbers
per channel, is numpy's: there are two dozen small operations, and PyTorch's cost several times as much. None of these
operations is changed by autocast.

x, g and the outputs are contiguous (B, C, N), in float32 or float64, w is (1 or B, N), statistics are (3, B, G).
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from quadnorm.norms.kernels.blocks import SMALL, channel_blocks, is_one_block, pieces, row_blocks
from quadnorm.norms.kernels.inputs import Inputs

# |mean| over standard deviation up to which raw moments serve, whose error grows by its square, and a·x + b, where it
# grows by the factor itself.
RAW, AFFINE = 4, 16

# Numbers that one operation after the other is given where there are few operations, 4 MiB of float32: the last cache
# holds them, and calls cost more than the nearer ones give.
NEAR = SMALL

Array = np.ndarray[Any, Any]
_quiet = np.errstate(all="ignore")  # infinities and NaN mean what they say


class Faces(NamedTuple):
    """Weights that are one number inside of a grid: that number, and what the samples on its faces have beyond it."""

    inside: float
    slabs: tuple[tuple[slice, ...], ...]
    """Disjoint parts of the grid that make up its faces, as indices into (B, C, *spatial)."""
    beyond: Tensor
    """(M,), for the samples of all slabs, one after the other."""

    def of(self, x: Tensor) -> Tensor:
        """The samples of x (B, C, *spatial) on the faces, (B·C, M)."""
        parts = [x[slab].flatten(2) for slab in self.slabs]
        return torch.cat(parts, 2).view(-1, self.beyond.numel())

    def add(self, dx: Tensor, values: Tensor) -> None:
        """Add values (B·C, M) to dx (B, C, *spatial) on the faces."""
        start = 0
        for slab in self.slabs:
            part = dx[slab]
            count = part[0, 0].numel()
            part += values[:, start : start + count].view(part.shape)
            start += count


_FACES: Any = WeakIdKeyDictionary()  # of weights that a layer keeps


def faces_of(w: Tensor, spatial: tuple[int, ...]) -> Faces | None:
    """The faces of weights w (1 or B, N) on a grid, if they are one number inside; else None."""
    if w.shape[0] > 1 or min(spatial) < 3:
        return None
    known: tuple[Any, Faces | None] | None = _FACES.get(w)
    key = 0 if w.is_inference() else w._version, spatial
    if known is None or known[0] != key:
        with torch.inference_mode(False), torch.no_grad():  # as for :func:`_constants`
            known = key, _faces(w.view(spatial))
        _FACES[w] = known
    return known[1]


def _faces(w: Tensor) -> Faces | None:
    inner = w[(slice(1, -1),) * w.ndim]
    low, high = (float(v) for v in inner.aminmax())
    if not (low > 0 and high - low <= 4 * torch.finfo(w.dtype).eps * high):
        return None
    slabs = [
        (slice(None),) * 2 + (slice(1, -1),) * axis + (end,) + (slice(None),) * (w.ndim - axis - 1)
        for axis in range(w.ndim)
        for end in (slice(0, 1), slice(-1, None))
    ]
    beyond = torch.cat([w[slab[2:]].flatten() for slab in slabs]) - high
    # Faces that hold a good part of all samples are not worth a second way.
    return Faces(high, tuple(slabs), beyond) if 4 * beyond.numel() <= w.numel() else None


@_quiet
def forward(given: Inputs, y: Tensor, stats: Tensor, faces: Faces | None = None, field: Tensor | None = None) -> bool:
    """Write y and the statistics; False if a mean is too far from 0, and then y is only written over.

    ``field`` is x as (B, C, *spatial), for the faces.
    """
    x, w, weight, bias, groups, eps, centre, _ = given
    B, C, _ = x.shape
    if faces is None or field is None:
        first, second = raw_moments(x, w, y)
    else:
        first, second = moments_with_faces(x, faces, field)
    if groups < C:
        first, second = first.reshape(B, groups, -1).mean(2), second.reshape(B, groups, -1).mean(2)
    if centre:
        squared = first * first
        variance = second - squared
        least = np.maximum(squared * RAW**-2, 2e-3 * eps)
        if not (variance >= least).all() and not ((variance >= least) | (second == 0)).all():
            return False
    else:
        first, variance = np.zeros_like(first), second
    high, low, rstd = stats.numpy()
    high[:], low[:], rstd[:] = first, 0, 1 / np.sqrt(variance + eps)
    _write(x, weight, bias, y, high, rstd)
    return True


@_quiet
def is_moderate(stats: Tensor, eps: float) -> bool:
    """Whether :func:`output` and :func:`gradient` serve for these statistics."""
    mean, _, rstd = stats.numpy()
    variance = 1 / (rstd * rstd) - eps
    # A constant field must give exactly β, and its variance, recovered from rstd, is only nearly 0.
    enough = variance >= np.maximum(mean * mean * AFFINE**-2, 1e-3 * eps)
    return bool(enough.all() or (enough | (mean == 0)).all())


def raw_moments(x: Tensor, w: Tensor, space: Tensor) -> tuple[Array, Array]:
    """Σ w·x and Σ w·x² of each channel, (B, C) each; ``space``, as large as x, is written to."""
    B, C, N = x.shape
    if is_one_block(x):
        product = torch.mul(x, w if w.shape[0] == 1 else w[:, None], out=space)
        first, second = _sums(product, x, None)
        return first.reshape(B, C), second.reshape(B, C)
    xs = x.view(1, B * C, N) if w.shape[0] == 1 else x
    moments = np.zeros((2, *xs.shape[:2]))
    for b, c, i, product in channel_blocks(xs, space):
        part = xs[b, c, i]
        first, second = _sums(torch.mul(part, w[b, i], out=product), part, None)
        moments[0, b, c] += first
        moments[1, b, c] += second
    return moments[0].reshape(B, C), moments[1].reshape(B, C)


def moments_with_faces(x: Tensor, faces: Faces, field: Tensor) -> tuple[Array, Array]:
    """The same for weights that are one number inside: plain sums, and a correction on the faces."""
    B, C, N = x.shape
    K, R = B * C, pieces(N)
    rows = x.view(K, R, N // R)
    moments = np.empty((2, K))
    step = max(1, NEAR // N)
    for k in range(0, K, step):
        part = rows[k : k + step]  # read twice while it is in the cache
        moments[0, k : k + step] = part.sum(2).numpy().sum(1, dtype=np.float64)
        moments[1, k : k + step] = np.square(torch.linalg.vector_norm(part, dim=2).numpy(), dtype=np.float64).sum(1)
    at = faces.of(field)
    moments *= faces.inside
    weighted = at * faces.beyond
    moments[0] += weighted.sum(1).numpy()
    moments[1] += weighted.mul_(at).sum(1).numpy()
    return moments[0].reshape(B, C), moments[1].reshape(B, C)


@_quiet
def output(x: Tensor, weight: Tensor | None, bias: Tensor | None, y: Tensor, stats: Tensor) -> None:
    """Write γ·(x − μ)·rstd + β into y."""
    high, low, rstd = stats.numpy()
    _write(x, weight, bias, y, high + low, rstd)


def _numbers(parameter: Tensor) -> Array:
    """A copy of γ or β: what NumPy shares cannot be resized, and FSDP resizes what it has gathered."""
    return parameter.detach().clone().numpy()


def _write(x: Tensor, weight: Tensor | None, bias: Tensor | None, y: Tensor, mean: Array, rstd: Array) -> None:
    slope, mean = _per_channel(rstd, x.shape[1]), _per_channel(mean, x.shape[1])
    if weight is not None:
        slope = slope * _numbers(weight)
    offset = -mean * slope if bias is None else _numbers(bias) - mean * slope
    _affine(x, slope, offset, y)


@_quiet
def gradient(
    g: Tensor, x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, centre: bool, dx: Tensor, sums: Tensor,
    faces: Faces | None = None, field: Tensor | None = None,
) -> None:  # fmt: skip
    """Write dx and the sums Σ g and Σ g·ŷ (2, B, C).

    dx = rstd·γ·g + w·(offset + slope·x), where slope and offset, one each per group, follow from the sums.
    """
    B, C, _ = x.shape
    high, low, rstd = stats.numpy()
    mean, scale = high + low, _per_channel(rstd, C)
    totals, products = _sums(g, x, _per_channel(mean, C))
    s = sums.numpy()
    s[0], s[1] = totals.reshape(B, C), products.reshape(B, C) * scale
    h = s
    if weight is not None:
        gamma = _numbers(weight)
        h, scale = s * gamma, scale * gamma
    if rstd.shape[1] < C:
        h = h.reshape(2, B, rstd.shape[1], -1).mean(3)
    slope = -rstd * rstd * h[1]
    offset = -slope * mean - rstd * h[0] if centre else -slope * mean
    slope, offset, factor = _per_channel(slope, C), _per_channel(offset, C), torch.from_numpy(scale)[:, :, None]
    if faces is not None and field is not None:
        on_faces = faces.of(field)
        tilt, level = (torch.from_numpy(t.reshape(-1, 1)) for t in (slope, offset))
        slope, offset = slope * faces.inside, offset * faces.inside
        slope, offset = slope.astype(rstd.dtype, copy=False), offset.astype(rstd.dtype, copy=False)
        for r, c, i in row_blocks(x, NEAR):
            part = dx[r, c, i]
            _affine(x[r, c, i], slope[r, c], offset[r, c], part)
            part.addcmul_(g[r, c, i], factor[r, c])
        faces.add(dx.view(field.shape), on_faces.mul_(tilt).add_(level).mul_(faces.beyond))
        return
    ws = w[:, None]
    if is_one_block(x):
        _affine(x, slope, offset, dx)
        dx.mul_(ws).addcmul_(g, factor)
        return
    for b, c, i in row_blocks(x):
        part = dx[b, c, i]
        _affine(x[b, c, i], slope[b, c], offset[b, c], part)
        part.mul_(ws[b if w.shape[0] > 1 else slice(None), :, i]).addcmul_(g[b, c, i], factor[b, c])


def _per_channel(values: Array, C: int) -> Array:
    """Numbers of the groups (B, G) for each of their channels, (B, C)."""
    D = C // values.shape[1]
    return values if D == 1 else values.repeat(D, 1)


def _sums(g: Tensor, x: Tensor, mean: Array | None) -> tuple[Array, Array]:
    """Σ g and Σ g·(x − mean) over the samples of contiguous g and x (…, N): batch norm's backward makes both.

    One number each per channel, in pieces: short sums keep their digits, and few channels occupy all threads.
    """
    N = x.shape[-1]
    K, R = x.numel() // N, pieces(N)
    shape = 1, K * R, N // R
    zeros, ones, _, _ = _constants(K * R, x.dtype)
    _, products, totals = torch.ops.aten.native_batch_norm_backward.default(
        g.view(shape), x.view(shape), None, zeros if mean is None else torch.from_numpy(mean.repeat(R)), ones,
        None, None, False, 0.0, [False, True, True],
    )  # fmt: skip
    if R == 1:
        return totals.numpy(), products.numpy()
    return totals.numpy().reshape(K, R).sum(1, np.float64), products.numpy().reshape(K, R).sum(1, np.float64)


def _affine(x: Tensor, slope: Array, offset: Array, y: Tensor) -> None:
    """Write slope·x + offset into y, for a contiguous block (B, C, N): batch norm, with mean 0 and variance 1."""
    shape = 1, slope.size, x.shape[2]
    a, b = torch.from_numpy(slope.reshape(-1)), torch.from_numpy(offset.reshape(-1))
    mean, variance, *unused = _constants(slope.size, x.dtype)
    torch.native_batch_norm(x.view(shape), a, b, mean, variance, False, 0.0, 0.0, out=(y.view(shape), *unused))


@lru_cache(maxsize=64)
def _constants(size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Zeros, ones, and two tensors without numbers, for what batch norm would save; none of them is ever changed."""
    with torch.inference_mode(False):  # tensors born in inference mode could not be written to outside of it
        zeros = torch.zeros(size, dtype=dtype, device="cpu")
        return zeros, torch.ones_like(zeros), zeros.new_empty(0), zeros.new_empty(0)
