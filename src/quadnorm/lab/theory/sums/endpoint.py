"""How much half weights at the two ends change the mean, for fields with only one derivative."""

from __future__ import annotations

import torch
from torch import Tensor

from quadnorm.lab.theory.statement import Check, Evidence, Series, Statement
from quadnorm.lab.theory.sums.fields import endpoint_nodes
from quadnorm.measures import Grid
from quadnorm.norms import QuadNorm

SIZES = (9, 17, 33, 65, 129, 257, 513)
EPS = torch.finfo(torch.float64).eps


def rough(t: Tensor) -> Tensor:
    """|t − 1/3|^{3/2}: in C¹, not in C²; its mean is ((1/3)^{5/2} + (2/3)^{5/2})/(5/2)."""
    return (t - 1 / 3).abs() ** 1.5


MEAN = ((1 / 3) ** 2.5 + (2 / 3) ** 2.5) / 2.5
ENDS = ((1 / 3) ** 1.5 + (2 / 3) ** 1.5) / 2


def perturbation(f: Tensor) -> float:
    """Trapezoid mean − uniform mean."""
    return float(Grid("trapezoid").integrate(f) - Grid("counting").integrate(f))


def first_term(f: Tensor) -> float:
    """h·(mean of the inner samples − ½(u(0) + u(1)))."""
    return float(f[1:-1].mean() - (f[0] + f[-1]) / 2) / (f.numel() - 1)


def outputs(f: Tensor) -> float:
    """Largest difference between QuadNorm's and LayerNorm's output."""
    x = f[None, None]
    uniform = torch.nn.functional.layer_norm(x, x.shape[1:])
    return float((QuadNorm(1, affine=False)(x) - uniform).abs().max())


def measure() -> Evidence:
    """Order and constant of the perturbation, order of the remainder, and a field whose mean does not change."""
    h = tuple(1 / (m - 1) for m in SIZES)
    fields = [rough(endpoint_nodes(m)) for m in SIZES]
    whole = tuple(abs(perturbation(f)) for f in fields)
    rest = tuple(abs(perturbation(f) - first_term(f)) for f in fields)
    shift = tuple(outputs(f) for f in fields)
    line = endpoint_nodes(65)
    return Evidence(
        (
            Series("trapezoid − uniform", h, whole, order=(0.9, 1.1)),
            Series("remainder after h·(…)", h, rest, order=(1.85, 2.1)),
            Series("QuadNorm − LayerNorm, outputs", h, shift, order=(0.85, 1.1)),
        ),
        (
            Check("perturbation / (h |∫u − ½(u(0)+u(1))|)", whole[-1] / (h[-1] * abs(MEAN - ENDS)), 0.98, 1.02),
            Check("rest / (2h/m |…|)", rest[-1] * SIZES[-1] / (2 * h[-1] * abs(MEAN - ENDS)), 0.98, 1.02),
            Check("u = t: its bracket is 0, in units of rounding", abs(perturbation(line)) / EPS, 0, 4),
        ),
    )


STATEMENT = Statement(
    name="endpoint",
    text="Half weights at the ends change the mean by h times the difference between the inner mean and the end "
    "values, plus O(h²); one derivative of the field is enough.",
    formula="μ_trap − μ_unif = h·(u_int − ½(u(0) + u(1))) + O(h²)",
    label="prop:spectral-mismatch",
    measure=measure,
)
