"""Plane-strain linear elasticity with clamped boundary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quadnorm.problems.base import Array, Problem
from quadnorm.problems.parameters import Decay, Modes, PoissonRatio, Positive
from quadnorm.problems.pdes.sine import forcing_amplitudes, wavenumbers
from quadnorm.problems.solvers.fields import cosines, sines
from quadnorm.problems.solvers.products import product, sandwich


@dataclass(frozen=True, kw_only=True)
class Elasticity(Problem):
    """−μΔu − (λ+μ)∇(∇·u) = f on [0, 1]², u = (u1, u2): Navier–Lamé, plane strain, E = 1, ν = 0.3.

    Boundary: u = 0 (clamped). Input → output: body force (f1, f2) → displacement u1.
    Law: u1 and u2 are independent sine series, û(m,n) = s·ξ·(m²+n²)^(−p/2) / (μπ²(m²+n²)), m, n = 1…32, p = 2, ξ
    standard normal, s as in the Poisson problem; the force follows exactly from the equation.
    Nodes: endpoint-inclusive by default; cell centres and the interior grid (j+1)/(n+1) as variants.
    Solver: none: the displacement is drawn, and the force computed from it. (A force drawn as a sine series would need
    an approximate solve, because ∂x∂y turns sin·sin into cos·cos.) The force is a finite sum of sin·sin and cos·cos,
    exact to rounding at any node. It is therefore not zero on the boundary, and its law follows from that of u. Checked
    against a scikit-fem solve with quadratic triangles (third order) and by finite differences.
    Cost: about 1.3 ms at 256² on one core.
    Left open by the paper: material, law of the force, which component. Chosen: as above.
    """

    placement: str = "endpoint"
    modes: Modes = 32
    decay: Decay = 2.0
    young: Positive = 1.0
    poisson_ratio: PoissonRatio = 0.3

    name: ClassVar[str] = "elasticity"
    inputs: ClassVar[tuple[str, ...]] = ("f1", "f2")
    outputs: ClassVar[tuple[str, ...]] = ("u1",)
    placements: ClassVar[tuple[str, ...]] = ("endpoint", "cell", "interior")
    block: ClassVar[int] = 64

    @property
    def lame(self) -> tuple[float, float]:
        """Lamé's λ and μ."""
        e, nu = self.young, self.poisson_ratio
        return e * nu / ((1 + nu) * (1 - 2 * nu)), e / (2 * (1 + nu))

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        m, n = wavenumbers(self.modes)
        amplitude = forcing_amplitudes(self.modes, self.decay) / (self.lame[1] * np.pi**2 * (m**2 + n**2))
        shape = (2, self.modes, self.modes)
        return {"u": np.stack([rng.standard_normal(shape) for rng in self._streams(indices, seed, "u")]) * amplitude}

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        lam, mu = self.lame
        u1, u2 = instances["u"][:, 0], instances["u"][:, 1]  # (B, M, M)
        m, n = (np.pi * k for k in wavenumbers(self.modes))
        own = np.stack([((lam + 2 * mu) * m**2 + mu * n**2) * u1, (mu * m**2 + (lam + 2 * mu) * n**2) * u2], axis=1)
        cross = -(lam + mu) * m * n * np.stack([u2, u1], axis=1)  # −(λ+μ)∂x∂y of sin·sin is −(λ+μ)mnπ² cos·cos
        sx, sy = (sines(self.placement, k, self.modes) for k in shape)
        cx, cy = (cosines(self.placement, k, self.modes, first=1) for k in shape)
        # Both sums of the force in one product, which saves a second pass over the grid.
        force = product(
            np.concatenate([product(sx, own), product(cx, cross)], axis=-1), np.concatenate([sy, cy], axis=-1).T
        )
        return force, sandwich(sx, u1, sy)[:, None]
