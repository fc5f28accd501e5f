"""Products of tensors that sum over samples, or pair them: keys and values of attention written out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from quadnorm.adapt.operations.base import Operation, register
from quadnorm.adapt.report import Reason
from quadnorm.adapt.trees import mapped
from quadnorm.adapt.watching.calls import Step, WeightedStep


@dataclass(frozen=True)
class Factors:
    """Two operands: dimensions summed over, and free dimensions of each, which the other does not have."""

    operands: tuple[Tensor, Tensor]
    summed: tuple[tuple[int, ...], tuple[int, ...]]
    free: tuple[tuple[int, ...], tuple[int, ...]]

    def sum_samples(self, step: Step) -> bool:
        """Whether samples are summed over."""
        return any(step.forms(t)[d].moves for t, dims in zip(self.operands, self.summed, strict=True) for d in dims)

    def pairs(self, step: Step) -> list[int]:
        """Dimensions of the second operand whose samples are paired with samples of the first, as keys with queries."""
        a, b = (step.forms(t) for t in self.operands)
        first = {k for d in self.free[0] for k in a[d].axes}
        return [d for d in self.free[1] if first & set(b[d].axes)]

    def native_dims(self, step: Step) -> list[tuple[Tensor, list[int]]]:
        """The operands, each with the dimensions that stay at the training grid's nodes."""
        dims = [list(d) for d in self.summed] if self.sum_samples(step) else [[], self.pairs(step)]
        return [(t, [d for d in ds if step.forms(t)[d].moves]) for t, ds in zip(self.operands, dims, strict=True)]


class Product(Operation):
    """``a @ b`` and its kin: the last dimension of a with the last but one of b."""

    parameters: tuple[str, ...] = ("input", "other")
    reason = Reason.SUMMED
    extended = Reason.KEEPS_OPERANDS
    anchored = Reason.PRODUCT

    def factors(self, args: Any, kwargs: Any) -> Factors | None:
        """What a call multiplies and sums over; None where that cannot be read off (three operands or more)."""
        given = self.arguments(args, kwargs)
        a = given.get("input", given.get("mat1", given.get("batch1", given.get("vec1"))))
        b = given.get("other", given.get("weight", given.get("mat2", given.get("batch2", given.get("vec2")))))
        return self.multiplied(a, b, given) if isinstance(a, Tensor) and isinstance(b, Tensor) else None

    def multiplied(self, a: Tensor, b: Tensor, given: dict[str, Any]) -> Factors | None:
        """The dimensions of two operands."""
        right = b.ndim - 1 if b.ndim == 1 else b.ndim - 2
        free = (a.ndim - 2,) * (a.ndim > 1), (b.ndim - 1,) * (b.ndim > 1)
        return Factors((a, b), ((a.ndim - 1,), (right,)), free)

    def _factors(self, step: Step) -> Factors | None:
        return self.factors(step.args, step.kwargs)

    def mixes(self, step: Step) -> bool:
        f = self._factors(step)
        if f is None:
            return bool(step.call.lost_axes)
        return f.sum_samples(step) or (bool(f.pairs(step)) and all(step.is_live(t) for t in f.operands))

    def only_pairs(self, step: Step) -> bool:
        f = self._factors(step)
        return not (step.call.lost_axes if f is None else f.sum_samples(step))

    def keep(self, step: Step) -> Any:
        f = self._factors(step)
        if f is None or _by_a_matrix_of_the_grid(step, f):
            return step.result.clone(), None
        operands = []
        for t, dims in f.native_dims(step):
            alone = bool(dims) and set(step.moving(t)) == set(dims)
            operands.append(t.clone() if alone and step.is_live(t) else None)
        return (step.result.clone() if _by_a_matrix_of_weights(step, f) else None), operands

    def replay(self, step: Step) -> Tensor:
        result, operands = step.kept
        if result is not None:
            return step.nodes.carried(result, step.call.result_forms[0])
        step = _with_distinct_operands(step)
        f = self._factors(step)
        assert f is not None
        substitutes = {}
        for (t, dims), native in zip(f.native_dims(step), operands, strict=True):
            if dims:
                substitutes[id(t)] = native if native is not None else step.restricted(t, dims)
        return step.run_with(substitutes)  # type: ignore[no-any-return]

    def sums(self, step: WeightedStep) -> bool:
        """Whether the call sums over samples that both operands have; a matrix of weights has no samples to count."""
        f = self._factors(step)
        return f is not None and f.sum_samples(step) and all(step.moving(t) for t in f.operands)

    def anchor(self, step: WeightedStep) -> Any:
        """The product with the counts as a factor of its second operand."""
        f = self._factors(step)
        assert f is not None
        first, second = f.operands
        counts = step.counts(second, [d for d in f.summed[1] if step.forms(second)[d].moves])
        weighted = (second * counts).to(second.dtype)
        return _with_itself(step, second, weighted) if first is second else step.run_with({id(second): weighted})


