"""Darcy flow through a two-valued medium, the law of the public FNO benchmark on endpoint-inclusive nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.problems.base import Array, Problem
from quadnorm.problems.fine import cubic, low_passed, select
from quadnorm.problems.parameters import Fine, Positive, Range, Tolerance
from quadnorm.problems.solvers import fields, pcg

_RESTRICTIONS = ("index", "cubic", "bicubic")


@dataclass(frozen=True, kw_only=True)
class Darcy(Problem):
    """−∇·(a∇u) = 1 on [0, 1]², a ∈ {3, 12}.

    Boundary: u = 0. Input → output: log a → u.
    Law: g a Gaussian field in cosines, covariance ∝ (−Δ+9)^(−2), 421×421 modes without the constant one; a = 12
    where g ≥ 0, 3 elsewhere. The interface is rough down to the spacing of the fine grid, as in the public data.
    Nodes: endpoint-inclusive by default, cell centres as a variant.
    Solver: g summed at 421² endpoint-inclusive nodes, 5-point scheme, face coefficient = mean of the two nodal
    values, conjugate gradients preconditioned by a fast sine-transform Poisson solver, relative residual below
    3·10⁻¹² (that of a sparse direct solve) in about 27 iterations; iterations and residual are recorded. Accuracy
    as a PDE solution is limited by the interface: the scheme is of first order there, about 0.2 % in L² at
    421² (measured against 841²).
    Restriction: "index" takes the nearest fine node for both fields, so a stays binary and the pair stays
    consistent; "cubic" does so for a and puts a bicubic spline through u; "bicubic" puts one through log a too,
    which overshoots at interfaces (the paper's cross-resolution evaluation names bicubic interpolation).
    With ``shift`` this number is subtracted from u: relative errors are then those of targets that a pipeline has
    centred, larger by ‖u‖/‖u − shift‖.
    With ``band`` K both fields are, on every grid, their cosine series up to K periods per length.
    Cost: about 50 ms at 421² on one core, 8 of them for the field; 1.6 MB of memory per sample, 0.9 MB on disk.
    Left open by the paper: it uses the released files for its benchmark and does not say how its synthetic Darcy
    data are drawn. Chosen: the law of the released files. The files differ in two ways: their coefficient is given at
    cell centres, and their solution was interpolated there, so that it is not zero on the outermost nodes.
    """

    placement: str = "endpoint"
    fine: Fine = 421
    modes: Annotated[int, Range(2, 4096)] = 421
    alpha: Annotated[float, Range(1, 20, above=True)] = 2.0
    tau: Positive = 3.0
    low: Positive = 3.0
    high: Positive = 12.0
    restriction: str = "index"
    band: Annotated[int, Range(0, 2048)] = 0  # sharp low-pass of both fields: periods per length kept; 0: all
    shift: Annotated[float, Range(-1, 1)] = 0.0  # subtracted from u
    tol: Tolerance = 3e-12

    name: ClassVar[str] = "darcy"
    inputs: ClassVar[tuple[str, ...]] = ("log a",)
    outputs: ClassVar[tuple[str, ...]] = ("u",)
    placements: ClassVar[tuple[str, ...]] = ("endpoint", "cell")
    block: ClassVar[int] = 16
    views: ClassVar[tuple[str, ...]] = ("placement", "restriction", "band", "shift")
    stored: ClassVar[Mapping[str, str]] = {"u": "float32"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restriction not in _RESTRICTIONS:
            raise ValueError(f"{self.name}: " + unknown("restriction", self.restriction, _RESTRICTIONS))

    def field(self, index: int, seed: int = 0) -> Array:
        """Coefficients (M, M), in the orthonormal cosine basis, of the Gaussian field g behind one sample."""
        amplitude = fields.amplitudes(self.modes, self.alpha, self.tau)
        drawn: Array = fields.draw(self._streams([index], seed, "g"), amplitude)[0]
        return drawn

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        wet = np.empty((len(indices), self.fine, self.fine), bool)

        def coefficient(i: int) -> Array:
            wet[i] = fields.on_fine_grid(self.field(indices[i], seed), self.fine) >= 0
            return np.where(wet[i], self.high, self.low)

        s = pcg.solve_each(coefficient, len(indices), self.fine, tol=self.tol, workers=workers)
        return {"wet": wet, "u": s.u, "iterations": s.iterations, "residual": s.residual}

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        grid = (shape[0], shape[1])
        low, high = math.log(self.low), math.log(self.high)
        if self.band:
            log_a: Array = low + (high - low) * low_passed(instances["wet"], self.placement, grid, self.band)
            return log_a[:, None], low_passed(instances["u"], self.placement, grid, self.band)[:, None] - self.shift
        if self.restriction == "bicubic":
            log_a = low + (high - low) * cubic(instances["wet"], self.placement, grid)
        else:
            log_a = np.where(select(instances["wet"], self.placement, grid), high, low)
        restrict = select if self.restriction == "index" else cubic
        return log_a[:, None], restrict(instances["u"], self.placement, grid)[:, None] - self.shift
