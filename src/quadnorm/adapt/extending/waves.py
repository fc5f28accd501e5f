"""Fourier transforms of samples: the native run's spectrum, its waves evaluated at the new nodes."""

from __future__ import annotations

from math import pi, prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.extending.points import PointNodes
from quadnorm.adapt.extending.steps import register
from quadnorm.measures._cache import TensorCache

_MATRICES = TensorCache(64 * 2**20)
FORWARD = "fft rfft fft2 rfft2 fftn rfftn"
INVERSE = "ifft irfft ifft2 irfft2 ifftn irfftn"


def transformed(step: Step) -> list[int]:
    """The dimensions that are transformed, the last of them perhaps to half a spectrum."""
    g, name = step.given, step.call.name
    x = g["input"]
    dim = g.get("dim")
    if dim is None:
        if name.endswith("2"):
            dim = (-2, -1)
        elif name.endswith("n"):
            count = len(g["s"]) if g.get("s") is not None else x.ndim
            dim = tuple(range(-count, 0))
        else:
            dim = -1
    return [d % x.ndim for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]


def _over_samples(step: Step) -> bool:
    return bool(set(transformed(step)) & set(step.moving(step.given["input"])))


def _others(step: Step) -> list[int]:
    """Moving dimensions that are not transformed."""
    dims = set(transformed(step))
    return [d for d in step.moving(step.given["input"]) if d not in dims]


def lengths(step: Step, dims: list[int], inverse_half: bool = False) -> list[int]:
    """Samples per transformed dimension, on the grid of this call."""
    g = step.given
    x = g["input"]
    wanted = g.get("s", g.get("n"))
    if wanted is not None:
        sizes = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
        return [x.shape[d] if n == -1 else int(n) for n, d in zip(sizes, dims, strict=True)]
    sizes = [x.shape[d] for d in dims]
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


# --- forward ---------------------------------------------------------------------------------------------------------


def _keep_forward(step: Step) -> Any:
    return None if _others(step) else step.result.clone()


def _replay_forward(step: Step) -> Tensor:
    dims = transformed(step)
    sizes = lengths(step, dims)
    half = step.call.name.startswith("r")
    X: Any = step.kept
    if X is None:
        x = step.given["input"]
        X = step.func(step.restricted(x, dims), *step.call.args[1:], **_native_options(step))
    for at, (d, n) in enumerate(zip(dims, sizes, strict=True)):
        last = half and at == len(dims) - 1
        X = resized(X, d, n // 2 + 1 if last else n, last)
    spectrum: Tensor = X
    return spectrum


def _native_options(step: Step) -> dict[str, Any]:
    return {k: v for k, v in step.call.kwargs.items() if k not in ("input", "self", "out")}


# --- inverse ---------------------------------------------------------------------------------------------------------


def _keep_inverse(step: Step) -> Any:
    Y = step.given["input"]
    dims = transformed(step)
    native = [step.result.shape[d] for d in dims]
    return (None if _others(step) else Y.clone()), tuple(Y.shape), native


def _replay_inverse(step: Step) -> Tensor:
    Y, shape, native = step.kept
    dims = transformed(step)
    half = step.call.name.startswith("ir")
    sizes = lengths(step, dims, half)
    if Y is None:
        Y = step.given["input"]
        for at, d in enumerate(dims):
            Y = resized(Y, d, shape[d], half and at == len(dims) - 1)
    forms = step.call.returned[0]
    if isinstance(step.nodes, PointNodes):
        return step.nodes.synthesised(Y, dims, native, [forms[d] for d in dims], half, step.given.get("norm"))
    places = []
    for d, n0, n in zip(dims, native, sizes, strict=True):
        f = forms[d]
        one = f.on_grid and len(f.axes) == 1 and n == step.nodes.size(f)
        places.append(tuple(step.nodes.places(f) if one else np.arange(n) * (n0 / n)))
    return synthesised(Y, dims, native, places, half, step.given.get("norm"))


def synthesised(
    Y: Tensor, dims: list[int], native: list[int], places: list[tuple[float, ...]], half: bool, norm: str | None
) -> Tensor:
    r"""The inverse transform of Y to ``native`` samples, at other places: :math:`\sum_k Y_k e^{2\pi i k t / n_0}`."""
    for at, (d, n0) in enumerate(zip(dims, native, strict=True)):
        Y = _fitted(Y, d, n0 // 2 + 1 if half and at == len(dims) - 1 else n0)
    Y = Y * (1 / {None: prod(native), "backward": prod(native), "ortho": sqrt(prod(native)), "forward": 1}[norm])
    complexes = dims[:-1] if half else dims
    for d, n0, t in zip(complexes, native, places, strict=False):
        E = _waves(n0, t, False, Y)
        Y = torch.matmul(Y.movedim(d, -1), E).movedim(-1, d)
    if not half:
        return Y
    E = _waves(native[-1], places[-1], True, Y)
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


def _waves(n: int, places: tuple[float, ...], half: bool, like: Tensor) -> Tensor:
    """(n, N) complex; for half a spectrum (2(n//2 + 1), N) real: cosines, then −sines, doubled where they stand for
    two waves."""

    def build() -> Tensor:
        t = np.asarray(places)
        if not half:
            k = np.fft.fftfreq(n, 1 / n)
            return torch.from_numpy(np.exp(2j * pi * np.outer(k, t) / n)).to(like.device, like.dtype)
        k = np.arange(n // 2 + 1, dtype=np.float64)
        times = np.where((k == 0) | (2 * k == n), 1.0, 2.0)[:, None]
        angle = 2 * pi * np.outer(k, t) / n
        rows = np.concatenate([times * np.cos(angle), -times * np.sin(angle)])
        return torch.from_numpy(rows).to(like.device, like.real.dtype)

    return _MATRICES.get((n, places, half, like.device, like.dtype), build)


register(
    FORWARD,
    StepRow("replayed", "the spectrum is the native run's", _over_samples, _keep_forward, _replay_forward),
)
register(
    INVERSE,
    StepRow(
        "replayed", "the native run's waves, evaluated at the new nodes", _over_samples, _keep_inverse, _replay_inverse
    ),
)
