"""Output consistency of the layer, for all modes, with linear and cubic interpolation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from quadnorm.carry import carry
from quadnorm.lab.theory.statement import Check, Evidence, Series, Statement
from quadnorm.lab.theory.sums.fields import MEAN, SQUARE, endpoint_nodes, profile, trapezoid_by_hand
from quadnorm.norms import QuadNorm

# Grids h = 1/8k and h' = 1/6k: neither contains the other, so that P has to interpolate.
PAIRS = tuple((8 * k + 1, 6 * k + 1) for k in (1, 2, 3, 4, 6, 8, 12, 16))
MODES = ("layer", "instance", "group")
CHANNELS, GROUPS, EPSILON = 4, {"layer": 1, "instance": 4, "group": 2}, 1e-5
GAMMA, BETA = (1.0, -0.5, 2.0, 0.7), (0.1, 0.0, -1.0, 0.4)

# ∫ and ∫² of the channels below, from ∫f, ∫f² of the profile and ∫t² = 1/3, ∫t⁴ = 1/5.
MEANS = (MEAN**2, MEAN, MEAN / 3, 1 / 3 - MEAN)
SQUARES = (SQUARE**2, SQUARE, SQUARE / 5, 1 / 5 + SQUARE - 2 / 3 * MEAN)


def field(n: int) -> Tensor:
    """Four channels on n² nodes, (1, 4, n, n): f(x)f(y), f(x), f(x)y², x² − f(y)."""
    t = endpoint_nodes(n)
    f, x, one = profile(t), t[:, None], torch.ones_like(t)
    return torch.stack([f[:, None] * f, f[:, None] * one, f[:, None] * t**2, x**2 - f])[None]


def layer(mode: str, measure: str) -> QuadNorm:
    """A layer whose γ and β are not 1 and 0."""
    norm = QuadNorm(CHANNELS, EPSILON, mode=mode, num_groups=GROUPS["group"], measure=measure, dtype=torch.float64)
    assert norm.weight is not None
    assert norm.bias is not None
    with torch.no_grad():
        norm.weight.copy_(torch.tensor(GAMMA, dtype=torch.float64))
        norm.bias.copy_(torch.tensor(BETA, dtype=torch.float64))
    return norm.requires_grad_(False)


def _moments(mode: str) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """True mean and variance of each channel's group, (1, C, 1, 1), and the function that averages over groups."""
    groups = GROUPS[mode]

    def per_channel(v: Tensor) -> Tensor:
        return v.view(groups, -1).mean(1).repeat_interleave(CHANNELS // groups).view(1, -1, 1, 1)

    mean = per_channel(torch.tensor(MEANS, dtype=torch.float64))
    return mean, per_channel(torch.tensor(SQUARES, dtype=torch.float64)) - mean**2, per_channel


def exact_output(n: int, mode: str) -> Tensor:
    """The normalized field with its true moments, at the nodes."""
    mean, variance, _ = _moments(mode)
    gamma, beta = (torch.tensor(v, dtype=torch.float64).view(1, -1, 1, 1) for v in (GAMMA, BETA))
    return gamma * (field(n) - mean) / torch.sqrt(variance + EPSILON) + beta


def distance(z: Tensor) -> float:
    """‖z‖ in the comparison norm: trapezoid weights over space, plain sum over channels."""
    w = trapezoid_by_hand(z.shape[-1])
    return float((z.square().sum((0, 1)) * w[:, None] * w).sum().sqrt())


@cache
def constant(mode: str) -> float:
    """The leading constant C of ‖N_h(x_h) − N(u)‖ = C h² + O(h⁴).

    The error of the trapezoid rule is h²/12·∫(∂ₓ² + ∂_y²) of the integrand, here u and u², and these integrals are
    differences of slopes at the ends. The derivative of N with respect to its moments gives the error of the output.
    """
    t = torch.tensor([0.0, 1.0], dtype=torch.float64)
    f, d = profile(t), torch.exp(t) + 3 * torch.cos(3 * t)
    one, two = float(d[1] - d[0]), float(2 * (f * d)[1] - 2 * (f * d)[0])  # [f']₀¹ and [(f²)']₀¹
    # One entry per channel of :func:`field`; [2t]₀¹ = 2, [4t³]₀¹ = 4, and the cross term of x² − f is −2x²f.
    of_mean = torch.tensor([2 * MEAN * one, one, one / 3 + 2 * MEAN, 2 - one], dtype=torch.float64) / 12
    cross = -2 * (2 * MEAN + one / 3)
    of_square = torch.tensor([2 * SQUARE * two, two, two / 5 + 4 * SQUARE, 4 + two + cross], dtype=torch.float64) / 12
    mean, variance, per_channel = _moments(mode)
    d_mean = per_channel(of_mean)
    d_variance = per_channel(of_square) - 2 * mean * d_mean
    root = torch.sqrt(variance + EPSILON)
    gamma = torch.tensor(GAMMA, dtype=torch.float64).view(1, -1, 1, 1)
    return distance(gamma * (d_mean / root + (field(257) - mean) * d_variance / (2 * root**3)))


def discrepancies(mode: str, measure: str, method: str) -> tuple[float, ...]:
    """‖N_h(x_h) − P N_h'(x_h')‖ for all pairs of grids."""
    norm = layer(mode, measure)
    return tuple(distance(norm(field(n)) - carry(norm(field(m)), (n, n), "endpoint", method)) for n, m in PAIRS)


def measure() -> Evidence:
    """Every mode across two grids that do not nest, and against the output with exact moments."""
    h = tuple(1 / (m - 1) for _, m in PAIRS)
    fine = tuple(1 / (n - 1) for n, _ in PAIRS)
    series, numbers = [], []
    for mode in MODES:
        for method in ("linear", "cubic"):
            y = discrepancies(mode, "trapezoid", method)
            series.append(Series(f"{mode}, trapezoid, {method} P", h, y, order=(1.85, 2.15)))
        series.append(
            Series(f"{mode}, counting, cubic P", h, discrepancies(mode, "counting", "cubic"), order=(0.8, 1.3))
        )
        norm = layer(mode, "trapezoid")
        exact = tuple(distance(norm(field(n)) - exact_output(n, mode)) for n, _ in PAIRS)
        series.append(Series(f"{mode}, to the exact output", fine, exact, order=(1.9, 2.1)))
        numbers.append(
            Check(f"{mode}, to the exact output / (C h²)", exact[-1] / constant(mode) / fine[-1] ** 2, 0.98, 1.02)
        )
    return Evidence(tuple(series), tuple(numbers))


STATEMENT = Statement(
    name="layers",
    text="A layer with trapezoid weights gives the same output on two grids to second order, in every mode, whether "
    "fields are compared by linear or cubic interpolation; with equal weights to first order.",
    formula="‖N_h(x_h) − P N_h'(x_h')‖ = O(h² + h'²) for u ∈ C²",
    label="thm:output-consistency",
    measure=measure,
)
