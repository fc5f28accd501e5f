"""Output consistency of the layer: the definition, the theorem, and the inequality inside its proof."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import sqrt

import torch
from torch import Tensor

from quadnorm.carry import carry
from quadnorm.lab.theory.averages import MEAN, SQUARE, endpoint_nodes, profile, trapezoid_by_hand
from quadnorm.lab.theory.statement import Check, Evidence, Series
from quadnorm.measures import Anchored, Blend, Grid, Measure
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


def layer(mode: str, measure: str | Measure) -> QuadNorm:
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


def discrepancies(mode: str, measure: str | Measure, method: str) -> tuple[float, ...]:
    """‖N_h(x_h) − P N_h'(x_h')‖ for all pairs of grids."""
    norm = layer(mode, measure)
    return tuple(distance(norm(field(n)) - carry(norm(field(m)), (n, n), "endpoint", method)) for n, m in PAIRS)


def measure_layers() -> Evidence:
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


# Families of layers, in instance mode under these measures, and the order p with which the definition holds for them.
FAMILIES: dict[str, tuple[Measure, tuple[float, float]]] = {
    "counting (InstanceNorm)": (Grid("counting"), (0.8, 1.3)),
    "trapezoid (QuadNorm)": (Grid("trapezoid"), (1.85, 2.15)),
    "0.3 counting + 0.7 trapezoid (the blend)": (Blend(0.3, Grid("trapezoid")), (0.8, 1.4)),
    "counting of 17 nodes (anchored)": (Anchored((17, 17)), (1.85, 2.15)),
    "Simpson": (Grid("simpson"), (3.5, 4.5)),
}


def graded(n: int) -> Tensor:
    """t² for n uniform t: twice as dense at one end."""
    return endpoint_nodes(n) ** 2


def _normalized_under(nodes: Tensor, weights: Tensor, at: Tensor) -> Tensor:
    """The profile at the points ``at``, normalized with its moments over weighted nodes: no interpolation is needed."""
    f = profile(nodes)
    mean = (weights * f).sum()
    return (profile(at) - mean) / torch.sqrt((weights * (f - mean) ** 2).sum() + EPSILON)


def between_families(sizes: tuple[int, ...], first: Callable[[int], Tensor], second: Callable[[int], Tensor]) -> Series:
    """Equal weights on the nodes of two families of grids: the distance of the two outputs, at common points."""
    at, w = endpoint_nodes(1025), trapezoid_by_hand(1025)
    y = []
    for n in sizes:
        one, two = (
            _normalized_under(nodes, torch.full((len(nodes),), 1 / len(nodes), dtype=torch.float64), at)
            for nodes in (first(n), second(2 * n - 1))
        )
        y.append(float((w * (one - two) ** 2).sum().sqrt()))
    same = first is second
    name = "equal weights, graded grids with each other" if same else "equal weights, uniform against graded grids"
    return Series(name, tuple(1 / (n - 1) for n in sizes), tuple(y), order=(0.8, 1.2) if same else (-0.2, 0.2))


def measure_consistency() -> Evidence:
    """The order p of each family of norms; and what the definition does not exclude."""
    h = tuple(1 / (m - 1) for _, m in PAIRS)
    series = [
        Series(name, h, discrepancies("instance", m, "cubic"), order=order) for name, (m, order) in FAMILIES.items()
    ]
    sizes = (17, 33, 65, 129, 257)
    series += [between_families(sizes, graded, graded), between_families(sizes, endpoint_nodes, graded)]
    return Evidence(
        tuple(series),
        notes=(
            "Every norm here is consistent by the definition, LayerNorm and the blend too, with p = 1: what quadrature "
            "adds is the order.",
            "The definition compares grids of one family. Equal weights on graded grids fulfil it with p = 1 and tend "
            "to the average under another measure: between two families they do not agree in the limit.",
        ),
    )


FLOOR, BOUND_X, BOUND_MEAN = 0.3, 2.0, 1.5  # v_min, M and M_μ of the inequality
Triple = tuple[Tensor, Tensor, Tensor]


def normalized(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """N(x; μ, v) of the proof, for x (C, N) and μ, v (C, 1)."""
    gamma, beta = (torch.tensor(v, dtype=torch.float64)[:, None] for v in (GAMMA, BETA))
    return gamma * (x - mean) / torch.sqrt(variance + EPSILON) + beta


def left_over_right(one: Triple, two: Triple, floor: float, bound: float) -> float:
    """The left side of the inequality over its right side; ``bound`` is M + M_μ, ``floor`` v_min."""
    gamma = max(abs(g) for g in GAMMA)
    d_x, d_mean, d_variance = (float((a - b).abs().max()) for a, b in zip(one, two, strict=True))
    root = sqrt(floor + EPSILON)
    right = gamma / root * (d_x + d_mean) + gamma * bound / (2 * root**3) * d_variance
    return float((normalized(*one) - normalized(*two)).abs().max()) / right


def _random_triple(random: torch.Generator, near: Triple | None = None) -> Triple:
    x, m, v = (2 * torch.rand(CHANNELS, k, generator=random, dtype=torch.float64) - 1 for k in (6, 1, 1))
    if near is not None:
        step = 10 ** float(-6 * torch.rand(1, generator=random))
        x, m, v = (a + step * b for a, b in zip(near, (x, m, v), strict=True))
        return x.clamp(-BOUND_X, BOUND_X), m.clamp(-BOUND_MEAN, BOUND_MEAN), v.clamp(min=FLOOR)
    return BOUND_X * x, BOUND_MEAN * m, FLOOR + (1 + v) * 2


def measure_lipschitz() -> Evidence:
    """Both sides for random and for the worst triples, and for the layer's own moments on pairs of grids."""
    random = torch.Generator().manual_seed(0)
    found = []
    for k in range(2000):
        one = _random_triple(random)
        found.append(left_over_right(one, _random_triple(random, one if k % 2 else None), FLOOR, BOUND_X + BOUND_MEAN))
    x = torch.full((CHANNELS, 1), BOUND_X, dtype=torch.float64)
    mean, floor = -torch.full_like(x, BOUND_MEAN), torch.full_like(x, FLOOR)
    worst = (x, mean, floor)
    step = 1e-6
    moved = {
        "x alone": (x - step, mean, floor),
        "the mean alone": (x, mean + step, floor),
        "the variance alone": (x, mean, floor + step),
    }
    numbers = [Check("random triples: left / right, largest", max(found), 0, 1)]
    numbers += [
        Check(
            f"worst triple, {what} moves: left / right",
            left_over_right(worst, two, FLOOR, BOUND_X + BOUND_MEAN),
            0.999,
            1 + 1e-6,
        )
        for what, two in moved.items()
    ]
    for mode in MODES:
        numbers.append(Check(f"{mode} mode on pairs of grids: left / right, largest", max(_on_grids(mode)), 0, 1))
    return Evidence(
        numbers=tuple(numbers),
        notes=(
            "The constants ‖γ‖/√(v + ε) and ‖γ‖(M + M_μ)/2(v + ε)^{3/2} cannot be smaller: the worst triples reach "
            "them.",
        ),
    )


def _on_grids(mode: str) -> list[float]:
    """Left over right for a layer with trapezoid weights, its own M, M_μ and v_min on each pair of grids."""
    found = []
    for n, m in PAIRS:
        triples: list[Triple] = []
        for size in (n, m):
            u = field(size)[0]
            w = trapezoid_by_hand(size)
            area = (w[:, None] * w).flatten()
            grouped = u.flatten(1).view(GROUPS[mode], -1, size * size)
            mean = (grouped * area).sum(-1).mean(1)
            variance = ((grouped - mean[:, None, None]) ** 2 * area).sum(-1).mean(1)
            mean, variance = (v.repeat_interleave(CHANNELS // GROUPS[mode])[:, None] for v in (mean, variance))
            here = carry(u[None], (n, n), "endpoint", "cubic")[0]
            triples.append((here.flatten(1), mean, variance))
        one, two = triples
        floor = float(min(one[2].min(), two[2].min()))
        bound = float(max(one[0].abs().max(), two[0].abs().max()) + max(one[1].abs().max(), two[1].abs().max()))
        found.append(left_over_right(one, two, floor, bound))
    return found
