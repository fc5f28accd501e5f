"""Fourier transforms: the kept waves as sums under the training grid's measure, with its period."""

from __future__ import annotations

from math import pi, prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm.adapt.anchoring.summing.weights import Weighted, nothing, register
from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.calls.functions.signatures import bound
from quadnorm.adapt.calls.grids.forms import Form
from quadnorm.adapt.calls.grids.nodes import positions
from quadnorm.adapt.extending import waves
from quadnorm.measures import Anchored
from quadnorm.measures._cache import TensorCache

_MATRICES = TensorCache(64 * 2**20)


def _places(step: Weighted, form: Form, size: int) -> tuple[float, ...]:
    """New samples of an axis as indices into its training samples."""
    k, extra = form.axes[0], form.extra[0]
    nodes = step.nodes
    placed = nodes.placements[k], nodes.native[k], nodes.shape[k]
    origins = nodes.origin(k, extra), nodes.origins.get((k, extra), 0)
    return tuple(positions(*placed, size - nodes.shape[k], *origins))


def _own(step: Weighted, form: Form, n0: int, n: int) -> tuple[tuple[float, ...], Tensor | None] | None:
    """Places and counts of n samples on a grid of its own, such as every second sample, which in training has n0; it is
    placed as the axis is. None for other axes."""
    if form.on_grid or len(form.axes) != 1:
        return None
    placement = step.nodes.placements[form.axes[0]]
    return tuple(positions(placement, n0, n)), n0 * Anchored((n0,), (placement,)).weights(n)


def _native_lengths(step: Weighted, dims: list[int], inverse_half: bool) -> list[int]:
    """Samples per transformed dimension on the training grid."""
    g = bound(step.call.name, step.call.args, step.call.kwargs)
    wanted = g.get("s", g.get("n"))
    slot = 0
    shape = step.call.shapes[slot]
    if wanted is not None:
        sizes = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
        return [shape[d] if n == -1 else int(n) for n, d in zip(sizes, dims, strict=True)]
    sizes = [shape[d] for d in dims]
    if inverse_half:
        sizes[-1] = 2 * (sizes[-1] - 1)
    return sizes


def _forward(step: Step) -> Tensor:
    assert isinstance(step, Weighted)
    dims, half = waves.transformed(step), step.call.name.startswith("r")
    x = step.given["input"]
    forms, native = step.forms(x), _native_lengths(step, dims, False)
    sizes = waves.lengths(step, dims)
    X: Tensor = x
    for at in reversed(range(len(dims))):
        d, n0, f = dims[at], native[at], forms[dims[at]]
        last = half and at == len(dims) - 1
        n = sizes[at]
        if f.on_grid and len(f.axes) == 1:
            counts = step.nodes.counts(f, x)
            E = _analysis(n0, _places(step, f, x.shape[d]), counts, last, x)
            X = _apply(X, d, E, real=last)
            low = min(n0, n)
            X = _resized_low(X, d, n0, n, low, last)
            continue
        own = _own(step, f, n0, n) if n == x.shape[d] else None
        if own is not None:
            X = _resized_low(_apply(X, d, _analysis(n0, *own, last, x), real=last), d, n0, n, min(n0, n), last)
        else:
            X = torch.fft.rfft(X, n, d) if last else torch.fft.fft(X, n, d)
            X = X * (n0 / n) if n != n0 else X  # as many samples as in training are counted
    norm = step.given.get("norm")
    scale = {None: 1.0, "backward": 1.0, "ortho": 1 / sqrt(prod(native)), "forward": 1 / prod(native)}[norm]
    return X * scale if scale != 1 else X


def _resized_low(X: Tensor, d: int, n0: int, n: int, low: int, half: bool) -> Tensor:
    """From n0 waves to the array that a transform of n samples gives, waves that alias there left out."""
    return waves.resized(X, d, n // 2 + 1 if half else n, half)


def _apply(X: Tensor, d: int, E: Tensor, real: bool) -> Tensor:
    Y = X.movedim(d, -1)
    if real and not X.is_complex():
        with full_precision(X):
            both = torch.matmul(Y.to(E.dtype), E)  # cosines, then −sines
        re, im = both.chunk(2, -1)
        return torch.complex(re, im).movedim(-1, d)
    return torch.matmul(Y.to(E.dtype), E).movedim(-1, d)


def _analysis(n0: int, places: tuple[float, ...], counts: Tensor | None, half: bool, like: Tensor) -> Tensor:
    """Columns count_j e^{−2πi k t_j / n0}: (N, n0) complex, or (N, 2(n0//2 + 1)) real."""
    real = torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32

    def build() -> Tensor:
        t = np.asarray(places)
        w = np.ones(t.size) if counts is None else counts.double().cpu().numpy()
        k = np.arange(n0 // 2 + 1) if half else np.fft.fftfreq(n0, 1 / n0)
        angle = 2 * pi * np.outer(t, k) / n0
        if half and not like.is_complex():
            rows = np.concatenate([w[:, None] * np.cos(angle), -w[:, None] * np.sin(angle)], 1)
            return torch.from_numpy(rows).to(like.device, real)
        return torch.from_numpy(w[:, None] * np.exp(-1j * angle)).to(like.device, real.to_complex())

    key = (
        n0,
        places,
        None if counts is None else tuple(counts[:3].tolist()),
        half,
        like.device,
        real,
        like.is_complex(),
    )
    return _MATRICES.get(key, build)


def _inverse(step: Step) -> Tensor:
    assert isinstance(step, Weighted)
    dims, half = waves.transformed(step), step.call.name.startswith("ir")
    Y = step.given["input"]
    native, sizes = _native_lengths(step, dims, half), waves.lengths(step, dims, half)
    for at, d in enumerate(dims):
        last = half and at == len(dims) - 1
        Y = waves.resized(Y, d, step.call.shapes[0][d], last)
    forms = step.call.returned[0]
    places: list[Any] = []
    for d, n0, n in zip(dims, native, sizes, strict=True):
        f = forms[d]
        own = _own(step, f, n0, n)
        if f.on_grid and len(f.axes) == 1:
            places.append(_places(step, f, n))
        else:
            places.append(tuple(np.arange(n) * (n0 / n)) if own is None else own[0])
    return waves.synthesised(Y, dims, native, places, half, step.given.get("norm"))


register(
    waves.FORWARD,
    StepRow(
        "anchored", "FFT → sums with the training grid's measure and period", waves._over_samples, nothing, _forward
    ),
)
register(
    waves.INVERSE,
    StepRow("anchored", "waves with the training grid's period", waves._over_samples, nothing, _inverse),
)
