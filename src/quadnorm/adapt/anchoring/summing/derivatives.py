"""Derivatives that a model takes in its forward, by samples of a sum that is anchored."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from quadnorm.adapt.anchoring.summing.table import SumRow, register
from quadnorm.adapt.anchoring.summing.weights import WeightedStep
from quadnorm.adapt.calls.trees import tensors


def _by_samples(step: WeightedStep) -> bool:
    """Whether it sums over samples or differentiates by them.

    Not with an axis of the grid hidden in a ``vmap``: which rows of a Jacobian these are cannot be seen.
    """
    return bool(step.call.axes) and not step.call.hidden_axes


def _derivative(step: WeightedStep) -> Any:
    r"""The derivative by each sample, per training sample that it stands for.

    With :math:`F = \sum_j c_j f(x_j)` anchored, :math:`\partial F / \partial x_j` has the factor :math:`c_j`, the
    number of training samples for which sample j stands; on the training grid it is one. It is divided out. Weights of
    the outputs (``grad_outputs``) are a sum over samples too, and get the factor.
    """
    given = dict(step.arguments)
    outputs, inputs = (tensors(given[name]) for name in ("outputs", "inputs"))
    weights = tensors(given.get("grad_outputs"))
    if len(weights) == len(outputs):
        given["grad_outputs"] = [w * _counts(step, y) for w, y in zip(weights, outputs, strict=True)]
    gradients = step.func(**given)
    return tuple(None if g is None else g / _counts(step, x) for g, x in zip(gradients, inputs, strict=True))


def _counts(step: WeightedStep, t: Tensor) -> Tensor:
    return step.counts(t, range(t.ndim)).to(t.dtype if t.is_floating_point() else None)


register(["autograd.grad"], SumRow("derivative per training sample", _by_samples, _derivative))
