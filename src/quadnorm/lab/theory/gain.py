"""The optional residual gain bounds how much energy a block can add.

y = x + g F(x) with g = α₀ √(E‖x‖² / (E‖F(x)‖² + ε)). By the triangle inequality in the norm √E‖·‖² (Cauchy and
Schwarz), √E‖y‖² ≤ √E‖x‖² + g √E‖F‖² ≤ (1 + α₀) √E‖x‖², whatever F is: its size cancels.
"""

from __future__ import annotations

from itertools import product
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from quadnorm.lab.theory.statement import Check, Evidence
from quadnorm.operators import FNO

EPS = 1e-12  # the layer's ε
ALPHAS = (0.0, 0.1, 0.5, 1.0, 3.0)
SCALES = (1e-3, 1.0, 1e3)
CORRELATIONS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def scaled(x: Tensor, branch: Tensor, alpha: float, eps: float = EPS) -> Tensor:
    """Y = x + g F(x), written out here independently of the operator; E is the mean over batch, channels and space."""
    return x + alpha * torch.sqrt(energy(x) / (energy(branch) + eps)) * branch


def energy(x: Tensor) -> Tensor:
    """E‖x‖² over batch and space, of fields (B, C, *spatial): a scalar."""
    return x.square().sum(1).mean()


def use(x: Tensor, y: Tensor, alpha: float) -> float:
    """√E‖y‖² / ((1 + α₀) √E‖x‖²): the share of the bound that is used; at most 1."""
    return sqrt(float(energy(y) / energy(x))) / (1 + alpha)


def bound_fractions(alpha: float, correlation: float, scale: float) -> tuple[float, float]:
    """The share of the bound with the gain and, for comparison, of y = x + F(x) without it."""
    random = torch.Generator().manual_seed(0)
    x, other = torch.randn(2, 6, 4, 17, 17, generator=random, dtype=torch.float64)
    branch = scale * (correlation * x + sqrt(1 - correlation**2) * other)
    return use(x, scaled(x, branch, alpha), alpha), use(x, x + branch, alpha)


def block_fractions(measure: str) -> tuple[float, float]:
    """How close the FNO's own blocks, with large weights, come to the bound under a measure; the worst of its blocks.

    Returns the share of the bound that is used, and the relative distance of √E‖y − x‖² from α₀ √E‖x‖².
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = FNO(1, 1, 8, 4, 3, norm="none", measure=measure, gain=True).double()
    for p in model.parameters():
        p.data.mul_(3.0)  # so that the branches are far larger than their inputs
    x = torch.randn(4, 8, 17, 17, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    shape = x.shape[2:]
    share, miss = 0.0, 0.0
    block: Any
    with torch.no_grad():
        for block in model.blocks:
            tokens = x.flatten(2)
            y = block(tokens, shape).reshape(x.shape)
            weights = block.spectral.measure.weights(shape)
            before, after, added = ((v.square().sum(1) * weights).sum((1, 2)).sqrt() for v in (x, y, y - x))
            alpha = float(F.softplus(block.gain))
            share = max(share, float((after / before).max()) / (1 + alpha))
            miss = max(miss, float((added / (alpha * before) - 1).abs().max()))
            x = y
    return share, miss


def measure_gain() -> Evidence:
    """The bound for random fields of every correlation and size, a case that reaches it, and the FNO's own blocks."""
    grid = {key: bound_fractions(*key) for key in product(ALPHAS, CORRELATIONS, SCALES)}
    gained = [with_gain for with_gain, _ in grid.values()]
    aligned = [grid[a, 1.0, s][0] for a in ALPHAS for s in SCALES]
    plain = max(without for _, without in grid.values())
    blocks = {name: block_fractions(name) for name in ("counting", "trapezoid")}
    rows = tuple(
        {"α₀": a, **{f"corr {c:g}": grid[a, c, 1.0][0] for c in CORRELATIONS}, "F × 1000": grid[a, 0.0, 1e3][0]}
        for a in ALPHAS
    )
    return Evidence(
        (),
        (
            Check("√E‖y‖² / ((1 + α₀) √E‖x‖²), largest", max(gained), 0, 1 + 1e-12),
            Check("the same where F is a multiple of x: the bound is reached", min(aligned), 1 - 1e-6, 1 + 1e-12),
            Check("without the gain, largest", plain, 10, float("inf")),
            *(
                Check(f"FNO blocks, {name}, share of the bound", share, 0, 1 + 1e-9)
                for name, (share, _) in blocks.items()
            ),
            *(
                Check(f"FNO blocks, {name}: |√E‖y − x‖² / (α₀ √E‖x‖²) − 1|", miss, 0, 1e-6)
                for name, (_, miss) in blocks.items()
            ),
        ),
        rows,
        ("Rows: the share of the bound that is used, by the correlation of F and x; the size of F does not matter.",),
    )
