"""Measures beside the trapezoid: periodic (equal to counting), blended (exact moments), anchored (a counting grid)."""

from __future__ import annotations

from itertools import product as pairs
from math import e, pi, sin
from math import prod as times

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from quadnorm.lab.theory.averages import ENDS, MEAN, SLOPES, SQUARE, endpoint_nodes, product, profile, trapezoid_by_hand
from quadnorm.lab.theory.statement import Check, Evidence, Series
from quadnorm.measures import Anchored, Blend, Grid
from quadnorm.norms import AnchoredNorm, BlendQuadNorm, QuadNorm, quad_norm

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


def measure_periodic() -> Evidence:
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


ALPHAS = (0.0, 0.1, 0.3, 0.5, 0.9, 1.0)
BLEND_SIZES = (9, 17, 33, 65, 129, 257)


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


def measure_blend() -> Evidence:
    """Moments and outputs to rounding, and the bias that a blend keeps: α times that of counting."""
    mean, variance, output, between = worst_errors()
    h = tuple(1 / (n - 1) for n in BLEND_SIZES)
    fields = [product(endpoint_nodes(n), 1) for n in BLEND_SIZES]
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


ANCHOR = 9  # a coarse training grid: its boundary mass 1/9 is large
ANCHORED_SIZES = {1: (17, 25, 33, 65, 129, 257), 2: (17, 25, 33, 65, 129, 257), 3: (17, 21, 25, 33, 41, 49)}
NATIVE = (9, 13, 17, 33, 65, 129)


def limit(power: int = 1) -> float:
    """∫ f dμ (or f²) for the profile: (1 − 1/n₀)∫f + (1/n₀)·½(f(0) + f(1))."""
    ends = ENDS if power == 1 else (1 + (e + sin(3)) ** 2) / 2
    return (1 - 1 / ANCHOR) * (MEAN if power == 1 else SQUARE) + ends / ANCHOR


def native_differences() -> tuple[int, int]:
    """How many weights and how many outputs at the training grid differ from PyTorch's in any bit."""
    weights = outputs = 0
    random = torch.Generator().manual_seed(0)
    for shape in ((9,), (33,), (64,), (16, 16), (33, 20), (9, 7, 5)):
        measure = Anchored(shape)
        weights += int((measure.weights(shape) != 1 / times(shape)).sum())
        for dtype in (torch.float32, torch.float64):
            x = torch.randn(2, 4, *shape, generator=random, dtype=dtype) + 1
            for mode, groups in (("layer", 1), ("instance", 4), ("group", 2)):
                layer = AnchoredNorm(4, measure, affine=False, mode=mode, num_groups=groups)
                outputs += int((layer(x) != F.group_norm(x, groups)).sum())
    return weights, outputs


def mean_errors(dim: int) -> tuple[float, ...]:
    """|mean under Anchored(n₀) on n nodes − its limit|."""
    measure = Anchored((ANCHOR,) * dim)
    return tuple(
        abs(float(measure.integrate(product(endpoint_nodes(n), dim))) - limit() ** dim) for n in ANCHORED_SIZES[dim]
    )


def output_errors() -> tuple[float, ...]:
    """Largest error of the anchored layer's output against the output with the limit's moments, 2-D."""
    layer, mean = AnchoredNorm(1, (ANCHOR, ANCHOR), eps=0.0, affine=False), limit() ** 2
    root = (limit(2) ** 2 - mean**2) ** 0.5
    errors = []
    for n in ANCHORED_SIZES[2]:
        f = product(endpoint_nodes(n), 2)
        errors.append(float((layer(f[None, None])[0, 0] - (f - mean) / root).abs().max()))
    return tuple(errors)


def transfers(fixed: bool) -> tuple[float, ...]:
    """|mean on the training grid of n₀ − mean on a grid four times finer|: anchored, or counting on both."""
    errors = []
    for n0 in NATIVE:
        fine = product(endpoint_nodes(4 * (n0 - 1) + 1), 1)
        native = float(product(endpoint_nodes(n0), 1).mean())  # the mean that the model was trained with
        errors.append(abs(native - float((Anchored(n0) if fixed else Grid("counting")).integrate(fine))))
    return tuple(errors)


def uneven() -> tuple[float, ...]:
    """|mean − its limit| on even nodes, for the anchored measure of the uneven training nodes ½(1 − cos πj/16).

    The limit is the exact integral of f = e^t + sin 3t: each gap [a, b] carries 1/17, spread evenly, and so contributes
    (F(b) − F(a))/(17(b − a)) with F = e^t − (cos 3t)/3; each end carries 1/34 more.
    """
    x = 0.5 * (1 - np.cos(pi * np.arange(17) / 16))
    F_ = np.exp(x) - np.cos(3 * x) / 3
    exact = float((np.diff(F_) / np.diff(x)).sum() / 17 + (1 + e + sin(3)) / 34)
    measure = Anchored(Grid.from_coordinates(x), target=Grid("trapezoid"))
    return tuple(abs(float(measure.integrate(profile(endpoint_nodes(n)))) - exact) for n in ANCHORED_SIZES[1])


def measure_anchoring() -> Evidence:
    """Equality in every bit at the training grid; order and constant at other grids; a move to a 4× finer grid."""
    weights, layers = native_differences()
    series, numbers = (
        [],
        [
            Check("native weights that are not 1/N", weights, 0, 0),
            Check("native outputs that differ from PyTorch's", layers, 0, 0),
        ],
    )
    for dim, sizes in ANCHORED_SIZES.items():
        h, errors = tuple(1 / (n - 1) for n in sizes), mean_errors(dim)
        series.append(Series(f"mean, {dim}-D", h, errors, order=(1.9, 2.1)))
        C = dim * limit() ** (dim - 1) * (1 - 1 / ANCHOR) * abs(SLOPES) / 12
        numbers.append(Check(f"mean, {dim}-D / (C h²)", errors[-1] / (C * h[-1] ** 2), 0.98, 1.02))
    h = tuple(1 / (n - 1) for n in ANCHORED_SIZES[2])
    native = tuple(1 / (n - 1) for n in NATIVE)
    series += [
        Series(
            "mean, uneven training nodes", tuple(1 / (n - 1) for n in ANCHORED_SIZES[1]), uneven(), order=(1.9, 2.1)
        ),
        Series("layer output, 2-D", h, output_errors(), order=(1.9, 2.1)),
        Series("training grid to 4× finer, anchored", native, transfers(True), order=(1.9, 2.1)),
        Series("training grid to 4× finer, counting", native, transfers(False), order=(0.85, 1.15)),
    ]
    end = float(Anchored(ANCHOR).weights(257)[0])
    mass = 2 * (end - (1 - 1 / ANCHOR) / 512)
    t = endpoint_nodes(2049)
    steepest = float((torch.exp(t) - 9 * torch.sin(3 * t)).abs().max())
    worst = max(err / (step**2 / 8 * steepest) for step, err in zip(series[0].x, series[0].y, strict=True))
    numbers += [
        Check("boundary mass at 257 nodes · n₀ − 1", abs(mass * ANCHOR - 1), 0, 1e-13),
        Check("mean, 1-D / (h²/8 max|f''|)", worst, 0, 1),
    ]
    return Evidence(tuple(series), tuple(numbers))
