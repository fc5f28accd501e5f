"""Fourier transforms of samples, and this package's spectral convolution."""

from __future__ import annotations

from math import pi, prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm._tensors import is_plain
from quadnorm.adapt.calls import Step, WeightedStep
from quadnorm.adapt.forms import Form
from quadnorm.adapt.functions import bound
from quadnorm.adapt.nodes import positions
from quadnorm.adapt.operations import spectra
from quadnorm.adapt.operations.base import StepRow, SumRow, register, register_sum
from quadnorm.adapt.operations.spectra import (
    FORWARD,
    INVERSE,
    Positions,
    lengths,
    over_samples,
    resized,
    synthesised,
    synthesised_at_points,
    transformed,
)
from quadnorm.adapt.points import PointNodes, values_at_points
from quadnorm.measures import Anchored
from quadnorm.measures._cache import TensorCache
from quadnorm.operators.domain import COUNTING
from quadnorm.operators.spectral.dft import matrix, waves_at, waves_of
from quadnorm.operators.spectral.transforms import output_coefficients, through_matrices, through_real_matrices


def _other_moving_dims(step: Step) -> list[int]:
    """Moving dimensions that are not transformed."""
    dims = set(transformed(step))
    return [d for d in step.moving(step.arguments["input"]) if d not in dims]


# --- forward ---------------------------------------------------------------------------------------------------------


def _keep_forward(step: Step) -> Any:
    return None if _other_moving_dims(step) else step.result.clone()


def _replay_forward(step: Step) -> Tensor:
    dims = transformed(step)
    sizes = lengths(step, dims)
    half = step.call.name.startswith("r")
    X: Any = step.kept
    if X is None:
        x = step.arguments["input"]
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
    Y = step.arguments["input"]
    dims = transformed(step)
    native = [step.result.shape[d] for d in dims]
    return (None if _other_moving_dims(step) else Y.clone()), tuple(Y.shape), native


def _replay_inverse(step: Step) -> Tensor:
    Y, shape, native = step.kept
    dims = transformed(step)
    half = step.call.name.startswith("ir")
    sizes = lengths(step, dims, half)
    if Y is None:
        Y = step.arguments["input"]
        for at, d in enumerate(dims):
            Y = resized(Y, d, shape[d], half and at == len(dims) - 1)
    forms = step.call.result_forms[0]
    if isinstance(step.nodes, PointNodes):
        axes = [forms[d] for d in dims]
        return synthesised_at_points(step.nodes, Y, dims, native, axes, half, step.arguments.get("norm"))
    at_samples: list[Positions] = []
    for d, n0, n in zip(dims, native, sizes, strict=True):
        form = forms[d]
        an_axis = form.on_grid and len(form.axes) == 1 and n == step.nodes.size(form)
        at_samples.append(tuple(step.nodes.places(form) if an_axis else np.arange(n) * (n0 / n)))
    return synthesised(Y, dims, native, at_samples, half, step.arguments.get("norm"))


register(
    FORWARD,
    StepRow("replayed", "the spectrum is the native run's", over_samples, _keep_forward, _replay_forward),
)
register(
    INVERSE,
    StepRow(
        "replayed", "the native run's waves, evaluated at the new nodes", over_samples, _keep_inverse, _replay_inverse
    ),
)


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


def _anchor_forward(step: WeightedStep) -> Tensor:
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


register_sum(
    spectra.FORWARD,
    SumRow("FFT → sums with the training grid's measure and period", spectra.over_samples, _anchor_forward),
)


# --- inverse ---------------------------------------------------------------------------------------------------------


def _anchor_inverse(step: WeightedStep) -> Tensor:
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


register_sum(
    spectra.INVERSE,
    SumRow("waves with the training grid's period", spectra.over_samples, _anchor_inverse),
)


def _replay_convolution(step: Step) -> Tensor:
    """Y_k of the native run, Σ_k c_k Y_k e^{2πi k·s} at the new nodes."""
    layer, x0, bias = step.arguments["self"], step.kept, step.arguments.get("bias")
    modes = layer.modes
    measure = layer.measure
    if measure == COUNTING:
        measure = Anchored(step.nodes.native, step.nodes.placements)
    waves, full = waves_of(
        measure, len(modes.kept), layer.kernel != "quadrature", layer.placement, layer.period, layer.padding
    )
    with full_precision(x0):
        weight = layer.full_weight()
        real = weight.real.dtype
        shapes = step.nodes.native, step.nodes.shape
        axes = [list(zip(waves, sizes, modes.tops, strict=True)) for sizes in shapes]
        role = "analysis" if full is None else "plain"
        roles = ["plain"] * (len(modes.kept) - 1) + ["half"]
        analysis = tuple(matrix(*a, role, x0.device, real) for a in axes[0])
        field = x0.to(real)
        if full is not None:
            field = field * full.shared_weights(shapes[0], x0.device, real)
        constant = None if bias is None else bias.to(real)
        if isinstance(step.nodes, PointNodes):
            places = torch.from_numpy(step.nodes.points).T
            rows = [waves_at(*a, r, p).T for a, r, p in zip(axes[0], roles, places, strict=True)]
            t = output_coefficients(field, weight, constant, modes, analysis)  # (*rows, B, C)
            dims = list(range(len(rows)))
            return torch.unflatten(values_at_points(t, dims, rows).permute(1, 2, 0), 2, step.nodes.shape).to(x0.dtype)
        synthesis = tuple(matrix(*a, r, x0.device, real) for a, r in zip(axes[1], roles, strict=True))
        way = through_matrices if is_plain(field, weight, constant) else through_real_matrices
        return way(field, weight, constant, modes, analysis, synthesis).to(x0.dtype)


register(
    ["quadnorm.SpectralConv.forward"],
    StepRow(
        "replayed",
        "the native run's waves, evaluated at the new nodes",
        lambda s: bool(s.call.axes),
        lambda s: s.arguments["input"].clone(),
        _replay_convolution,
    ),
)
