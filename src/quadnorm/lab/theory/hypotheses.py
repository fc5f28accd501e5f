"""Where the theorems end: jumps, kinks, infinite slopes, cell centres; and meshes on which volumes do not help, help
less, or are worse than equal weights.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from quadnorm.carry import carry
from quadnorm.lab.theory.averages import ENDS, MEAN, cell_nodes, endpoint_nodes, product, trapezoid_by_hand
from quadnorm.lab.theory.bias import Array, Bias, ExactField, Sweep, bias, box_field, sweep
from quadnorm.lab.theory.meshes import chebyshev, cloud, graded, perturbed, refined, tensor
from quadnorm.lab.theory.statement import Check, Evidence, Series
from quadnorm.measures import Grid

SIZES = (17, 33, 65, 129, 257, 513)
PLACES = 0.35 + 0.3 * (torch.arange(997, dtype=torch.float64) + 0.5) / 997  # of jumps and kinks, to average over


def step_errors(rule: str) -> tuple[float, ...]:
    """Root mean square error of the mean of 1_{t > c}, over places c of the jump."""
    w = [Grid(rule).weights(n) for n in SIZES]
    return tuple(
        float(((endpoint_nodes(n) > PLACES[:, None]).double() @ v - (1 - PLACES)).square().mean().sqrt())
        for n, v in zip(SIZES, w, strict=True)
    )


def disc_errors(rule: str) -> tuple[float, ...]:
    """The same for discs in the square with 64 centres and radii: their edges cross the grid at all angles."""
    discs = torch.rand(64, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    centres, radii = 0.45 + 0.1 * discs[:, :2], 0.25 + 0.1 * discs[:, 2]
    errors_by_size = []
    for n in SIZES:
        t = endpoint_nodes(n)
        w = Grid(rule).weights((n, n))
        away = ((t[:, None] - a) ** 2 + (t - b) ** 2 for a, b in centres.tolist())
        areas = torch.stack([w[d < r**2].sum() for d, r in zip(away, radii.tolist(), strict=True)])
        errors = areas - pi * radii**2
        errors_by_size.append(float(errors.square().mean().sqrt()))
    return tuple(errors_by_size)


def commutators(activation: object, method: str) -> tuple[float, ...]:
    """‖σ(Pz) − Pσ(z)‖ from n to 3(n−1)+1 nodes for z = sin 4(t − c), which changes sign at c."""
    assert callable(activation)
    errors_by_size = []
    for n in SIZES:
        m = 3 * (n - 1) + 1
        z = torch.sin(4 * (endpoint_nodes(n) - PLACES[::20, None]))
        gap = activation(carry(z, (m,), "endpoint", method)) - carry(activation(z), (m,), "endpoint", method)
        errors_by_size.append(float((gap.square() @ trapezoid_by_hand(m)).mean().sqrt()))
    return tuple(errors_by_size)


def kink_errors() -> tuple[float, ...]:
    """Root mean square error of the trapezoid mean of max(t − c, 0), whose integral is (1 − c)²/2."""
    return tuple(
        float(
            (Grid("trapezoid").integrate(F.relu(endpoint_nodes(n) - PLACES[:, None]), ndim=1) - (1 - PLACES) ** 2 / 2)
            .square().mean().sqrt()
        )
        for n in SIZES
    )  # fmt: skip


def cell_errors(rule: str) -> tuple[float, ...]:
    """Error of a rule's weights on samples of the smooth profile at the centres of n cells."""
    return tuple(abs(float(Grid(rule).integrate(product(cell_nodes(n - 1), 1))) - MEAN) for n in SIZES)


def root_errors(rule: str) -> tuple[float, ...]:
    """Error of the mean of √t, whose slope at the end is infinite; its mean is 2/3."""
    return tuple(abs(float(Grid(rule).integrate(endpoint_nodes(n).sqrt())) - 2 / 3) for n in SIZES)


