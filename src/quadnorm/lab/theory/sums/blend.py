"""The blended mean and variance are the exact moments of the blended measure."""

from __future__ import annotations

import torch
from torch import Tensor

from quadnorm.lab.theory.statement import Check, Evidence, Series, Statement
from quadnorm.lab.theory.sums.fields import ENDS, MEAN, endpoint_nodes, product, trapezoid_by_hand
from quadnorm.measures import Blend, Grid
from quadnorm.norms import BlendQuadNorm

ALPHAS = (0.0, 0.1, 0.3, 0.5, 0.9, 1.0)
SIZES = (9, 17, 33, 65, 129, 257)
EPS = torch.finfo(torch.float64).eps


def moments_by_formula(x: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
    """μ_b, v_b and the between-measures term α(1−α)(μ_LN − μ_WLN)², each (B,), from weights written out here."""
    one, two = (trapezoid_by_hand(n) for n in x.shape[2:])
    w = (one[:, None] * two).expand(x.shape[1:]) / x.shape[1]
    plain = x.mean((1, 2, 3)), x.var((1, 2, 3), correction=0)
    mean = (w * x).sum((1, 2, 3))
    variance = (w * (x - mean.view(-1, 1, 1, 1)) ** 2).sum((1, 2, 3))
    between = alpha * (1 - alpha) * (plain[0] - mean) ** 2
    return alpha * plain[0] + (1 - alpha) * mean, alpha * plain[1] + (1 - alpha) * variance + between, between


def moments_of_measure(x: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Mean and variance computed directly with the weights of the measure Blend."""
    blend = Blend(alpha, Grid("trapezoid"))
    mean = blend.integrate(x, ndim=2).mean(1)
    return mean, blend.integrate((x - mean.view(-1, 1, 1, 1)) ** 2, ndim=2).mean(1)


def worst_errors() -> tuple[float, float, float, float]:
    """Largest errors of mean, variance and output, in units of rounding; and the between term's largest share of v."""
    random = torch.Generator().manual_seed(0)
    worst = [0.0] * 4
    for shape in ((5, 5), (9, 17), (33, 33)):
        # Fields that are far from zero at the ends, where the two measures differ most.
        x = torch.randn(3, 4, *shape, generator=random, dtype=torch.float64)
        x[..., 0] += 4
        for alpha in ALPHAS:
            mean, variance, between = moments_by_formula(x, alpha)
            other_mean, other_variance = moments_of_measure(x, alpha)
            root = torch.sqrt(variance + 1e-5).view(-1, 1, 1, 1)
            y = (x - mean.view(-1, 1, 1, 1)) / root
            layer = BlendQuadNorm(4, alpha, affine=False)(x)
            errors = (
                (mean - other_mean).abs().max() / EPS,
                ((variance - other_variance) / variance).abs().max() / EPS,
                (layer - y).abs().max() / y.abs().max() / EPS,
                (between / variance).max(),
            )
            worst = [max(a, float(b)) for a, b in zip(worst, errors, strict=True)]
    return worst[0], worst[1], worst[2], worst[3]


def measure() -> Evidence:
    """Moments and outputs to rounding, and the bias that a blend keeps: α times that of counting."""
    mean, variance, output, between = worst_errors()
    h = tuple(1 / (n - 1) for n in SIZES)
    fields = [product(endpoint_nodes(n), 1) for n in SIZES]
    bias = {
        alpha: tuple(abs(float(Blend(alpha, Grid("trapezoid")).integrate(f)) - MEAN) for f in fields)
        for alpha in (1.0, 0.3, 0.0)
    }
    return Evidence(
        (
            Series("bias of the mean, α = 1", h, bias[1.0], order=(0.9, 1.1)),
            Series("bias of the mean, α = 0.3", h, bias[0.3], order=(0.85, 1.15)),
            Series("bias of the mean, α = 0", h, bias[0.0], order=(1.9, 2.1)),
        ),
        (
            Check("μ_b against the measure's mean, in units of rounding", mean, 0, 32),
            Check("v_b against the measure's variance, likewise", variance, 0, 64),
            Check("BlendQuadNorm against the formula, likewise", output, 0, 256),
            Check("share of α(1−α)(μ_LN − μ_WLN)² in v_b, at most", between, 0.005, 1),
            Check("bias at α = 0.3 / (0.3 C h)", bias[0.3][-1] / (0.3 * abs(ENDS - MEAN) * h[-1]), 0.97, 1.03),
        ),
        notes=("α > 0 keeps the first-order bias, α times smaller: a blend is a compromise, not second order.",),
    )


STATEMENT = Statement(
    name="blend",
    text="BlendQuadNorm's mean and variance are the exact moments of α·counting + (1−α)·quadrature, by the law of "
    "total variance; its bias is α times that of counting.",
    formula="v_b = α v_LN + (1−α) v_WLN + α(1−α)(μ_LN − μ_WLN)²",
    label="eq:blend-var",
    measure=measure,
)
