"""Fourier transforms of samples, and this package's spectral convolution.

Extension keeps the native run's spectrum and evaluates its waves at the new nodes. Anchoring takes the waves of the
training grid as sums under its measure, with its period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from quadnorm._precision import full_precision
from quadnorm._tensors import is_plain
from quadnorm.adapt.operations.base import Operation, register
from quadnorm.adapt.report import Reason
from quadnorm.adapt.watching.calls import Call, Step, WeightedStep
from quadnorm.adapt.watching.forms import Form
from quadnorm.adapt.watching.nodes import positions
from quadnorm.adapt.watching.points import PointNodes, indices, values_at_points
from quadnorm.adapt.watching.watch import CannotFollowError
from quadnorm.carry.waves import (
    Positions,
    analysis_of,
    divisor,
    fitted,
    frequencies,
    low_waves,
    multiplicities,
    resized,
    summed,
    synthesised,
    waves,
)
from quadnorm.measures import Anchored
from quadnorm.operators.domain import COUNTING
from quadnorm.operators.spectral.dft import matrix, waves_at, waves_of
from quadnorm.operators.spectral.transforms import output_coefficients, through_matrices, through_real_matrices


class Transform(Operation):
    """What all transforms share: which dimensions they work along, and the lengths of these."""

    reason = Reason.FOURIER

    def __init__(self, name: str, inverse: bool) -> None:
        self.name, self.inverse = name, inverse
        self.half = name.removeprefix("i").startswith("r")  # whether the last dimension has half a spectrum
        self.parameters = ("input", "n" if name.endswith("t") else "s", "dim", "norm")

    def dims(self, step: Step) -> list[int]:
        """The dimensions that are transformed, the last of them perhaps to half a spectrum."""
        return self.dims_of(step.arguments, step.arguments["input"].ndim)

    def dims_of(self, given: Mapping[str, Any], ndim: int) -> list[int]:
        """The same from a call's arguments by name, and the rank of its input."""
        dim = given.get("dim")
        if dim is None and self.name.endswith("2"):
            dim = (-2, -1)
        elif dim is None and self.name.endswith("n"):
            dim = tuple(range(-(len(given["s"]) if given.get("s") is not None else ndim), 0))
        elif dim is None:
            dim = -1
        return [d % ndim for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]

    def lengths(self, given: Mapping[str, Any], shape: Sequence[int], dims: list[int]) -> list[int]:
        """Samples per transformed dimension of a call with the given arguments, whose input has ``shape``."""
        wanted = given.get("s", given.get("n"))
        if wanted is not None:
            sizes = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
            return [shape[d] if n == -1 else int(n) for n, d in zip(sizes, dims, strict=True)]
        sizes = [shape[d] for d in dims]
        if self.inverse and self.half:
            sizes[-1] = 2 * (sizes[-1] - 1)
        return sizes

    def lengths_now(self, step: Step, dims: list[int]) -> list[int]:
        """The same on the grid of this call."""
        return self.lengths(step.arguments, step.arguments["input"].shape, dims)

    def lengths_in_training(self, step: Step, dims: list[int]) -> list[int]:
        """The same on the training grid."""
        given = self.arguments(step.call.args, step.call.kwargs)
        return self.lengths(given, step.call.argument_shapes[0], dims)

    def is_half(self, at: int, dims: list[int]) -> bool:
        """Whether the transformed dimension number ``at`` has half a spectrum."""
        return self.half and at == len(dims) - 1

    def others_move(self, step: Step) -> bool:
        """Whether dimensions move that are not transformed."""
        return bool(set(step.moving(step.arguments["input"])) - set(self.dims(step)))

    def mixes(self, step: Step) -> bool:
        return bool(set(self.dims(step)) & set(step.moving(step.arguments["input"])))

    def sums(self, step: WeightedStep) -> bool:
        return self.mixes(step)


