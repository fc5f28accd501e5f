"""Products of tensors that sum over samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from quadnorm.adapt.calls import Step, WeightedStep
from quadnorm.adapt.functions import bound
from quadnorm.adapt.operations.base import PRODUCTS, StepRow, SumRow, register, register_sum
from quadnorm.adapt.trees import mapped


@dataclass(frozen=True)
class Product:
    """Two operands: dimensions summed over, and free dimensions of each, which the other does not have."""

    operands: tuple[Tensor, Tensor]
    summed: tuple[tuple[int, ...], tuple[int, ...]]
    free: tuple[tuple[int, ...], tuple[int, ...]]


def product(name: str, args: Any, kwargs: Any) -> Product | None:
    """How a call multiplies; None where that cannot be read off (three operands or more)."""
    if name == "einsum":
        return _einsum(args, kwargs)
    given = bound(name, args, kwargs)
    a = given.get("input", given.get("mat1", given.get("batch1", given.get("vec1"))))
    b = given.get("other", given.get("weight", given.get("mat2", given.get("batch2", given.get("vec2")))))
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return None
    if name == "rmatmul":
        a, b = b, a
    if name == "tensordot":
        return _tensordot(a, b, given.get("dims", 2))
    right = b.ndim - 1 if name in ("linear", "inner") or b.ndim == 1 else b.ndim - 2
    if name in ("linear", "inner"):
        free_a, free_b = list(range(a.ndim - 1)), list(range(b.ndim - 1))
    else:
        free_a, free_b = [a.ndim - 2] * (a.ndim > 1), [b.ndim - 1] * (b.ndim > 1)
    return Product((a, b), ((a.ndim - 1,), (right,)), (tuple(free_a), tuple(free_b)))


def _tensordot(a: Tensor, b: Tensor, dims: Any) -> Product | None:
    if isinstance(dims, int):
        left, right = tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    elif isinstance(dims, (tuple, list)) and len(dims) == 2:
        left, right = (tuple(d % t.ndim for d in _many(side)) for side, t in zip(dims, (a, b), strict=True))
    else:
        return None
    free = tuple(tuple(d for d in range(t.ndim) if d not in s) for t, s in ((a, left), (b, right)))
    return Product((a, b), (left, right), (free[0], free[1]))


def _many(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _einsum(args: Any, kwargs: Any) -> Product | None:
    equation = args[0] if args else kwargs.get("equation")
    if not isinstance(equation, str):
        return None
    rest = args[1:]
    operands = list(rest[0]) if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else list(rest)
    if len(operands) != 2:
        return None
    letters, output = spelled(equation, [t.ndim for t in operands])
    a, b = letters

    def summed(own: str) -> tuple[int, ...]:
        return tuple(d for d, c in enumerate(own) if c not in output)

    def free(own: str, other: str) -> tuple[int, ...]:
        return tuple(d for d, c in enumerate(own) if c in output and c not in other)

    return Product((operands[0], operands[1]), (summed(a), summed(b)), (free(a, b), free(b, a)))


def spelled(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """One letter for every dimension of every operand, and of the output; "…" becomes letters of its own.

    >>> spelled("...ij,...jk->...ik", [3, 3])
    (['εij', 'εjk'], 'εik')
    """
    inputs, _, output = equation.replace(" ", "").partition("->")
    subscripts = inputs.split(",")
    more = [r - len(w.replace("...", "")) for w, r in zip(subscripts, ranks, strict=True)]
    dots = "".join(
        chr(ord("ε") + k) for k in range(max([m for w, m in zip(subscripts, more, strict=True) if "..." in w] or [0]))
    )
    full = [w.replace("...", dots[len(dots) - m :] if m else "") for w, m in zip(subscripts, more, strict=True)]
    if "->" not in equation:
        every = "".join(w.replace("...", "") for w in subscripts)
        output = dots + "".join(sorted(c for c in set(every) if every.count(c) == 1))
    return full, output.replace("...", dots)


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


def _product_mixes(step: Step) -> bool:
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
    StepRow(
        "replayed", "sums over the native run's samples (keys, values)", _product_mixes, _keep_product, _replay_product
    ),
)


def _sums_both(step: WeightedStep) -> bool:
    """Whether the call sums over samples that both operands have; a matrix of weights has no samples to count."""
    p = product_of(step)
    return p is not None and sums_samples(step, p) and all(step.moving(t) for t in p.operands)


def _anchor_product(step: WeightedStep) -> Any:
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


register_sum(PRODUCTS, SumRow("samples are counted as in training in the sum over them", _sums_both, _anchor_product))
