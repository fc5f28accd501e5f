"""Matrix products and attention over samples: the native run's keys and values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.following.steps import Step, StepRow
from quadnorm.adapt.calls.functions.products import PRODUCTS, Product, product
from quadnorm.adapt.calls.grids.forms import Forms
from quadnorm.adapt.calls.trees import mapped
from quadnorm.adapt.extending.steps import register


def _product(step: Step) -> Product | None:
    return product(step.call.name, step.args, step.kwargs)


def _sums(step: Step, p: Product) -> bool:
    """Whether samples are summed over."""
    return any(step.forms(t)[d].moves for t, dims in zip(p.operands, p.summed, strict=True) for d in dims)


def _pairs(step: Step, p: Product) -> list[int]:
    """Dimensions of the second operand whose samples are paired with samples of the first, as keys with queries."""
    a, b = (step.forms(t) for t in p.operands)
    first = {k for d in p.free[0] for k in a[d].axes}
    return [d for d in p.free[1] if first & set(b[d].axes)]


def _mixes(step: Step) -> bool:
    p = _product(step)
    if p is None:
        return bool(step.call.lost)
    return _sums(step, p) or (bool(_pairs(step, p)) and all(step.is_live(t) for t in p.operands))


def _native_dims(step: Step, p: Product) -> list[tuple[Tensor, list[int]]]:
    """The operands, each with the dimensions that stay at the training grid's nodes."""
    dims = [list(d) for d in p.summed]
    if not _sums(step, p):
        dims = [[], _pairs(step, p)]
    return [(t, [d for d in ds if step.forms(t)[d].moves]) for t, ds in zip(p.operands, dims, strict=True)]


def _keep_product(step: Step) -> Any:
    p = _product(step)
    if p is None or _with_a_matrix_of_the_grid(step, p):
        return step.result.clone(), None
    operands = []
    for t, dims in _native_dims(step, p):
        alone = bool(dims) and set(step.moving(t)) == set(dims)
        operands.append(t.clone() if alone and step.is_live(t) else None)
    return (step.result.clone() if _fixed_outcome(step, p) else None), operands


def _with_a_matrix_of_the_grid(step: Step, p: Product) -> bool:
    """Whether an operand is a constant made for one grid, such as a cosine transform's matrix."""
    return _sums(step, p) and any(step.moving(t) and not step.is_live(t) for t in p.operands)


def _fixed_outcome(step: Step, p: Product) -> bool:
    """Whether the result's samples come from a matrix of weights, one row for each training sample."""
    return _sums(step, p) and any(not step.moving(t) for t in p.operands)


def _replay_product(step: Step) -> Tensor:
    result, operands = step.kept
    forms = step.call.returned[0]
    if result is not None:
        return _carried(step, result, forms)
    step = _apart(step)
    p = _product(step)
    assert p is not None
    replaced = {}
    for (t, dims), native in zip(_native_dims(step, p), operands, strict=True):
        if dims:
            replaced[id(t)] = native if native is not None else step.restricted(t, dims)
    return step.run_with(replaced)  # type: ignore[no-any-return]


def _apart(step: Step) -> Step:
    """The step with different objects as operands where one tensor is multiplied with itself: queries are evaluated at
    the new nodes, keys stay."""
    seen: set[int] = set()

    def one(t: Tensor) -> Tensor:
        again = id(t) in seen
        seen.add(id(t))
        return t.view_as(t) if again else t

    args, kwargs = mapped(one, (step.args, step.kwargs))
    return replace(step, args=args, kwargs=kwargs)


def sums_over_samples(step: Step) -> bool:
    """Whether a product sums over samples, also one whose result has samples again, as attention's has."""
    p = _product(step)
    return bool(step.call.lost) if p is None else _sums(step, p)


def _carried(step: Step, result: Tensor, forms: Forms) -> Tensor:
    return step.nodes.carried(result, forms)


register(
    PRODUCTS,
    StepRow("replayed", "sums over the native run's samples (keys, values)", _mixes, _keep_product, _replay_product),
)


# --- attention -------------------------------------------------------------------------------------------------------


def _attended(step: Step) -> tuple[list[Tensor], int, Tensor | None]:
    """Key and value, the dimension of their samples, and a mask."""
    g = step.given
    if step.call.name == "scaled_dot_product_attention":
        return [g["key"], g["value"]], g["key"].ndim - 2, g.get("attn_mask")
    key, value = step.args[1:3] if len(step.args) > 2 else (step.kwargs["key"], step.kwargs["value"])
    return [key, value], 0, None


def _attention_mixes(step: Step) -> bool:
    (key, _), dim, _ = _attended(step)
    return step.forms(key)[dim].moves


def _keep_attention(step: Step) -> Any:
    pair, dim, _ = _attended(step)
    return [t.clone() if step.moving(t) == [dim] else None for t in pair]


def _replay_attention(step: Step) -> Any:
    pair, dim, mask = _attended(step)
    native = [k if k is not None else step.restricted(t, [dim]) for k, t in zip(step.kept, pair, strict=True)]
    if step.call.name == "scaled_dot_product_attention":
        g = {**step.given, "key": native[0], "value": native[1]}
        if isinstance(mask, Tensor) and mask.shape[-1] != 1:
            g["attn_mask"] = step.restricted(mask, [mask.ndim - 1])
        return step.func(**g)
    if len(step.args) > 2:
        args = (step.args[0], *native, *step.args[3:])
        return step.func(*args, **step.kwargs)
    return step.func(*step.args, **{**step.kwargs, "key": native[0], "value": native[1]})


register(
    "scaled_dot_product_attention multi_head_attention_forward",
    StepRow(
        "replayed", "attends to the native run's keys and values", _attention_mixes, _keep_attention, _replay_attention
    ),
)