class ForwardTransform(Transform):
    """Samples to waves."""

    extended = Reason.KEEPS_SPECTRUM
    anchored = Reason.ANALYSIS

    def carries(self, step: Step) -> bool:
        """Along one axis of a padded field: what stands in the padding there is the native run's alone."""
        forms = step.forms(step.arguments["input"])
        return self.others_move(step) and any(forms[d].padding() for d in self.dims(step))

    def keep(self, step: Step) -> Tensor | None:
        return step.result.clone() if self.carries(step) or not self.others_move(step) else None

    def replay(self, step: Step) -> Tensor:
        dims = self.dims(step)
        X: Any = step.kept
        if X is not None and self.carries(step):
            forms = [Form() if d in dims else form for d, form in enumerate(step.call.result_forms[0])]
            X = step.nodes.carried(X, tuple(forms))
        elif X is None:
            options = {k: v for k, v in step.call.kwargs.items() if k not in ("input", "self", "out")}
            X = step.func(step.restricted(step.arguments["input"], dims), *step.call.args[1:], **options)
        for at, (d, n) in enumerate(zip(dims, self.lengths_now(step, dims), strict=True)):
            X = resized(X, d, n, self.is_half(at, dims))
        spectrum: Tensor = X
        return spectrum

    def anchor(self, step: WeightedStep) -> Tensor:
        dims = self.dims(step)
        training, now = self.lengths_in_training(step, dims), self.lengths_now(step, dims)
        X: Tensor = step.arguments["input"]
        for at in reversed(range(len(dims))):
            X = self._along(step, X, dims[at], training[at], now[at], self.is_half(at, dims))
        norm = step.arguments.get("norm")
        scale = {None: 1.0, "backward": 1.0, "ortho": 1 / sqrt(prod(training)), "forward": 1 / prod(training)}[norm]
        return X * scale if scale != 1 else X

    def _along(self, step: WeightedStep, X: Tensor, d: int, n0: int, n: int, half: bool) -> Tensor:
        """The transform of n samples along dimension d, as many counted as the training grid's n0."""
        x = step.arguments["input"]
        form = step.forms(x)[d]
        if form.on_grid and len(form.axes) == 1:
            E = analysis_of(n0, _positions(step, form, x.shape[d]), step.nodes.counts(form, x), half, x)
        else:
            own = _on_own_grid(step, form, n0, n) if n == x.shape[d] else None
            if own is None:
                X = torch.fft.rfft(X, n, d) if half else torch.fft.fft(X, n, d)
                return X * (n0 / n) if n != n0 else X
            E = analysis_of(n0, *own, half, x)
        # From n0 waves to the array that a transform of n samples gives; waves that alias there are left out.
        return resized(summed(X, d, E, real=half), d, n, half)


class InverseTransform(Transform):
    """Waves to samples."""

    extended = Reason.EVALUATES_WAVES
    anchored = Reason.SYNTHESIS

    def keep(self, step: Step) -> Any:
        Y = step.arguments["input"]
        native = [step.result.shape[d] for d in self.dims(step)]
        return (None if self.others_move(step) else Y.clone()), tuple(Y.shape), native

    def replay(self, step: Step) -> Tensor:
        Y, shape, native = step.kept
        dims = self.dims(step)
        if Y is None:
            Y = self._resized(step, shape, dims)
        forms = step.call.result_forms[0]
        if isinstance(step.nodes, PointNodes):
            axes = [forms[d] for d in dims]
            return _synthesised_at_points(step.nodes, Y, dims, native, axes, self.half, step.arguments.get("norm"))
        places: list[Positions] = []
        for d, n0, n in zip(dims, native, self.lengths_now(step, dims), strict=True):
            form = forms[d]
            an_axis = form.on_grid and len(form.axes) == 1 and n == step.nodes.size(form)
            places.append(tuple(step.nodes.places(form) if an_axis else np.arange(n) * (n0 / n)))
        return synthesised(Y, dims, native, places, self.half, step.arguments.get("norm"))

    def anchor(self, step: WeightedStep) -> Tensor:
        dims = self.dims(step)
        native = self.lengths_in_training(step, dims)
        Y = self._resized(step, step.call.argument_shapes[0], dims)
        forms = step.call.result_forms[0]
        places: list[Positions] = []
        for d, n0, n in zip(dims, native, self.lengths_now(step, dims), strict=True):
            own = _on_own_grid(step, forms[d], n0, n)
            if forms[d].on_grid and len(forms[d].axes) == 1:
                places.append(_positions(step, forms[d], n))
            else:
                places.append(tuple(np.arange(n) * (n0 / n)) if own is None else own[0])
        return synthesised(Y, dims, native, places, self.half, step.arguments.get("norm"))

    def _resized(self, step: Step, shape: Sequence[int], dims: list[int]) -> Tensor:
        """The spectrum with as many entries as it has on the training grid."""
        Y: Tensor = step.arguments["input"]
        for at, d in enumerate(dims):
            Y = low_waves(Y, d, shape[d], self.is_half(at, dims))
        return Y


