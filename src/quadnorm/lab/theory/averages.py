"""Averages on grids: second-order and first-order means, and the exact identities behind them.

The fields are smooth, with integrals in closed form. Nodes are built here, not taken from the measures under test.

The profile of every axis is

    f(t) = e^t + sin 3t,    ∫f = e − 1 + (1 − cos 3)/3,    ∫f² = (e²−1)/2 + 2∫e^t sin 3t + ½ − (sin 6)/12

with ∫₀¹ e^t sin 3t = (e(sin 3 − 3 cos 3) + 3)/10. It is in C^∞, its end values differ from its mean, and f'(1) ≠ f'(0),
so that neither the first- nor the second-order error vanishes by accident.
"""

from __future__ import annotations

from math import cos, e, sin

import torch
from torch import Tensor

from quadnorm.lab.theory.statement import Check, Evidence, Series
from quadnorm.measures import Grid
from quadnorm.norms import QuadNorm

EPS = torch.finfo(torch.float64).eps
SIZES = (9, 17, 33, 65, 129, 257, 513)
SIZES_BY_DIMENSION = {1: (9, 17, 33, 65, 129, 257), 2: (9, 17, 33, 65, 129, 257), 3: (9, 13, 17, 25, 33, 49)}

MEAN = e - 1 + (1 - cos(3)) / 3
SQUARE = (e**2 - 1) / 2 + 2 * (e * (sin(3) - 3 * cos(3)) + 3) / 10 + 0.5 - sin(6) / 12
ENDS = (1 + e + sin(3)) / 2  # ½(f(0) + f(1))
SLOPES = e + 3 * cos(3) - 4  # f'(1) − f'(0)


def endpoint_nodes(n: int) -> Tensor:
    """j/(n−1): both ends included."""
    return torch.arange(n, dtype=torch.float64) / (n - 1)


def cell_nodes(n: int) -> Tensor:
    """(j+½)/n: the centres of n cells."""
    return (torch.arange(n, dtype=torch.float64) + 0.5) / n


def profile(t: Tensor) -> Tensor:
    """f(t) = e^t + sin 3t."""
    return torch.exp(t) + torch.sin(3 * t)


def product(t: Tensor, dim: int) -> Tensor:
    """f(x)·f(y)·… at the nodes t × t × …, shape (n,)*dim; its mean is MEAN**dim, its mean square SQUARE**dim."""
    f = values = profile(t)
    for _ in range(dim - 1):
        values = values.unsqueeze(-1) * f
    return values


def trapezoid_by_hand(n: int) -> Tensor:
    """h/2, h, …, h, h/2 with h = 1/(n−1), as the paper writes them."""
    w = torch.full((n,), 1 / (n - 1), dtype=torch.float64)
    w[0] = w[-1] = 0.5 / (n - 1)
    return w


def errors(rule: str, dim: int) -> tuple[float, ...]:
    """|mean under the rule − exact mean| of the product field, at the sizes of that dimension."""
    measure = Grid(rule)
    fields = (product(endpoint_nodes(n), dim) for n in SIZES_BY_DIMENSION[dim])
    return tuple(abs(float(measure.integrate(f)) - MEAN**dim) for f in fields)


def constant(dim: int) -> float:
    """Leading constant of the error: h²/12·(f'(1) − f'(0)) from each axis, times the means along the other axes."""
    return dim * MEAN ** (dim - 1) * abs(SLOPES) / 12


def counting_constant(dim: int) -> float:
    """Leading constant for counting, of order h: on every axis the ends have too much weight."""
    return dim * MEAN ** (dim - 1) * abs(ENDS - MEAN)


def measure_means() -> Evidence:
    """Errors against closed forms, their orders, and their constants against the Euler–Maclaurin formula."""
    series, numbers = [], []
    for dim, sizes in SIZES_BY_DIMENSION.items():
        h = tuple(1 / (n - 1) for n in sizes)
        second, first = errors("trapezoid", dim), errors("counting", dim)
        series += [
            Series(f"{dim}-D, trapezoid", h, second, order=(1.9, 2.1)),
            Series(f"{dim}-D, counting", h, first, order=(0.85, 1.15)),
        ]
        numbers.append(Check(f"{dim}-D, error / (C h²)", second[-1] / (constant(dim) * h[-1] ** 2), 0.98, 1.02))
        numbers.append(Check(f"{dim}-D, counting / (C h)", first[-1] / (counting_constant(dim) * h[-1]), 0.85, 1.05))
    return Evidence(tuple(series), tuple(numbers))


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


def measure_uniform() -> Evidence:
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


def rough(t: Tensor) -> Tensor:
    """|t − 1/3|^{3/2}: in C¹, not in C²; its mean is ((1/3)^{5/2} + (2/3)^{5/2})/(5/2)."""
    return (t - 1 / 3).abs() ** 1.5


ROUGH_MEAN = ((1 / 3) ** 2.5 + (2 / 3) ** 2.5) / 2.5
ROUGH_ENDS = ((1 / 3) ** 1.5 + (2 / 3) ** 1.5) / 2


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


def measure_endpoint() -> Evidence:
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
            Check(
                "perturbation / (h |∫u − ½(u(0)+u(1))|)", whole[-1] / (h[-1] * abs(ROUGH_MEAN - ROUGH_ENDS)), 0.98, 1.02
            ),
            Check("rest / (2h/m |…|)", rest[-1] * SIZES[-1] / (2 * h[-1] * abs(ROUGH_MEAN - ROUGH_ENDS)), 0.98, 1.02),
            Check("u = t: its bracket is 0, in units of rounding", abs(perturbation(line)) / EPS, 0, 4),
        ),
    )
