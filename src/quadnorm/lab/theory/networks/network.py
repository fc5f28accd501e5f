"""A small trained network in the form of the transfer theorem, taken apart block by block.

G = f_{L+1} ∘ f_L ∘ … ∘ f_1 ∘ f_0 with f_l = σ ∘ N_l ∘ T_l, T_l = 1 + K_l + W_l: this package's :class:`FNO` in one
dimension, with the residual connection inside T, as in the theorem, and GELU after every block. Fields are smooth
and known in closed form, so that two grids hold samples of the same function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import e, erf, pi, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from quadnorm.carry import carry
from quadnorm.lab.theory.sums.fields import endpoint_nodes, trapezoid_by_hand
from quadnorm.measures import Measure
from quadnorm.norms import QuadNorm
from quadnorm.operators import FNO
from quadnorm.operators.pointwise import affine

DEPTH, WIDTH, MODES, NATIVE = 16, 8, 4, 33
LIPSCHITZ_GELU = 0.5 * (1 + erf(1)) + 1 / (e * sqrt(pi))  # sup |GELU'| = Φ(√2) + √2 φ(√2) = 1.129


def problem(n: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs a = Σ c_k cos πkt and outputs u with (1 − ∂²/20) u = a, each (count, 1, n)."""
    random = torch.Generator().manual_seed(seed)
    k = torch.arange(4, dtype=torch.float64)
    damping = 1 + (pi * k) ** 2 / 20
    c = torch.randn(count, k.numel(), generator=random, dtype=torch.float64) / damping
    waves = torch.cos(pi * k[:, None] * endpoint_nodes(n))
    return (c @ waves)[:, None], ((c / damping) @ waves)[:, None]


@cache
def trained(steps: int = 100) -> FNO:
    """The network after a short training at 33 nodes with plain averages in its norms; seconds, once per process.

    Its Fourier sums use the trapezoid measure, and their period is the domain. Then T changes with the grid at second
    order, as the theorem assumes, and the effect of the norms can be seen on its own.
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        norm = partial(QuadNorm, measure="counting")
        model = FNO(
            1, 1, WIDTH, MODES, DEPTH, dim=1, norm=norm, kernel="quadrature", measure="trapezoid", residual=False,
            projection=32,
        ).double()  # fmt: skip
    block: Any
    for block in model.blocks:
        block.activation = True
        with torch.no_grad():
            block.pointwise.weight += torch.eye(WIDTH, dtype=torch.float64)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with torch.enable_grad():
        for step in range(steps):
            x, y = problem(NATIVE, 32, seed=1000 + step)
            optimizer.zero_grad()
            ((model(x) - y).square().mean() / y.square().mean()).backward()
            optimizer.step()
    return model.requires_grad_(False)


Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Maps:
    """The network's maps at any resolution, on fields (B, C, n); ``norm`` is the measure of its norms."""

    model: FNO
    norm: Measure

    def lift(self, x: Tensor) -> Tensor:
        """f_0."""
        return self.model.lifted(x, (x.shape[-1],))

    def linear(self, block: int) -> Map:
        """T_l."""
        b: Any = self.model.blocks[block]
        return lambda v: affine(v, b.pointwise.weight, None, onto=b.spectral(v, b.pointwise.bias))

    def normalize(self, block: int) -> Map:
        """N_l under the measure ``norm``."""
        layer: Any = self.model.blocks[block].norm

        def apply(v: Tensor) -> Tensor:
            layer.measure = self.norm
            y: Tensor = layer(v)
            return y

        return apply

    def project(self, v: Tensor) -> Tensor:
        """f_{L+1}."""
        y: Tensor = self.model.head(v)
        return y

    def stages(self, x: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """(input of T, input of N, input of σ) of every block; the last entry is the head's input, three times."""
        v, stages = self.lift(x), []
        for block in range(len(self.model.blocks)):
            t = self.linear(block)(v)
            z = self.normalize(block)(t)
            stages.append((v, t, z))
            v = F.gelu(z)
        return [*stages, (v, v, v)]

    def __call__(self, x: Tensor) -> Tensor:
        return self.project(self.stages(x)[-1][0])


def carried(z: Tensor, n: int) -> Tensor:
    """P: the cubic spline through the samples, at n nodes."""
    return carry(z, (n,), "endpoint", "cubic")


def norm_of(z: Tensor) -> Tensor:
    """‖z‖ in the comparison norm for each sample, (B,): trapezoid weights over space, plain sum over channels."""
    return (z.square().sum(1) * trapezoid_by_hand(z.shape[-1])).sum(-1).sqrt()
