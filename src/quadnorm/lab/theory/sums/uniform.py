"""First-order uniform averages: the exact identity behind them, and their order."""

from __future__ import annotations

import torch
from torch import Tensor

from quadnorm.lab.theory.statement import Check, Evidence, Series, Statement
from quadnorm.lab.theory.sums.fields import ENDS, MEAN, endpoint_nodes, product, profile
from quadnorm.measures import Grid

EPS = torch.finfo(torch.float64).eps
SIZES = (9, 17, 33, 65, 129, 257, 513)


def difference(f: Tensor) -> float:
    """Counting mean − trapezoid mean, computed with the package's measures."""
    return float(Grid("counting").integrate(f) - Grid("trapezoid").integrate(f))


def formula(f: Tensor) -> float:
    """(m−2)/(m(m−1)) · (½(f₀ + f_{m−1}) − mean of the inner samples)."""
    m = f.numel()
    return (m - 2) / (m * (m - 1)) * float((f[0] + f[-1]) / 2 - f[1:-1].mean())


def identity_error() -> float:
    """The largest violation of the identity over all m from 3 to 200, in units of rounding at the samples' size.

    Smooth and random samples: the identity is algebra and holds for any f.
    """
    random = torch.Generator().manual_seed(0)
    worst = 0.0
    for m in range(3, 201):
        for f in (profile(endpoint_nodes(m)), torch.randn(m, generator=random, dtype=torch.float64)):
            worst = max(worst, abs(difference(f) - formula(f)) / (EPS * float(f.abs().max())))
    return worst


def mixture_error() -> float:
    """The same for the weights: counting = (1 − 1/n)·trapezoid + (1/n)·½(δ_first + δ_last), in units of rounding."""
    worst = 0.0
    for n in range(2, 201):
        atoms = torch.zeros(n, dtype=torch.float64)
        atoms[0] = atoms[-1] = 0.5
        mixed = (1 - 1 / n) * Grid("trapezoid").weights(n) + atoms / n
        worst = max(worst, float((Grid("counting").weights(n) - mixed).abs().max()) * n / EPS)
    return worst


def measure() -> Evidence:
    """The identity to rounding, Θ(h) with its constant, and two resolutions compared."""
    h = tuple(1 / (m - 1) for m in SIZES)
    samples = [product(endpoint_nodes(m), 1) for m in SIZES]
    gap = tuple(abs(difference(f)) for f in samples)
    means = {m: float(Grid("counting").integrate(product(endpoint_nodes(m), 1))) for m in (*SIZES, 1025)}
    across = tuple(abs(means[m] - means[2 * m - 1]) for m in SIZES)
    return Evidence(
        (
            Series("counting − trapezoid", h, gap, order=(0.9, 1.1)),
            Series("counting at h − counting at h/2", h, across, order=(0.9, 1.1)),
        ),
        (
            Check("identity, in units of rounding", identity_error(), 0, 16),
            Check("mixture of the weights, in units of rounding", mixture_error(), 0, 4),
            Check("counting − trapezoid / (C h)", gap[-1] / (abs(ENDS - MEAN) * h[-1]), 0.98, 1.02),
            Check("difference across h, h/2 / (C h/2)", across[-1] / (abs(ENDS - MEAN) * h[-1] / 2), 0.98, 1.02),
        ),
        notes=("C = |½(f(0) + f(1)) − ∫f|: an average of samples is of second order only where C = 0.",),
    )


STATEMENT = Statement(
    name="uniform",
    text="On nodes that include both ends, the average of all samples differs from the trapezoid mean by an exact "
    "multiple, of first order in h, of the difference between the end values and the inner mean.",
    formula="μ_disc − μ_trap = (m−2)/(m(m−1)) · (½(f(0) + f(1)) − f_int) = Θ(h)",
    label="prop:standard-inconsistent",
    measure=measure,
)
