"""A small trained network in the form of the transfer theorem, taken apart block by block.

G = f_{L+1} ∘ f_L ∘ … ∘ f_1 ∘ f_0 with f_l = σ ∘ N_l ∘ T_l, T_l = 1 + K_l + W_l: this package's :class:`FNO` in one
dimension, with the residual connection inside T, as in the theorem, and GELU after every block. Fields are smooth
and known in closed form, so that two grids hold samples of the same function.

The constants of the transfer theorem, measured on a network by finite perturbation.

With z, z' the features on two grids, and f_h one of the maps T, N, σ,

    ‖f_h(z) − P f_h'(z')‖ ≤ ‖f_h(z) − f_h(Pz')‖ + ‖f_h(Pz') − P f_h'(z')‖ ≤ L ‖z − Pz'‖ + C δ :

L says how much f_h amplifies a perturbation, C δ how far f is from commuting with the interpolation P.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import e, erf, pi, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from quadnorm.carry import carry
from quadnorm.lab.theory.averages import endpoint_nodes, trapezoid_by_hand
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


@dataclass(frozen=True)
class Block:
    """Constants of one block: amplification by T and N, and how far T, N and σ are from commuting with P."""

    lipschitz_t: float  # L_T
    lipschitz_n: float  # L_N
    defect_t: float  # C_T·δ₂; the next two are C_N·δ_p and C_σ·δ₂
    defect_n: float
    defect_s: float

    @property
    def factor(self) -> float:
        """M = L_σ L_N L_T."""
        return LIPSCHITZ_GELU * self.lipschitz_n * self.lipschitz_t

    def step(self, e: float) -> float:
        """The theorem's recursion: given a bound ``e`` of e_{l−1}, a bound of e_l."""
        own = LIPSCHITZ_GELU * (self.lipschitz_n * self.defect_t + self.defect_n) + self.defect_s
        return self.factor * e + own


def jacobian(f: Map, z: Tensor, size: float = 1e-5) -> Tensor:
    """The derivative of f at z (1, C, n) by perturbing every sample up and down, in the comparison norm: W^½ J W^{−½}.

    Its largest singular value is the largest amplification of a small perturbation by f.
    """
    m = z.numel()
    steps = size * torch.eye(m, dtype=z.dtype).view(m, *z.shape[1:])
    columns = (f(z + steps) - f(z - steps)).reshape(m, -1) / (2 * size)
    root = trapezoid_by_hand(z.shape[-1]).sqrt()
    return columns.T * (root.repeat(columns.shape[1] // root.numel())[:, None] / root.repeat(z.shape[1]))


def amplification(*chain: Tensor, rounds: int = 30) -> float:
    """The largest singular value of a product, first factor first, by power iteration: cheap, and never too large.

    >>> round(amplification(torch.diag(torch.tensor([3.0, -5.0, 1.0], dtype=torch.float64))), 9)
    5.0
    """
    v = torch.randn(chain[0].shape[1], generator=torch.Generator().manual_seed(0), dtype=chain[0].dtype)
    for _ in range(rounds):
        v = v / v.norm()
        for J in chain:
            v = J @ v
        for J in reversed(chain):
            v = v @ J
    return float(v.norm().sqrt())


def defect(fine: Map, coarse: Map, z: Tensor, n: int) -> float:
    """The largest ‖f_h(Pz') − P f_h'(z')‖ over the samples z' (B, C, n')."""
    return float(norm_of(fine(carried(z, n)) - carried(coarse(z), n)).max())


def blocks(maps: Maps, x: Tensor, fine: Tensor) -> list[Block]:
    """The constants of every block: the largest over the samples x (B, 1, n'); ``fine`` has them on the finer grid.

    The amplification by N is measured at two samples. T is affine, so that one is enough for it.
    """
    n = fine.shape[-1]
    constants = []
    for k, ((v, t, z), (_, up, _)) in enumerate(zip(maps.stages(x)[:-1], maps.stages(fine)[:-1], strict=True)):
        T, N = maps.linear(k), maps.normalize(k)
        L_T = amplification(jacobian(T, carried(v[:1], n)))
        L_N = max(amplification(jacobian(N, up[i : i + 1])) for i in range(2))
        constants.append(Block(L_T, L_N, defect(T, T, v, n), defect(N, N, t, n), defect(F.gelu, F.gelu, z, n)))
    return constants


def bounds(constants: list[Block], e: float) -> list[float]:
    """Bounds of e_1 … e_L from e_0, by the recursion."""
    limits = []
    for block in constants:
        e = block.step(e)
        limits.append(e)
    return limits


def composed(maps: Maps, x: Tensor, fine: Tensor, depths: Sequence[int]) -> list[float]:
    """A closer bound of e_L: the same triangle inequality, without bounding every block separately.

    e_L ≤ ‖D(f_L ∘ … ∘ f_1)‖ e_0 + Σ_l ‖D(f_L ∘ … ∘ f_{l+1})‖ d_l, where d_l says how far block l as a whole is from
    commuting with P. It uses the derivative of a composition instead of a product of norms. For one sample x
    (1, 1, n'), to first order in the discrepancy.
    """
    n = fine.shape[-1]
    coarse, up = maps.stages(x), maps.stages(fine)
    sources = [float(norm_of(up[0][0] - carried(coarse[0][0], n)))]
    chain = []
    for k in range(max(depths)):
        T, N = maps.linear(k), maps.normalize(k)

        def whole(v: Tensor, T: Map = T, N: Map = N) -> Tensor:
            return F.gelu(N(T(v)))

        chain.append(jacobian(whole, up[k][0]))
        sources.append(defect(whole, whole, coarse[k][0], n))
    return [sum(amplification(*chain[start:L]) * sources[start] for start in range(L)) + sources[L] for L in depths]