class ReversedProduct(Product):
    """``Tensor.__rmatmul__``."""

    def multiplied(self, a: Tensor, b: Tensor, given: dict[str, Any]) -> Factors | None:
        return super().multiplied(b, a, given)


class ProductOnto(Product):
    """``addmm`` and its kin."""

    parameters: tuple[str, ...] = ("onto", "input", "other")


class Linear(Product):
    """``F.linear`` and ``torch.inner``: the last dimensions of both."""

    parameters: tuple[str, ...] = ("input", "weight", "bias")

    def multiplied(self, a: Tensor, b: Tensor, given: dict[str, Any]) -> Factors | None:
        free = tuple(range(a.ndim - 1)), tuple(range(b.ndim - 1))
        return Factors((a, b), ((a.ndim - 1,), (b.ndim - 1,)), free)


class TensorDot(Product):
    """``torch.tensordot``."""

    parameters: tuple[str, ...] = ("input", "other", "dims")

    def multiplied(self, a: Tensor, b: Tensor, given: dict[str, Any]) -> Factors | None:
        dims = given.get("dims", 2)
        if isinstance(dims, int):
            left, right = tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
        elif isinstance(dims, (tuple, list)) and len(dims) == 2:
            left, right = (tuple(d % t.ndim for d in _many(side)) for side, t in zip(dims, (a, b), strict=True))
        else:
            return None
        free = tuple(tuple(d for d in range(t.ndim) if d not in s) for t, s in ((a, left), (b, right)))
        return Factors((a, b), (left, right), (free[0], free[1]))


def _many(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class Einsum(Product):
    """``torch.einsum`` of two operands; of more, its native result is carried."""

    def factors(self, args: Any, kwargs: Any) -> Factors | None:
        equation = args[0] if args else kwargs.get("equation")
        if not isinstance(equation, str):
            return None
        rest = args[1:]
        operands = list(rest[0]) if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else list(rest)
        if len(operands) != 2:
            return None
        (a, b), output = spelled(equation, [t.ndim for t in operands])

        def summed(own: str) -> tuple[int, ...]:
            return tuple(d for d, c in enumerate(own) if c not in output)

        def free(own: str, other: str) -> tuple[int, ...]:
            return tuple(d for d, c in enumerate(own) if c in output and c not in other)

        return Factors((operands[0], operands[1]), (summed(a), summed(b)), (free(a, b), free(b, a)))


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


def _by_a_matrix_of_the_grid(step: Step, f: Factors) -> bool:
    """Whether an operand is a constant made for one grid, such as a cosine transform's matrix."""
    return f.sum_samples(step) and any(step.moving(t) and not step.is_live(t) for t in f.operands)


def _by_a_matrix_of_weights(step: Step, f: Factors) -> bool:
    """Whether the result's samples come from a matrix of weights, one row for each training sample."""
    return f.sum_samples(step) and any(not step.moving(t) for t in f.operands)


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


def _with_itself(step: WeightedStep, t: Tensor, weighted: Tensor) -> Any:
    """x.T @ x of one tensor, weighted where it stands last."""
    args = list(step.args)
    args[max(k for k, a in enumerate(args) if a is t)] = weighted
    return step.func(*args, **step.kwargs)


register("matmul bmm mm mv dot vdot", Product())
register("rmatmul", ReversedProduct())
register("addmm baddbmm addbmm addmv", ProductOnto())
register("linear inner", Linear())
register("tensordot", TensorDot())
register("einsum", Einsum())
