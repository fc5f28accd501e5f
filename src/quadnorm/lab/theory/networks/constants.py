"""The constants of the transfer theorem, measured on a network by finite perturbation.

With z, z' the features on two grids, and f_h one of the maps T, N, σ,

    ‖f_h(z) − P f_h'(z')‖ ≤ ‖f_h(z) − f_h(Pz')‖ + ‖f_h(Pz') − P f_h'(z')‖ ≤ L ‖z − Pz'‖ + C δ :

L says how much f_h amplifies a perturbation, C δ how far f is from commuting with the interpolation P.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from quadnorm.lab.theory.networks.network import LIPSCHITZ_GELU, Map, Maps, carried, norm_of
from quadnorm.lab.theory.sums.fields import trapezoid_by_hand


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