def measure_outside() -> Evidence:
    """What is left of second order when each hypothesis in turn is dropped."""
    h = tuple(1 / (n - 1) for n in SIZES)
    jump, plain = step_errors("trapezoid"), step_errors("counting")
    cells = cell_errors("trapezoid")
    spread = float((PLACES - 0.5).square().mean())
    series = (
        Series("jump, trapezoid mean", h, jump, order=(0.9, 1.1)),
        Series("jump, counting mean", h, plain, order=(0.9, 1.1)),
        Series("disc, trapezoid mean", h, disc_errors("trapezoid"), order=(1.35, 1.65)),
        Series("disc, counting mean", h, disc_errors("counting"), order=(0.85, 1.15)),
        Series("ReLU, trapezoid mean", h, kink_errors(), order=(1.9, 2.1)),
        Series("ReLU, commutator, linear P", h, commutators(F.relu, "linear"), order=(1.4, 1.6)),
        Series("ReLU, commutator, cubic P", h, commutators(F.relu, "cubic"), order=(1.4, 1.6)),
        Series("GELU, commutator, linear P", h, commutators(F.gelu, "linear"), order=(1.9, 2.1)),
        Series("cell centres, counting = midpoint", h, cell_errors("counting"), order=(1.9, 2.1)),
        Series("cell centres, trapezoid weights", h, cells, order=(0.9, 1.1)),
        Series("√t, trapezoid mean", h, root_errors("trapezoid"), order=(1.4, 1.6)),
        Series("√t, counting mean", h, root_errors("counting"), order=(0.9, 1.1)),
    )
    numbers = (
        Check("jump, trapezoid / (h/√12)", jump[-1] / (h[-1] / 12**0.5), 0.95, 1.05),
        Check("jump, counting / (h·√(1/12 + ⟨(c−½)²⟩))", plain[-1] / (h[-1] * (1 / 12 + spread) ** 0.5), 0.95, 1.05),
        Check("cell centres: counting − midpoint weights", _midpoint_gap(), 0, 0),
        Check("cell centres, trapezoid / (h |½(f(0)+f(1)) − ∫f|)", cells[-1] / (h[-1] * abs(ENDS - MEAN)), 0.95, 1.05),
    )
    return Evidence(series, numbers)


def _midpoint_gap() -> float:
    weights: list[Tensor] = [Grid("counting").weights(n) - Grid("midpoint").weights(n) for n in SIZES]
    return max(float(gap.abs().max()) for gap in weights)


MESH_SIZES = (17, 33, 65, 129, 257)
CLOUDS = (8, 12, 16, 24, 32, 48)
FIELDS = ("sines", "parabolas", "exponential", "bumps", "cosines", "step")


def steps(nodes: Array, draws: int = 64) -> tuple[Bias, ...]:
    """Biases of 1[x < c] on one axis, for ``draws`` places c of the jump, spread evenly over (0.2, 0.8)."""
    points, weights, _ = tensor(nodes)
    cuts = 0.2 + 0.6 * (np.arange(draws) + 0.5) / draws
    steps = (ExactField("step", lambda p, c=c: (p[:, 0] < c).astype(np.float64), float(c), float(c)) for c in cuts)
    return tuple(bias(points, weights, field) for field in steps)


def noise(weights: Array, draws: int = 1000) -> tuple[float, float]:
    """Root mean square of Σp_i ξ_i for independent ξ_i of mean 0 and variance 1: p_i = 1/N, and p_i ∝ w_i.

    The first is √(1/N), the second √(Σp²), which is never less.
    """
    rng = np.random.default_rng(0)
    p = weights / weights.sum()
    xi = rng.standard_normal((draws, p.size))
    return float(np.sqrt(np.mean(xi.mean(axis=1) ** 2))), float(np.sqrt(np.mean((xi @ p) ** 2)))


def uneven(rule: str, n: int = 64) -> float:
    """How far the weights of an even grid are from equal: max |N p_i − 1|."""
    return float((Grid(rule).weights((n, n)) * n * n - 1).abs().max())


