"""Diffusion with a smooth log-normal coefficient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from quadnorm.problems.base import Array, Problem
from quadnorm.problems.fine import cubic
from quadnorm.problems.parameters import Fine, Positive, Range, Tolerance
from quadnorm.problems.solvers import fields, pcg


@dataclass(frozen=True, kw_only=True)
class VarCoeff(Problem):
    """−∇·(a∇u) = 1 on [0, 1]², a log-normal.

    Boundary: u = 0. Input → output: a → u.
    Law: a = exp(g), g a Gaussian field in cosines, covariance ∝ (−Δ+9)^(−3) on 64×64 modes without the constant
    one, scaled so that the expected mean square of g over the domain is 1. g is once differentiable; max a / min a
    is about 50.
    Nodes: endpoint-inclusive by default, cell centres as a variant.
    Solver: 5-point scheme on 257² endpoint-inclusive nodes, face coefficient = mean of the two nodal values,
    conjugate gradients preconditioned by a^(−½) Δ⁻¹ a^(−½), relative residual below 3·10⁻¹²; iterations and
    residual are recorded.
    Restriction: a is its series summed at the grid's own nodes; u is the bicubic spline through the fine solution.
    Second order in the fine spacing: about 3·10⁻⁵ in L² at 257².
    Cost: about 12 ms at 257² on one core.
    Left open by the paper: the field's covariance and scale, the forcing, the fine grid. Chosen: as above.
    """

    placement: str = "endpoint"
    fine: Fine = 257
    modes: Annotated[int, Range(2, 4096)] = 64
    alpha: Annotated[float, Range(1, 20, above=True)] = 3.0  # for values ≤ 1 the field has no point values
    tau: Positive = 3.0
    sigma: Annotated[float, Range(0, 20)] = 1.0
    tol: Tolerance = 3e-12

    name: ClassVar[str] = "varcoeff"
    inputs: ClassVar[tuple[str, ...]] = ("a",)
    outputs: ClassVar[tuple[str, ...]] = ("u",)
    placements: ClassVar[tuple[str, ...]] = ("endpoint", "cell")
    block: ClassVar[int] = 16

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        amplitude = fields.amplitudes(self.modes, self.alpha, self.tau)
        # The basis is orthonormal: the expected mean square of the field is the sum of the variances.
        amplitude *= self.sigma / np.sqrt((amplitude**2).sum())
        g = fields.draw(self._streams(indices, seed, "g"), amplitude)

        def coefficient(i: int) -> Array:
            return np.exp(fields.on_fine_grid(g[i], self.fine))

        s = pcg.solve_each(coefficient, len(g), self.fine, tol=self.tol, scaled=True, workers=workers)
        return {"g": g, "u": s.u, "iterations": s.iterations, "residual": s.residual}

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        grid = (shape[0], shape[1])
        a = np.exp(fields.at_nodes(instances["g"], self.placement, grid))
        return a[:, None], cubic(instances["u"], self.placement, grid)[:, None]
