"""Fourier transforms of samples: the native run's spectrum, its waves evaluated at the new nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.extending.families.spectra import (
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
from quadnorm.adapt.extending.families.table import StepRow, register
from quadnorm.adapt.extending.points.nodes import PointNodes


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