class FrequencyShift(Operation):
    """``fftshift`` that puts a centred spectrum back in order, where ``ifftshift`` would be right.

    On odd n twice fftshift moves every wave by one; a network has learned what its training grid's n makes of it.
    """

    parameters: tuple[str, ...] = ("input", "dim")
    reason = Reason.FOURIER
    anchored = Reason.SHIFT

    def mixes(self, step: Step) -> bool:
        return False

    def sums(self, step: WeightedStep) -> bool:
        return step.call.shifts_back and step.arguments["input"].is_complex()

    def anchor(self, step: WeightedStep) -> Tensor:
        X, dim = step.arguments["input"], step.arguments.get("dim")
        dims = range(X.ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
        shifts = [-(X.shape[d] // 2) - step.call.argument_shapes[0][d] % 2 for d in dims]
        return torch.roll(X, shifts, tuple(dims))


register("fftshift", FrequencyShift())


def with_shifts_back(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """The calls, with those ``fftshift`` marked that come last before an inverse transform, after another shift."""
    marked = list(calls)
    spectrum: list[int] = []  # the transforms and shifts since the last inverse transform
    for at, call in enumerate(calls):
        if isinstance(call.operation, InverseTransform):
            if len(spectrum) > 1 and calls[spectrum[-1]].name == "fftshift" and calls[spectrum[-2]].name == "fftshift":
                marked[spectrum[-1]] = replace(calls[spectrum[-1]], shifts_back=True)
            spectrum = []
        elif isinstance(call.operation, ForwardTransform) or call.name in ("fftshift", "ifftshift"):
            spectrum.append(at)
    return tuple(marked)


# --- sums against waves, and waves evaluated anywhere -----------------------------------------------------------------


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


def _synthesised_at_points(
    nodes: PointNodes, Y: Tensor, dims: list[int], native: list[int], forms: list[Form], half: bool, norm: str | None
) -> Tensor:
    r"""The inverse transform of Y at the points, :math:`\sum_k Y_k e^{2\pi i k\cdot t / n_0}`, in their arrangement.

    Where the model has padded, zeros stand around it: it cuts them off.
    """
    side_by_side = dims == list(range(dims[0], dims[0] + len(dims)))
    if [f.axes for f in forms] != [(k,) for k in range(len(nodes.native))] or not side_by_side:
        raise CannotFollowError("the model transforms single axes of the grid, which scattered points have not")
    rows = []
    for k, n0 in enumerate(native):
        last = half and k == len(dims) - 1
        t = indices(nodes.placements[k], nodes.native[k], nodes.points[:, k])
        turns = torch.from_numpy(t + nodes.origins.get((k, forms[k].extra[0]), 0)) / n0
        E = waves(frequencies(n0, last), turns)
        rows.append((E * multiplicities(n0)[:, None] if last else E).T)
    y = values_at_points(fitted(Y, dims, native, half) / divisor(native, norm), dims, rows)
    y = torch.unflatten(y.real if half else y, dims[0], nodes.shape)
    amounts: list[int] = []
    for k, f in enumerate(forms):
        before, extra = nodes.origin(k, f.extra[0]), nodes.extra(k, f.extra[0])
        amounts = [before, extra - before, *amounts]
    after = y.ndim - dims[-1] - 1
    return pad(y, [0, 0] * after + amounts) if any(amounts) else y


for _stem in ("fft", "rfft"):
    for _end in ("", "2", "n"):
        register(f"{_stem}{_end}", ForwardTransform(f"{_stem}{_end}", inverse=False))
        register(f"i{_stem}{_end}", InverseTransform(f"i{_stem}{_end}", inverse=True))


# --- this package's spectral convolution, which is one call ----------------------------------------------------------


class SpectralConvolution(Operation):
    """Native coefficients, waves at the new nodes; its measure is set, not its call changed."""

    parameters: tuple[str, ...] = ("self", "input", "bias", "weights")
    reason = Reason.FOURIER
    extended = Reason.EVALUATES_WAVES

    def keep(self, step: Step) -> Tensor:
        x: Tensor = step.arguments["input"]
        return x.clone()

    def replay(self, step: Step) -> Tensor:
        """Y_k of the native run, Σ_k c_k Y_k e^{2πi k·s} at the new nodes."""
        layer, x0, bias = step.arguments["self"], step.kept, step.arguments.get("bias")
        modes, measure = layer.modes, layer.measure
        if measure == COUNTING:
            measure = Anchored(step.nodes.native, step.nodes.placements)
        axes, _ = waves_of(
            measure, len(modes.kept), layer.kernel != "quadrature", layer.placement, layer.period, layer.padding
        )
        with full_precision(x0):
            weight = layer.full_weight()
            real = weight.real.dtype
            roles = ["plain"] * (len(modes.kept) - 1) + ["half"]
            # As the layer itself does on the training grid, so that a graph has this part once.
            analysis, _, weights = layer.matrices(step.nodes.native, x0.device, real)
            field = x0.to(real) if weights is None else x0.to(real) * weights
            constant = None if bias is None else bias.to(real)
            if isinstance(step.nodes, PointNodes):
                places = torch.from_numpy(step.nodes.points).T
                old = zip(axes, step.nodes.native, modes.tops, roles, places, strict=True)
                rows = [waves_at(*a).T for a in old]
                t = output_coefficients(field, weight, constant, modes, analysis)  # (*rows, B, C)
                y = values_at_points(t, list(range(len(rows))), rows).permute(1, 2, 0)
                return torch.unflatten(y, 2, step.nodes.shape).to(x0.dtype)
            new = zip(axes, step.nodes.shape, modes.tops, roles, strict=True)
            synthesis = tuple(matrix(*a, x0.device, real) for a in new)
            way = through_matrices if is_plain(field, weight, constant) else through_real_matrices
            return way(field, weight, constant, modes, analysis, synthesis).to(x0.dtype)


register("quadnorm.SpectralConv.forward", SpectralConvolution())
