"""Cases where volumes do not help, help less, or are worse than equal weights."""

from __future__ import annotations

from math import sqrt

import numpy as np

from quadnorm.lab.theory.bias import Array, Bias, ExactField, Sweep, bias, box_field, sweep
from quadnorm.lab.theory.meshes import chebyshev, cloud, graded, perturbed, refined, tensor
from quadnorm.lab.theory.statement import Check, Evidence
from quadnorm.measures import Grid

SIZES = (17, 33, 65, 129, 257)
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
    h = tuple(1 / (n - 1) for n in SIZES)
    jump = Sweep("jump on refined", h, tuple(steps(refined(n, 3.0)) for n in SIZES))
    even_jump = Sweep("jump on even", h, tuple(steps(np.linspace(0, 1, n)) for n in SIZES))
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
