"""On periodic grids quadrature is the plain average, exactly."""

from __future__ import annotations

from itertools import product as pairs

import torch
from torch import Tensor
from torch.nn import functional as F

from quadnorm.lab.theory.statement import Check, Evidence, Statement
from quadnorm.measures import Blend, Grid
from quadnorm.norms import BlendQuadNorm, QuadNorm, quad_norm

SHAPES = ((8,), (33,), (257,), (16, 16), (33, 20), (12, 9, 7))
CHANNELS, GROUPS = 4, {"layer": 1, "instance": 4, "group": 2}
BESSEL = 1.2660658777520084  # I₀(1) = ∫₀¹ exp(sin 2πt) dt
EPS = torch.finfo(torch.float64).eps


def sample(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """Random samples (2, 4, *shape): the statement holds for any field."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(2, CHANNELS, *shape, generator=random, dtype=torch.float64) + 3


def folded(n: int) -> Tensor:
    """Weights of n periodic nodes from the trapezoid weights of n+1 nodes: the last node's is added to the first's."""
    w = Grid("trapezoid").weights(n + 1)
    w[0] += w[-1]
    return w[:-1]


def _in_units_of_rounding(y: Tensor, plain: Tensor) -> float:
    return float((y - plain).abs().max() / plain.abs().max()) / EPS


def measure() -> Evidence:
    """Weights compared bit for bit, outputs up to rounding; as a control, the same layers on a grid with both ends."""
    differing = sum(int((Grid("periodic").weights(s) != Grid("counting").weights(s)).sum()) for s in SHAPES)
    unfolded = max(float((folded(n) - Grid("periodic").weights(n)).abs().max()) for n in range(2, 258))
    outputs, blends, rounding = 0.0, 0.0, 0.0
    for shape, (mode, groups) in pairs(SHAPES, GROUPS.items()):
        x = sample(shape)
        plain = F.group_norm(x, groups)
        layer = QuadNorm(CHANNELS, affine=False, mode=mode, num_groups=groups, measure="periodic")
        outputs = max(outputs, _in_units_of_rounding(layer(x), plain))
        weighted = quad_norm(x, Grid("periodic").weights(shape), groups)
        rounding = max(rounding, _in_units_of_rounding(weighted, plain))
    for shape in SHAPES:
        x = sample(shape)
        blended = BlendQuadNorm(CHANNELS, affine=False, measure="periodic")(x)
        blends = max(blends, _in_units_of_rounding(blended, F.group_norm(x, 1)))
        weights = Blend(0.3, Grid("periodic")).weights(shape)
        differing += int((weights - 1 / weights.numel()).abs().max() > EPS)
    x = sample((33, 20))
    control = float((QuadNorm(CHANNELS, affine=False)(x) - F.group_norm(x, 1)).abs().max())
    smooth = torch.exp(torch.sin(2 * torch.pi * torch.arange(16, dtype=torch.float64) / 16))
    spectral = abs(float(Grid("periodic").integrate(smooth)) - BESSEL)
    return Evidence(
        numbers=(
            Check("weights that are not 1/N", differing, 0, 0),
            Check("trapezoid folded − periodic weights", unfolded, 0, 0),
            Check("QuadNorm − PyTorch's norm, in units of rounding", outputs, 0, 64),
            Check("BlendQuadNorm − LayerNorm, in units of rounding", blends, 0, 64),
            Check("quad_norm with these weights − PyTorch's norm, in units of rounding", rounding, 0, 64),
            Check("control with both ends: largest difference", control, 1e-4, float("inf")),
            Check("|mean of exp(sin 2πt) at 16 nodes − I₀(1)|", spectral, 0, 1e-14),
        ),
        notes=("counted over grids " + ", ".join("×".join(map(str, s)) for s in SHAPES) + " and three modes",),
    )


STATEMENT = Statement(
    name="periodic",
    text="On a periodic grid all trapezoid weights are equal, so quadrature gives the plain mean and variance: "
    "QuadNorm is PyTorch's norm of the same mode and BlendQuadNorm is LayerNorm, at every resolution, up to rounding.",
    formula="w_j = 1/(n₁⋯n_d) on nodes j/n without the right end",
    label="prop:periodic",
    measure=measure,
)