def factors_by_field(n: int = 64) -> list[dict[str, float | str]]:
    """Error of the mean with equal weights over that with control volumes, for fields × meshes of n² nodes."""
    meshes = {
        "even": np.linspace(0, 1, n),
        "perturbed": perturbed(n, np.random.default_rng(0)),
        "graded": graded(n),
        "chebyshev": chebyshev(n),
        "refined 1.5": refined(n, 1.5),
        "refined 3": refined(n, 3.0),
    }
    grids = {name: tensor(x, x) for name, x in meshes.items()}
    return [
        {"mean ÷ at 64²": name, **{g: bias(m.points, m.weights, box_field(name)).factor() for g, m in grids.items()}}
        for name in FIELDS
    ]


def measure_limits() -> Evidence:
    """Even grids, independent points, jumps, noise, symmetry; then fields × meshes."""
    h = tuple(1 / (n - 1) for n in MESH_SIZES)
    jump = Sweep("jump on refined", h, tuple(steps(refined(n, 3.0)) for n in MESH_SIZES))
    even_jump = Sweep("jump on even", h, tuple(steps(np.linspace(0, 1, n)) for n in MESH_SIZES))
    clouds = [cloud(n, np.random.default_rng([n, k]), strength=0.0) for n in CLOUDS for k in range(16)]
    scattered = sweep(clouds, box_field("sines", 2), "independent points")
    series = (
        jump.series("quadrature", "mean", (0.8, 1.2)),
        even_jump.series("quadrature", "mean", (0.8, 1.2)),
        even_jump.series("counting", "mean", (0.8, 1.2)),
        scattered.series("quadrature", "mean", (1.8, 2.5), 0.25),
        scattered.series("counting", "mean", (0.7, 1.3), 0.25),
    )
    x = refined(64, 3.0)
    crowded = tensor(x, x)
    equal, volumes = noise(crowded.weights)
    p = crowded.weights / crowded.weights.sum()
    odd = bias(crowded.points, crowded.weights, box_field("cosines"))
    numbers = (
        Check("cell-centred even grid: volumes − equal weights", uneven("midpoint"), 0.0, 1e-12),
        Check("periodic even grid: volumes − equal weights", uneven("periodic"), 0.0, 1e-12),
        Check("a jump on even grids: largest factor of the mean", max(even_jump.factors()), 0.5, 3.0),
        Check("independent points: equal weights · √N (Monte Carlo: 1)", _monte_carlo(scattered), 0.7, 1.4),
        Check("noise, refined 64²: error with volumes / with equal weights", volumes / equal, 1.5, 2.5),
        Check("noise: this ratio / √(N Σp²)", volumes / equal / sqrt(p.size * float(p @ p)), 0.9, 1.1),
        Check("odd field, symmetric mesh: mean with equal weights", odd.counting.mean, 0.0, 1e-13),
        Check("odd field, symmetric mesh: its variance is wrong", odd.counting.variance, 0.1, float("inf")),
    )
    notes = (
        "even cell-centred or periodic grids: nothing to gain, the weights are the same",
        "a jump: control volumes are of first order on any mesh; on even grids that is no better than equal weights",
        "independent points of even density: equal weights converge too, as h^(d/2): the gain grows as n in 2-D",
        "samples that are noise: equal weights are the best possible; volumes act like 1/Σp² < N samples",
        "in the table: nan where both are exact by symmetry, inf where only control volumes are (their error is of "
        "higher order if the slopes at the ends cancel)",
    )
    return Evidence(series, numbers, tuple(factors_by_field()), notes)


def _monte_carlo(sweep: Sweep) -> float:
    """Mean error of independent points in units of σ/√N, averaged over sizes."""
    counts = [drawn[0].samples for drawn in sweep.biases]
    scaled = [e * e * n for e, n in zip(sweep.errors("counting"), counts, strict=True)]
    return sqrt(sum(scaled) / len(scaled))
