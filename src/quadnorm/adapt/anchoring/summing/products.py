"""Matrix products that sum over samples, each counted as it was in training."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from quadnorm.adapt.anchoring.summing.table import SumRow, register
from quadnorm.adapt.anchoring.summing.weights import WeightedStep
from quadnorm.adapt.calls.functions.products import PRODUCTS
from quadnorm.adapt.extending.families.products import product_of, sums_samples


def _sums(step: WeightedStep) -> bool:
    """Whether the call sums over samples that both operands have; a matrix of weights has no samples to count."""
    p = product_of(step)
    return p is not None and sums_samples(step, p) and all(step.moving(t) for t in p.operands)


def _product(step: WeightedStep) -> Any:
    """The product with the counts as a factor of its second operand."""
    p = product_of(step)
    assert p is not None
    first, second = p.operands
    counts = step.counts(second, [d for d in p.summed[1] if step.forms(second)[d].moves])
    weighted = (second * counts).to(second.dtype)
    return _with_itself(step, second, weighted) if first is second else step.run_with({id(second): weighted})


def _with_itself(step: WeightedStep, t: Tensor, weighted: Tensor) -> Any:
    """x.T @ x of one tensor, weighted where it stands last."""
    args = list(step.args)
    args[max(k for k, a in enumerate(args) if a is t)] = weighted
    return step.func(*args, **step.kwargs)


register(PRODUCTS, SumRow("samples are counted as in training in the sum over them", _sums, _product))
