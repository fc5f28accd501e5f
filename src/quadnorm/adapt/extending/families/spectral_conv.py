"""Our own spectral convolution, which is one call: native coefficients, waves at the new nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from quadnorm._precision import full_precision
from quadnorm._tensors import is_plain
from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.extending.families.table import StepRow, register
from quadnorm.adapt.extending.points.nodes import PointNodes, values_at_points
from quadnorm.measures import Anchored
from quadnorm.operators.domain import COUNTING
from quadnorm.operators.spectral.dft import matrix, waves_at, waves_of
from quadnorm.operators.spectral.transforms import (
    output_coefficients,
    through_matrices,
    through_real_matrices,
)


def _replay(step: Step) -> Tensor:
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
        _replay,
    ),
)
