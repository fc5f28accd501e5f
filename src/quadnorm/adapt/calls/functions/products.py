"""Products of tensors: which dimensions they sum over, and which they pair with those of the other operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from quadnorm.adapt.calls.functions.signatures import bound

PRODUCTS = frozenset(
    {"matmul", "rmatmul", "bmm", "mm", "mv", "dot", "vdot", "inner", "linear"}
    | {"addmm", "baddbmm", "addbmm", "addmv", "einsum", "tensordot"}
)


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
