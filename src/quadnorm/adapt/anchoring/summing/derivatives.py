"""Derivatives that a model takes in its forward, by samples of a sum that is anchored."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from quadnorm.adapt.anchoring.summing.weights import Weighted, nothing, register
from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.calls.trees import tensors


def _by_samples(step: Step) -> bool:
    """Whether samples are summed or differentiated by; with an axis of the grid hidden in a ``vmap``, which rows of a
    Jacobian these are cannot be seen."""
    return bool(step.call.over) and not step.call.hidden


def _derivative(step: Step) -> Any:
    r"""The derivative by each sample, per training sample that it stands for.

    With :math:`F = \sum_j c_j f(x_j)` anchored, :math:`\partial F / \partial x_j` has the factor :math:`c_j`, the
    number of training samples for which sample j stands; on the training grid it is one. It is divided out. Weights of
    the outputs (``grad_outputs``) are a sum over samples too, and get the factor.
    """
    assert isinstance(step, Weighted)
    given = dict(step.given)
    outputs, inputs = (tensors(given[name]) for name in ("outputs", "inputs"))
    weights = tensors(given.get("grad_outputs"))
    if len(weights) == len(outputs):
        given["grad_outputs"] = [w * _counts(step, y) for w, y in zip(weights, outputs, strict=True)]
    results = step.func(**given)
    return tuple(None if r is None else r / _counts(step, x) for r, x in zip(results, inputs, strict=True))


def _counts(step: Weighted, t: Tensor) -> Tensor:
    return step.counts(t, range(t.ndim)).to(t.dtype if t.is_floating_point() else None)


register(
    "autograd.grad",
    StepRow("anchored", "derivative per training sample", _by_samples, nothing, _derivative),
)
