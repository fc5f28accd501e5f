"""Matrix products over samples: the native run's operand, such as keys and values of attention written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.calls.functions.products import PRODUCTS, Product, product
from quadnorm.adapt.calls.trees import mapped
from quadnorm.adapt.extending.families.table import StepRow, register


def product_of(step: Step) -> Product | None:
    """What a call multiplies and sums over; None where that cannot be read off its arguments."""
    return product(step.call.name, step.args, step.kwargs)


def sums_samples(step: Step, p: Product) -> bool:
    """Whether samples are summed over."""
    return any(step.forms(t)[d].moves for t, dims in zip(p.operands, p.summed, strict=True) for d in dims)


def _pairs(step: Step, p: Product) -> list[int]:
    """Dimensions of the second operand whose samples are paired with samples of the first, as keys with queries."""
    a, b = (step.forms(t) for t in p.operands)
    first = {k for d in p.free[0] for k in a[d].axes}
    return [d for d in p.free[1] if first & set(b[d].axes)]


def _mixes(step: Step) -> bool:
    p = product_of(step)
    if p is None:
        return bool(step.call.lost_axes)
    return sums_samples(step, p) or (bool(_pairs(step, p)) and all(step.is_live(t) for t in p.operands))


def _native_dims(step: Step, p: Product) -> list[tuple[Tensor, list[int]]]:
    """The operands, each with the dimensions that stay at the training grid's nodes."""
    dims = [list(d) for d in p.summed]
    if not sums_samples(step, p):
        dims = [[], _pairs(step, p)]
    return [(t, [d for d in ds if step.forms(t)[d].moves]) for t, ds in zip(p.operands, dims, strict=True)]


def _keep_product(step: Step) -> Any:
    p = product_of(step)
    if p is None or _by_a_matrix_of_the_grid(step, p):
        return step.result.clone(), None
    operands = []
    for t, dims in _native_dims(step, p):
        alone = bool(dims) and set(step.moving(t)) == set(dims)
        operands.append(t.clone() if alone and step.is_live(t) else None)
    return (step.result.clone() if _by_a_matrix_of_weights(step, p) else None), operands


def _by_a_matrix_of_the_grid(step: Step, p: Product) -> bool:
    """Whether an operand is a constant made for one grid, such as a cosine transform's matrix."""
    return sums_samples(step, p) and any(step.moving(t) and not step.is_live(t) for t in p.operands)


def _by_a_matrix_of_weights(step: Step, p: Product) -> bool:
    """Whether the result's samples come from a matrix of weights, one row for each training sample."""
    return sums_samples(step, p) and any(not step.moving(t) for t in p.operands)


def _replay_product(step: Step) -> Tensor:
    result, operands = step.kept
    if result is not None:
        return step.nodes.carried(result, step.call.result_forms[0])
    step = _with_distinct_operands(step)
    p = product_of(step)
    assert p is not None
    substitutes = {}
    for (t, dims), native in zip(_native_dims(step, p), operands, strict=True):
        if dims:
            substitutes[id(t)] = native if native is not None else step.restricted(t, dims)
    return step.run_with(substitutes)  # type: ignore[no-any-return]


def _with_distinct_operands(step: Step) -> Step:
    """The step with different objects as operands where one tensor is multiplied with itself: queries are evaluated at
    the new nodes, keys stay."""
    ids: set[int] = set()

    def distinct(t: Tensor) -> Tensor:
        again = id(t) in ids
        ids.add(id(t))
        return t.view_as(t) if again else t

    args, kwargs = mapped(distinct, (step.args, step.kwargs))
    return replace(step, args=args, kwargs=kwargs)


def only_pairs_samples(step: Step) -> bool:
    """Whether a call is a product that takes no sum over samples yet, such as scores of queries against keys."""
    if step.call.name not in PRODUCTS:
        return False
    p = product_of(step)
    return not (step.call.lost_axes if p is None else sums_samples(step, p))


register(
    PRODUCTS,
    StepRow("replayed", "sums over the native run's samples (keys, values)", _mixes, _keep_product, _replay_product),
)
