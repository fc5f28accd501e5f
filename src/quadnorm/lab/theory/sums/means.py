"""Second-order means: the trapezoid measure in one, two and three dimensions."""

from __future__ import annotations

from quadnorm.lab.theory.statement import Check, Evidence, Series, Statement
from quadnorm.lab.theory.sums.fields import ENDS, MEAN, SLOPES, endpoint_nodes, product
from quadnorm.measures import Grid

SIZES = {1: (9, 17, 33, 65, 129, 257), 2: (9, 17, 33, 65, 129, 257), 3: (9, 13, 17, 25, 33, 49)}


def errors(rule: str, dim: int) -> tuple[float, ...]:
    """|mean under the rule − exact mean| of the product field, at the sizes of that dimension."""
    measure = Grid(rule)
    fields = (product(endpoint_nodes(n), dim) for n in SIZES[dim])
    return tuple(abs(float(measure.integrate(f)) - MEAN**dim) for f in fields)


def constant(dim: int) -> float:
    """Leading constant of the error: h²/12·(f'(1) − f'(0)) from each axis, times the means along the other axes."""
    return dim * MEAN ** (dim - 1) * abs(SLOPES) / 12


def counting_constant(dim: int) -> float:
    """Leading constant for counting, of order h: on every axis the ends have too much weight."""
    return dim * MEAN ** (dim - 1) * abs(ENDS - MEAN)


def measure() -> Evidence:
    """Errors against closed forms, their orders, and their constants against the Euler–Maclaurin formula."""
    series, numbers = [], []
    for dim, sizes in SIZES.items():
        h = tuple(1 / (n - 1) for n in sizes)
        second, first = errors("trapezoid", dim), errors("counting", dim)
        series += [
            Series(f"{dim}-D, trapezoid", h, second, order=(1.9, 2.1)),
            Series(f"{dim}-D, counting", h, first, order=(0.85, 1.15)),
        ]
        numbers.append(Check(f"{dim}-D, error / (C h²)", second[-1] / (constant(dim) * h[-1] ** 2), 0.98, 1.02))
        numbers.append(Check(f"{dim}-D, counting / (C h)", first[-1] / (counting_constant(dim) * h[-1]), 0.85, 1.05))
    return Evidence(tuple(series), tuple(numbers))


STATEMENT = Statement(
    name="means",
    text="Means under the tensor-product trapezoid measure agree across resolutions to second order; equal weights "
    "agree to first order only.",
    formula="|μ_h(f) − μ_h'(f)| = O(h² + h'²) for f ∈ C²([0,1]^d)",
    label="thm:consistency",
    measure=measure,
)
