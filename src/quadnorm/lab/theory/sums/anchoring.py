"""The anchored measure: counting on the training grid to the last bit, second order elsewhere."""

from __future__ import annotations

from math import e, pi, sin
from math import prod as times

import numpy as np
import torch
from torch.nn import functional as F

from quadnorm.lab.theory.statement import Check, Evidence, Series, Statement
from quadnorm.lab.theory.sums.fields import ENDS, MEAN, SLOPES, SQUARE, endpoint_nodes, product, profile
from quadnorm.measures import Anchored, Grid
from quadnorm.norms import AnchoredNorm

ANCHOR = 9  # a coarse training grid: its boundary mass 1/9 is large
SIZES = {1: (17, 25, 33, 65, 129, 257), 2: (17, 25, 33, 65, 129, 257), 3: (17, 21, 25, 33, 41, 49)}
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


def means(dim: int) -> tuple[float, ...]:
    """|mean under Anchored(n₀) on n nodes − its limit|."""
    measure = Anchored((ANCHOR,) * dim)
    return tuple(abs(float(measure.integrate(product(endpoint_nodes(n), dim))) - limit() ** dim) for n in SIZES[dim])


def outputs() -> tuple[float, ...]:
    """Largest error of the anchored layer's output against the output with the limit's moments, 2-D."""
    layer, mean = AnchoredNorm(1, (ANCHOR, ANCHOR), eps=0.0, affine=False), limit() ** 2
    root = (limit(2) ** 2 - mean**2) ** 0.5
    errors = []
    for n in SIZES[2]:
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
    return tuple(abs(float(measure.integrate(profile(endpoint_nodes(n)))) - exact) for n in SIZES[1])


def measure() -> Evidence:
    """Equality in every bit at the training grid; order and constant at other grids; a move to a 4× finer grid."""
    weights, layers = native_differences()
    series, numbers = (
        [],
        [
            Check("native weights that are not 1/N", weights, 0, 0),
            Check("native outputs that differ from PyTorch's", layers, 0, 0),
        ],
    )
    for dim, sizes in SIZES.items():
        h, errors = tuple(1 / (n - 1) for n in sizes), means(dim)
        series.append(Series(f"mean, {dim}-D", h, errors, order=(1.9, 2.1)))
        C = dim * limit() ** (dim - 1) * (1 - 1 / ANCHOR) * abs(SLOPES) / 12
        numbers.append(Check(f"mean, {dim}-D / (C h²)", errors[-1] / (C * h[-1] ** 2), 0.98, 1.02))
    h = tuple(1 / (n - 1) for n in SIZES[2])
    native = tuple(1 / (n - 1) for n in NATIVE)
    series += [
        Series("mean, uneven training nodes", tuple(1 / (n - 1) for n in SIZES[1]), uneven(), order=(1.9, 2.1)),
        Series("layer output, 2-D", h, outputs(), order=(1.9, 2.1)),
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


STATEMENT = Statement(
    name="anchoring",
    text="The anchored measure is counting on the training grid, to the last bit, and on every other grid it "
    "integrates against the same measure to second order.",
    formula="w_i = ∫φ_i dμ, μ = (1 − 1/n₀) dx + (1/n₀)·½(δ₀ + δ₁): |Σ w_i f(x_i) − ∫f dμ| ≤ h²/8 · max|f''|",
    label="",
    measure=measure,
)
