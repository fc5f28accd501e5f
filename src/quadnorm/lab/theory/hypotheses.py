"""Cases outside the theorems' hypotheses: jumps, kinks, infinite slopes at the ends, samples at cell centres."""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor
from torch.nn import functional as F

from quadnorm.carry import carry
from quadnorm.lab.theory.averages import ENDS, MEAN, cell_nodes, endpoint_nodes, product, trapezoid_by_hand
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
