"""Spectra: which dimensions a transform works along, spectra of other lengths, and waves evaluated anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi, prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from quadnorm._precision import full_precision
from quadnorm.adapt.calls import Step
from quadnorm.adapt.forms import Form
from quadnorm.adapt.points import PointNodes, indices, values_at_points
from quadnorm.adapt.watch import CannotFollowError
from quadnorm.measures._cache import TensorCache

_MATRICES = TensorCache(64 * 2**20)

Positions = tuple[float, ...]  # as (fractional) indices into the training samples
FORWARD = ("fft", "rfft", "fft2", "rfft2", "fftn", "rfftn")

INVERSE = ("ifft", "irfft", "ifft2", "irfft2", "ifftn", "irfftn")


def transformed(step: Step) -> list[int]:
    """The dimensions that are transformed, the last of them perhaps to half a spectrum."""
    given, name = step.arguments, step.call.name
    x, dim = given["input"], given.get("dim")
    if dim is None:
        if name.endswith("2"):
            dim = (-2, -1)
        elif name.endswith("n"):
            count = len(given["s"]) if given.get("s") is not None else x.ndim
            dim = tuple(range(-count, 0))
        else:
            dim = -1
    return [d % x.ndim for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]


def over_samples(step: Step) -> bool:
    """Whether samples are transformed."""
    return bool(set(transformed(step)) & set(step.moving(step.arguments["input"])))


def lengths(step: Step, dims: list[int], inverse_half: bool = False) -> list[int]:
    """Samples per transformed dimension, on the grid of this call."""
    return lengths_of(step.arguments, step.arguments["input"].shape, dims, inverse_half)


def lengths_of(given: Mapping[str, Any], shape: Sequence[int], dims: list[int], inverse_half: bool) -> list[int]:
    """Samples per transformed dimension of a call with the given arguments, whose input has ``shape``."""
    wanted = given.get("s", given.get("n"))
    if wanted is not None:
        sizes = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
        return [shape[d] if n == -1 else int(n) for n, d in zip(sizes, dims, strict=True)]
    sizes = [shape[d] for d in dims]
    if inverse_half:
        sizes[-1] = 2 * (sizes[-1] - 1)
    return sizes


def resized(X: Tensor, dim: int, size: int, half: bool) -> Tensor:
    """A spectrum's low waves in an array of another length: 0, 1, …, and from its end −1, −2, … unless ``half``."""
    old = X.shape[dim]
    if old == size:
        return X
    both = min(old, size)
    front = both if half else (both + 1) // 2
    parts = [X.narrow(dim, 0, front)]
    if size > both:
        shape = list(X.shape)
        shape[dim] = size - both
        parts.append(X.new_zeros(shape))
    if not half and both // 2:
        parts.append(X.narrow(dim, old - both // 2, both // 2))
    return torch.cat(parts, dim) if len(parts) > 1 else parts[0]


def synthesised(
    Y: Tensor, dims: list[int], native: list[int], at: list[Positions], half: bool, norm: str | None
) -> Tensor:
    r"""The inverse transform of Y to ``native`` samples, at places t: :math:`\sum_k Y_k e^{2\pi i k t / n_0}`."""
    Y = _fitted_waves(Y, dims, native, half) * (1 / _divisor(native, norm))
    complexes = dims[:-1] if half else dims
    for d, n0, t in zip(complexes, native, at, strict=False):
        E = _waves(n0, t, False, Y)
        Y = torch.matmul(Y.movedim(d, -1), E).movedim(-1, d)
    if not half:
        return Y
    E = _waves(native[-1], at[-1], True, Y)
    Y = Y.movedim(dims[-1], -1)
    with full_precision(E):
        return torch.matmul(torch.cat([Y.real, Y.imag], -1), E).movedim(-1, dims[-1])


def _fitted(Y: Tensor, d: int, size: int) -> Tensor:
    """Cut or filled up with zeros at its end, as ``torch.fft`` does."""
    if Y.shape[d] > size:
        return Y.narrow(d, 0, size)
    if Y.shape[d] < size:
        shape = list(Y.shape)
        shape[d] = size - Y.shape[d]
        return torch.cat([Y, Y.new_zeros(shape)], d)
    return Y


def _fitted_waves(Y: Tensor, dims: list[int], native: list[int], half: bool) -> Tensor:
    """A spectrum with as many waves as a transform of ``native`` samples has."""
    for at, (d, n0) in enumerate(zip(dims, native, strict=True)):
        Y = _fitted(Y, d, n0 // 2 + 1 if half and at == len(dims) - 1 else n0)
    return Y


def _divisor(native: list[int], norm: str | None) -> float:
    """What an inverse transform of ``native`` samples divides by."""
    return {None: prod(native), "backward": prod(native), "ortho": sqrt(prod(native)), "forward": 1}[norm]


def _waves(n: int, at: Positions, half: bool, like: Tensor) -> Tensor:
    """Waves of n training samples at N places: (n, N) complex; for half a spectrum (2(n//2 + 1), N) real.

    The real ones are cosines, then −sines, doubled where they stand for two waves.
    """

    def build() -> Tensor:
        t = np.asarray(at)
        if not half:
            k = np.fft.fftfreq(n, 1 / n)
            return torch.from_numpy(np.exp(2j * pi * np.outer(k, t) / n)).to(like.device, like.dtype)
        k = np.arange(n // 2 + 1, dtype=np.float64)
        times = np.where((k == 0) | (2 * k == n), 1.0, 2.0)[:, None]
        angle = 2 * pi * np.outer(k, t) / n
        rows = np.concatenate([times * np.cos(angle), -times * np.sin(angle)])
        return torch.from_numpy(rows).to(like.device, like.real.dtype)

    return _MATRICES.get((n, at, half, like.device, like.dtype), build)


# --- at scattered points ---------------------------------------------------------------------------------------------


def synthesised_at_points(
    nodes: PointNodes, Y: Tensor, dims: list[int], native: list[int], forms: list[Form], half: bool, norm: str | None
) -> Tensor:
    r"""The inverse transform of Y at the points, :math:`\sum_k Y_k e^{2\pi i k\cdot t / n_0}`, in their arrangement.

    Where the model has padded, zeros stand around it: it cuts them off.
    """
    side_by_side = dims == list(range(dims[0], dims[0] + len(dims)))
    if [f.axes for f in forms] != [(k,) for k in range(len(nodes.native))] or not side_by_side:
        raise CannotFollowError("the model transforms single axes of the grid, which scattered points have not")
    waves = [_waves_at_points(nodes, k, forms[k], n0, half and k == len(dims) - 1) for k, n0 in enumerate(native)]
    Y = _fitted_waves(Y, dims, native, half) / _divisor(native, norm)
    y = values_at_points(Y, dims, waves)
    y = torch.unflatten(y.real if half else y, dims[0], nodes.shape)
    amounts: list[int] = []
    for k, f in enumerate(forms):
        before, extra = nodes.origin(k, f.extra[0]), nodes.extra(k, f.extra[0])
        amounts = [before, extra - before, *amounts]
    after = y.ndim - dims[-1] - 1
    return pad(y, [0, 0] * after + amounts) if any(amounts) else y


def _waves_at_points(nodes: PointNodes, k: int, form: Form, n0: int, half: bool) -> Tensor:
    """(P, waves): the waves of n0 samples along axis k at the points, doubled where they stand for two."""
    t = indices(nodes.placements[k], nodes.native[k], nodes.points[:, k]) + nodes.origins.get((k, form.extra[0]), 0)
    m = np.arange(n0 // 2 + 1) if half else np.fft.fftfreq(n0, 1 / n0)
    times = np.where((m == 0) | (2 * m == n0), 1.0, 2.0) if half else 1.0
    return torch.from_numpy(np.exp(2j * np.pi * np.outer(t, m) / n0) * times)
