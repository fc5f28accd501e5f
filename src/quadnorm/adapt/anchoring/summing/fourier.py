"""Fourier transforms: the kept waves as sums under the training grid's measure, with its period."""

from __future__ import annotations

from math import pi, prod, sqrt

import numpy as np
import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm.adapt.anchoring.summing.table import SumRow, register
from quadnorm.adapt.anchoring.summing.weights import WeightedStep
from quadnorm.adapt.calls.functions.signatures import bound
from quadnorm.adapt.calls.grids.forms import Form
from quadnorm.adapt.calls.grids.nodes import positions
from quadnorm.adapt.extending.families import spectra
from quadnorm.adapt.extending.families.spectra import Positions
from quadnorm.measures import Anchored
from quadnorm.measures._cache import TensorCache

_MATRICES = TensorCache(64 * 2**20)


def _positions(step: WeightedStep, form: Form, size: int) -> Positions:
    """New samples of an axis of the grid as indices into its training samples."""
    k, extra = form.axes[0], form.extra[0]
    nodes = step.nodes
    placed = nodes.placements[k], nodes.native[k], nodes.shape[k]
    origins = nodes.origin(k, extra), nodes.origins.get((k, extra), 0)
    return tuple(positions(*placed, size - nodes.shape[k], *origins))


def _on_own_grid(step: WeightedStep, form: Form, n0: int, n: int) -> tuple[Positions, Tensor] | None:
    """Positions and counts of n samples on a grid of its own, such as every second sample, which has n0 in training.

    Its samples are taken to lie as those of the whole axis do. None for other dimensions.
    """
    if form.on_grid or len(form.axes) != 1:
        return None
    placement = step.nodes.placements[form.axes[0]]
    return tuple(positions(placement, n0, n)), n0 * Anchored((n0,), (placement,)).weights(n)


def _native_lengths(step: WeightedStep, dims: list[int], inverse_half: bool) -> list[int]:
    """Samples per transformed dimension on the training grid."""
    given = bound(step.call.name, step.call.args, step.call.kwargs)
    return spectra.lengths_of(given, step.call.argument_shapes[0], dims, inverse_half)


# --- forward ---------------------------------------------------------------------------------------------------------


def _forward(step: WeightedStep) -> Tensor:
    dims, half = spectra.transformed(step), step.call.name.startswith("r")
    native, sizes = _native_lengths(step, dims, False), spectra.lengths(step, dims)
    X: Tensor = step.arguments["input"]
    for at in reversed(range(len(dims))):
        X = _forward_along(step, X, dims[at], native[at], sizes[at], half and at == len(dims) - 1)
    norm = step.arguments.get("norm")
    scale = {None: 1.0, "backward": 1.0, "ortho": 1 / sqrt(prod(native)), "forward": 1 / prod(native)}[norm]
    return X * scale if scale != 1 else X


def _forward_along(step: WeightedStep, X: Tensor, d: int, n0: int, n: int, half: bool) -> Tensor:
    """The transform of n samples along dimension d, as many counted as the training grid's n0."""
    x = step.arguments["input"]
    form = step.forms(x)[d]
    if form.on_grid and len(form.axes) == 1:
        E = _analysis(n0, _positions(step, form, x.shape[d]), step.nodes.counts(form, x), half, x)
    else:
        own = _on_own_grid(step, form, n0, n) if n == x.shape[d] else None
        if own is None:
            X = torch.fft.rfft(X, n, d) if half else torch.fft.fft(X, n, d)
            return X * (n0 / n) if n != n0 else X
        E = _analysis(n0, *own, half, x)
    # From n0 waves to the array that a transform of n samples gives; waves that alias there are left out.
    return spectra.resized(_applied(X, d, E, real=half), d, n // 2 + 1 if half else n, half)


def _applied(X: Tensor, d: int, E: Tensor, real: bool) -> Tensor:
    Y = X.movedim(d, -1)
    if real and not X.is_complex():
        with full_precision(X):
            both = torch.matmul(Y.to(E.dtype), E)  # cosines, then −sines
        re, im = both.chunk(2, -1)
        return torch.complex(re, im).movedim(-1, d)
    return torch.matmul(Y.to(E.dtype), E).movedim(-1, d)


def _analysis(n0: int, at: Positions, counts: Tensor | None, half: bool, like: Tensor) -> Tensor:
    """Columns count_j e^{−2πi k t_j / n0}: (N, n0) complex, or (N, 2(n0//2 + 1)) real."""
    real = torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32

    def build() -> Tensor:
        t = np.asarray(at)
        w = np.ones(t.size) if counts is None else counts.double().cpu().numpy()
        k = np.arange(n0 // 2 + 1) if half else np.fft.fftfreq(n0, 1 / n0)
        angle = 2 * pi * np.outer(t, k) / n0
        if half and not like.is_complex():
            columns = np.concatenate([w[:, None] * np.cos(angle), -w[:, None] * np.sin(angle)], 1)
            return torch.from_numpy(columns).to(like.device, real)
        return torch.from_numpy(w[:, None] * np.exp(-1j * angle)).to(like.device, real.to_complex())

    ends = None if counts is None else tuple(counts[:3].tolist())
    return _MATRICES.get((n0, at, ends, half, like.device, real, like.is_complex()), build)


register(
    spectra.FORWARD,
    SumRow("FFT → sums with the training grid's measure and period", spectra.over_samples, _forward),
)


# --- inverse ---------------------------------------------------------------------------------------------------------


def _inverse(step: WeightedStep) -> Tensor:
    dims, half = spectra.transformed(step), step.call.name.startswith("ir")
    native, sizes = _native_lengths(step, dims, half), spectra.lengths(step, dims, half)
    Y = step.arguments["input"]
    for at, d in enumerate(dims):
        Y = spectra.resized(Y, d, step.call.argument_shapes[0][d], half and at == len(dims) - 1)
    forms = step.call.result_forms[0]
    at_samples: list[Positions] = []
    for d, n0, n in zip(dims, native, sizes, strict=True):
        own = _on_own_grid(step, forms[d], n0, n)
        if forms[d].on_grid and len(forms[d].axes) == 1:
            at_samples.append(_positions(step, forms[d], n))
        else:
            at_samples.append(tuple(np.arange(n) * (n0 / n)) if own is None else own[0])
    return spectra.synthesised(Y, dims, native, at_samples, half, step.arguments.get("norm"))


register(
    spectra.INVERSE,
    SumRow("waves with the training grid's period", spectra.over_samples, _inverse),
)
